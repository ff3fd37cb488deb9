#include "engine/bench/report/bench_report.h"

#include <nlohmann/json.hpp>

namespace refreshlab::bench {

namespace {

using nlohmann::json;

json to_json(const Latency& l) {
    return {{"count", l.count}, {"p50", l.p50}, {"p90", l.p90}, {"p99", l.p99}, {"max", l.max}};
}

json to_json(const PairedCost& c) {
    return {{"pairs", c.pairs},
            {"steps", c.steps},
            {"a_ms", bench::to_json(c.a_ms)},
            {"b_ms", bench::to_json(c.b_ms)},
            {"ratio", bench::to_json(c.ratio)},
            {"overhead_percent", c.overhead_percent()}};
}

json to_json(const Machine& m) {
    return {{"cpu", m.cpu},
            {"system", m.system},
            {"cores", m.cores},
            {"clock_mhz", m.clock_mhz},
            {"memory_bytes", m.memory},
            {"load_before", m.load_before},
            {"load_after", m.load_after}};
}

json to_json(const Setup& s) {
    json versions = json::object();
    for (const auto& [name, version] : s.versions)
        versions[name] = version;
    return {{"date", s.date},     {"commit", s.commit},   {"versions", versions},
            {"device", s.device}, {"dtype", s.dtype},     {"kernels", s.kernels},
            {"mode", s.mode},     {"threads", s.threads}, {"quick", s.quick}};
}

json to_json(const ModelFacts& m) {
    return {{"role", m.role},
            {"path", m.path},
            {"parameters", m.parameters},
            {"layers", m.layers},
            {"kv_heads", m.kv_heads},
            {"head_dim", m.head_dim},
            {"vocab", m.vocab},
            {"weight_bytes_per_token", m.bytes.weights},
            {"refresh_weight_bytes", m.bytes.refresh},
            {"kv_bytes_per_cached_token", m.bytes.kv},
            {"read_gb_per_s", bench::to_json(m.bandwidth)}};
}

json to_json(const FirstToken& f) {
    return {{"mode", f.mode}, {"prompt_tokens", f.prompt}, {"ms", bench::to_json(f.ms)}};
}

json to_json(const DecodeSpeed& d) {
    return {{"mode", d.mode},
            {"prompt_tokens", d.prompt},
            {"tokens", d.tokens},
            {"tokens_per_second", bench::to_json(d.tokens_per_second)},
            {"step_ms", to_json(d.step_ms)},
            {"read_gb_per_s", bench::to_json(d.bandwidth)},
            {"floor_ms", d.floor_ms},
            {"share_of_floor", d.share}};
}

json to_json(const RefreshedRun& r) {
    return {{"prompt_tokens", r.prompt},       {"tokens", r.tokens},       {"every", r.every},
            {"refreshes", r.refreshes},        {"all_ms", to_json(r.all)}, {"plain_ms", to_json(r.plain)},
            {"refresh_ms", to_json(r.refresh)}};
}

json to_json(const ProbeCost& p) {
    json out = to_json(p.cost);
    out["name"] = p.name;
    out["what"] = p.what;
    out["prompt_tokens"] = p.prompt;
    return out;
}

json to_json(const RefreshCost& r) {
    return {{"delta", r.delta},
            {"added_ms", bench::to_json(r.added_ms)},
            {"teacher_ms", bench::to_json(r.teacher_ms)},
            {"splice_ms", bench::to_json(r.splice_ms)},
            {"floor_ms", r.floor_ms}};
}

json to_json(const PolicyCostRow& r) {
    return {
        {"policy", r.policy},
        {"entries", r.entries},
        {"budget", r.budget},
        {"steps", r.steps},
        {"step_ms",
         {{"median", r.step_ms}, {"low", r.step_low_ms}, {"high", r.step_high_ms}, {"mean", r.step_mean_ms}}},
        {"full_step_ms", r.full_step_ms},
        {"attention_ms", r.attention_ms},
        {"full_attention_ms", r.full_attention_ms},
        {"entries_held", r.entries_held},
        {"entries_read", r.entries_read},
        {"cache_bytes", r.cache_bytes},
        {"metadata_bytes", r.metadata_bytes},
        {"index_bytes", r.index_bytes},
        {"scratch_bytes", r.scratch_bytes}};
}

json to_json(const StartUp& s) {
    json parts = json::array();
    for (const auto& [name, ms] : s.parts)
        parts.push_back({{"part", name}, {"ms", bench::to_json(ms)}});
    return {{"total_ms", bench::to_json(s.total_ms)},
            {"parts", parts},
            {"libraries_bytes", bench::to_json(s.libraries_bytes)},
            {"peak_bytes", bench::to_json(s.peak_bytes)},
            {"tokens", s.tokens}};
}

template <typename T>
json list_of(const std::vector<T>& values) {
    json out = json::array();
    for (const T& value : values)
        out.push_back(to_json(value));
    return out;
}

template <typename T>
json or_null(const std::optional<T>& value) {
    return value ? to_json(*value) : json(nullptr);
}

} // namespace

json to_json(const Spread& s) {
    return {{"count", s.count}, {"median", s.median}, {"low", s.low},
            {"high", s.high},   {"min", s.min},       {"max", s.max}};
}

json to_json(const BenchReport& report, const json& frames) {
    return {{"format", "refreshlab-bench"},
            {"version", 1},
            {"machine", to_json(report.machine)},
            {"setup", to_json(report.setup)},
            {"models", list_of(report.models)},
            {"noise", or_null(report.noise)},
            {"first_token", list_of(report.first_token)},
            {"decode", list_of(report.decode)},
            {"refreshed_run", or_null(report.refreshed)},
            {"probes", list_of(report.probes)},
            {"refresh", list_of(report.refresh)},
            {"cache_policies", list_of(report.cache_policies)},
            {"start_up", or_null(report.start_up)},
            {"ui_frames", frames},
            {"notes", report.notes}};
}

} // namespace refreshlab::bench
