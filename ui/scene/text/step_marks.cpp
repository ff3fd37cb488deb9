#include "ui/scene/text/step_marks.h"

#include "engine/base/check.h"
#include "engine/text/utf8.h"
#include "ui/scene/text/token_label.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <utility>

namespace refreshlab::ui {

const LaneWords& lane_words(MarkLane lane) {
    static constexpr std::array<LaneWords, mark_lanes.size()> words = {{
        {"refreshes", "refresh", "refreshes", "refreshes", "Refreshes that were made"},
        {"held_back", "refresh prevented", "refreshes prevented", "prevented",
         "Refreshes that a budget or a cool-down prevented"},
        {"cuts", "draft cut", "drafts cut", "drafts cut", "Drafts of which the teacher rejected a token"},
        {"changes", "change by hand", "changes by hand", "by hand",
         "What was changed by hand during the run"},
        {"notes", "note", "notes", "notes", "Notes that a person wrote beside steps"},
    }};
    return words[static_cast<size_t>(lane)];
}

StepMarks::StepMarks(std::shared_ptr<const Recording> recording) {
    const int64_t steps = recording->steps();
    update(std::move(recording), steps);
}

void StepMarks::clear() {
    m_recording.reset();
    m_changes.clear();
    m_blocked.clear();
    m_cuts.clear();
    m_drafts = 0;
    m_notes.clear();
    m_notes_seen.reset();
    m_counts = {};
}

void StepMarks::update(std::shared_ptr<const Recording> recording, int64_t steps) {
    if (recording != m_recording) {
        clear();
        m_recording = std::move(recording);
    }
    m_changes.update(*m_recording);
    m_blocked.update(*m_recording);
    for (const auto& drafts = m_recording->drafts(); m_drafts < drafts.size(); ++m_drafts)
        if (drafts[m_drafts].accepted() < std::ssize(drafts[m_drafts].tokens)) m_cuts.push_back(m_drafts);
    const RunNotes& notes = *m_recording->notes();
    if (const uint64_t now = notes.seen_revision(); now != m_notes_seen) {
        m_notes_seen = now; // before they are read: what is written meanwhile comes with the next update
        m_notes = notes.seen();
        ++m_notes_revision;
    }
    m_counts = {m_recording->refreshes().size(), m_blocked.all().size(), m_cuts.size(),
                m_changes.all().size(), m_notes.size()};
    // Changes wait for the step that will feel them, and are told at once all the same.
    for (const MarkLane lane : {MarkLane::refresh, MarkLane::blocked, MarkLane::cut, MarkLane::note})
        m_counts[static_cast<size_t>(lane)] = first_from(lane, steps + 1);
}

int64_t StepMarks::step(MarkLane lane, size_t i) const {
    switch (lane) {
    case MarkLane::refresh:
        return refresh(i).step;
    case MarkLane::blocked:
        return blocked(i).step;
    case MarkLane::cut:
        return cut(i).step;
    case MarkLane::note:
        return note(i).note.first_step;
    case MarkLane::change:
        break;
    }
    return change(i).step;
}

size_t StepMarks::first_from(MarkLane lane, int64_t at) const {
    size_t low = 0, high = count(lane);
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (step(lane, middle) < at)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

std::optional<size_t> StepMarks::at(MarkLane lane, int64_t step_asked) const {
    const size_t i = first_from(lane, step_asked);
    return i < count(lane) && step(lane, i) == step_asked ? std::optional(i) : std::nullopt;
}

std::span<const TriggerHit> StepMarks::hits(MarkLane lane, size_t i) const {
    switch (lane) {
    case MarkLane::refresh:
        return refresh(i).hits;
    case MarkLane::blocked:
        return blocked(i).hits;
    case MarkLane::cut:
    case MarkLane::change:
    case MarkLane::note:
        break;
    }
    return {};
}

std::vector<size_t> StepMarks::notes_over(int64_t first, int64_t last) const {
    std::vector<size_t> met;
    for (size_t i = 0, n = first_from(MarkLane::note, last + 1); i < n; ++i)
        if (m_notes[i].note.last_step >= first) met.push_back(i);
    return met;
}

LaneMarks StepMarks::in_sight(MarkLane lane, double x_min, double x_max, double left_px,
                              double width_px) const {
    LaneMarks marks{.lane = lane, .index = {}, .x_px = {}};
    if (!(x_max > x_min)) return marks;
    const auto from = static_cast<int64_t>(std::floor(std::clamp(x_min, 0.0, 1e15)));
    for (size_t i = first_from(lane, from), n = count(lane); i < n; ++i) {
        const double x = static_cast<double>(step(lane, i)) - (lane == MarkLane::change ? 0.5 : 0);
        if (x > x_max) break;
        if (x < x_min) continue;
        marks.index.push_back(i);
        marks.x_px.push_back(left_px + (x - x_min) / (x_max - x_min) * width_px);
    }
    return marks;
}

std::string reason_label(std::span<const Signal> signals, std::span<const TriggerHit> hits) {
    std::string all;
    for (const TriggerHit& hit : hits) {
        if (!all.empty()) all += ", ";
        if (hit.signal == scheduled_hit) {
            all += "scheduled";
        } else if (hit.signal == draft_end_hit) {
            all += "end of a draft";
        } else if (hit.trigger < 0 || hit.signal.empty()) {
            all += "by hand";
        } else {
            const auto id = find_signal(signals, hit.signal);
            all += id ? std::string(signals[*id].label) : hit.signal;
        }
    }
    return all.empty() ? "by hand" : all;
}

std::string cut_words(const TokenTable& tokens, const DraftEvent& draft) {
    constexpr size_t chars = 20;
    const int64_t stay = draft.accepted(), all = std::ssize(draft.tokens);
    RL_ASSERT(stay < all);
    const DraftToken& first = draft.tokens[static_cast<size_t>(stay)];
    return fmt::format("{} of {} drafted tokens stay; {} became {}", stay, all,
                       token_label(tokens, first.token_id, chars), token_label(tokens, draft.instead, chars));
}

std::string note_words(const StepNote& note) {
    constexpr size_t chars = 80;
    const std::string line = note.text.substr(0, note.text.find('\n'));
    return note.text.empty() ? "bookmark" : visible_text(line, chars);
}

std::string_view limit_words(const BlockedFire& fire) {
    if (fire.budget && fire.cooldown) return "the budget and a cool-down";
    return fire.budget ? "the budget" : "a cool-down";
}

char mark_letter(const StepMarks& marks, MarkLane lane, size_t index) {
    return lane == MarkLane::cut    ? 'x'
           : lane == MarkLane::note ? 'N'
                                    : reason_letter(marks.hits(lane, index));
}

} // namespace refreshlab::ui
