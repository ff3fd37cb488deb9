#pragma once

#include "engine/cache/kv_cache.h"
#include "engine/model/prompt_cache.h"
#include "engine/session/decode/decode_session.h"
#include "engine/session/pair/run_text.h"
#include "engine/session/parts/attention_rows.h"
#include "engine/session/parts/refresh_boundary.h"
#include "engine/session/parts/signal_source.h"
#include "engine/session/parts/stopwatch.h"
#include "engine/session/policies/backing.h"
#include "engine/session/policies/policy_runner.h"
#include "engine/tasks/task_scorer.h"

#include <memory>
#include <optional>
#include <vector>

namespace refreshlab {

class AttentionEntropy;
class AttentionReceived;
class AttentionRowsCapture;

/// State after a boundary, as far as the caches do not hold it. One per step, so that rewind(k) is a look-up.
struct Watermarks {
    RefreshState refresh;
    int64_t teacher_length = 0; ///< T.len; 0 without a teacher's cache
    PendingToken pending;
    double active_ms = 0;
    std::shared_ptr<const CachePolicy> cache_policy; ///< as it stood; null: full
    uint32_t rejections = 0;                         ///< drafts that were cut so far
    bool in_draft = false;                           ///< the boundary was passed while the draft went on
};

/// One step while it is made: what its parts hand on to each other.
struct StepInFlight {
    StepRecord record;
    SignalInputs inputs;
    StepOutputs rows;
    std::unique_ptr<AttentionRowsCapture> attention; ///< null: not captured
    std::unique_ptr<AttentionEntropy> entropy;       ///< null: not measured
    std::unique_ptr<AttentionReceived> received;     ///< null: no scope asks for it
    LayerValues layers;
    McRequest mc;
    Stopwatch total;

    [[nodiscard]] float& ms(Part part) { return record.part_ms[static_cast<size_t>(part)]; }
};

/// The session: its parts and the order in which they act. What a part does is in engine/session/parts; the functions
/// here only connect them.
///   session_start.cpp   text, prefill, hand-over, y_1
///   session_saved.cpp   a prompt's cache as a file
///   session_step.cpp    one step
///   session_draft.cpp   drafts whose tokens the teacher judges (OnFire::verify)
///   session_rewind.cpp  back to an earlier step; attention on request
///   session_score.cpp   the closing pass
struct DecodeSession::Impl {
    Impl(std::shared_ptr<const ModelPair> models, RunConfig run, Execution how, SignalSources own,
         TensorPolicyFactory own_policy);

    // --- session_start.cpp ---
    void start(const std::function<bool(double)>& progress, const RunText* known);
    void give_query_heads_their_own(); ///< the models that hold entries, with a KV head for every query head
    void check_text() const;
    void check_capture(const CaptureConfig& capture) const; ///< throws: layers that the decoding model lacks
    /// Caches, prefill, hand-over. \return the row that chooses y_1
    at::Tensor fill_caches(const std::function<bool(double)>& progress);
    /// The prompt from `first` on; what is before it is in the cache.
    at::Tensor prefill(const Forward& forward, KvCache& cache, Origin origin, int64_t first,
                       const std::function<bool(double fraction)>& progress) const;
    /// The cache policy of the model that decodes, null where it is full. Throws Error{bad_input} where it cannot work in this run.
    void make_cache_policy();
    [[nodiscard]] CacheLayout layout() const; ///< of the cache that it acts on
    /// What the policy decided about the prompt becomes true; it gets what else it works with.
    void start_cache_policy();
    void make_boundary();
    /// Changes of a cache go into the recording, with the step under way.
    void listen(KvCache& cache, bool of_teacher);
    /// Gives every published signal its id. \return what RunInfo carries
    std::vector<PublishedSignal> publish();
    [[nodiscard]] RunInfo describe(double ttft_ms, double prefill_ms) const;

    // --- session_saved.cpp ---
    /// The columns of a saved cache, where the run goes on from one, into an empty cache. \return how many
    int64_t adopt_saved(KvCache& cache, Origin origin);
    void save_prompt(const std::filesystem::path& path, CacheForm form) const;

    // --- session_step.cpp: the order of docs/design.md, section 3 ---
    bool step();
    bool advance();
    void make_step();
    [[nodiscard]] StepInFlight begin_step() const;
    /// True for the record of y_N, which is never fed.
    [[nodiscard]] bool is_last_record(const StepRecord& record) const;
    void append_last_record(StepInFlight& now);
    void forward(StepInFlight& now);
    void measure(StepInFlight& now);
    void work_out(StepInFlight& now) const;
    void keep_candidates(StepInFlight& now) const;
    void keep_attention(StepInFlight& now);
    void choose(StepInFlight& now);
    void pass_boundary(StepInFlight& now);
    void append(StepInFlight& now);
    void remember(); ///< the state after this boundary
    void finish(std::string reason);
    /// Tells the task's scorer of y_t, record.token_id; verdicts become signal task_score of their tokens.
    void score_task(StepRecord& record);
    void put_verdicts(StepRecord* in_flight, const std::vector<Verdict>& verdicts);
    /// What y_t adds to the text, and whether a given y_t was the model's first choice.
    [[nodiscard]] std::vector<Verdict> read_task_token(int32_t token, bool top1_hit);
    [[nodiscard]] AttentionLimits attention_limits() const {
        return {config.capture.attention_bins, config.capture.attention_bytes};
    }
    [[nodiscard]] McRequest mc_request(int64_t step) const;
    [[nodiscard]] bool is_end(int32_t token) const;
    [[nodiscard]] double elapsed_ms() const; ///< active time since submit: pauses between steps do not count

