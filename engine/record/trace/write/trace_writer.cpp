#include "engine/record/trace/write/trace_writer.h"

#include "engine/base/check.h"
#include "engine/record/trace/schema/trace_json.h"
#include "engine/record/trace/write/shared_steps.h"

#include <algorithm>
#include <utility>

namespace refreshlab::trace {

bool has_written(const Recording& r, const WrittenUpTo& up_to) {
    const auto& entries = r.cache_entries();
    const bool rows = std::ranges::all_of(up_to.open_rows, [&](const auto& row) {
        return !row || (row->entry < std::min(entries.size(), up_to.cache_entries) && row->steps >= 1 &&
                        row->steps <= entries[row->entry].steps());
    });
    return rows && up_to.steps >= 0 && up_to.steps <= r.steps() && up_to.filled <= r.filled_values().size() &&
           up_to.refreshes <= r.refreshes().size() && up_to.passes <= r.passes().size() &&
           up_to.commands <= r.commands().size() && up_to.drifts <= r.drifts().size() &&
           up_to.attention <= r.attention_changes().size() && up_to.layer_rows <= r.layer_rows().size() &&
           up_to.cache_entries <= entries.size() && up_to.drafts <= r.drafts().size() &&
           up_to.end_revision <= r.end_revision();
}

TraceWriter::TraceWriter(sqlite::Database& db, const std::atomic<bool>* cancelled, const WritingScope& scope)
    : m_db(db)
    , m_cancelled(cancelled)
    , m_scope(scope)
    , m_rows(db)
    , m_notes(db) {}

void TraceWriter::add_run(std::shared_ptr<const Recording> recording, const std::string& parent_id,
                          int64_t fork_step, RunLabel label) {
    Run run;
    run.label = std::move(label);
    run.number = m_next_number++;
    m_newest_steps = -1;
    const RunInfo& info = recording->info();
    run.parent_id = parent_id.empty() ? info.parent_id : parent_id;
    run.fork_step = parent_id.empty() ? info.fork_step : fork_step;
    const auto parent = std::ranges::find_if(
        m_runs, [&](const Run& other) { return other.recording->info().id == run.parent_id; });
    if (parent != m_runs.end()) run.parent = parent->recording;
    const bool shares = run.fork_step > 0 && run.fork_step == info.fork_step &&
                        m_vocabulary_of.contains(run.parent_id) &&
                        (!run.parent || has_steps_of(*run.parent, *recording));
    // One vocabulary for a run and the branches that share its steps: a reader takes the ids of both from it.
    run.vocabulary = shares ? m_vocabulary_of.at(run.parent_id) : number_of(recording->token_table());
    if (shares) {
        leave_to_parent(run, *recording);
        if (run.parent) run.later_ms = clock_offset(*run.parent, *recording);
    } else {
        run.parent.reset();
    }
    run.alone = !m_vocabulary_of.contains(run.parent_id);
    m_vocabulary_of.emplace(info.id, run.vocabulary);
    run.recording = std::move(recording);
    m_runs.push_back(std::move(run));
}

void TraceWriter::go_on_with(std::shared_ptr<const Recording> recording, const WrittenUpTo& up_to) {
    RL_ASSERT(has_written(*recording, up_to));
    Run run;
    static_cast<WrittenUpTo&>(run) = up_to;
    run.number = m_next_number++;
    run.vocabulary = number_of(recording->token_table());
    run.parent_id = recording->info().parent_id;
    run.fork_step = recording->info().fork_step;
    run.header_written = true;
    m_vocabulary_of.emplace(recording->info().id, run.vocabulary);
    run.recording = std::move(recording);
    m_runs.push_back(std::move(run));
}

TraceWriter::Written TraceWriter::told(const Run& run, bool complete) {
    return {run.number, run.vocabulary, run.first_step, run.header_written, complete, run};
}

std::vector<TraceWriter::Written> TraceWriter::runs() const {
    std::vector<Written> all;
    for (const Run& run : m_runs)
        all.push_back(told(run, !has_news(run)));
    return all;
}

std::optional<TraceWriter::Written> TraceWriter::run(const std::string& id) const {
    const auto found =
        std::ranges::find_if(m_runs, [&](const Run& run) { return run.recording->info().id == id; });
    if (found == m_runs.end()) return std::nullopt;
    return told(*found, !has_news(*found));
}

int64_t TraceWriter::number_of(const std::shared_ptr<const TokenTable>& table) {
    const auto known = std::ranges::find(m_vocabularies, table);
    const int64_t number = known - m_vocabularies.begin();
    if (known == m_vocabularies.end()) {
        m_vocabularies.push_back(table);
        m_known_tokens.emplace_back();
    }
    return number;
}

/// What a branch has in common with its parent is not written again.
void TraceWriter::leave_to_parent(Run& run, const Recording& recording) {
    const int64_t fork_step = recording.info().fork_step;
    const auto& inherited = recording.inherited();
    run.first_step = fork_step + 1;
    run.steps = fork_step;
    // Values known after the fork step came with the parent's steps; the branch's own come after them.
    const auto& filled = recording.filled_values();
    while (run.filled < filled.size() && filled[run.filled].known <= fork_step)
        ++run.filled;
    run.refreshes = inherited.refreshes;
    run.passes = inherited.passes;
    run.commands = inherited.commands;
    run.drifts = inherited.drifts;
    run.drafts = inherited.drafts;
    while (run.layer_rows < recording.layer_rows().size() &&
           recording.layer_rows()[run.layer_rows].step <= fork_step)
        ++run.layer_rows;
    run.cache_entries = inherited.cache_entries;
    for (size_t i = 0; i < run.cache_entries; ++i) { // the branch may go on with a row of its parent's
        const CacheEntry& entry = recording.cache_entries()[i];
        if (entry.change == CacheChange::appended)
            run.open_rows[entry.teacher ? 1 : 0] = {i, std::min(entry.steps(), fork_step - entry.step + 1)};
    }
}

void TraceWriter::check_cancelled() const {
    if (m_cancelled != nullptr && m_cancelled->load()) throw Cancelled{};
}

bool TraceWriter::rows_have_grown(const Run& run) {
    return std::ranges::any_of(run.open_rows, [&](const auto& row) {
        return row && run.recording->cache_entries()[row->entry].steps() > row->steps;
    });
}

bool TraceWriter::has_news(const Run& run) const {
    const Recording& r = *run.recording;
    return !run.header_written || run.steps < r.steps() || run.filled < r.filled_values().size() ||
           run.refreshes < r.refreshes().size() || run.passes < r.passes().size() ||
           run.commands < r.commands().size() || run.drafts < r.drafts().size() ||
           run.cache_entries < r.cache_entries().size() || rows_have_grown(run) ||
           (m_scope.heavy &&
            (run.drifts < r.drifts().size() || run.attention < r.attention_changes().size())) ||
           run.end_revision != r.end_revision() || run.notes_revision != notes_revision(run);
}

void TraceWriter::write_new() {
    if (std::ranges::any_of(m_runs, [&](const Run& run) { return has_news(run); })) {
        m_db.exec("BEGIN IMMEDIATE");
        for (Run& run : m_runs)
            if (!write(run)) break; // branches come after the steps that they share
        m_db.exec("COMMIT");
        if (m_runs.back().number + 1 == m_next_number) m_newest_steps = m_runs.back().steps;
    }
    forget_finished_runs();
}

/// \return whether all steps that were there are written
bool TraceWriter::write(Run& run) {
    const Recording& r = *run.recording;
    if (!run.header_written) write_header(run);
    // Sizes in this order: after an end, or an event, the steps they speak of are written too. What belongs to the step in flight may
    // come before its record, as it does in memory; nothing beyond it does. A value that was filled in is written with the boundary
    // at which it was made, neither before nor after.
    const uint64_t end_revision = r.end_revision(), notes = notes_revision(run);
    const Events events{r.refreshes().size(), r.passes().size(),        r.commands().size(),
                        r.drifts().size(),    r.cache_entries().size(), r.attention_changes().size(),
                        r.drafts().size()};
    const int64_t there = r.steps();
    const int64_t steps =
        there - run.steps > m_scope.steps_at_once ? run.steps + m_scope.steps_at_once : there;
    while (run.steps < steps)
        write_step(run, ++run.steps);
    const auto& filled = r.filled_values();
    for (; run.filled < filled.size() && filled[run.filled].known <= steps + 1; ++run.filled) {
        const auto& value = filled[run.filled];
        write_signal(run, value.step, value.signal, value.known, value.value);
    }
    write_events(run, events, steps + 1);
    if (steps < there) return false;
    if (end_revision != run.end_revision) write_end(run, end_revision);
    if (notes != run.notes_revision) write_notes(run, notes);
    return true;
}

void TraceWriter::write_header(Run& run) {
    const Recording& r = *run.recording;
    const RunInfo& info = r.info();
    // Nothing is written yet, so what is counted as written is the parent's.
    m_rows.run(run.number, {.id = info.id,
                            .parent_id = run.parent_id,
                            .fork_step = run.fork_step,
                            .first_step = run.first_step,
                            .refreshes = run.refreshes,
                            .passes = run.passes,
                            .commands = run.commands,
                            .drifts = run.drifts,
                            .cache_entries = run.cache_entries,
                            .vocabulary = run.vocabulary,
                            .info = info_to_text(r)});
    for (const int32_t id : info.prompt_ids)
        write_token(run, id);
    write_token(run, info.first_token);
    m_rows.label(run.number, run.label);
    if (run.first_step == 1) { // a fork whose parent is not in this file came with rows that are no changes
        run.attention =
            r.attention_changes().size(); // before the rows are listed: a later change comes again
        for (const auto& rows : r.attention_rows())
            write_attention(run, rows->position, rows->teacher);
    } else if (run.parent) { // what the parent has dropped, replaced or gained since the fork
        const int64_t end = r.prompt_length() + run.fork_step;
        for (const auto& rows : r.attention_rows()) {
            if (rows->position < end &&
                !same_rows(run.parent->attention(rows->position, rows->teacher), rows))
                write_attention(run, rows->position, rows->teacher);
        }
        for (const auto& rows : run.parent->attention_rows()) {
            if (rows->position < end && !r.attention(rows->position, rows->teacher))
                write_attention(run, rows->position, rows->teacher);
        }
    }
    run.parent.reset();
    run.header_written = true;
}

void TraceWriter::write_step(Run& run, int64_t t) {
    check_cancelled();
    const StepRecord& record = run.recording->step(t);
    m_rows.step(run.number, record, run.later_ms);
    write_token(run, record.token_id);
    write_token(run, record.next_token_id);

    for (size_t rank = 0; rank < record.top_k; ++rank) {
        m_rows.candidate(run.number, t, rank, record.top_ids[rank], record.top_probs[rank]);
        write_token(run, record.top_ids[rank]);
    }
    const auto measured = run.recording->measured(t); // not record.signals: a back-fill may be writing them
    for (size_t id = 0; id < run.recording->signals().size(); ++id)
        write_signal(run, t, id, t, measured[id]);
    const auto& rows = run.recording->layer_rows();
    for (; run.layer_rows < rows.size() && rows[run.layer_rows].step == t; ++run.layer_rows) {
        const Recording::LayerRow& row = rows[run.layer_rows];
        m_rows.layers(run.number, t, run.recording->signals()[row.signal].name, *row.values);
    }
}

void TraceWriter::write_signal(const Run& run, int64_t step, size_t signal, int64_t known, float value) {
    const auto known_signals = run.recording->signals();
    if (is_absent(value) || signal >= known_signals.size()) return;
    m_rows.signal(run.number, step, known_signals[signal].name, known, value);
}

void TraceWriter::write_events(Run& run, const Events& up_to, int64_t boundary) {
    const Recording& r = *run.recording;
    for (; run.refreshes < up_to.refreshes && r.refreshes()[run.refreshes].step <= boundary;
         ++run.refreshes) {
        const RefreshEvent& e = r.refreshes()[run.refreshes];
        m_rows.refresh(run.number, run.refreshes, e);
        write_token(run, e.token_before);
        write_token(run, e.token_after);
    }
    for (; run.passes < up_to.passes && r.passes()[run.passes].step <= boundary; ++run.passes)
        m_rows.pass(run.number, run.passes, r.passes()[run.passes]);
    for (; run.drafts < up_to.drafts && r.drafts()[run.drafts].step <= boundary; ++run.drafts) {
        const DraftEvent& e = r.drafts()[run.drafts];
        m_rows.draft(run.number, run.drafts, e);
        for (const DraftToken& token : e.tokens)
            write_token(run, token.token_id);
        write_token(run, e.instead);
    }
    for (; run.commands < up_to.commands && r.commands()[run.commands].step <= boundary; ++run.commands)
        m_rows.command(run.number, run.commands, r.commands()[run.commands]);
    for (auto& row : run.open_rows) {
        if (row) row->steps = write_cache_entry(run, row->entry);
    }
    for (; run.cache_entries < up_to.cache_entries && r.cache_entries()[run.cache_entries].step <= boundary;
         ++run.cache_entries) {
        const CacheEntry& entry = r.cache_entries()[run.cache_entries];
        const int64_t steps = write_cache_entry(run, run.cache_entries);
        if (entry.change == CacheChange::appended)
            run.open_rows[entry.teacher ? 1 : 0] = {run.cache_entries, steps};
    }
    if (!m_scope.heavy) return;
    for (; run.drifts < up_to.drifts && r.drifts()[run.drifts]->step <= boundary; ++run.drifts)
        m_rows.drift(run.number, run.drifts, *r.drift(run.drifts));
    for (; run.attention < up_to.attention; ++run.attention) {
        const auto change = r.attention_changes()[run.attention];
        write_attention(run, change.position, change.teacher);
    }
}

/// \return how many events of the entry's row are in the file now
int64_t TraceWriter::write_cache_entry(const Run& run, size_t n) {
    const CacheEntry& entry = run.recording->cache_entries()[n];
    // The writer of the recording may be ahead by now: beyond the step in flight nothing is told.
    const int64_t steps = std::min(entry.steps(), run.steps + 1 - entry.step + 1);
    for (const auto& row : run.open_rows) {
        if (row && row->entry == n && row->steps == steps) return steps; // as it stands there already
    }
    m_rows.cache(run.number, n, entry, steps);
    return steps;
}

void TraceWriter::write_attention(const Run& run, int64_t position, bool teacher) {
    check_cancelled();
    if (!m_scope.heavy) return;
    const auto rows = run.recording->attention(position, teacher);
    if (!rows && run.first_step == 1) { // gone from memory, gone from the file: the same limit bounds both
        m_rows.delete_attention(run.number, position, teacher);
        return;
    }
    m_rows.attention(run.number, position, teacher, rows.get());
}

void TraceWriter::write_end(Run& run, uint64_t revision) {
    m_rows.end(run.number, *run.recording->end(), run.later_ms);
    run.end_revision = revision;
}

uint64_t TraceWriter::notes_revision(const Run& run) const {
    if (!m_scope.notes) return run.notes_revision;
    const RunNotes& notes = *run.recording->notes();
    return run.alone ? notes.seen_revision() : notes.revision();
}

void TraceWriter::write_notes(Run& run, uint64_t revision) {
    const RunNotes& notes = *run.recording->notes();
    std::vector<StepNote> all;
    if (run.alone) {
        for (RunNotes::Seen& seen : notes.seen())
            all.push_back(std::move(seen.note));
    } else {
        all = notes.own();
    }
    m_notes.replace(run.number, all);
    run.notes_revision = revision;
}

void TraceWriter::write_token(const Run& run, int32_t id) {
    if (id < 0 || !m_known_tokens[static_cast<size_t>(run.vocabulary)].insert(id).second) return;
    const TokenTable& table = run.recording->tokens(); // of a branch it may know more than its parent's
    m_rows.token(run.vocabulary, id, table.token_bytes(id), table.is_special(id));
}

void TraceWriter::forget_finished_runs() {
    // Nobody else holds the recording, so nobody can extend it: its memory is free to go.
    std::erase_if(m_runs, [&](const Run& run) { return run.recording.use_count() == 1 && !has_news(run); });
}

} // namespace refreshlab::trace
