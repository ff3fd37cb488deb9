#pragma once

#include "engine/policies/cache_policy_config.h"
#include "engine/refresh/policy.h"

#include <nlohmann/json_fwd.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace refreshlab {

/// Who prefills and who decodes (reference/refresh.md, section 1).
enum class Mode : uint8_t {
    teacher,  ///< teacher prefills and decodes
    student,  ///< student prefills the prompt itself and decodes
    overfill, ///< teacher prefills, its cache is copied, student decodes; refresh policies act here
};
inline constexpr int64_t max_capture_layers = 4096;         ///< of CaptureConfig
inline constexpr int64_t max_attention_megabytes = 1 << 20; ///< of CaptureConfig
inline constexpr int64_t max_attention_bytes = 1 << 30;
inline constexpr int32_t max_attention_bins = 1 << 16;
inline constexpr const char* no_bridge = "none"; ///< RunConfig::bridge: rebuild mode
inline constexpr size_t max_top_k = 16;          ///< candidates of a step that a recording keeps at most

enum class Dtype : uint8_t {
    f32,
    bf16,
    f16,
    native, ///< matrices of a GGUF file in its blocks, as far as kernels/blocks has them; all else, and caches, bf16
};
/// CPU code of the kernels; the names are those of kernels::Isa. A GPU does not use it.
enum class KernelSet : uint8_t {
    automatic, ///< "auto": the widest that the processor has
    portable,
    avx2,
    avx512, ///< the same bits as avx2; all others agree to rounding
    reference,
};

struct SamplerConfig {
    double temperature = 0; ///< 0 = greedy
    int32_t top_k = 0;      ///< 0 = off
    double top_p = 1;       ///< 1 = off
    double min_p = 0;       ///< 0 = off
    friend bool operator==(const SamplerConfig&, const SamplerConfig&) = default;
};

/// MC dropout rows. Negative p: the checkpoint's training value, or 0.1 (labelled "uncalibrated") where it has none.
struct McConfig {
    bool measure = false; ///< also without an mc trigger
    int32_t samples = 8;  ///< Nmc >= 2
    double p = -1;
    int32_t every = 16; ///< measured when t mod every == 0
    friend bool operator==(const McConfig&, const McConfig&) = default;
};

struct CaptureConfig {
    bool attention = true;             ///< keep the decoding model's attention rows
    std::vector<int32_t> layers;       ///< of attention rows; empty = all
    int64_t attention_megabytes = 256; ///< in memory and in the trace; the oldest rows go first
    /// Most of the rows of one step; a longer row is kept in bins, its strongest keys exact (AttentionRows). 0: every key.
    int64_t attention_bytes = 50'000;
    int32_t attention_bins =
        0; ///< most numbers that a head's row is kept as, sums over neighbouring keys; 0: as attention_bytes says
    int32_t top_k = 8;              ///< candidates kept per step
    bool attention_entropy = false; ///< measure signal attention_entropy_bits at every step, trigger or not
    friend bool operator==(const CaptureConfig&, const CaptureConfig&) = default;
};

/// The task that a run is scored by, token by token (engine/tasks; signal task_score). Empty kind: no task.
struct TaskConfig {
    std::string kind;      ///< roll_call | company | chronicle | chain_of_key | ledger | table | retell
    std::string reference; ///< the expected answer; kinds that are scored by exact match need it
    std::string almanac;   ///< file of the facts; roll_call, company and chronicle need it
    friend bool operator==(const TaskConfig&, const TaskConfig&) = default;
};

/// Everything that determines a run, apart from the commands given while it goes on. Plain data, JSON both ways.
struct RunConfig {
    std::string teacher_dir, student_dir;
    std::string device = "auto";                ///< auto | cpu | cuda[:i], for both models
    std::string teacher_device, student_device; ///< override `device` when not empty
    Dtype dtype = Dtype::f32;
    int32_t threads = 0; ///< 0: kernels::default_threads(); at most one a core is used
    KernelSet kernels = KernelSet::automatic;

    Mode mode = Mode::overfill;
    std::string prompt;
    bool raw_prompt = false; ///< skip the chat template
    /// When not empty, the continuation is read instead of drawn (teacher forcing): y_1, y_2, ... are this text's
    /// tokens: each choice is replaced by the given one. Signals, triggers and refreshes work as always.
    std::string given_text;
    /// The same as ids, in place of given_text: a text that a run wrote may be no text that a tokenizer gives again.
    std::vector<int32_t> given_ids;
    /// File of a saved cache (engine/model/prompt_cache.h) that the prompt begins with: what is in it is not read again. Empty: none.
    std::string prompt_cache;
    /// Of a pair whose KV geometries differ: the map of the teacher's entries to the student's (engine/model/bridge), a file or no_bridge.
    /// Empty: the one beside the student, where there is one. It acts in mode overfill. Digest of a recording: what was read; no_bridge where
    /// none was found.
    PolicyFile bridge;
    TaskConfig task;
    int32_t max_tokens = 256; ///< N
    bool ignore_stop = false; ///< timing runs: the end token does not stop
    uint64_t seed = 0;
    SamplerConfig sampler;
    RefreshPolicy policy;
    /// Which entries each model's cache keeps and reads (reference/cache-definitions.md). The teacher's acts in mode teacher alone: a
    /// teacher that hands its entries over keeps all of them.
    CachePolicyConfig student_cache, teacher_cache;
    bool shadow = false; ///< teacher runs every step: a complete live KL curve
    McConfig mc;
    CaptureConfig capture;

    /// The continuation is read, not drawn.
    [[nodiscard]] bool reads_given() const { return !given_text.empty() || !given_ids.empty(); }
    friend bool operator==(const RunConfig&, const RunConfig&) = default;
};

/// `given_ids`, `prompt_cache` and `bridge` stand in it only where there are some.
[[nodiscard]] nlohmann::json to_json(const RunConfig& config);
/// Throws Error{bad_input} naming `what` and the key: unknown keys, wrong types, numbers outside the ranges of
/// control/parameters.h. Absent keys keep their defaults. Reads all that to_json writes, also negative thresholds.
[[nodiscard]] RunConfig run_config_from_json(const nlohmann::json& json, const std::string& what);
/// Throws Error{bad_input} naming the key of the first value outside its range; for configurations made in code.
void check_run_config(const RunConfig& config, const std::string& what);
/// Throws Error{bad_input} where refreshes are to verify a given text: its tokens were not drawn from a row. Part of
/// check_run_config().
void check_verification(const RunConfig& config, const std::string& what);
/// What of the model of a run its scope is checked against.
struct ScopeModel {
    int64_t layers = 0, kv_heads = 0;
    bool rebuild = false; ///< no entry is copied
};
/// Throws Error{bad_input} where a refresh of the run cannot have the policy's scope: a layer or KV head that the model does not have, no
/// entries that are copied, or a student's cache whose policy computes entries again (kv_direct), all of a position by one model.
void check_scope(const RunConfig& config, const ScopeModel& model, const std::string& what);
[[nodiscard]] std::string_view to_string(Mode m);
[[nodiscard]] std::string_view to_string(Dtype d);
[[nodiscard]] std::string_view to_string(KernelSet k);

} // namespace refreshlab
