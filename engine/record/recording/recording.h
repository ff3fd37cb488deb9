#pragma once

#include "engine/control/derive/derive_spec.h"
#include "engine/control/run_config.h"
#include "engine/record/recording/cache_event.h"
#include "engine/record/recording/chunked_log.h"
#include "engine/record/recording/entry_scores.h"
#include "engine/record/recording/step_record.h"
#include "engine/signals/published.h"
#include "engine/text/tokenizer/tokenizer.h"

#include <array>
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

class RunNotes;

/// What is known of a run before its first step.
struct RunInfo {
    std::string id;                  ///< unique per run, 16 hex digits
    std::string parent_id;           ///< of a branch (a rewind makes one); empty else
    int64_t fork_step = 0;           ///< steps [1, fork_step] are shared with the parent
    RunConfig config;                ///< as at the start of the run (branches: of the root run)
    std::string rendered_prompt;     ///< exactly what was tokenized
    std::vector<int32_t> prompt_ids; ///< L of them
    int32_t first_token = -1;        ///< y_1
    Producer first_producer = Producer::teacher;
    double first_logprob = 0; ///< ln p(y_1) under the row it was drawn from
    int64_t vocab_size = 0, layers = 0, heads = 0, kv_heads = 0, head_dim = 0;
    int64_t cache_bytes_per_token = 0; ///< both models
    double ttft_ms = 0, prefill_ms = 0;
    std::string device, dtype; ///< as used: "cpu", "cuda:0"; "f32"
    int32_t threads = 0;
    std::string started_at;                                    ///< ISO 8601, UTC
    std::vector<std::pair<std::string, std::string>> versions; ///< refreshlab, libtorch, ...
    TextRule text_rule;                                        ///< of the tokenizer
    std::string note; ///< what a person must know about the pair: "rebuild mode: ..."
    /// Which kernels ran: "portable", "avx2", "avx512", "reference", or the name of a CUDA set; empty: not known.
    std::string kernel_set;
    bool rebuild =
        false; ///< the KV geometries differ: a refresh computes the student's columns again and copies nothing
    /// Of the components of this run; ids follow the registry's (published_id()).
    std::vector<PublishedSignal> published_signals;
    /// The signals that the program knew which wrote the recording. A live run: all of them. An old trace has no row of
    /// a signal that its writer did not have; that makes no difference between two runs.
    std::optional<std::vector<std::string>> written_signals; ///< names; nothing = all of Recording::signals()
    bool has_cache_events = true;
    std::optional<DerivedFacts> derived; ///< the student was made of the teacher's weights, and how
};

/// What is known once a run has ended.
struct RunEnd {
    std::string stop_reason; ///< max_tokens | given_end | stop_token | context_limit | cancelled | failed
    double total_ms = 0;     ///< t_N - t_submit
    std::optional<double> teacher_ppl, tail_logprob; ///< of the closing pass; nothing if there is no teacher
};

/// The append-only log of one run. Live view and file replay read the same thing.
///
/// Threads  One writer (the decode thread, or the loader of a trace). Any thread reads without locks up to the sizes it
///          reads; records never move. Exceptions: signal values may be back-filled later (atomic; see back_fills()), a row
///          of cache appends grows (atomic; see CacheEntry), and the end, the attention rows and
///          drift maps are looked up under a mutex held for one look-up.
/// Memory   ~0.4 KB a step, ~50 B a back-filled value and 1 KB for every 8 steps that have one, ~70 B and 4 B a layer for
///          each layered signal that a step measured, ~0.1 KB a cache event (all appends of single steps in a row count as one),
///          attention rows up to capture.attention_megabytes. A fork shares what it has in common with its parent.
class Recording {
public:
    /// Throws Error{bad_input} when info.published_signals are not usable (signal_table()).
    /// \param tokens  not null (asserted)
    Recording(RunInfo info, std::shared_ptr<const TokenTable> tokens);

