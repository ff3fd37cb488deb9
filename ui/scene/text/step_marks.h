#pragma once

#include "engine/record/export/blocked_fires.h"
#include "engine/record/notes/run_notes.h"
#include "engine/record/recording/recording.h"
#include "ui/scene/policy/live_changes.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace refreshlab::ui {

/// What can happen beside the steps of a run, a lane each.
enum class MarkLane : uint8_t {
    refresh, ///< Recording::refreshes()
    blocked, ///< a limit held a refresh back (engine/record/export/blocked_fires.h)
    cut,     ///< a refresh that verifies rejected a token of the draft (OnFire::verify)
    change,  ///< a person changed something
    note,    ///< a person wrote something beside steps (RunNotes::seen()); it stands at the first of them
};
inline constexpr std::array mark_lanes = {MarkLane::refresh, MarkLane::blocked, MarkLane::cut,
                                          MarkLane::change, MarkLane::note};

/// What a lane is called, wherever one is named.
struct LaneWords {
    std::string_view key;       ///< "held_back": in settings and on command lines
    std::string_view one, many; ///< "refresh prevented", "refreshes prevented"
    std::string_view brief;     ///< "prevented": where the row is seen
    std::string_view meaning;   ///< a sentence without its full stop
    [[nodiscard]] std::string_view of(size_t count) const { return count == 1 ? one : many; }
};
[[nodiscard]] const LaneWords& lane_words(MarkLane lane);

/// Marks of one lane in a plot: their numbers in the lane and their pixel columns, ascending.
struct LaneMarks {
    MarkLane lane = MarkLane::refresh;
    std::vector<size_t> index;
    std::vector<double> x_px;
};

/// Everything that happened beside the steps of one run, in lanes: the same marks for timeline, plots, text, tables and figures. A
/// mark's number in its lane stays the same while the run goes on, a note's until one is written or erased (notes_revision()); those of
/// refreshes are indices into Recording::refreshes().
/// Cost of update(): what is new since the last call, all notes where one has changed; all of another recording.
/// Threads  one (the UI thread, or a figure's).
class StepMarks {
public:
    StepMarks() = default;
    /// Of a recording as it is now.
    explicit StepMarks(std::shared_ptr<const Recording> recording);
    void clear(); ///< before another recording is shown
    /// \param steps  how many of its steps are shown: later marks are none yet
    void update(std::shared_ptr<const Recording> recording, int64_t steps);

    /// Marks at the shown steps.
    [[nodiscard]] size_t count(MarkLane lane) const { return m_counts[static_cast<size_t>(lane)]; }
    /// Of a change: the first step that felt it.
    [[nodiscard]] int64_t step(MarkLane lane, size_t i) const;
    /// The first mark whose step is >= `at`; count() where there is none.
    [[nodiscard]] size_t first_from(MarkLane lane, int64_t at) const;
    /// The mark of a step; of several the first.
    [[nodiscard]] std::optional<size_t> at(MarkLane lane, int64_t step) const;
    /// Why: the triggers that fired, or would have. None for cuts and changes.
    [[nodiscard]] std::span<const TriggerHit> hits(MarkLane lane, size_t i) const;
    [[nodiscard]] const RefreshEvent& refresh(size_t i) const { return m_recording->refreshes()[i]; }
    [[nodiscard]] const BlockedFire& blocked(size_t i) const { return m_blocked.all()[i]; }
    [[nodiscard]] const DraftEvent& cut(size_t i) const { return m_recording->drafts()[m_cuts[i]]; }
    [[nodiscard]] const LiveChanges::Change& change(size_t i) const { return m_changes.all()[i]; }
    [[nodiscard]] const LiveChanges& changes() const { return m_changes; }
    [[nodiscard]] const RunNotes::Seen& note(size_t i) const { return m_notes[i]; }
    /// Shown notes whose steps meet [first, last]. Cost O(notes).
    [[nodiscard]] std::vector<size_t> notes_over(int64_t first, int64_t last) const;
    /// Another number after each change of notes.
    [[nodiscard]] uint64_t notes_revision() const { return m_notes_revision; }

    /// Those in sight of a plot that shows steps [x_min, x_max] over [left_px, left_px + width_px]. A change stands between the step
    /// before it and the first that felt it. Cost O(log n + in sight).
    [[nodiscard]] LaneMarks in_sight(MarkLane lane, double x_min, double x_max, double left_px,
                                     double width_px) const;

private:
    std::shared_ptr<const Recording> m_recording;
    LiveChanges m_changes;
    BlockedFires m_blocked;
    std::vector<size_t> m_cuts; ///< of the recording's drafts those of which a token went
    size_t m_drafts = 0;        ///< looked at
    std::vector<RunNotes::Seen> m_notes;
    std::optional<uint64_t> m_notes_seen; ///< revision that m_notes are of
    uint64_t m_notes_revision = 0;
    std::array<size_t, mark_lanes.size()> m_counts{};
};

/// Reasons for a person: "Entropy, KL", "by hand", "scheduled", "end of a draft".
/// \param signals  the run's table: labels come from it
[[nodiscard]] std::string reason_label(std::span<const Signal> signals, std::span<const TriggerHit> hits);
/// "3 of 8 drafted tokens stay; " red" became " blue"".
/// \param draft  of which a token went (asserted)
[[nodiscard]] std::string cut_words(const TokenTable& tokens, const DraftEvent& draft);
/// A note's first line, as far as it goes into a row; "bookmark" where it says nothing.
[[nodiscard]] std::string note_words(const StepNote& note);
/// In a badge: that of its reasons; 'x' of a draft that was cut, 'N' of a note. 0 of a change, which has none.
[[nodiscard]] char mark_letter(const StepMarks& marks, MarkLane lane, size_t index);
/// What held a refresh back: "the budget", "a cool-down", "the budget and a cool-down".
[[nodiscard]] std::string_view limit_words(const BlockedFire& fire);

} // namespace refreshlab::ui
