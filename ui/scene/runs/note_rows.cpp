#include "ui/scene/runs/note_rows.h"

#include "engine/base/csv_text.h"
#include "ui/base/fuzzy.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <functional>
#include <set>
#include <utility>

namespace refreshlab::ui {

std::string_view note_column_name(NoteColumn column) {
    switch (column) {
    case NoteColumn::steps:
        return "Steps";
    case NoteColumn::words:
        return "Note";
    case NoteColumn::run:
        return "Run";
    case NoteColumn::written:
        break;
    }
    return "Written";
}

std::vector<NoteRow> note_rows(const RunSet& runs) {
    std::vector<NoteRow> rows;
    std::set<const RunNotes*> there;
    const std::vector<RunTree::Row> tree = runs.tree().rows();
    for (const RunTree::Row& place : tree) {
        const auto& notes = runs.recording(place.key)->notes();
        there.insert(notes.get());
        for (StepNote& note : notes->own())
            rows.push_back({place.key, runs.name(place.key), notes, std::move(note)});
    }
    // Of runs that were taken out of the list while branches of theirs stay.
    std::set<std::pair<const RunNotes*, int64_t>> taken;
    for (const RunTree::Row& place : tree)
        for (const RunNotes::Seen& seen : runs.recording(place.key)->notes()->seen()) {
            if (!seen.owner || there.contains(seen.owner.get())) continue;
            if (taken.insert({seen.owner.get(), seen.note.id}).second)
                if (auto whole = seen.owner->find(seen.note.id))
                    rows.push_back({place.key, runs.name(place.key), seen.owner, std::move(*whole)});
        }
    return rows;
}

NoteRowsKey note_rows_key(const RunSet& runs) {
    NoteRowsKey key;
    for (const RunNode& run : runs.tree().runs()) {
        const auto& notes = runs.find(run.key)->recording->notes();
        key.emplace_back(run.key, notes, notes->seen_revision(), run.name);
    }
    return key;
}

void sort_notes(std::vector<NoteRow>& rows, NoteColumn column, bool descending) {
    const auto sort = [&](auto key) {
        if (descending)
            std::ranges::stable_sort(rows, std::ranges::greater{}, key);
        else
            std::ranges::stable_sort(rows, {}, key);
    };
    switch (column) {
    case NoteColumn::steps:
        return sort([](const NoteRow& row) { return std::pair(row.note.first_step, row.note.last_step); });
    case NoteColumn::words:
        return sort([](const NoteRow& row) { return ascii_lower(row.note.text); });
    case NoteColumn::run:
        return sort([](const NoteRow& row) { return row.run; });
    case NoteColumn::written:
        return sort([](const NoteRow& row) { return row.note.made_at; });
    }
}

bool note_has(const NoteRow& row, std::string_view words) {
    const std::string wanted = ascii_lower(words);
    return std::ranges::any_of(
        std::array{row.note.text, note_place(row.note), row.run_name},
        [&](const std::string& text) { return ascii_lower(text).find(wanted) != std::string::npos; });
}

bool shows_note(const Recording& run, const NoteRow& row) {
    if (run.notes() == row.owner) return true;
    return std::ranges::any_of(run.notes()->seen(), [&](const RunNotes::Seen& seen) {
        return seen.owner == row.owner && seen.note.id == row.note.id;
    });
}

std::string notes_csv(const std::vector<NoteRow>& rows) {
    std::string csv = "first_step,last_step,run,written,note\n";
    for (const NoteRow& row : rows)
        csv += fmt::format("{},{},{},{},{}\n", row.note.first_step, row.note.last_step,
                           csv_field(row.run_name), row.note.made_at, csv_field(row.note.text));
    return csv;
}

} // namespace refreshlab::ui
