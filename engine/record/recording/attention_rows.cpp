#include "engine/record/recording/attention_rows.h"

#include "engine/base/check.h"
#include "kernels/shared/attention_bins.h"

#include <array>
#include <optional>

namespace refreshlab {

namespace {

constexpr int64_t half_bytes = sizeof(uint16_t), key_bytes = sizeof(int32_t);
constexpr int64_t most_sinks = 4, most_newest = 32;

/// Numbers of a row whose first `sinks` and newest `newest` keys have one each, with bins that begin at multiples of `width` between them.
int64_t numbers_with(int64_t keys, int64_t sinks, int64_t newest, int64_t width) {
    const int64_t end = keys - newest;
    return sinks + newest + (end > sinks ? kernels::shared::num_bins(end, width) - sinks / width : 0);
}

/// sum + the weights of keys [begin, end), one after the other.
float sum_on(float sum, std::span<const uint16_t> whole, int64_t begin, int64_t end) {
    constexpr size_t one = 0x3C00; // weights are from 0 to 1: a look-up is a third of half_to_float()
    static const auto weights = [] {
        std::array<float, one + 1> values{};
        for (size_t i = 0; i < values.size(); ++i)
            values[i] = half_to_float(static_cast<uint16_t>(i));
        return values;
    }();
    for (const uint16_t half : whole.subspan(static_cast<size_t>(begin), static_cast<size_t>(end - begin)))
        sum += half <= one ? weights[half] : half_to_float(half);
    return sum;
}

constexpr size_t keys_of_block = 32;
/// Halves that are not negative have the order of their bits, also of signed ones, which a processor compares eight at a time.
int16_t largest_of(std::span<const uint16_t, keys_of_block> keys) {
    std::array<int16_t, 8> largest{};
    for (size_t i = 0; i < keys_of_block; i += 8)
        for (size_t j = 0; j < 8; ++j)
            largest[j] = std::max(largest[j], static_cast<int16_t>(keys[i + j]));
    return *std::ranges::max_element(largest);
}

/// The keys of the largest weights in [begin, end), ascending.
void find_largest(std::span<const uint16_t> whole, int64_t begin, int64_t end, std::span<int32_t> found) {
    constexpr auto block = static_cast<int64_t>(keys_of_block);
    std::vector<std::pair<uint16_t, int32_t>> largest; // the least of them in front
    largest.reserve(found.size());
    const auto comes_first = [](const auto& a, const auto& b) {
        return a.first != b.first ? a.first > b.first : a.second < b.second;
    };
    for (int64_t first = begin; first < end; first += block) {
        const auto keys =
            whole.subspan(static_cast<size_t>(first), static_cast<size_t>(std::min(block, end - first)));
        if (largest.size() == found.size() && keys.size() == keys_of_block &&
            largest_of(keys.first<keys_of_block>()) <= static_cast<int16_t>(largest.front().first))
            continue;
        for (size_t i = 0; i < keys.size(); ++i) {
            const std::pair one(keys[i], static_cast<int32_t>(first) + static_cast<int32_t>(i));
            if (largest.size() == found.size()) {
                if (one.first <= largest.front().first) continue;
                std::ranges::pop_heap(largest, comes_first);
                largest.pop_back();
            }
            largest.push_back(one);
            std::ranges::push_heap(largest, comes_first);
        }
    }
    RL_ASSERT(largest.size() == found.size());
    std::ranges::transform(largest, found.begin(), [](const auto& one) { return one.second; });
    std::ranges::sort(found);
}

} // namespace

size_t AttentionRows::bytes() const {
    return (layers.size() + edges.size() + exact_keys.size()) * sizeof(int32_t) +
           weights.size() * sizeof(uint16_t);
}

AttentionResolution resolution_of(const AttentionRows& rows) {
    AttentionResolution of;
    if (rows.every_key()) {
        of.exact = rows.keys;
        return of;
    }
    of.exact = rows.exact;
    for (size_t n = 0; n + 1 < rows.edges.size(); ++n) {
        const int64_t width = rows.edges[n + 1] - rows.edges[n];
        of.widest = std::max(of.widest, width);
        ++(width > 1 ? of.bins : of.exact);
    }
    return of;
}

std::vector<int32_t> bin_edges(int64_t keys, int64_t width) {
    std::vector<int32_t> edges;
    if (width <= 1) return edges;
    for (int64_t key = 0; key < keys; key += width)
        edges.push_back(static_cast<int32_t>(key));
    edges.push_back(static_cast<int32_t>(keys));
    return edges;
}

AttentionLayout attention_layout(int64_t bytes, int64_t layers, int64_t heads, int64_t keys) {
    const int64_t rows = layers * heads;
    AttentionLayout layout;
    if (bytes <= 0 || rows < 1 || keys <= 1 || (bytes - layers * key_bytes) / rows >= keys * half_bytes)
        return layout;
    // Of `n` numbers and `exact` keys a row: rows * (2 n + 6 exact) bytes, 4 (n + 1) of edges, 4 a layer.
    const int64_t left = std::max<int64_t>(0, bytes - (layers + 1) * key_bytes),
                  apart = half_bytes + key_bytes;
    const int64_t for_apart = left / 4 / (rows * apart) * (rows * apart);
    const int64_t most = std::max<int64_t>(1, (left - for_apart) / (rows * half_bytes + key_bytes));
    const int64_t sinks = std::min(most_sinks, (most + 4) / 8), newest = std::min(most_newest, most / 4);
    int64_t width = 1;
    while (numbers_with(keys, sinks, newest, width) > most)
        width *= 2;
    // What a power of two leaves over goes to more of the strongest keys.
    const int64_t numbers = numbers_with(keys, sinks, newest, width), between = keys - sinks - newest;
    const int64_t exact = (left - numbers * (rows * half_bytes + key_bytes)) / (rows * apart);
    layout.exact = std::clamp<int64_t>(exact, 0, between / 2);
    for (int64_t key = 0; key < sinks; ++key)
        layout.edges.push_back(static_cast<int32_t>(key));
    for (int64_t key = sinks; key < keys - newest; key = (key / width + 1) * width)
        layout.edges.push_back(static_cast<int32_t>(key));
    for (int64_t key = keys - newest; key <= keys; ++key)
        layout.edges.push_back(static_cast<int32_t>(key));
    return layout;
}

void compact_row(std::span<const uint16_t> whole, const AttentionLayout& layout, std::span<uint16_t> kept,
                 std::span<int32_t> exact_keys) {
    const auto& edges = layout.edges;
    RL_ASSERT(edges.size() > 1 && edges.back() == std::ssize(whole));
    const size_t numbers = edges.size() - 1, exact = exact_keys.size();
    RL_ASSERT(kept.size() == numbers + exact && std::ssize(exact_keys) == layout.exact);
    size_t first = 0, last = numbers; // numbers between the sinks and the newest keys
    while (first < last && edges[first + 1] - edges[first] == 1)
        ++first;
    while (last > first && edges[last] - edges[last - 1] == 1)
        --last;
    if (exact > 0) find_largest(whole, edges[first], edges[last], exact_keys);
    size_t apart = 0;
    for (size_t n = 0; n < numbers; ++n) {
        if (edges[n + 1] - edges[n] == 1) {
            kept[n] = whole[static_cast<size_t>(edges[n])];
            continue;
        }
        float sum = 0;
        int32_t key = edges[n];
        for (; apart < exact && exact_keys[apart] < edges[n + 1]; ++apart, ++key) {
            sum = sum_on(sum, whole, key, exact_keys[apart]);
            key = exact_keys[apart];
            kept[numbers + apart] = whole[static_cast<size_t>(key)];
        }
        kept[n] = float_to_half(sum_on(sum, whole, key, edges[n + 1]));
    }
}

AttentionShare share_of_key(const AttentionRows& rows, size_t row, int64_t key) {
    RL_ASSERT(key >= 0 && key < rows.keys);
    std::optional<AttentionShare> found;
    for_each_share(rows, row, [&](const AttentionShare& share) {
        if (key >= share.first && key < share.end) found = share;
    });
    RL_ASSERT(found);
    return *found;
}

attention_detail::RowParts::RowParts(const AttentionRows& rows, size_t row) {
    const auto stride = static_cast<size_t>(rows.stride()), apart = static_cast<size_t>(rows.exact);
    RL_ASSERT((row + 1) * stride <= rows.weights.size() && (row + 1) * apart <= rows.exact_keys.size());
    const auto all = std::span(rows.weights).subspan(row * stride, stride);
    numbers = all.first(static_cast<size_t>(rows.numbers()));
    exact = all.subspan(numbers.size());
    exact_keys = std::span(rows.exact_keys).subspan(row * apart, apart);
}

} // namespace refreshlab
