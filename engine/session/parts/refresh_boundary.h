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
#include <memory>
#include <optional>
#include <span>
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
    RefreshScope scope;
    OnFire on_fire = OnFire::keep;
    int64_t pass_tokens = 0; ///< read for it so far
    double teacher_ms = 0;
};

/// A teacher's pass, before and after it is recorded.
struct TeacherPass {
    PassEvent event;
    TeacherReader::Reading reading; ///< empty once it is recorded
};

/// A draft that a refresh has judged, at the boundary where it ended. What follows happens at boundary `step`.
struct JudgedDraft {
    int64_t step = 0; ///< b: y_{b+1} is the first token that does not stay, or the pending one where all do
    Decision decision;
    int64_t first_pos = 0; ///< of its first token
    std::vector<DraftToken>
        tokens; ///< all that were drafted, in order; those after the first that does not stay too
    std::optional<PendingToken> instead; ///< y_{b+1} by the teacher's row; nothing: all stay
    std::vector<TeacherPass> passes;     ///< of the draft
    double rejected_ms = 0;              ///< steps that went; for the session to fill in
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
    bool asked = false;         ///< a refresh by hand waits for the one in flight
    ConfidenceShift confidence; ///< with Verification::target
    /// With a scope that asks for it: attention that position `splice` + i has received from the student's queries, the mean over layers
    /// and heads, added up since it was written. Null: none was measured.
    std::shared_ptr<const std::vector<float>> attention;
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
    /// Of a step of a draft: position of its first token that nobody has judged.
    std::optional<int64_t> drafted_from = {};
    bool draft_ends = false; ///< the draft is judged here, whatever the policy says
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

    /// Whether the next step's attention is wanted (attended()).
    [[nodiscard]] bool wants_attention() const;
    /// What positions `state().splice` and after it received of the step's query.
    void attended(std::span<const float> received);
    void run(BoundaryStep& step);

    /// In place of a refresh (OnFire::verify): the draft that the last boundary has judged. Nothing: it goes on.
    [[nodiscard]] std::optional<JudgedDraft> take_judged();
    /// Does what is left of that refresh at boundary b: passes, splice, the token that the teacher chose.
    /// \param step  that of step b, to which the session went back
    void settle(BoundaryStep& step, JudgedDraft& draft);

    [[nodiscard]] const RefreshState& state() const { return m_state; }
    /// Back to the state after an earlier boundary of this run. A draft under way is forgotten.
    void restore(const RefreshState& state);

private:
    enum class PassFor : uint8_t { refresh, probe, shadow };
    /// Lets the teacher read up to `end`. In a draft, judges the tokens that its rows predict.
    TeacherPass read(const BoundaryStep& step, int64_t end, PassFor purpose);
    void record(BoundaryStep& step, TeacherPass& pass);
    /// Both.
    PassEvent teacher_pass(BoundaryStep& step, int64_t end, PassFor purpose);
    void judge(const BoundaryStep& step, int64_t position, const at::Tensor& row,
               const kernels::RowStatistics& statistics);
    void judge_draft(const BoundaryStep& step, Decision decision);
    void back_fill(BoundaryStep& step, TeacherReader::Reading reading);
    /// Asks the planner, with a probe where it wants one; a refresh that it decides is then in flight.
    void plan(BoundaryStep& step);
    /// Reads this boundary's share of delta for the refresh in flight; lands it when it is due.
    void advance(BoundaryStep& step);
    /// \param instead  the pending token after it, where a draft was judged
    void land(BoundaryStep& step, const RefreshInFlight& refresh, const std::optional<PendingToken>& instead);
    /// \param stretch  newest part of delta, that may be written
    void splice(BoundaryStep& step, RefreshEvent& event, Delta delta, Delta stretch,
                const RefreshScope& scope);
    void replace_pending(BoundaryStep& step, RefreshEvent& event);
    /// What the teacher says of the pending token, where its row is there.
    void judge_pending(BoundaryStep& step) const;
    [[nodiscard]] int64_t student_length() const { return m_parts.student_cache.length(); }

    Parts m_parts;
    RefreshState m_state;
    std::vector<int64_t> m_automatic_steps; ///< of all automatic refreshes, ascending
    // Of the draft under way.
    std::vector<DraftToken> m_drafted;           ///< judged so far
    std::vector<TeacherPass> m_draft_passes;     ///< recorded or not
    std::optional<PendingToken> m_draft_instead; ///< in place of the first that does not stay
    std::optional<JudgedDraft> m_judged;
    std::optional<RefreshPolicy> m_adapted; ///< the run's, with a threshold moved
};

} // namespace refreshlab
