#pragma once

#include "engine/control/run_config.h"
#include "engine/record/recording/recording.h"
#include "engine/refresh/planner.h"
#include "engine/session/parts/row_ring.h"
#include "engine/session/parts/splice.h"
#include "engine/session/parts/teacher_reader.h"
#include "engine/session/parts/token_chooser.h"

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

namespace refreshlab {

class PolicyRunner;

/// A refresh from the boundary at which it fired to the one at which its splice lands. Both are the same unless the
/// policy has a lag. What the refresh will do was settled when it fired.
struct RefreshInFlight {
    Decision decision;
    int64_t fired_step = 0, due_step = 0;
    int64_t end = 0; ///< S.len when it fired: the splice reaches up to here
    std::optional<int32_t> window;
    OnFire on_fire = OnFire::keep;
    int64_t pass_tokens = 0; ///< read for it so far
    double teacher_ms = 0;
};

/// What a session remembers about its refreshes, as of one boundary. Small and copied once per step, so that a rewind is a
/// look-up.
struct RefreshState {
    int64_t splice = 0;    ///< P: first position that no splice has handled
    int64_t last_pass = 0; ///< S.len at the last teacher pass of a probe or refresh
    std::optional<int64_t> last_splice_step;
    size_t automatic_refreshes = 0; ///< how many automatic refreshes there were
    int32_t refreshes = 0;
    std::optional<float> last_kl_nats; ///< of the newest position that a pass has read
    std::optional<float> last_drift;   ///< mean over the delta of the last refresh
    std::optional<RefreshInFlight> in_flight;
    bool asked = false; ///< a refresh by hand waits for the one in flight
};

/// What a boundary works on: the step that was just made, and where its results go.
struct BoundaryStep {
    StepRecord& record;
    PendingToken& pending; ///< the token that the step chose; on_fire may replace it
    Recording& recording;
    const LayerValues& layers; ///< of the step, for triggers that reduce them
    bool runs_on =
        true; ///< false after the run's last choice: with on_fire = keep a refresh could change nothing
    bool by_hand = false;
    std::function<int32_t(int64_t)> token_at; ///< by position; the step's own token included
};

/// Writes one value of a signal into the step in flight (null: there is none) or, back-filled, into the recording; steps
/// that neither has are left out.
void put_signal(Recording& recording, StepRecord* in_flight, size_t id, int64_t step, double value);

/// Boundary t of mode overfill: shadow pass, probe, refresh, on_fire. The loop it follows is in reference/refresh.md,
/// section 3; the decisions are the planner's.
class RefreshBoundary {
public:
    /// The parts of the session that a boundary acts on. They outlive it.
    struct Parts {
        const RunConfig& config;
        const Forward& student;
        KvCache& student_cache;
        TeacherReader& teacher;
        RowRing& ring;
        const TokenChooser& chooser;
        bool rebuild;          ///< the geometries differ: columns are computed again, not copied
        int64_t prompt_length; ///< position of y_1
        PolicyRunner* cache_policy = nullptr; ///< of the student's cache; null: full
    };
    explicit RefreshBoundary(const Parts& parts);

    void run(BoundaryStep& step);

    [[nodiscard]] const RefreshState& state() const { return m_state; }
    /// Back to the state after an earlier boundary of this run.
    void restore(const RefreshState& state);

private:
    enum class PassFor : uint8_t { refresh, probe, shadow };
    /// Lets the teacher read up to `end` and records the results.
    PassEvent teacher_pass(BoundaryStep& step, int64_t end, PassFor purpose);
    void back_fill(BoundaryStep& step, TeacherReader::Reading reading);
    /// Asks the planner, with a probe where it wants one; a refresh that it decides is then in flight.
    void plan(BoundaryStep& step);
    /// Reads this boundary's share of delta for the refresh in flight; lands it when it is due.
    void advance(BoundaryStep& step);
    void land(BoundaryStep& step, const RefreshInFlight& refresh);
    void splice(BoundaryStep& step, RefreshEvent& event);
    void replace_pending(BoundaryStep& step, RefreshEvent& event);
    /// What the teacher says of the pending token, where its row is there.
    void judge_pending(BoundaryStep& step) const;
    [[nodiscard]] int64_t student_length() const { return m_parts.student_cache.length(); }

    Parts m_parts;
    RefreshState m_state;
    std::vector<int64_t> m_automatic_steps; ///< of all automatic refreshes, ascending
};

} // namespace refreshlab
