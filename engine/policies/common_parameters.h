#pragma once

#include "engine/policies/cache_method.h"

#include <algorithm>
#include <utility>

/// Parameters that several methods share: the same words and ranges everywhere, a default of one's own.
namespace refreshlab::cache_parameters {

[[nodiscard]] inline CacheParameter whole(std::string_view key, std::string_view label, std::string_view unit,
                                          std::string_view help, double min, double max, double fallback) {
    CacheParameter p;
    p.key = key;
    p.label = label;
    p.unit = unit;
    p.help = help;
    p.min = p.slider_min = min;
    p.max = max;
    p.slider_max = std::min(max, 4 * std::max(fallback, 1.0));
    p.fallback = fallback;
    return p;
}
[[nodiscard]] inline CacheParameter real(std::string_view key, std::string_view label, std::string_view unit,
                                         std::string_view help, double min, double max, double fallback) {
    CacheParameter p = whole(key, label, unit, help, min, max, fallback);
    p.kind = CacheParameter::Kind::real;
    p.slider_max = max;
    return p;
}
[[nodiscard]] inline CacheParameter flag(std::string_view key, std::string_view label, std::string_view help,
                                         bool fallback) {
    CacheParameter p = whole(key, label, "", help, 0, 1, fallback ? 1 : 0);
    p.kind = CacheParameter::Kind::boolean;
    p.slider_max = 1;
    return p;
}
[[nodiscard]] inline CacheParameter choice(std::string_view key, std::string_view label,
                                           std::string_view help, std::vector<std::string_view> choices,
                                           double fallback) {
    CacheParameter p = whole(key, label, "", help, 0, static_cast<double>(choices.size()) - 1, fallback);
    p.kind = CacheParameter::Kind::choice;
    p.slider_max = p.max;
    p.choices = std::move(choices);
    return p;
}

/// The same, and it may change between two steps.
[[nodiscard]] inline CacheParameter live(CacheParameter parameter) {
    parameter.live = true;
    return parameter;
}

inline constexpr double most_entries = 1 << 24; ///< longer than any context

[[nodiscard]] inline CacheParameter budget(double fallback = 1024) {
    return whole("budget", "Budget", "entries", "Entries that a KV head of a layer keeps.", 1, most_entries,
                 fallback);
}
[[nodiscard]] inline CacheParameter buffer() {
    return whole("buffer", "Buffer", "entries", "Entries leave once so many stand above the budget.", 1,
                 65536, 1);
}
[[nodiscard]] inline CacheParameter window(double fallback = 32) {
    return whole("window", "Observation window", "tokens",
                 "The last prompt tokens whose attention scores the others; they stay themselves.", 1, 4096,
                 fallback);
}
[[nodiscard]] inline CacheParameter kernel(double fallback = 7) {
    return whole("kernel", "Pooling kernel", "tokens",
                 "Scores are pooled over so many neighbours; odd, 1 = not pooled.", 1, 127, fallback);
}
[[nodiscard]] inline CacheParameter pool(double fallback = 0) {
    return choice("pool", "Pooling", "How neighbouring scores are pooled.", {"max", "mean"}, fallback);
}
[[nodiscard]] inline CacheParameter group(double fallback = 1) {
    return choice("group", "Group reduction", "How the query heads of a KV head become one score.",
                  {"max", "mean", "first"}, fallback);
}
[[nodiscard]] inline CacheParameter per_query_head() {
    return flag("compat_per_query_head", "Per query head",
                "Keys and values are held for every query head, and each selects for itself, as the first "
                "implementations do; the cache is as many times larger.",
                false);
}

[[nodiscard]] inline CacheParameter recent() {
    return real("recent", "Recent share", "", "The part of the budget that the newest entries have.", 0, 1,
                0.5);
}
[[nodiscard]] inline CacheParameter sinks() {
    return whole("sinks", "Sinks", "entries", "The first tokens, which never leave.", 0, 4096, 4);
}
[[nodiscard]] inline CacheParameter profile_queries(double fallback) {
    return whole(
        "profile_queries", "Profile queries", "tokens",
        "The prompt's last tokens, on whose queries it is chosen in which channels entries are compared.", 1,
        4096, fallback);
}
[[nodiscard]] inline CacheParameter dense_layers() {
    return whole("dense_layers", "Dense layers", "layers", "The first layers, which read everything.", 0,
                 4096, 2);
}

[[nodiscard]] inline CacheParameter interval(double fallback) {
    return whole("interval", "Interval", "steps", "Entries leave every so many steps.", 1, 65536, fallback);
}
[[nodiscard]] inline CacheParameter bits(double fallback) {
    return whole("bits", "Bits", "bits", "Of a number that is stored as a code.", 2, 8, fallback);
}
[[nodiscard]] inline CacheParameter group_size() {
    return whole("group_size", "Group size", "numbers", "Numbers that share a scale.", 1, 4096, 32);
}
[[nodiscard]] inline CacheParameter residual(double fallback) {
    return whole("residual", "Residual", "tokens", "So many of the newest tokens keep their numbers.", 1,
                 most_entries, fallback);
}

/// \param of_decoder  it is asked what the model that decodes does
[[nodiscard]] inline CacheFile gate_file(bool of_decoder = false) {
    return {"gate", "Gate",
            "The trained gate (refreshlab train-gate) of the model that reads the prompt, of lookahead_kv of "
            "the one that decodes; none: the one that lies beside the model.",
            CacheFile::Kind::gate, of_decoder};
}
[[nodiscard]] inline CacheFile step_gate_file() {
    return {"step_gate", "Gate of steps",
            "In mode overfill, where another model reads the prompt: the trained gate of the student, which "
            "decodes; none: the one that lies beside it.",
            CacheFile::Kind::gate, true};
}
[[nodiscard]] inline CacheFile profile_file() {
    return {"profile", "Profile",
            "What was measured of the model that reads the prompt (refreshlab profile); none: what lies "
            "beside the model.",
            CacheFile::Kind::profile};
}

} // namespace refreshlab::cache_parameters