    // --- any thread ---
    [[nodiscard]] const RunInfo& info() const { return m_info; }
    [[nodiscard]] const TokenTable& tokens() const { return *m_tokens; }
    [[nodiscard]] std::shared_ptr<const TokenTable> token_table() const { return m_tokens; }
    [[nodiscard]] int64_t prompt_length() const { return static_cast<int64_t>(m_info.prompt_ids.size()); }
    /// Records so far; step(t) for 1 <= t <= steps().
    [[nodiscard]] int64_t steps() const { return static_cast<int64_t>(m_steps.size()); }
    [[nodiscard]] const StepRecord& step(int64_t t) const { return m_steps[static_cast<size_t>(t - 1)]; }
    /// The signals of this run by id: the registry's, then those that its components published.
    [[nodiscard]] std::span<const Signal> signals() const {
        return m_table ? m_table->signals : refreshlab::signals();
    }
    [[nodiscard]] std::optional<size_t> signal_id(std::string_view name) const;
    /// False where the program that wrote this recording did not have the signal.
    [[nodiscard]] bool knows_signal(size_t id) const { return m_knows[id]; }
    /// Current value, back-fills included; step(t).signals has what was measured at the step.
    [[nodiscard]] float signal(int64_t t, size_t id) const;
    /// Values of a layered signal at step t, [layers], absent() in layers that were not measured; empty where the step did not
    /// measure it. Its mean over the layers is signal(t, id). Cost: a binary search.
    [[nodiscard]] std::span<const float> layer_values(int64_t t, size_t id) const;
    /// Of all signals that step t measured per layer.
    [[nodiscard]] LayerValues layers(int64_t t) const;
    /// Layer values of all steps, by step; for readers that go through all of them.
    struct LayerRow {
        int64_t step = 0;
        size_t signal = 0;
        std::shared_ptr<const std::vector<float>> values; ///< [layers]
    };
    using LayerLog = ChunkedLog<LayerRow, 64, size_t{1} << 24>;
    [[nodiscard]] const LayerLog& layer_rows() const { return m_layer_rows; }
    /// Changes of both models' caches, in the order in which they began. cache_state.h makes them into what stands in a cache
    /// after a step.
    using CacheLog = ChunkedLog<CacheEntry, 16, size_t{1} << 24>;
    [[nodiscard]] const CacheLog& cache_entries() const { return m_cache_entries; }
    [[nodiscard]] const ChunkedLog<RefreshEvent>& refreshes() const { return m_refreshes; }
    [[nodiscard]] const ChunkedLog<PassEvent>& passes() const { return m_passes; }
    [[nodiscard]] const ChunkedLog<CommandEvent>& commands() const { return m_commands; }
    /// What was measured where. Values: drift(), because a run of an engine elsewhere gets them later.
    [[nodiscard]] const ChunkedLog<std::shared_ptr<const DriftMap>>& drifts() const { return m_drifts; }
    /// drifts()[n], with its values where they have come since.
    [[nodiscard]] std::shared_ptr<const DriftMap> drift(size_t n) const;
    /// Rises with every fill_drift().
    [[nodiscard]] uint64_t drift_fills() const { return m_drift_fills.load(std::memory_order_acquire); }
    [[nodiscard]] const ChunkedLog<DraftEvent>& drafts() const { return m_drafts; }
    /// Ids y_1 .. y_n of all tokens chosen so far, the pending one included (an end token is not among them).
    [[nodiscard]] std::vector<int32_t> token_ids() const;
    /// Token y_t for 1 <= t <= num_tokens(): y_1 = info().first_token, y_{t+1} = step(t).next_token_id.
    [[nodiscard]] int32_t token(int64_t t) const;
    /// Tokens chosen so far: y_1, and one for each step that chose another. The last record of a finished run chose
    /// none; with the end "stop_token" the token chosen last is the end token and not counted (so a run whose y_1 is
    /// an end token has 0).
    [[nodiscard]] int64_t num_tokens() const;
    [[nodiscard]] std::optional<RunEnd> end() const;
    /// Rises with every set_end(): a closing pass may complete the end later.
    [[nodiscard]] uint64_t end_revision() const { return m_end_revision.load(std::memory_order_acquire); }
    /// Null when not recorded, dropped by the memory limit, or not asked for.
    [[nodiscard]] std::shared_ptr<const AttentionRows> attention(int64_t position, bool teacher) const;
    /// Every back-fill is also an entry here: (first step, last step, signal id). Plots rebuild those ranges.
    struct BackFill {
        int64_t first_step = 0, last_step = 0;
        size_t filled_values = 0; ///< filled_values().size() after it
        uint16_t signal = 0;
    };
    using BackFillLog = ChunkedLog<BackFill, 128, size_t{1} << 24>;
    [[nodiscard]] const BackFillLog& back_fills() const { return m_back_fills; }
    /// What people wrote beside this run's steps; never null. No part of the log: it may change at any time, on any thread.
    [[nodiscard]] const std::shared_ptr<RunNotes>& notes() const { return m_notes; }
    /// Refresh event whose step is t, or null. Cost: a binary search.
    [[nodiscard]] const RefreshEvent* refresh_at(int64_t t) const;

