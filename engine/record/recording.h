#pragma once

#include "engine/control/run_config.h"
#include "engine/record/chunked_log.h"
#include "engine/record/step_record.h"
#include "engine/text/tokenizer.h"

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace refreshlab {

/// What is known of a run before its first step.
struct RunInfo {
    std::string id;                    ///< unique per run, 16 hex digits
    std::string parent_id;             ///< of a branch (a rewind makes one); empty else
    int64_t fork_step = 0;             ///< steps [1, fork_step] are shared with the parent
    RunConfig config;                  ///< as at the start of the run (branches: of the root run)
    std::string rendered_prompt;       ///< exactly what was tokenized
    std::vector<int32_t> prompt_ids;   ///< L of them
    int32_t first_token = -1;          ///< y_1
    Producer first_producer = Producer::teacher;
    double first_logprob = 0;          ///< ln p(y_1) under the row it was drawn from
    int64_t vocab_size = 0, layers = 0, heads = 0, kv_heads = 0, head_dim = 0;
    int64_t cache_bytes_per_token = 0; ///< both models
    double ttft_ms = 0, prefill_ms = 0;
    std::string device, dtype;         ///< as used: "cpu", "cuda:0"; "f32"
    int32_t threads = 0;
    std::string started_at;            ///< ISO 8601, UTC
    std::vector<std::pair<std::string, std::string>> versions; ///< refreshlab, libtorch, ...
    std::string note;                  ///< "stand-in pair with random weights", "rebuild mode: ..."
};

/// What is known once a run has ended.
struct RunEnd {
    std::string stop_reason; ///< max_tokens | stop_token | context_limit | cancelled | failed
    double total_ms = 0;     ///< t_N - t_submit
    std::optional<double> teacher_ppl, tail_logprob; ///< of the closing pass; nothing if there is no teacher
};

/// The append-only log of one run. Live view and file replay read the same thing.
///
/// Threads  One writer (the decode thread, or the loader of a trace). Any thread reads without locks up to the sizes it
///          reads; records never move. Exceptions: signal values may be back-filled later (atomic, relaxed; see
///          back_fill_revision()), and attention rows are looked up under a mutex held for a map look-up.
class Recording {
public:
    Recording(RunInfo info, std::shared_ptr<const TokenTable> tokens);

    // --- any thread ---
    [[nodiscard]] const RunInfo& info() const { return m_info; }
    [[nodiscard]] const TokenTable& tokens() const { return *m_tokens; }
    [[nodiscard]] std::shared_ptr<const TokenTable> token_table() const { return m_tokens; }
    [[nodiscard]] int64_t prompt_length() const { return static_cast<int64_t>(m_info.prompt_ids.size()); }
    [[nodiscard]] int64_t steps() const { return static_cast<int64_t>(m_steps.size()); } ///< record of step t is index t-1
    [[nodiscard]] const StepRecord& step(int64_t t) const { return m_steps[static_cast<size_t>(t - 1)]; }
    /// Current value, back-fills included. Use this and not step(t).signals, which a back-fill may be writing.
    [[nodiscard]] float signal(int64_t t, size_t id) const;
    [[nodiscard]] const ChunkedLog<RefreshEvent>& refreshes() const { return m_refreshes; }
    [[nodiscard]] const ChunkedLog<PassEvent>& passes() const { return m_passes; }
    [[nodiscard]] const ChunkedLog<CommandEvent>& commands() const { return m_commands; }
    [[nodiscard]] const ChunkedLog<std::shared_ptr<const DriftMap>>& drifts() const { return m_drifts; }
    /// Ids y_1 .. y_n of all tokens chosen so far, the pending one included (an end token is not among them).
    [[nodiscard]] std::vector<int32_t> token_ids() const;
    /// Token y_t for 1 <= t <= num_tokens().
    [[nodiscard]] int32_t token(int64_t t) const;
    [[nodiscard]] int64_t num_tokens() const;
    [[nodiscard]] std::optional<RunEnd> end() const;
    /// Null when not recorded, dropped by the memory limit, or not asked for.
    [[nodiscard]] std::shared_ptr<const AttentionRows> attention(int64_t position, bool teacher) const;
    /// Every back-fill is also an entry here: (first step, last step, signal id). Plots rebuild those ranges.
    struct BackFill { int64_t first_step, last_step; uint16_t signal; };
    [[nodiscard]] const ChunkedLog<BackFill, 1024, 16384>& back_fills() const { return m_back_fills; }
    /// Refresh events whose step is t.
    [[nodiscard]] const RefreshEvent* refresh_at(int64_t t) const;

    // --- the writer ---
    void append(const StepRecord& record);          ///< record.step == steps() + 1                   (asserted)
    void back_fill(size_t signal, int64_t first_step, std::span<const float> values); ///< absent() entries leave theirs
    void add_refresh(RefreshEvent event);
    void add_pass(PassEvent event);
    void add_command(CommandEvent event);
    void add_drift(std::shared_ptr<const DriftMap> drift);
    void add_attention(std::shared_ptr<const AttentionRows> rows); ///< over the limit: the oldest step's rows go
    void set_end(RunEnd end);

    /// A new recording that starts with steps [1, step] of this one: records, events and commands up to that boundary,
    /// values back-filled by passes after it made absent again, attention rows shared. For rewind and branches.
    [[nodiscard]] std::shared_ptr<Recording> fork(int64_t step, std::string new_id) const;

private:
    RunInfo m_info;
    std::shared_ptr<const TokenTable> m_tokens;
    ChunkedLog<StepRecord> m_steps;
    ChunkedLog<RefreshEvent> m_refreshes;
    ChunkedLog<PassEvent> m_passes;
    ChunkedLog<CommandEvent> m_commands;
    ChunkedLog<std::shared_ptr<const DriftMap>> m_drifts;
    ChunkedLog<BackFill, 1024, 16384> m_back_fills;
    mutable std::mutex m_mutex; ///< protects what follows; held for one look-up or insertion
    std::map<std::pair<int64_t, bool>, std::shared_ptr<const AttentionRows>> m_attention;
    size_t m_attention_bytes = 0;
    std::optional<RunEnd> m_end;
};

/// First difference of two recordings in what must be equal in a replay (everything but times, ids and dates), as one
/// line, or nothing. Floats are compared bit by bit.
[[nodiscard]] std::optional<std::string> first_difference(const Recording& a, const Recording& b);

} // namespace refreshlab
