#include "engine/base/bytes_text.h"
#include "engine/base/json_text.h"
#include "engine/record/export/divergence.h"
#include "engine/record/export/draft_numbers.h"
#include "engine/record/export/export.h"
#include "engine/record/export/metrics.h"
#include "engine/text/utf8.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <string_view>
#include <utility>

namespace refreshlab {

namespace {

using json = nlohmann::json;

/// JSON has no NaN or infinity: what cannot be written as a number is null.
json number_or_null(double value) {
    return std::isfinite(value) ? json(value) : json(nullptr);
}
json number_or_null(const std::optional<double>& value) {
    return value ? number_or_null(*value) : json(nullptr);
}
json number_or_null(float value) {
    return number_or_null(static_cast<double>(value));
} // absent() is a NaN

/// When y_N was known, ms since submit; nothing before y_1 was chosen.
std::optional<double> last_arrival_ms(const Recording& r, int64_t n) {
    if (n < 1) return std::nullopt;
    return n == 1 ? r.info().ttft_ms : r.step(n - 1).arrival_ms; // record t ends when y_{t+1} is known
}

/// Over the steps where a signal was measured and finite.
struct SignalMean {
    double sum = 0;
    int64_t count = 0;
    [[nodiscard]] std::optional<double> value() const {
        return count > 0 ? std::optional(sum / static_cast<double>(count)) : std::nullopt;
    }
};

SignalMean signal_mean(const Recording& r, std::string_view name) {
    SignalMean mean;
    const auto id = r.signal_id(name);
    if (!id) return mean;
    for (int64_t t = 1, n = r.steps(); t <= n; ++t) {
        const float value = r.signal(t, *id);
        if (!std::isfinite(value)) continue; // absent or not a number
        mean.sum += static_cast<double>(value);
        ++mean.count;
    }
    return mean;
}

json refresh_json(const RefreshEvent& e) {
    return {{"step", e.step},
            {"fired_step", e.fired_step},
            {"reason", reason_text(e.hits)},
            {"automatic", e.automatic},
            {"delta", e.delta},
            {"spliced", e.spliced},
            {"first_pos", e.first_pos},
            {"bytes_sent", e.bytes_sent ? json(*e.bytes_sent) : json(nullptr)},
            {"pass_tokens", e.pass_tokens},
            {"on_fire", to_string(e.on_fire)},
            {"token_before", e.token_before},
            {"token_after", e.token_after},
            {"kl_nats", number_or_null(e.kl_nats)},
            {"mean_drift", number_or_null(e.mean_drift)},
            {"teacher_ms", number_or_null(e.teacher_ms)},
            {"splice_ms", number_or_null(e.splice_ms)},
            {"redraw_ms", e.on_fire == OnFire::keep ? json(nullptr) : number_or_null(e.redraw_ms)}};
}

/// One value for the table: numbers short, "-" where there is none.
std::string cell(const json& value) {
    if (value.is_null()) return "-";
    if (value.is_string()) return visible_text(value.get_ref<const std::string&>());
    if (value.is_number_float()) return fmt::format("{:.4g}", value.get<double>());
    return json_text(value);
}

/// "4, 1.2 MB sent"
std::string refreshes_text(const json& summary) {
    const json &count = summary.at("refresh_count"), &sent = summary.at("bytes_sent");
    if (sent.is_null() || sent == 0) return cell(count);
    return fmt::format("{}, {} sent", cell(count), bytes_text(sent.get<int64_t>()));
}

/// "derived: 3-bit g32 (bits=3,group=32); 424.7 MB of its own, 113.2 MB shared; 80.0 MB of weights a token, the teacher 269.0"
std::string derived_line(const DerivedFacts& facts) {
    const auto megabytes = [](int64_t bytes) { return static_cast<double>(bytes) / 1e6; };
    return visible_text(fmt::format(
        "{}: {}, {:.1f} MB of its own, {:.1f} MB the teacher's; weights per token {:.1f} MB, of the "
        "teacher {:.1f} MB (rounded ones as said, others in 16 bits)",
        derive_name(facts.spec), derivation_path(facts.spec), megabytes(facts.own_bytes),
        megabytes(facts.shared_bytes), megabytes(facts.token_bytes), megabytes(facts.teacher_token_bytes)));
}

/// "30 of 96 tokens; 71 of 83 judged stay (0.855, expected 0.861); 2.7 tokens a pass, 1.6 times as fast, 1.7 predicted"
std::string drafts_line(const json& drafts) {
    return fmt::format("{} of {} tokens; {} of {} judged stay ({}, expected {}); {} tokens a pass, {} times "
                       "as fast as a pass for each, {} predicted",
                       cell(drafts.at("drafts")), cell(drafts.at("drafted")), cell(drafts.at("accepted")),
                       cell(drafts.at("judged")), cell(drafts.at("acceptance")),
                       cell(drafts.at("expected_acceptance")), cell(drafts.at("tokens_per_pass")),
                       cell(drafts.at("speed_up")), cell(drafts.at("predicted_speed_up")));
}

} // namespace

std::optional<int64_t> bytes_sent(const Recording& recording) {
    int64_t sum = 0;
    for (size_t i = 0, n = recording.refreshes().size(); i < n; ++i) {
        const std::optional<int64_t>& sent = recording.refreshes()[i].bytes_sent;
        if (!sent) return std::nullopt;
        sum += *sent;
    }
    return sum;
}

std::string generated_text(const Recording& recording) {
    return joined_text(recording.tokens(), recording.info().text_rule, recording.token_ids());
}

json summary_json(const Recording& recording) {
    const RunInfo& info = recording.info();
    const auto end = recording.end();
    const auto ids = recording.token_ids();
    const auto n = static_cast<int64_t>(ids.size());
    const std::string text = generated_text(recording);

    json refreshes = json::array();
    int64_t refresh_count = 0;
    for (size_t i = 0, count = recording.refreshes().size(); i < count; ++i) {
        const RefreshEvent& e = recording.refreshes()[i];
        refreshes.push_back(refresh_json(e));
        if (e.spliced >= 1) ++refresh_count;
    }
    const std::optional<int64_t> sent = bytes_sent(recording);
    int64_t teacher_tokens = 0;
    const size_t passes = recording.passes().size();
    for (size_t i = 0; i < passes; ++i)
        teacher_tokens += recording.passes()[i].tokens;

    const auto last_ms = last_arrival_ms(recording, n);
    const std::optional<double> total_ms = end && end->total_ms > 0 ? std::optional(end->total_ms) : last_ms;
    std::optional<double> decode_tps, end_to_end_tps;
    if (n >= 2 && *last_ms > info.ttft_ms) {
        decode_tps = 1000.0 * static_cast<double>(n - 1) / (*last_ms - info.ttft_ms);
    }
    if (n >= 1 && total_ms && *total_ms > 0) end_to_end_tps = 1000.0 * static_cast<double>(n) / *total_ms;

    const SignalMean task = signal_mean(recording, "task_score");
    const Divergence divergence = divergence_of(recording);
    const std::optional<DraftNumbers> drafts = draft_numbers(recording);
    json versions = json::object();
    for (const auto& [name, version] : info.versions)
        versions[name] = version;
    json published = json::object();
    for (const PublishedSignal& signal : info.published_signals)
        published[signal.name] = number_or_null(signal_mean(recording, signal.name).value());

    return {{"run", info.id},
            {"mode", to_string(info.config.mode)},
            {"policy", info.config.policy.name},
            {"policy_settings", policy_to_json(info.config.policy)},
            {"prompt_tokens", recording.prompt_length()},
            {"tokens", n},
            {"text", text},
            {"characters", count_code_points(text)},
            {"stop_reason", end ? json(end->stop_reason) : json(nullptr)},
            {"refreshes", std::move(refreshes)},
            {"refresh_count", refresh_count},
            {"bytes_sent", sent ? json(*sent) : json(nullptr)},
            {"teacher_passes", passes},
            {"teacher_tokens", teacher_tokens},
            {"ttft_ms", n >= 1 ? number_or_null(info.ttft_ms) : json(nullptr)},
            {"prefill_ms", number_or_null(info.prefill_ms)},
            {"decode_tps", number_or_null(decode_tps)},
            {"end_to_end_tps", number_or_null(end_to_end_tps)},
            {"total_s", total_ms ? number_or_null(*total_ms / 1000.0) : json(nullptr)},
            {"mean_entropy_bits", number_or_null(signal_mean(recording, "entropy_bits").value())},
            {"agreement", number_or_null(signal_mean(recording, "teacher_agreement").value())},
            {"top1_hit", number_or_null(signal_mean(recording, "top1_hit").value())},
            {"task_score", number_or_null(task.value())},
            {"task_tokens", task.count},
            {"teacher_ppl", number_or_null(end ? end->teacher_ppl : std::nullopt)},
            {"tail_logprob", number_or_null(end ? end->tail_logprob : std::nullopt)},
            {"kl_rows", divergence.kl_rows},
            {"kl_mean", number_or_null(divergence.kl_mean)},
            {"kl_median", number_or_null(divergence.kl_median)},
            {"kl_p90", number_or_null(divergence.kl_p90)},
            {"kl_p99", number_or_null(divergence.kl_p99)},
            {"kl_max", number_or_null(divergence.kl_max)},
            {"same_top1", number_or_null(divergence.same_top1)},
            {"acceptance", number_or_null(divergence.acceptance)},
            {"acceptance_low", number_or_null(divergence.acceptance_low)},
            {"acceptance_high", number_or_null(divergence.acceptance_high)},
            {"tokens_per_verify",
             divergence.tokens_per_verify ? json(*divergence.tokens_per_verify) : json(nullptr)},
            {"student_ppl", number_or_null(divergence.student_ppl)},
            {"ppl_ratio", number_or_null(divergence.ppl_ratio)},
            {"repetition3", repetition3(ids)},
            {"device", info.device},
            {"dtype", info.dtype},
            {"kernel_set", info.kernel_set},
            {"threads", info.threads},
            {"seed", info.config.seed},
            {"started_at", info.started_at},
            {"rebuild", info.rebuild},
            {"note", info.note},
            {"student", info.config.student_dir},
            {"derived", info.derived ? to_json(*info.derived) : json(nullptr)},
            {"published_means", std::move(published)},
            {"drafts", drafts ? to_json(*drafts) : json(nullptr)},
            {"versions", std::move(versions)}};
}

namespace {

std::vector<SummaryLine> lines_of(const json& summary, const Recording& recording) {
    struct Row {
        const char *key, *label, *unit;
    };
    constexpr Row rows[] = {
        {"mode", "mode", ""},
        {"policy", "policy", ""},
        {"prompt_tokens", "prompt", "tokens"},
        {"tokens", "generated", "tokens"},
        {"characters", "characters", ""},
        {"stop_reason", "stopped by", ""},
        {"refresh_count", "refreshes", ""},
        {"teacher_passes", "teacher passes", ""},
        {"teacher_tokens", "read by the teacher", "tokens"},
        {"ttft_ms", "time to first token", "ms"},
        {"decode_tps", "decode", "tokens/s"},
        {"end_to_end_tps", "end to end", "tokens/s"},
        {"total_s", "total", "s"},
        {"mean_entropy_bits", "mean entropy", "bits"},
        {"teacher_ppl", "teacher perplexity", ""},
        {"tail_logprob", "tail log-probability", "nats/token"},
        {"kl_mean", "mean KL", "nats"},
        {"kl_p99", "KL, 99 %", "nats"},
        {"same_top1", "same first choice", ""},
        {"acceptance", "acceptance", ""},
        {"repetition3", "repetition@3", ""},
        {"agreement", "teacher's first choices", ""},
        {"task_score", "task score", ""},
        {"device", "device", ""},
        {"dtype", "dtype", ""},
        {"kernel_set", "kernels", ""},
        {"threads", "threads", ""},
        {"seed", "seed", ""},
    };
    std::vector<SummaryLine> lines;
    if (recording.info().derived) lines.push_back({"student", derived_line(*recording.info().derived)});
    for (const Row& row : rows) {
        const json& value = summary.at(row.key);
        const bool refreshes = std::string_view(row.key) == "refresh_count";
        std::string text = refreshes ? refreshes_text(summary) : cell(value);
        if (!value.is_null() && *row.unit != '\0') text += fmt::format(" {}", row.unit);
        lines.push_back({row.label, std::move(text)});
    }
    if (const json& drafts = summary.at("drafts"); !drafts.is_null())
        lines.push_back({"drafts", drafts_line(drafts)});
    return lines;
}

} // namespace

std::vector<SummaryLine> summary_lines(const Recording& recording) {
    return lines_of(summary_json(recording), recording);
}

std::string summary_table(const Recording& recording) {
    const json summary = summary_json(recording);
    const std::vector<SummaryLine> lines = lines_of(summary, recording);
    size_t width = 0;
    for (const SummaryLine& line : lines)
        width = std::max(width, line.label.size());
    std::string table;
    for (const SummaryLine& line : lines)
        table += fmt::format("{:<{}}  {}\n", line.label, width, line.value);
    const json& refreshes = summary.at("refreshes");
    if (refreshes.empty()) return table;
    constexpr auto line = "{:>6}  {:<24} {:>6} {:>8} {:>11} {:>10}\n";
    table += "\n" + fmt::format(line, "step", "reason", "delta", "spliced", "teacher ms", "splice ms");
    for (const json& e : refreshes) {
        table += fmt::format(line, cell(e.at("step")), cell(e.at("reason")), cell(e.at("delta")),
                             cell(e.at("spliced")), cell(e.at("teacher_ms")), cell(e.at("splice_ms")));
    }
    return table;
}

} // namespace refreshlab