    // --- any thread; for the trace store, which must tell what was known when ---
    /// Signals of step t as append() got them, before any back-fill.
    [[nodiscard]] std::span<const float, max_signals> measured(int64_t t) const {
        return m_steps[static_cast<size_t>(t - 1)].signals;
    }
    /// One back-filled value. `known` is the boundary at which it was made, steps() + 1 at that time: a fork at
    /// k >= known keeps the value, a fork before it does not. In the order made, so `known` never falls.
    struct FilledValue {
        int64_t step = 0, known = 0;
        float value = 0;
        uint16_t signal = 0;
    };
    using FilledLog = ChunkedLog<FilledValue, 128, size_t{1} << 24>;
    [[nodiscard]] const FilledLog& filled_values() const { return m_filled; }
    /// One change of the attention store: attention(position, teacher) tells what is there now.
    struct AttentionChange {
        int64_t position = 0;
        bool teacher = false;
    };
    using AttentionLog = ChunkedLog<AttentionChange, 128, size_t{1} << 24>;
    [[nodiscard]] const AttentionLog& attention_changes() const { return m_attention_changes; }
    /// Bytes of the attention rows that are kept, and of the newest one; both stand in the trace too.
    struct AttentionBytes {
        size_t kept = 0, newest = 0;
    };
    [[nodiscard]] AttentionBytes attention_bytes() const;
    /// All rows, by (position, teacher).
    [[nodiscard]] std::vector<std::shared_ptr<const AttentionRows>> attention_rows() const;
    /// How many events at the front of each log came from the recording that this one was forked from.
    struct Inherited {
        size_t refreshes = 0, passes = 0, commands = 0, drifts = 0, cache_entries = 0, drafts = 0;
    };
    [[nodiscard]] const Inherited& inherited() const { return m_inherited; }

