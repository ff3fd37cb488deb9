#pragma once

#include "engine/cache/kv_cache.h"
#include "engine/refresh/planner.h"
#include "engine/session/decode/decode_session.h"
#include "engine/session/decode/session_prompt.h"
#include "engine/tasks/task_scorer.h"
#include "kernels/ops/row_statistics.h"

#include <ATen/core/Tensor.h>

#include <chrono>
#include <memory>
#include <optional>
#include <vector>

namespace refreshlab {

/// Rows of logits of a teacher pass that are alive at once: 128 x 128,256 x 4 B = 66 MB; chunks are exact.
inline constexpr int64_t pass_chunk = 128;
/// Student rows that a RowRing keeps: 131 MB at 128,256 tokens.
inline constexpr int64_t ring_rows = 256;

/// fp32 student rows of the newest positions, for the KL of a later teacher pass (reference/refresh.md, 6.1). A row that
/// fell out leaves its KL missing, never approximated.
class RowRing {
public:
    RowRing(int64_t rows, int64_t vocab, at::Device device);
    void put(int64_t position, const at::Tensor& row);
    [[nodiscard]] bool holds(int64_t position) const;
    [[nodiscard]] at::Tensor row(int64_t position) const; ///< a view, [vocab]
    void drop_from(int64_t position);                     ///< forgets rows at and behind position

private:
    at::Tensor m_rows;
    std::vector<int64_t> m_positions; ///< per slot, -1 = empty
};

/// The token chosen last, not fed yet, and what is known of it.
struct PendingToken {
    int32_t id = -1;
    Producer producer = Producer::teacher;
    double logprob = 0;    ///< under the row it was drawn from
    bool top1_hit = false; ///< it is the arg max of that row
    std::optional<double> teacher_logprob,
        teacher_agrees; ///< known when the teacher's row of that position exists
};

/// A refresh between the boundary at which it fired and the one at which its splice lands: the same one unless the policy
/// has a lag. What it will do was settled when it fired.
struct RefreshInFlight {
    Decision decision;
    int64_t fired_step = 0, due_step = 0;
    int64_t end = 0; ///< S.len when it fired: the splice reaches up to here
    std::optional<int32_t> window;
    OnFire on_fire = OnFire::keep;
    int64_t pass_tokens = 0; ///< read for it so far
    double teacher_ms = 0;
};

/// State behind a boundary, as far as the caches do not hold it. One per step, so that rewind(k) is a look-up.
struct Watermarks {
    int64_t splice = 0;      ///< P: first position that no splice has handled
    int64_t teacher_len = 0; ///< T.len
    int64_t last_pass = 0;   ///< S.len at the last teacher pass of a probe or refresh
    std::optional<int64_t> last_splice_step;
    size_t automatic_refreshes = 0; ///< how many of automatic_steps belong to it
    int32_t refreshes = 0;
    std::optional<RefreshInFlight> in_flight;
    bool asked = false; ///< a refresh by hand waits for the one in flight
    PendingToken pending;
    double active_ms = 0;
};

/// Everything a session holds. The four files of this room share it: decode_session.cpp (start, step, end),
/// session_boundary.cpp (what happens behind a step: probe, refresh), session_rewind.cpp, session_score.cpp.
struct DecodeSession::Impl {
    Impl(std::shared_ptr<const ModelPair> models, RunConfig run);

    // --- decode_session.cpp ---
    void start(const std::function<bool(double)>& progress, const RunText* known);
    bool step();
    void finish(std::string reason);
    /// The token of `position` by this row: drawn, or the given one where the run reads a given text.
    [[nodiscard]] PendingToken choose(const at::Tensor& row, int64_t position, Producer producer) const;
    /// Tells the task's scorer of y_t, record.token_id; verdicts become signal task_score of their tokens.
    void score_task(StepRecord& record);
    void put_verdicts(StepRecord* in_flight, const std::vector<Verdict>& verdicts);
    /// What y_t adds to the text, and whether a given y_t was the model's first choice.
    [[nodiscard]] std::vector<Verdict> read_task_token(int32_t token, bool top1_hit);
    [[nodiscard]] int64_t limit() const { return text.limit(config); }
    void log_command(const Command& command);
    [[nodiscard]] bool is_end(int32_t token) const;
    [[nodiscard]] double elapsed_ms() const; ///< active time since submit: pauses between steps do not count
    [[nodiscard]] McRequest mc_request(int64_t t) const;

