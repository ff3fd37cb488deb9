#pragma once

#include "engine/base/row_memory.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace refreshlab {

[[nodiscard]] float half_to_float(uint16_t half);
[[nodiscard]] uint16_t float_to_half(float value); ///< round to nearest even

/// Attention of one query token: probabilities before dropout, of every key, or of a long row what can be shown of it.
///
/// A row of many keys is kept as sums over neighbours (bins, the same for all heads), and each head's strongest keys are told apart: they
/// have numbers of their own, and the sum of their bin is without them. Sums and not means, because a sum is what the query gave to that part
/// of the text whatever its length, and those of a row are 1 together. Nobody reads the numbers by hand: for_each_share() gives every key its
/// weight, or of a bin its share, and says which of the two it is.
struct AttentionRows {
    int64_t position = 0;        ///< of the query
    int64_t step = 0;            ///< t; 0 or less = a prompt token
    bool teacher = false;        ///< whose attention
    int64_t heads = 0, keys = 0; ///< keys = position + 1
    std::vector<int32_t> layers; ///< which layers are here
    std::vector<int32_t> edges;  ///< number i is of keys [edges[i], edges[i + 1]); empty: every key has one
    int64_t exact = 0;           ///< keys of each head's row that are told apart from their bins
    std::vector<int32_t> exact_keys; ///< [layers, heads, exact], ascending in a row
    RowVector<uint16_t> weights;     ///< IEEE half, [layers, heads, numbers() + exact]

    [[nodiscard]] bool every_key() const { return edges.empty(); }
    [[nodiscard]] int64_t numbers() const { return every_key() ? keys : std::ssize(edges) - 1; }
    [[nodiscard]] int64_t stride() const { return numbers() + exact; } ///< halves of a head's row
    [[nodiscard]] size_t rows() const { return layers.size() * static_cast<size_t>(heads); }
    [[nodiscard]] size_t bytes() const; ///< of everything that grows: as much stands in a trace
    friend bool operator==(const AttentionRows&, const AttentionRows&) = default;
};

/// Of how many keys a head's row says what: what is shown beside it, so that nobody takes a share for a weight.
struct AttentionResolution {
    int64_t bins = 0;   ///< numbers that are of more than one key
    int64_t widest = 1; ///< most keys of a bin
    int64_t exact = 0;  ///< keys with a number of their own
    [[nodiscard]] bool every_key() const { return bins == 0; }
    friend bool operator==(const AttentionResolution&, const AttentionResolution&) = default;
};
[[nodiscard]] AttentionResolution resolution_of(const AttentionRows& rows);

/// Edges of uniform bins (kernels/shared/attention_bins.h); none where a bin is one key.
[[nodiscard]] std::vector<int32_t> bin_edges(int64_t keys, int64_t width);

/// How a row is kept within a number of bytes.
struct AttentionLayout {
    std::vector<int32_t> edges; ///< as AttentionRows::edges
    int64_t exact = 0;
};
/// The finest layout of which the rows of one query take `bytes` at most, whatever their number and length. Every key, where that fits.
/// Else: the first keys (sinks) and the newest ones each have a number, what is between them has bins of a power of two keys, which stay
/// where they are while a row grows, and about a quarter goes to each head's strongest keys.
/// \param bytes  0: no limit. One number a row is kept even where that is more
[[nodiscard]] AttentionLayout attention_layout(int64_t bytes, int64_t layers, int64_t heads, int64_t keys);

/// One head's row in a layout.
/// \param whole  [keys] halves, none negative or NaN
/// \param kept   [numbers + exact]: the sum of each bin without the keys that are told apart, in fp32 ascending and rounded; then those keys' weights
/// \param exact_keys  [exact]: the largest weights of keys that share a number, ascending by key; of equal ones the first
void compact_row(std::span<const uint16_t> whole, const AttentionLayout& layout, std::span<uint16_t> kept,
                 std::span<int32_t> exact_keys);

/// A stretch of keys of a head's row that have the same weight as far as is known.
struct AttentionShare {
    int64_t first = 0, end = 0;         ///< keys of the stretch
    int64_t bin_first = 0, bin_end = 0; ///< keys of the number that it comes from
    int64_t sharing = 1;                ///< keys that share the number; 1: it is the key's own
    uint16_t sum = 0;                   ///< half: of all that share
    uint16_t share = 0; ///< half: of each of them; the weight itself where a key has its own number
    [[nodiscard]] bool exact() const { return sharing == 1; }
};
/// Calls `visit(const AttentionShare&)` for stretches that cover all keys of a row, ascending.
/// \param row  layer by layer, head by head (asserted to be there)
template <typename Visit>
void for_each_share(const AttentionRows& rows, size_t row, const Visit& visit);
/// The stretch that a key is in. \param key  in [0, rows.keys) (asserted)
[[nodiscard]] AttentionShare share_of_key(const AttentionRows& rows, size_t row, int64_t key);

namespace attention_detail {
/// The numbers of one row; throws InvariantError where it is not there.
struct RowParts {
    RowParts(const AttentionRows& rows, size_t row);
    std::span<const uint16_t> numbers, exact;
    std::span<const int32_t> exact_keys;
};
} // namespace attention_detail

template <typename Visit>
void for_each_share(const AttentionRows& rows, size_t row, const Visit& visit) {
    const attention_detail::RowParts parts(rows, row);
    size_t apart = 0;
    for (size_t n = 0; n < parts.numbers.size(); ++n) {
        AttentionShare share;
        share.bin_first = rows.every_key() ? static_cast<int64_t>(n) : rows.edges[n];
        share.bin_end = rows.every_key() ? share.bin_first + 1 : rows.edges[n + 1];
        size_t beyond = apart;
        while (beyond < parts.exact.size() && parts.exact_keys[beyond] < share.bin_end)
            ++beyond;
        share.sharing = share.bin_end - share.bin_first - static_cast<int64_t>(beyond - apart);
        share.sum = share.share = parts.numbers[n];
        if (share.sharing > 1)
            share.share = float_to_half(half_to_float(share.sum) / static_cast<float>(share.sharing));
        share.first = share.bin_first;
        for (; apart < beyond; ++apart) {
            const int64_t key = parts.exact_keys[apart];
            share.end = key;
            if (share.end > share.first) visit(share);
            visit(AttentionShare{key, key + 1, key, key + 1, 1, parts.exact[apart], parts.exact[apart]});
            share.first = key + 1;
        }
        share.end = share.bin_end;
        if (share.end > share.first) visit(share);
    }
}

} // namespace refreshlab
