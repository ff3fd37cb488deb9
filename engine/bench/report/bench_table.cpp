#include "engine/bench/report/bench_report.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <filesystem>

namespace refreshlab::bench {

namespace {

/// "0.812 (0.80 .. 0.83)": the median, and the quartiles around it.
std::string with_spread(const Spread& s, int digits) {
    return fmt::format("{:.{}f} ({:.{}f} .. {:.{}f})", s.median, digits, s.low, digits, s.high, digits);
}

std::string percent(const PairedCost& c) {
    return fmt::format("{:+.1f} % ({:+.1f} .. {:+.1f})", c.overhead_percent(), (c.ratio.low - 1) * 100,
                       (c.ratio.high - 1) * 100);
}

std::string megabytes(double bytes) {
    return fmt::format("{:.1f} MB", bytes * 1e-6);
}

std::string head(const BenchReport& r) {
    std::string text = fmt::format("{} | {} cores, {} threads | {} | {}{}\n", r.machine.cpu, r.machine.cores,
                                   r.setup.threads, r.machine.system, r.setup.date,
                                   r.setup.quick ? " | quick: too short to be quoted" : "");
    text += fmt::format("device {}, dtype {}, kernels {}, mode {}", r.setup.device, r.setup.dtype,
                        r.setup.kernels, r.setup.mode);
    for (const auto& [name, version] : r.setup.versions)
        text += fmt::format(", {} {}", name, version);
    text += fmt::format(", commit {}\nload of the machine (1 = one core): {:.2f} before, {:.2f} after\n",
                        r.setup.commit.empty() ? "not known" : r.setup.commit, r.machine.load_before,
                        r.machine.load_after);
    return text + "Medians; in brackets the quartiles.\n";
}

std::string models(const BenchReport& r) {
    if (r.models.empty()) return {};
    std::string text = fmt::format("\n{:<9} {:>9} {:>14} {:>14} {:>12}   {}\n", "model", "params",
                                   "bytes/token", "refresh bytes", "KV B/token", "read GB/s at that size");
    for (const ModelFacts& m : r.models)
        text += fmt::format("{:<9} {:>8.1f}M {:>14} {:>14} {:>12}   {}  {}\n", m.role,
                            static_cast<double>(m.parameters) * 1e-6,
                            megabytes(static_cast<double>(m.bytes.weights)),
                            megabytes(static_cast<double>(m.bytes.refresh)), m.bytes.kv,
                            with_spread(m.bandwidth, 1), std::filesystem::path(m.path).filename().string());
    return text;
}

std::string noise(const BenchReport& r) {
    if (!r.noise) return {};
    return fmt::format("\nnoise: the same decode twice, in turns: {} over {} pairs of {} steps. What is "
                       "smaller is noise.\n",
                       percent(*r.noise), r.noise->pairs, r.noise->steps);
}

std::string first_token(const BenchReport& r) {
    if (r.first_token.empty()) return {};
    std::string text = fmt::format("\n{:<24} {:<9} {:>7}   {}\n", "first token", "mode", "prompt", "ms");
    for (const FirstToken& f : r.first_token)
        text += fmt::format("{:<24} {:<9} {:>7}   {}\n", "", f.mode, f.prompt, with_spread(f.ms, 2));
    return text;
}

std::string decode(const BenchReport& r) {
    if (r.decode.empty()) return {};
    std::string text =
        fmt::format("\n{:<9} {:>7} {:>7} {:>28} {:>8} {:>8} {:>8} {:>8}  {:>8} {:>6}\n", "decode", "prompt",
                    "tokens", "tokens/s", "p50 ms", "p90", "p99", "max", "floor ms", "share");
    for (const DecodeSpeed& d : r.decode)
        text +=
            fmt::format("{:<9} {:>7} {:>7} {:>28} {:>8.3f} {:>8.3f} {:>8.3f} {:>8.3f}  {:>8.3f} {:>4.0f} %\n",
                        d.mode, d.prompt, d.tokens, with_spread(d.tokens_per_second, 1), d.step_ms.p50,
                        d.step_ms.p90, d.step_ms.p99, d.step_ms.max, d.floor_ms, d.share * 100);
    return text;
}

std::string refreshed(const BenchReport& r) {
    if (!r.refreshed) return {};
    const RefreshedRun& run = *r.refreshed;
    std::string text = fmt::format("\n{:<32} {:>7} {:>8} {:>8} {:>8} {:>8}\n",
                                   fmt::format("inter-token, refresh every {}", run.every), "steps", "p50 ms",
                                   "p90", "p99", "max");
    const std::pair<const char*, const Latency&> rows[] = {
        {"all steps", run.all}, {"without a refresh", run.plain}, {"with a refresh", run.refresh}};
    for (const auto& [name, l] : rows)
        text += fmt::format("{:<32} {:>7} {:>8.3f} {:>8.3f} {:>8.3f} {:>8.3f}\n", name, l.count, l.p50, l.p90,
                            l.p99, l.max);
    return text;
}

std::string probes(const BenchReport& r) {
    if (r.probes.empty()) return {};
    std::string text = fmt::format("\n{:<20} {:>7} {:>6} {:>10} {:>10}   {:<28} {}\n", "probe", "prompt",
                                   "pairs", "without ms", "with ms", "adds to a step", "what");
    for (const ProbeCost& p : r.probes)
        text += fmt::format("{:<20} {:>7} {:>6} {:>10.3f} {:>10.3f}   {:<28} {}\n", p.name, p.prompt,
                            p.cost.pairs, p.cost.a_ms.median, p.cost.b_ms.median, percent(p.cost), p.what);
    return text;
}

std::string refresh(const BenchReport& r) {
    if (r.refresh.empty()) return {};
    std::string text = fmt::format("\n{:<14} {:>26} {:>12} {:>10} {:>10} {:>10}\n", "refresh, delta",
                                   "added ms", "teacher ms", "splice ms", "floor ms", "ms/token");
    for (const RefreshCost& c : r.refresh)
        text += fmt::format("{:<14} {:>26} {:>12.3f} {:>10.3f} {:>10.3f} {:>10.4f}\n", c.delta,
                            with_spread(c.added_ms, 3), c.teacher_ms.median, c.splice_ms.median, c.floor_ms,
                            c.added_ms.median / static_cast<double>(c.delta));
    return text;
}

std::string cache_policies(const BenchReport& r) {
    if (r.cache_policies.empty()) return {};
    std::string text =
        fmt::format("\n{:<16} {:>8} {:>8} {:>22} {:>10} {:>13} {:>13} {:>8} {:>11}\n", "cache policy",
                    "entries", "budget", "step ms", "full ms", "attention ms", "full's ms", "read", "bytes");
    for (const PolicyCostRow& c : r.cache_policies)
        text += fmt::format(
            "{:<16} {:>8} {:>8} {:>22} {:>10.2f} {:>13.2f} {:>13.2f} {:>8.0f} {:>11}\n", c.policy, c.entries,
            c.budget, fmt::format("{:.2f} ({:.2f} .. {:.2f})", c.step_ms, c.step_low_ms, c.step_high_ms),
            c.full_step_ms, c.attention_ms, c.full_attention_ms, c.entries_read,
            megabytes(static_cast<double>(c.cache_bytes + c.index_bytes)));
    return text + "two layers of a model of 10^9 random weights, one thread of work at a time; full: the "
                  "steps between that "
                  "read everything\n";
}

std::string start_up(const BenchReport& r) {
    if (!r.start_up) return {};
    const StartUp& s = *r.start_up;
    std::string text = fmt::format("\nstart-up: process to first token {} ms, {} starts\n",
                                   with_spread(s.total_ms, 1), s.total_ms.count);
    for (const auto& [name, ms] : s.parts)
        text += fmt::format("    {:<44} {:>24} ms\n", name, with_spread(ms, 1));
    return text + fmt::format("memory (VmHWM): {} when main begins, {} at most in a run of {} tokens\n",
                              megabytes(s.libraries_bytes.median), megabytes(s.peak_bytes.median), s.tokens);
}

std::string ui_frames(const nlohmann::json& frames) {
    if (!frames.is_array() || frames.empty()) return {};
    std::string text = fmt::format("\n{:<14} {:<8} {:>8} {:>10} {:>8} {:>20}\n", "window frame", "cache",
                                   "steps", "median ms", "p99", "without a new step");
    for (const nlohmann::json& f : frames)
        text += fmt::format("{:<14} {:<8} {:>8} {:>10.2f} {:>8.2f} {:>20.2f}\n", f.value("layout", ""),
                            f.value("cache_policy", "full"), f.value("steps", int64_t{0}),
                            f.value("ms_median", 0.0), f.value("ms_p99", 0.0),
                            f.value("ms_median_without_a_new_step", 0.0));
    return text;
}

} // namespace

std::string bench_table(const BenchReport& report, const nlohmann::json& frames) {
    std::string text = head(report);
    for (const auto part :
         {models, noise, first_token, decode, refreshed, probes, refresh, cache_policies, start_up})
        text += part(report);
    text += ui_frames(frames);
    for (const std::string& note : report.notes)
        text += fmt::format("\nnote: {}", note);
    return text + (report.notes.empty() ? "" : "\n");
}

} // namespace refreshlab::bench