    // --- the writer ---
    /// Bytes that this recording holds for itself, about; what it shares with the one that it was forked from is not its own,
    /// and neither are attention rows and drift maps.
    [[nodiscard]] size_t own_bytes() const;
    /// record.step == steps() + 1; of each layered signal info().layers values (asserted).
    /// \param layers  the layer values of this step; the record has their means already (evaluate_signals, StepValues)
    void append(const StepRecord& record, const LayerValues& layers = {});
    /// Values of one signal for steps first_step, first_step + 1, ...; absent() entries leave what is there.
    /// The steps are appended already (asserted).
    void back_fill(size_t signal, int64_t first_step, std::span<const float> values);
    /// Goes on by one step as `ahead` did, with what belongs to that step: events, attention rows, layer values, values filled in at its
    /// boundary.
    /// \param ahead   has the same steps and events up to here (a fork of this recording, or of one that this is a fork of) and went on
    /// \param record  of step steps() + 1, as it is to stand here
    void follow(const Recording& ahead, const StepRecord& record);
    /// follow() without the record: more may come into the step before append().
    void take_events(const Recording& ahead);
    void add_refresh(RefreshEvent event); ///< event.step never falls (asserted)
    void add_pass(PassEvent event);
    void add_draft(DraftEvent event);
    void add_command(CommandEvent event);
    void add_drift(std::shared_ptr<const DriftMap> drift);
    /// The values of drifts()[n], which had none. \param drift  of the same step and shape, with values    (asserted)
    void fill_drift(size_t n, std::shared_ptr<const DriftMap> drift);
    /// event.step never falls; layer and kv_head are -1 or the model's; positions are ascending, disjoint and not empty; bytes none, one, or one a layer (asserted).
    /// An event of the step in flight comes before its record. An append that goes on where the last one of the same cache and
    /// origin ended becomes part of its entry.
    void add_cache_event(CacheEvent event);
    /// For the loader of a trace: the entry with number n, which is either the next one (its steps then follow those before it),
    /// or one of a row of appends that came with a fork and goes on. \return false where it is neither
    [[nodiscard]] bool put_cache_entry(size_t n, CacheEntry entry);
    /// Replaces rows of the same position and owner. Over config.capture.attention_megabytes the rows of the same owner
    /// with the smallest positions go first, then those of the other; rows that are too large alone are not kept.
    void add_attention(std::shared_ptr<const AttentionRows> rows);
    void drop_attention(int64_t position, bool teacher);
    /// Of the model that decodes. Written by its cache policy; for everybody else the const one.
    [[nodiscard]] EntryScores& entry_scores() { return m_entry_scores; }
    [[nodiscard]] const EntryScores& entry_scores() const { return m_entry_scores; }
    void set_end(RunEnd end); ///< may come again, completed by a closing pass

    /// A new recording that starts with steps [1, step] of this one: records, and events, commands and drift maps whose
    /// step is <= `step`; values back-filled after a later boundary are absent again (or what they were before),
    /// attention rows up to that step are shared. No end. For rewind and branches. 0 <= step <= steps() (asserted).
    /// \param at_most  leaves out events beyond these counts (the loader of a trace knows them; nothing else needs it)
    [[nodiscard]] std::shared_ptr<Recording> fork(int64_t step, std::string new_id) const;
    [[nodiscard]] std::shared_ptr<Recording> fork(int64_t step, std::string new_id,
                                                  const Inherited& at_most) const;
    /// A fork at the newest step for steps that may not come to stay, while this recording goes on by follow(): what it will change
    /// (values that a teacher's pass fills in, rows of appends) is copied and not shared, so it need not copy that itself.
    [[nodiscard]] std::shared_ptr<Recording> fork_ahead() const;
    /// The same for whoever goes on with a recording that is not its own: a trace's, or one that was made again.
    /// \param info    of the branch; its parent and fork step are set here, its prompt is this recording's (asserted)
    /// \param tokens  not null: of the steps to come as well
    [[nodiscard]] std::shared_ptr<Recording> fork_as(int64_t step, RunInfo info,
                                                     std::shared_ptr<const TokenTable> tokens) const;
    [[nodiscard]] std::shared_ptr<Recording> fork_as(int64_t step, RunInfo info,
                                                     std::shared_ptr<const TokenTable> tokens,
                                                     const Inherited& at_most) const;
    /// This run as it is now, with more signals in its table, which have no values yet: back_fill() gives them some. What both hold is
    /// shared, notes as well; later steps and values of either are not seen by the other.
    /// Throws Error{bad_input} when the signals are not usable (signal_table()).
    [[nodiscard]] std::shared_ptr<Recording> with_signals(std::span<const PublishedSignal> added) const;

private:
    static constexpr size_t steps_per_fill = 8; ///< 1 KB a chunk
    /// Back-filled values of so many steps, absent() where there is none.
    using FillChunk = std::array<std::array<float, max_signals>, steps_per_fill>;

