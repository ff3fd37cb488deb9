#pragma once

#include <nlohmann/json_fwd.hpp>

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace refreshlab {

/// Faults of a KV cache, wrong on purpose: switches for teaching. Each acts in the cached path only, and the check must
/// catch it. Source: reference/refresh.md, section 9, "Failure modes".
enum class CacheFault : uint8_t {
    none,
    stale_cache,         ///< the prompt was edited, its old columns were kept
    off_by_one_position, ///< decode steps stand one position too far (RoPE)
    mask_one_too_long,   ///< a query sees one column beyond its own
    duplicated_token,    ///< the last prompt token is fed again as the first decode input
};
inline constexpr std::array<std::string_view, 5> cache_fault_names{
    "none", "stale_cache", "off_by_one_position", "mask_one_too_long", "duplicated_token"};
[[nodiscard]] constexpr std::string_view to_string(CacheFault f) {
    return cache_fault_names[static_cast<size_t>(f)];
}
/// One sentence for a person: what goes wrong and how it shows.
[[nodiscard]] std::string_view description(CacheFault f);

/// What to check. The prompt and the models are those of the run.
struct ExactnessOptions {
    CacheFault fault = CacheFault::none;
    int32_t steps = 32;  ///< cached decode steps that are compared with the naive forward
    bool latency = true; ///< the prefill/decode micro-benchmark as well
    std::vector<int32_t> lengths{16, 64, 256,
                                 1024}; ///< its prompt lengths L; those beyond the context are left out
    int32_t latency_steps = 64;         ///< G
    int32_t repetitions = 5;            ///< median of so many, after 3 warm-ups of a step
    friend bool operator==(const ExactnessOptions&, const ExactnessOptions&) = default;
};

/// {"fault": "stale_cache", "steps": 32, ...}; absent keys keep their defaults. Throws Error{bad_input}.
[[nodiscard]] nlohmann::json to_json(const ExactnessOptions& options);
[[nodiscard]] ExactnessOptions exactness_options_from_json(const nlohmann::json& json,
                                                           const std::string& what);

/// One statement "A equals B" and its result.
struct ExactnessCheck {
    std::string subject; ///< "teacher", "student", "pair"
    std::string name;    ///< "cached = naive", "chunks of 7 = one prefill", ...
    double max_abs =
        0; ///< largest absolute difference of K, V and logits; NaN where something was not finite
    double tolerance = 0; ///< 0: bit for bit
    bool passed = false;
    std::string
        where; ///< of the largest difference: "layer 3, step 17, K" (layers from 0, steps from 1), or what differed
    bool measured = true; ///< false: does not apply here; `where` says why
};

/// Cached against naive per layer and step, row-major [layers][steps].
struct ExactnessMap {
    std::string subject;
    int32_t layers = 0, steps = 0;
    std::vector<float> k, v;         ///< max abs difference of all columns of that layer after that step
    std::vector<float> logits;       ///< [steps]
    std::vector<uint8_t> same_token; ///< [steps] arg max agrees
};

/// Prefill and decode of one prompt length (reference/refresh.md, section 9, "Prefill/decode micro-benchmark").
struct LatencyCurve {
    std::string subject;
    int32_t length = 0;        ///< L
    double prefill_ms = 0;     ///< one prefill of L tokens, median
    std::vector<int32_t> step; ///< t of each entry below
    std::vector<float> naive_ms, cached_ms;
};

struct ExactnessReport {
    ExactnessOptions options;
    std::string device, dtype;
    std::vector<ExactnessCheck> checks;
    std::vector<ExactnessMap> maps;
    std::vector<LatencyCurve> latency;
    std::vector<std::string>
        notes;           ///< what was asked for and cut, because the context is shorter; a line each
    double progress = 0; ///< 0..1; 1 = complete
    [[nodiscard]] bool passed() const {
        for (const ExactnessCheck& check : checks) {
            if (check.measured && !check.passed) return false;
        }
        return true;
    }
};

[[nodiscard]] nlohmann::json to_json(const ExactnessReport& report);
/// Reads what to_json() writes; `progress` is not in it. A difference that was no number is NaN. Throws Error{bad_input}.
[[nodiscard]] ExactnessReport exactness_report_from_json(const nlohmann::json& json, const std::string& what);

} // namespace refreshlab
