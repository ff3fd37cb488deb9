#include "engine/record/notes/run_notes.h"

#include "engine/base/check.h"
#include "engine/base/error.h"
#include "engine/base/utc_now.h"
#include "engine/text/utf8.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace refreshlab {

namespace {

StepNote checked(StepNote note) {
    note.text = clean_note_text(note.text);
    if (note.made_at.empty()) note.made_at = utc_now();
    if (const std::string fault = note_fault(note); !fault.empty())
        throw Error("keeping a note", note_place(note), fault);
    return note;
}

} // namespace

std::string clean_note_text(std::string_view typed) {
    std::string text;
    text.reserve(typed.size());
    for (size_t at = 0; at < typed.size();) {
        const Utf8Step step = utf8_step(typed, at);
        if (typed[at] == '\r') { // a line's end of other systems
            if (at + 1 == typed.size() || typed[at + 1] != '\n') text += '\n';
        } else if (typed[at] == '\n' || typed[at] == '\t') {
            text += typed[at];
        } else {
            std::string character;
            append_utf8(character, step.code_point);
            text += visible_text(character) == character ? character : " ";
        }
        at += step.length;
    }
    text.erase(text.find_last_not_of(" \n\t") + 1);
    return text;
}

std::string note_fault(const StepNote& note) {
    if (note.first_step < 1 || note.last_step > last_note_step) return "a note stands on steps from 1 on";
    if (note.last_step < note.first_step) return "its last step is before its first";
    if (note.colour >= note_colours)
        return fmt::format("there is no colour {}: they are 0 to {}", note.colour, note_colours - 1);
    if (note.text.size() > longest_note)
        return fmt::format("its text has {} bytes, more than {}", note.text.size(), longest_note);
    if (note.text != clean_note_text(note.text)) return "its text has characters that cannot be shown";
    return {};
}

std::string note_place(const StepNote& note) {
    return note.first_step == note.last_step ? fmt::format("step {}", note.first_step)
                                             : fmt::format("steps {} to {}", note.first_step, note.last_step);
}

int64_t RunNotes::add(StepNote note) {
    note = checked(std::move(note));
    {
        const std::scoped_lock lock(m_mutex);
        note.id = m_next_id++;
        m_notes[note.id] = note;
        ++m_revision;
    }
    tell();
    return note.id;
}

void RunNotes::put(StepNote note) {
    RL_ASSERT(note.id > 0);
    note = checked(std::move(note));
    {
        const std::scoped_lock lock(m_mutex);
        m_next_id = std::max(m_next_id, note.id + 1);
        m_notes[note.id] = std::move(note);
        ++m_revision;
    }
    tell();
}

bool RunNotes::erase(int64_t id) {
    {
        const std::scoped_lock lock(m_mutex);
        if (m_notes.erase(id) == 0) return false;
        ++m_revision;
    }
    tell();
    return true;
}

bool RunNotes::change(int64_t id, const std::optional<StepNote>& from, std::optional<StepNote> to) {
    RL_ASSERT(id > 0);
    if (to) {
        to->id = id;
        to = checked(std::move(*to));
    }
    {
        const std::scoped_lock lock(m_mutex);
        const auto found = m_notes.find(id);
        if ((found == m_notes.end() ? std::nullopt : std::optional(found->second)) != from) return false;
        m_next_id = std::max(m_next_id, id + 1);
        if (to)
            m_notes[id] = std::move(*to);
        else if (from)
            m_notes.erase(found);
        ++m_revision;
    }
    tell();
    return true;
}

std::optional<StepNote> RunNotes::find(int64_t id) const {
    const std::scoped_lock lock(m_mutex);
    const auto found = m_notes.find(id);
    return found == m_notes.end() ? std::nullopt : std::optional(found->second);
}

std::vector<StepNote> RunNotes::own() const {
    std::vector<StepNote> all;
    {
        const std::scoped_lock lock(m_mutex);
        for (const auto& [id, note] : m_notes)
            all.push_back(note);
    }
    std::ranges::stable_sort(all, {}, &StepNote::first_step);
    return all;
}

std::vector<RunNotes::Seen> RunNotes::seen() const {
    std::shared_ptr<RunNotes> parent;
    int64_t fork_step = 0;
    {
        const std::scoped_lock lock(m_mutex);
        parent = m_parent;
        fork_step = m_fork_step;
    }
    std::vector<Seen> all;
    if (parent) {
        for (Seen& seen : parent->seen()) {
            if (seen.note.first_step > fork_step) continue;
            seen.note.last_step = std::min(seen.note.last_step, fork_step);
            if (!seen.owner) seen.owner = parent;
            all.push_back(std::move(seen));
        }
    }
    for (StepNote& note : own())
        all.push_back({std::move(note), nullptr});
    std::ranges::stable_sort(all, {}, [](const Seen& seen) { return seen.note.first_step; });
    return all;
}

void RunNotes::descend_from(std::shared_ptr<RunNotes> parent, int64_t fork_step) {
    RL_ASSERT(parent != nullptr && parent.get() != this && fork_step >= 0);
    const std::scoped_lock lock(m_mutex);
    m_parent = std::move(parent);
    m_fork_step = fork_step;
}

uint64_t RunNotes::revision() const {
    const std::scoped_lock lock(m_mutex);
    return m_revision;
}

uint64_t RunNotes::seen_revision() const {
    std::shared_ptr<RunNotes> parent;
    uint64_t revision = 0;
    {
        const std::scoped_lock lock(m_mutex);
        parent = m_parent;
        revision = m_revision;
    }
    return revision + (parent ? parent->seen_revision() : 0); // each only rises, so the sum tells
}

uint64_t RunNotes::listen(std::function<void()> listener) {
    const std::scoped_lock lock(m_telling);
    m_listeners[m_next_listener] = std::move(listener);
    return m_next_listener++;
}

void RunNotes::unlisten(uint64_t key) {
    const std::scoped_lock lock(m_telling);
    m_listeners.erase(key);
}

void RunNotes::tell() {
    const std::scoped_lock lock(m_telling);
    for (const auto& [key, listener] : m_listeners)
        listener();
}

} // namespace refreshlab