    enum class Sharing : uint8_t { all, what_stays };
    void fork_into(Recording& branch, int64_t step, const Inherited& at_most,
                   Sharing sharing = Sharing::all) const;
    [[nodiscard]] FillChunk& writable_fills(size_t number);
    void fork_fills(Recording& branch, int64_t step, Sharing sharing) const;
    void fork_cache_entries(Recording& branch, int64_t step, size_t at_most, Sharing sharing) const;
    void follow_cache_entry(size_t n);                     ///< brings m_cache_tails up to date with it
    void drop_over_limit(std::pair<int64_t, bool> newest); ///< m_mutex held

    RunInfo m_info;
    /// Of a run whose components publish signals, and of its forks; null: the registry alone.
    struct SignalTable {
        std::vector<PublishedSignal> published;
        std::vector<Signal> signals; ///< views into published
    };
    std::shared_ptr<const SignalTable> m_table;
    std::array<bool, max_signals> m_knows{};
    std::shared_ptr<const TokenTable> m_tokens;
    std::shared_ptr<RunNotes> m_notes;
    Inherited m_inherited;
    /// Of the student's and the teacher's cache, by CacheEvent::teacher; the writer's.
    struct CacheTail {
        std::optional<size_t> open_row; ///< entry that the next append may go on with
        int64_t last_step = 0;          ///< of its events
    };
    std::array<CacheTail, 2> m_cache_tails;
    ChunkedLog<StepRecord> m_steps;
    ChunkDirectory<FillChunk> m_fills; ///< from the first value of a chunk on
    std::vector<int64_t> m_last_fill;  ///< by chunk: boundary of its newest value
    ChunkedLog<RefreshEvent> m_refreshes;
    ChunkedLog<PassEvent> m_passes;
    ChunkedLog<CommandEvent> m_commands;
    ChunkedLog<DraftEvent> m_drafts;
    ChunkedLog<std::shared_ptr<const DriftMap>> m_drifts;
    LayerLog m_layer_rows; ///< by step; appended before the step's record
    CacheLog m_cache_entries;
    FilledLog m_filled;
    BackFillLog m_back_fills;
    AttentionLog m_attention_changes;          ///< appended with m_mutex held
    std::atomic<uint64_t> m_end_revision{0};   // released by set_end(), acquired by the trace store
    std::atomic<uint64_t> m_drift_fills{0};    // released by fill_drift(), acquired by readers of maps
    std::atomic<bool> m_ended_by_token{false}; // released by set_end(), acquired by num_tokens()
    EntryScores m_entry_scores;
    mutable std::mutex m_mutex; ///< protects what follows; held for one look-up or insertion
    std::map<std::pair<int64_t, bool>, std::shared_ptr<const AttentionRows>> m_attention;
    size_t m_attention_bytes = 0;
    std::map<size_t, std::shared_ptr<const DriftMap>> m_late_drifts; ///< by their place in m_drifts
    std::optional<RunEnd> m_end;
};

/// The largest difference of two numbers that a tolerance let pass, and whose it was.
struct Deviation {
    double size = 0; ///< |a - b| / max(1, |a|, |b|)
    std::string where;
};

/// First difference of two recordings in what must be equal in a replay, as one line, or nothing: prompt, tokens and
/// candidates, signals with their layers, events, commands, drift maps, cache events, attention rows, the end. Not compared:
/// times, ids and dates, device, kernels, threads and versions, and what only one of the two writers knew (signals by name;
/// cache events). Floats are compared bit by bit, with one exception: measured NaNs are equal to each other
/// whatever their payload (and never equal to absent()).
/// \param tolerance  0, or how far apart two finite numbers may be (Deviation::size): for runs of kernels that round
///                   differently. Tokens, events and what was not measured must be equal all the same.
/// \param largest    null, or gets the largest deviation
[[nodiscard]] std::optional<std::string> first_difference(const Recording& a, const Recording& b,
                                                          double tolerance = 0, Deviation* largest = nullptr);

} // namespace refreshlab
