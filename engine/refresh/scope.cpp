#include "engine/refresh/scope.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <tuple>

namespace refreshlab {

namespace {

constexpr std::string_view everything = "all";
constexpr std::array<std::string_view, num_scope_parts> part_names = {"both", "keys", "values"};
constexpr std::array<std::string_view, num_scope_positions> position_names = {"all", "newest", "drift",
                                                                              "attention", "drift_attention"};

std::optional<int32_t> index_from(std::string_view text) {
    int32_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    const bool plain = !text.empty() && text.front() >= '0' && text.front() <= '9'; // no sign
    if (!plain || error != std::errc() || end != text.data() + text.size() || value > scope_limits::index)
        return std::nullopt;
    return value;
}

/// "7" or "7-9".
std::optional<IndexRange> range_from(std::string_view text) {
    const size_t dash = text.find('-');
    const auto first = index_from(text.substr(0, dash));
    const auto last = dash == std::string_view::npos ? first : index_from(text.substr(dash + 1));
    if (!first || !last || *last < *first) return std::nullopt;
    return IndexRange{*first, *last};
}

/// Items between commas, each read by `read`; nothing where one is none, or comes before its time. `all` is no item.
template <typename Item, typename Read, typename InOrder>
std::optional<std::vector<Item>> items_from(std::string_view text, Read read, InOrder in_order) {
    std::vector<Item> items;
    if (text == everything) return items;
    while (true) {
        const size_t comma = text.find(',');
        const std::optional<Item> item = read(text.substr(0, comma));
        if (!item || items.size() == scope_limits::ranges ||
            (!items.empty() && !in_order(items.back(), *item)))
            return std::nullopt;
        items.push_back(*item);
        if (comma == std::string_view::npos) return items;
        text.remove_prefix(comma + 1);
    }
}

std::optional<HeadRange> head_range_from(std::string_view text) {
    HeadRange range;
    const size_t colon = text.find(':');
    if (colon != std::string_view::npos) {
        range.layers = range_from(text.substr(0, colon));
        if (!range.layers) return std::nullopt;
        text.remove_prefix(colon + 1);
    }
    const auto heads = range_from(text);
    if (!heads) return std::nullopt;
    range.heads = *heads;
    return range;
}

/// Those of all layers first, then by layer, then by head.
bool before(const HeadRange& a, const HeadRange& b) {
    const auto place = [](const HeadRange& r) {
        return std::tuple(r.layers ? r.layers->first : -1, r.layers ? r.layers->last : -1, r.heads.first,
                          r.heads.last);
    };
    return place(a) < place(b);
}

std::string to_text(const IndexRange& range) {
    return range.first == range.last ? fmt::format("{}", range.first)
                                     : fmt::format("{}-{}", range.first, range.last);
}

} // namespace

std::optional<std::vector<IndexRange>> layers_from_text(std::string_view text) {
    return items_from<IndexRange>(text, range_from,
                                  [](const IndexRange& a, const IndexRange& b) { return a.last < b.first; });
}

std::optional<std::vector<HeadRange>> heads_from_text(std::string_view text) {
    return items_from<HeadRange>(text, head_range_from, before);
}

std::string to_text(const std::vector<IndexRange>& layers) {
    if (layers.empty()) return std::string(everything);
    std::string text;
    for (const IndexRange& range : layers)
        text += (text.empty() ? "" : ",") + to_text(range);
    return text;
}

std::string to_text(const std::vector<HeadRange>& heads) {
    if (heads.empty()) return std::string(everything);
    std::string text;
    for (const HeadRange& range : heads)
        text += (text.empty() ? "" : ",") + (range.layers ? to_text(*range.layers) + ":" : "") +
                to_text(range.heads);
    return text;
}

std::string_view to_string(ScopeParts parts) {
    return part_names[static_cast<size_t>(parts)];
}
std::string_view to_string(ScopePositions positions) {
    return position_names[static_cast<size_t>(positions)];
}

bool RefreshScope::whole_entries() const {
    return layers.empty() && kv_heads.empty() && parts == ScopeParts::both;
}

bool RefreshScope::has(int64_t layer, int64_t kv_head) const {
    const auto named = [&](const HeadRange& r) {
        return (!r.layers || r.layers->has(layer)) && r.heads.has(kv_head);
    };
    return (layers.empty() ||
            std::ranges::any_of(layers, [&](const IndexRange& r) { return r.has(layer); })) &&
           (kv_heads.empty() || std::ranges::any_of(kv_heads, named));
}

std::vector<uint8_t> RefreshScope::heads_of(int64_t num_layers, int64_t num_kv_heads) const {
    std::vector<uint8_t> heads;
    for (int64_t layer = 0; layer < num_layers; ++layer)
        for (int64_t head = 0; head < num_kv_heads; ++head)
            heads.push_back(has(layer, head) ? 1 : 0);
    return heads;
}

RefreshScope scope_of_heads(const std::vector<uint8_t>& heads, int64_t num_layers, int64_t num_kv_heads) {
    const auto row = [&](int64_t layer) {
        return std::vector<uint8_t>(heads.begin() + layer * num_kv_heads,
                                    heads.begin() + (layer + 1) * num_kv_heads);
    };
    const std::vector<uint8_t> none(static_cast<size_t>(num_kv_heads), 0),
        all(static_cast<size_t>(num_kv_heads), 1);
    RefreshScope scope;
    bool whole_layers = true, every_layer = true;
    std::vector<IndexRange> layers;
    for (int64_t first = 0, last = 0; first < num_layers; first = last + 1) { // layers with the same heads
        for (last = first; last + 1 < num_layers && row(last + 1) == row(first);)
            ++last;
        const std::vector<uint8_t> of_layer = row(first);
        every_layer &= of_layer == all;
        if (of_layer == none) continue;
        whole_layers &= of_layer == all;
        const IndexRange range{static_cast<int32_t>(first), static_cast<int32_t>(last)};
        layers.push_back(range);
        for (int32_t head = 0, end = 0; head < num_kv_heads; head = end) {
            end = head + 1;
            if (of_layer[static_cast<size_t>(head)] == 0) continue;
            while (end < num_kv_heads && of_layer[static_cast<size_t>(end)] != 0)
                ++end;
            scope.kv_heads.push_back({range, {head, end - 1}});
        }
    }
    if (!whole_layers) return scope;
    scope.kv_heads.clear();
    if (!every_layer) scope.layers = std::move(layers);
    return scope;
}

std::string scope_text(const RefreshScope& scope) {
    std::vector<std::string> words;
    if (!scope.layers.empty()) words.push_back("layers " + to_text(scope.layers));
    if (!scope.kv_heads.empty()) words.push_back("KV heads " + to_text(scope.kv_heads));
    if (scope.parts != ScopeParts::both) words.emplace_back(to_string(scope.parts));
    if (scope.positions == ScopePositions::newest) {
        words.push_back(fmt::format("the newest {}", scope.count));
    } else if (scope.positions != ScopePositions::all) {
        words.push_back(fmt::format("{} by {}", scope.count, to_string(scope.positions)));
    }
    return fmt::format("{}", fmt::join(words, ", "));
}

std::string why_not_in_model(const RefreshScope& scope, int64_t num_layers, int64_t num_kv_heads) {
    const auto no_layer = [&](const IndexRange& range) {
        return range.last < num_layers
                   ? std::string()
                   : fmt::format("layer {}: the model has layers 0 to {}", range.last, num_layers - 1);
    };
    for (const IndexRange& range : scope.layers)
        if (std::string why = no_layer(range); !why.empty()) return why;
    for (const HeadRange& range : scope.kv_heads) {
        if (range.layers)
            if (std::string why = no_layer(*range.layers); !why.empty()) return why;
        if (range.heads.last >= num_kv_heads)
            return fmt::format("KV head {}: the model has KV heads 0 to {}", range.heads.last,
                               num_kv_heads - 1);
    }
    return {};
}

} // namespace refreshlab
