#pragma once

#include <nlohmann/json_fwd.hpp>

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

namespace refreshlab {

/// The columns of a sweep, each once, in the order of tables. Definitions: docs/reference/summary.md (they are the summary of the
/// run, so live, `run` and `sweep` give one number) and reference/refresh.md, section 7.
enum class Metric : uint8_t {
    teacher_ppl,
    tail_logprob,
    repetition3,
    characters,
    tokens,
    refreshes,
    teacher_passes,
    teacher_tokens,
    agreement,
    top1_hit,
    task_score,
    mean_entropy_bits,
    ttft_ms,
    decode_tps,
    total_s,
    end_to_end_tps,
    overhead_percent, ///< not of a run but of a pair of runs: see sweep_table.h
    draft_acceptance, ///< of policies that verify, as the next
    tokens_per_pass,
    bytes_sent, ///< by refreshes
};
inline constexpr size_t num_metrics = 20;

enum class Better : uint8_t { lower, higher, neither };

struct MetricInfo {
    std::string_view name;  ///< column of CSV and database
    std::string_view label; ///< for people, with the unit
    std::string_view
        summary; ///< key in the summary of a run, or a path to it ("/drafts/acceptance"); empty: not of one run
    /// Wall-clock: differs from run to run. All others are the same bits on every run of the same device kind.
    bool measured = false;
    Better better = Better::neither;
    int decimals = 3; ///< in Markdown

    /// A database has a column of it. One with a path came later, and is read from the summary that stands there.
    [[nodiscard]] constexpr bool has_column() const { return !summary.empty() && summary.front() != '/'; }
};

inline constexpr std::array<MetricInfo, num_metrics> metric_infos = {{
    {"teacher_ppl", "teacher-PPL", "teacher_ppl", false, Better::lower, 3},
    {"tail_logprob", "tail log-prob (nats/token)", "tail_logprob", false, Better::higher, 3},
    {"repetition3", "repetition@3", "repetition3", false, Better::lower, 3},
    {"characters", "characters", "characters", false, Better::neither, 1},
    {"tokens", "tokens", "tokens", false, Better::neither, 1},
    {"refreshes", "refreshes", "refresh_count", false, Better::lower, 2},
    {"teacher_passes", "teacher passes", "teacher_passes", false, Better::lower, 2},
    {"teacher_tokens", "teacher tokens", "teacher_tokens", false, Better::lower, 1},
    {"agreement", "agreement", "agreement", false, Better::higher, 3},
    {"top1_hit", "first choices", "top1_hit", false, Better::higher, 3},
    {"task_score", "task score", "task_score", false, Better::higher, 3},
    {"mean_entropy_bits", "entropy (bits)", "mean_entropy_bits", false, Better::neither, 3},
    {"ttft_ms", "TTFT (ms)", "ttft_ms", true, Better::lower, 2},
    {"decode_tps", "decode TPS", "decode_tps", true, Better::higher, 1},
    {"total_s", "total (s)", "total_s", true, Better::lower, 3},
    {"end_to_end_tps", "end-to-end TPS", "end_to_end_tps", true, Better::higher, 1},
    {"overhead_percent", "overhead (%)", "", true, Better::lower, 1},
    {"draft_acceptance", "draft acceptance", "/drafts/acceptance", false, Better::higher, 3},
    {"tokens_per_pass", "tokens a pass", "/drafts/tokens_per_pass", false, Better::higher, 2},
    {"bytes_sent", "bytes sent", "/bytes_sent", false, Better::lower, 0},
}};

[[nodiscard]] constexpr const MetricInfo& metric_info(Metric metric) {
    return metric_infos[static_cast<size_t>(metric)];
}

/// One run's values; nothing where the run has none.
using MetricValues = std::array<std::optional<double>, num_metrics>;
[[nodiscard]] inline std::optional<double>& value_of(MetricValues& values, Metric metric) {
    return values[static_cast<size_t>(metric)];
}
[[nodiscard]] inline const std::optional<double>& value_of(const MetricValues& values, Metric metric) {
    return values[static_cast<size_t>(metric)];
}

/// Read from summary_json() (engine/record/export/export.h).
[[nodiscard]] MetricValues metrics_of(const nlohmann::json& summary);

} // namespace refreshlab