    // --- session_boundary.cpp ---
    /// Boundary t: shadow pass, probe, refresh, on_fire. May change `pending` and the record's signals.
    void boundary(StepRecord& record, bool runs_on);
    /// Extends the teacher's cache over [T.len, end), end <= S.len; gives KL, teacher_logprob and agreement of those
    /// positions. Steps before record.step are back-filled in the recording, record.step itself in `record`. No pass if
    /// there is nothing to read.
    enum class PassFor : uint8_t { refresh, probe, shadow };
    PassEvent teacher_pass(StepRecord& record, int64_t end, PassFor purpose);
    /// Reads this boundary's share of delta for marks.in_flight; splices when it is due.
    void advance_refresh(StepRecord& record);
    void splice(StepRecord& record, const RefreshInFlight& refresh);
    void rebuild_columns(const StepRecord& record, int64_t first_pos);
    /// Drops one value of signal `id` at step into the record in flight or the recording.
    void put_signal(StepRecord* in_flight, size_t id, int64_t step, double value);

    // --- session_rewind.cpp ---
    void rewind(int64_t step);
    void capture_attention(int64_t position, bool teacher);

    // --- session_score.cpp ---
    void score();

    [[nodiscard]] bool overfill() const { return config.mode == Mode::overfill; }
    [[nodiscard]] const LlamaModel& decoder() const {
        return config.mode == Mode::teacher ? *pair->teacher : *pair->student;
    }
    [[nodiscard]] KvCache& decoder_cache() {
        return config.mode == Mode::teacher ? *teacher_cache : *student_cache;
    }
    [[nodiscard]] Producer decoder_producer() const {
        return config.mode == Mode::teacher ? Producer::teacher : Producer::student;
    }
    [[nodiscard]] const std::vector<int32_t>& prompt() const { return text.prompt.ids; }
    [[nodiscard]] int64_t prompt_length() const { return static_cast<int64_t>(prompt().size()); }
    [[nodiscard]] int32_t token_at(int64_t position) const; ///< prompt or generated; pending is at L + t

    std::shared_ptr<const ModelPair> pair;
    RunConfig config; ///< as it is now
    RunText text;
    std::vector<int32_t> end_ids;
    int64_t capacity = 0;
    std::unique_ptr<KvCache> teacher_cache, student_cache;
    std::shared_ptr<Recording> recording;

    int64_t t = 0; ///< steps made
    bool finished = false;
    bool refresh_requested = false;
    Watermarks marks;
    std::vector<Watermarks> history; ///< [0] = behind the prefill, [k] = behind boundary k
    std::vector<int64_t> automatic_steps;
    std::optional<RowRing> ring;
    std::unique_ptr<TaskScorer> scorer; ///< null: the run belongs to no task
    at::Tensor last_teacher_row;        ///< row of position T.len - 1, [vocab] fp32, the teacher's device

    double active_ms = 0; ///< of finished calls
    std::chrono::steady_clock::time_point call_start{};
};

/// What a forward captured, as the recording keeps it (IEEE half).
[[nodiscard]] std::shared_ptr<const AttentionRows> make_attention_rows(const AttentionCapture& capture,
                                                                       int64_t position, int64_t step,
                                                                       bool teacher, int64_t layers);

/// Wall-clock of a part of a step.
class Stopwatch {
public:
    Stopwatch()
        : m_start(std::chrono::steady_clock::now()) {}
    [[nodiscard]] double ms() const {
        return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - m_start).count();
    }

private:
    std::chrono::steady_clock::time_point m_start;
};

} // namespace refreshlab
