#include "ui/scene/landscape/scope_grid.h"

#include "engine/base/check.h"
#include "ui/base/value_format.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <utility>

namespace refreshlab::ui {

namespace {

using Kind = ScopePart::Kind;

/// The column of a part in its layer; nothing where the grid has none.
std::optional<size_t> column_of(const ScopePart& part, const ScopeGrid& grid) {
    if (part.kind == Kind::layer) return 0;
    if (part.kind == Kind::layer_half) return part.parts == ScopeParts::keys ? 1 : 2;
    if (part.kind == Kind::head) return ScopeGrid::first_head + static_cast<size_t>(part.kv_head);
    if (part.kind == Kind::block && grid.blocks > 0)
        return grid.first_block() + static_cast<size_t>(part.block);
    return std::nullopt;
}

ScopeChoice choice_of(const ScopeMap& map, const ScopePart& part, double share) {
    return {words_of(part), scope_of(part), share, map.bytes_of(part)};
}

} // namespace

std::string_view words_of(ScopeMeasure measure) {
    return measure == ScopeMeasure::alone ? "gained by the part alone" : "missed without the part";
}

std::string_view key_of(ScopeMeasure measure) {
    return measure == ScopeMeasure::alone ? "alone" : "missed";
}

std::optional<ScopeMeasure> scope_measure(std::string_view key) {
    for (const ScopeMeasure measure : scope_measures)
        if (key == key_of(measure)) return measure;
    return std::nullopt;
}

std::string scope_map_words(const ScopeMap& map) {
    double none = 0, whole = 0;
    for (const ScopeMap::Refresh& refresh : map.refreshes) {
        none += refresh.none;
        whole += refresh.whole;
    }
    const auto n = static_cast<double>(std::max<size_t>(map.refreshes.size(), 1));
    return fmt::format("{}, {} behind each: {:.3f} nats a token without, {:.3f} with all of it",
                       format_count(static_cast<int64_t>(map.refreshes.size()), "refresh"),
                       format_count(map.horizon, "token"), none / n, whole / n);
}

std::string words_of(const ScopePart& part) {
    std::string words = part.layer < 0 ? std::string() : fmt::format("layer {}", part.layer);
    if (part.kv_head >= 0) words += fmt::format(" head {}", part.kv_head);
    if (part.block >= 0) words += fmt::format(", block {} of the positions", part.block);
    if (part.parts == ScopeParts::both) return words.empty() ? "all" : words;
    return words + (words.empty() ? "" : ", ") + std::string(to_string(part.parts));
}

RefreshScope scope_of(const ScopePart& part) {
    RL_ASSERT(part.block < 0);
    RefreshScope scope;
    scope.parts = part.parts;
    if (part.layer >= 0) scope.layers = {{part.layer, part.layer}};
    if (part.kv_head >= 0) scope.kv_heads = {{std::nullopt, {part.kv_head, part.kv_head}}};
    return scope;
}

ScopeGrid scope_grid(const ScopeQuestion& question) {
    const ScopeMap& map = *question.map;
    ScopeGrid grid;
    grid.layers = map.layers;
    grid.columns = {"all", "keys", "values"};
    grid.kv_heads = static_cast<size_t>(map.kv_heads);
    for (int64_t h = 0; h < map.kv_heads; ++h)
        grid.columns.push_back(fmt::format("{}", h));
    grid.blocks = map.blocks > 1 ? static_cast<size_t>(map.blocks) : 0;
    for (size_t b = 0; b < grid.blocks; ++b)
        grid.columns.push_back(b == 0 ? "old" : b + 1 == grid.blocks ? "new" : fmt::format("{}", b));
    grid.cells.resize(static_cast<size_t>(map.layers) * grid.columns.size());
    constexpr double least_most = 0.01; // a hundredth of the gain is nothing to be seen
    grid.most = least_most;
    for (const ScopeMap::Reading& reading : map.readings) {
        const ScopePart& part = reading.part;
        const auto share = question.measure == ScopeMeasure::alone ? gain_share(map, reading.alone)
                                                                   : lost_share(map, reading.without);
        if (part.kind == Kind::half && share) grid.halves.push_back(choice_of(map, part, share->share));
        const auto column = column_of(part, grid);
        if (!column) continue;
        ScopeCell& cell = grid.cells[static_cast<size_t>(part.layer) * grid.columns.size() + *column];
        cell = {part, share, mean_gain(map, reading.alone).gain, map.bytes_of(part)};
        if (share) grid.most = std::max(grid.most, share->share);
        if (const auto lost = lost_share(map, reading.without);
            lost && part.kind != Kind::layer_half && part.kind != Kind::block)
            grid.left_out.push_back(choice_of(map, part, lost->share));
    }
    std::ranges::stable_sort(grid.left_out, std::greater(), &ScopeChoice::share);
    const double head_bytes = map.mean_delta() * static_cast<double>(map.entry_bytes);
    for (size_t n = 1; n <= map.taken.size(); ++n) {
        const ScopeMap::Taken& last = map.taken[n - 1];
        const auto kept = gain_share(map, last.loss);
        grid.greedy.push_back({fmt::format("layer {} head {}", last.layer, last.kv_head),
                               scope_of_taken(map, n), kept ? kept->share : 0,
                               static_cast<double>(n) * head_bytes});
    }
    for (const double keep : {0.5, 0.8, 0.95})
        if (const auto n = heads_for(map, keep)) grid.smallest.emplace_back(keep, *n);
    return grid;
}

} // namespace refreshlab::ui
