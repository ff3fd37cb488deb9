#include "ui/scene/attention/attention_view.h"

#include "ui/scene/maps/colour_maps.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <iterator>
#include <span>

namespace refreshlab::ui {
namespace {

int nearest_of(std::span<const int> offered, int wanted) {
    return *std::ranges::min_element(offered, {},
                                     [&](int one) { return std::abs(static_cast<int64_t>(one) - wanted); });
}

int32_t nearest_in(const std::vector<int32_t>& visible, int32_t chosen) {
    const auto after = std::ranges::upper_bound(visible, chosen);
    return after == visible.begin() ? visible.front() : *std::prev(after);
}

/// Ascending, each once, none below 0.
void tidy(std::vector<int32_t>& numbers) {
    std::erase_if(numbers, [](int32_t number) { return number < 0; });
    std::ranges::sort(numbers);
    numbers.erase(std::unique(numbers.begin(), numbers.end()), numbers.end());
}

} // namespace

bool is_signed_map(std::string_view map) {
    return map.starts_with("rdbu");
}

AttentionOf shown_attention(const AttentionView& view, Mode mode) {
    if (mode == Mode::teacher) return AttentionOf::teacher;
    if (mode == Mode::student) return AttentionOf::student;
    return view.of;
}

std::vector<int32_t> not_hidden(int64_t count, const std::vector<int32_t>& hidden) {
    std::vector<int32_t> shown;
    for (int32_t i = 0; i < count; ++i)
        if (!std::ranges::binary_search(hidden, i)) shown.push_back(i);
    return shown;
}

void set_hidden(std::vector<int32_t>& hidden, int32_t one, bool hide) {
    const auto at = std::ranges::lower_bound(hidden, one);
    const bool there = at != hidden.end() && *at == one;
    if (hide && !there) hidden.insert(at, one);
    if (!hide && there) hidden.erase(at);
}

std::pair<int32_t, int32_t> visible_head(std::pair<int32_t, int32_t> chosen,
                                         const std::vector<int32_t>& layers,
                                         const std::vector<int32_t>& heads) {
    return {nearest_in(layers, chosen.first), nearest_in(heads, chosen.second)};
}

AttentionView sane(AttentionView view) {
    view.rows = nearest_of(query_counts, view.rows);
    view.best = nearest_of(ranked_counts, view.best);
    const auto names = colour_map_names();
    if (std::ranges::find(names, view.map) == names.end() || is_signed_map(view.map)) view.map.clear();
    tidy(view.hidden_layers);
    tidy(view.hidden_heads);
    return view;
}

std::string_view to_string(AttentionOf of) {
    constexpr std::array<std::string_view, 3> words = {"student", "teacher", "difference"};
    return words[static_cast<size_t>(of)];
}

std::string_view to_string(AttentionRange range) {
    constexpr std::array<std::string_view, 3> words = {"unit", "shared", "per_head"};
    return words[static_cast<size_t>(range)];
}

std::string_view to_string(HeadOrder order) {
    constexpr std::array<std::string_view, head_orders.size()> words = {"place", "focused", "spread",
                                                                        "off_sink", "differing"};
    return words[static_cast<size_t>(order)];
}

bool may_lie_beyond(const AttentionView& view, AttentionOf of) {
    return own_range(view.ranges, range_name(of)).has_value() ||
           (view.range != AttentionRange::unit && view.without_first);
}

} // namespace refreshlab::ui