    // --- session_draft.cpp ---
    /// Steps of a draft are made on a fork of the recording. What stays waits there, and each step() lets one record out.
    [[nodiscard]] bool waiting() const { return recording != published; }
    [[nodiscard]] bool drafting() const { return waiting() && settled_ms < 0; } ///< nobody has judged it yet
    [[nodiscard]] bool begins_draft() const;
    void begin_draft();
    /// The step in flight is the last one of the draft; goes back to the boundary where the draft was cut.
    void settle(StepInFlight& now, JudgedDraft& draft);
    void go_back(StepInFlight& now, int64_t step);
    void tell_reads(int64_t step);
    void release();
    /// Back to the newest step that is out: whatever is applied there acts from the next one on. Does nothing where nothing waits.
    void drop_waiting();
    void write_to(std::shared_ptr<Recording> next);

    // --- session_rewind.cpp ---
    /// Caches, boundary, policy and what is pending as after step `step`; the recording stays.
    /// \param teacher_length  T.len, at most what the teacher has read
    void restore(int64_t step, int64_t teacher_length);
    /// What a rewind needs, made before anything changes.
    struct Branch {
        std::shared_ptr<Recording> recording;
        std::unique_ptr<TaskScorer> scorer; ///< null: the run belongs to no task
        std::unique_ptr<KvCache>
            before_splice; ///< columns as the last splice found them; null: no row needs them
        int64_t first_unread = 0,
                spliced_from = 0; ///< positions; rows of [first_unread, spliced_from) read before_splice
    };
    void rewind(int64_t step, const Recording* as);
    [[nodiscard]] Branch prepare_branch(int64_t step, const Watermarks& then, const Recording* as) const;
    [[nodiscard]] std::shared_ptr<Recording> fork_of(int64_t step, const Recording* as) const;
    void remake_ring_rows(const Branch& branch);
    void log_reached_settings();
    void capture_attention(int64_t position, bool of_teacher);

    // --- session_score.cpp ---
    void score();

    void log_command(const Command& command);
    [[nodiscard]] int64_t limit() const { return text.limit(config); }
    [[nodiscard]] bool overfill() const { return config.mode == Mode::overfill; }
    [[nodiscard]] ScopeModel scope_model() const;
    [[nodiscard]] bool rebuilds() const { return overfill() && pair->rebuild_reason().has_value(); }
    [[nodiscard]] bool bridges() const { return overfill() && pair->bridge != nullptr; }
    [[nodiscard]] const CachePolicyConfig& decoder_policy() const {
        return config.mode == Mode::teacher ? config.teacher_cache : config.student_cache;
    }
    [[nodiscard]] const LlamaModel& decoder() const {
        return config.mode == Mode::teacher ? *pair->teacher : *pair->student;
    }
    [[nodiscard]] KvCache& decoder_cache() {
        return config.mode == Mode::teacher ? teacher->cache() : *student_cache;
    }
    [[nodiscard]] Producer decoder_producer() const {
        return config.mode == Mode::teacher ? Producer::teacher : Producer::student;
    }
    [[nodiscard]] const std::vector<int32_t>& prompt() const { return text.prompt.ids; }
    [[nodiscard]] int64_t prompt_length() const { return static_cast<int64_t>(prompt().size()); }
    [[nodiscard]] int32_t token_at(int64_t position) const; ///< prompt or generated; pending is at L + t

    std::shared_ptr<const ModelPair> pair;
    Execution execution; ///< not null; a scope of it is open while anything is computed
    RunConfig config;    ///< as it is now
    RunText text;
    std::vector<int32_t> end_ids;
    int64_t capacity = 0;
    std::shared_ptr<Recording> recording; ///< what steps are written to
    std::shared_ptr<Recording>
        published;          ///< what readers see; the same one, unless steps of a draft are held back
    std::string start_note; ///< what a person must know of how the prompt was read
    std::vector<CacheEvent> prefill_events;    ///< made before there was a recording
    std::optional<EntryScores> prefill_scores; ///< the same

    std::optional<TokenChooser> chooser;
    std::unique_ptr<TaskScorer> scorer; ///< null: the run belongs to no task
    std::unique_ptr<KvCache> student_cache;
    std::unique_ptr<TeacherReader> teacher; ///< null until something asks the teacher
    std::unique_ptr<Backing>
        backing; ///< of what the cache policy reads and the cache does not hold; null: nothing
    std::unique_ptr<PolicyRunner> cache_policy; ///< of the decoder's cache; null: everything is kept and read
    std::optional<RowRing> ring;                ///< mode overfill
    std::optional<RefreshBoundary> boundary;    ///< mode overfill

    /// Components that publish signals of their own, and the ids of those, in order.
    std::vector<std::shared_ptr<SignalSource>> sources;
    SignalSources
        given_sources; ///< those that the run was asked for with; the last of `sources` from the start on
    TensorPolicyFactory given_policy; ///< the same: of a cache policy from outside
    std::vector<std::vector<size_t>> source_ids;
    std::vector<size_t> own_ids; ///< of the signals that the policy of the start brought along, in order

    int64_t t = 0; ///< steps made
    bool finished = false;
    bool refresh_requested = false;
    PendingToken pending;
    std::vector<Watermarks> history;     ///< [0] = after the prefill, [k] = after boundary k
    std::vector<CacheEvent> draft_reads; ///< of the teacher's cache in the draft under way
    double settled_ms = 0; ///< when the tokens that wait were known, since submit; below 0: not yet

    double active_ms = 0; ///< of finished calls
    std::chrono::steady_clock::time_point call_start{};
};

} // namespace refreshlab
