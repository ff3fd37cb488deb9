#pragma once

#include "engine/refresh/scope.h"
#include "engine/results/scope_map.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace refreshlab::ui {

/// What a cell of a scope map shows of its part of a refresh, a share of what the whole refreshes gain.
enum class ScopeMeasure : uint8_t {
    alone,  ///< what the part gains by itself
    missed, ///< what is lost without it
};

/// "by the part alone", "missed without the part"
[[nodiscard]] std::string_view words_of(ScopeMeasure measure);
/// "alone", "missed"; for settings and options. Nothing for another name.
[[nodiscard]] std::string_view key_of(ScopeMeasure measure);
[[nodiscard]] std::optional<ScopeMeasure> scope_measure(std::string_view key);
inline constexpr ScopeMeasure scope_measures[] = {ScopeMeasure::alone, ScopeMeasure::missed};

/// A part of a refresh: a layer, its keys or values, one of its KV heads, or a block of positions in it.
struct ScopeCell {
    ScopePart part;
    std::optional<GainShare> share; ///< nothing where the whole refreshes gain nothing
    double gain = 0;                ///< of the part alone, nats a token
    double bytes = 0;               ///< of a refresh of it alone, in the mean
};

/// Scopes that a list offers, the first the most worth.
struct ScopeChoice {
    std::string words; ///< "layer 3", "layer 3 head 1", "12 KV heads"
    RefreshScope scope;
    double share = 0, bytes = 0;
};

/// What the tab Scope shows of a map.
struct ScopeGrid {
    int64_t layers = 0;
    static constexpr size_t first_head = 3; ///< column of KV head 0
    size_t kv_heads = 0, blocks = 0; ///< columns of each; a single block is the layer itself, and has none
    std::vector<std::string>
        columns; ///< "all", "keys", "values", the KV heads, blocks of positions from "old" to "new"
    std::vector<ScopeCell> cells;      ///< [layers][columns]
    double most = 0;                   ///< the largest share, at least a hundredth
    std::vector<ScopeChoice> halves;   ///< keys and values everywhere, by the measure
    std::vector<ScopeChoice> left_out; ///< parts by what is lost without them, most first
    std::vector<ScopeChoice>
        greedy; ///< the first n KV heads of the greedy order, with the share that they keep
    std::vector<std::pair<double, size_t>>
        smallest; ///< a share of the gain, and how many of `greedy` keep it

    [[nodiscard]] size_t first_block() const { return first_head + kv_heads; }
    [[nodiscard]] const ScopeCell& at(int64_t layer, size_t column) const {
        return cells[static_cast<size_t>(layer) * columns.size() + column];
    }
};

struct ScopeQuestion {
    std::shared_ptr<const ScopeMap> map;
    ScopeMeasure measure = ScopeMeasure::alone;
    friend bool operator==(const ScopeQuestion&, const ScopeQuestion&) = default;
};
/// Cost: a bootstrap for each part.
[[nodiscard]] ScopeGrid scope_grid(const ScopeQuestion& question);

/// "7 refreshes, 16 tokens behind each: 1.553 nats a token without, 1.263 with all of it"
[[nodiscard]] std::string scope_map_words(const ScopeMap& map);

/// The scope of a refresh that writes this part alone. No block of positions: a policy has no such scope (asserted).
[[nodiscard]] RefreshScope scope_of(const ScopePart& part);
/// "layer 3", "layer 3, keys", "layer 3 head 1", "keys", "layer 3, block 0 of the positions".
[[nodiscard]] std::string words_of(const ScopePart& part);

} // namespace refreshlab::ui
