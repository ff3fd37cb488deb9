#include "engine/results/scope_map.h"

#include "engine/base/check.h"

#include <fmt/format.h>

#include <array>

namespace refreshlab {

namespace {

constexpr std::array<std::string_view, num_scope_kinds> kind_names = {"half", "layer", "layer_half", "head",
                                                                      "block"};

/// sum(parts) / sum(wholes) where that is a share.
std::optional<GainShare> share_of(const std::vector<double>& parts, const std::vector<double>& wholes,
                                  const BootstrapOptions& options) {
    double part = 0, whole = 0;
    for (size_t i = 0; i < parts.size(); ++i) {
        part += parts[i];
        whole += wholes[i];
    }
    if (!(whole > 0)) return std::nullopt;
    return GainShare{part / whole, bootstrap_share(parts, wholes, options)};
}

std::vector<double> gains(const ScopeMap& map) {
    std::vector<double> all;
    for (const ScopeMap::Refresh& refresh : map.refreshes)
        all.push_back(refresh.gain());
    return all;
}

} // namespace

std::string_view to_string(ScopePart::Kind kind) {
    return kind_names[static_cast<size_t>(kind)];
}

double ScopeMap::mean_delta() const {
    double sum = 0;
    for (const Refresh& refresh : refreshes)
        sum += static_cast<double>(refresh.delta);
    return refreshes.empty() ? 0 : sum / static_cast<double>(refreshes.size());
}

double ScopeMap::bytes_of(const ScopePart& part) const {
    const auto heads = static_cast<double>((part.layer < 0 ? layers : 1) * (part.kv_head < 0 ? kv_heads : 1));
    double positions = mean_delta();
    if (part.block >= 0) {
        positions = 0;
        for (const Refresh& r : refreshes) // as the readings cut delta
            positions +=
                static_cast<double>((part.block + 1) * r.delta / blocks - part.block * r.delta / blocks);
        positions /= static_cast<double>(refreshes.size());
    }
    return heads * positions * static_cast<double>(entry_bytes) / (part.parts == ScopeParts::both ? 1 : 2);
}

MeanGain mean_gain(const ScopeMap& map, const std::vector<double>& losses, const BootstrapOptions& options) {
    RL_ASSERT(losses.size() == map.refreshes.size() && !losses.empty());
    std::vector<double> gained;
    for (size_t i = 0; i < losses.size(); ++i)
        gained.push_back(map.refreshes[i].none - losses[i]);
    return {*mean(gained), bootstrap_mean(gained, options)};
}

std::optional<GainShare> gain_share(const ScopeMap& map, const std::vector<double>& losses,
                                    const BootstrapOptions& options) {
    RL_ASSERT(losses.size() == map.refreshes.size());
    std::vector<double> parts;
    for (size_t i = 0; i < losses.size(); ++i)
        parts.push_back(map.refreshes[i].none - losses[i]);
    return share_of(parts, gains(map), options);
}

std::optional<GainShare> lost_share(const ScopeMap& map, const std::vector<double>& losses,
                                    const BootstrapOptions& options) {
    RL_ASSERT(losses.size() == map.refreshes.size());
    std::vector<double> parts;
    for (size_t i = 0; i < losses.size(); ++i)
        parts.push_back(losses[i] - map.refreshes[i].whole);
    return share_of(parts, gains(map), options);
}

std::optional<size_t> heads_for(const ScopeMap& map, double share) {
    for (size_t n = 0; n < map.taken.size(); ++n) {
        const auto reached = gain_share(map, map.taken[n].loss, {.resamples = 1});
        if (reached && reached->share >= share) return n + 1;
    }
    return std::nullopt;
}

RefreshScope scope_of_taken(const ScopeMap& map, size_t n) {
    RL_ASSERT(n <= map.taken.size() && n > 0);
    std::vector<uint8_t> heads(static_cast<size_t>(map.layers * map.kv_heads), 0);
    for (size_t i = 0; i < n; ++i)
        heads[static_cast<size_t>(map.taken[i].layer * map.kv_heads + map.taken[i].kv_head)] = 1;
    return scope_of_heads(heads, map.layers, map.kv_heads);
}

std::string scope_flags(const RefreshScope& scope) {
    std::string flags;
    const auto add = [&](std::string_view key, std::string_view value) {
        flags += fmt::format("{}--set {}={}", flags.empty() ? "" : " ", key, value);
    };
    if (!scope.layers.empty()) add("refresh.layers", to_text(scope.layers));
    if (!scope.kv_heads.empty()) add("refresh.kv_heads", to_text(scope.kv_heads));
    if (scope.parts != ScopeParts::both) add("refresh.parts", to_string(scope.parts));
    if (scope.positions == ScopePositions::all) return flags;
    add("refresh.positions", to_string(scope.positions));
    add("refresh.count", fmt::format("{}", scope.count));
    return flags;
}

} // namespace refreshlab
