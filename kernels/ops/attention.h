#pragma once

#include "kernels/ops/dropout.h"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>

namespace refreshlab::kernels {

/// Entries of one KV head that are stored as codes and not as rows of a cache: rows are made where they are read. Some of them may be
/// read *turned* as well: as rows of another width, which cost less to make. A product with such a key is that of the turned query; a sum of
/// such values is turned back once. Both are linear, so a turned entry is worth the same as its row, to rounding. Threads  const.
class CodedEntries {
public:
    static constexpr int64_t at_once = 256; ///< most entries that sort() takes
    /// Entries that are read in one way. Which ones: numbers in the list that was sorted, ascending.
    struct Alike {
        int64_t n = 0;
        int64_t ones[at_once];
    };
    struct Sorted {
        Alike plain, turned;
        /// Rows of the cache's dtype, [slots, head_dim], among which the plain ones stand as they are; null: they have to be made.
        const void* stored = nullptr;
        int64_t slots[at_once]; ///< of the plain ones
    };
    /// The first entries of a list, as many as are read in one way. Stored: as many as stand one after the other.
    struct Stretch {
        int64_t n = 0;
        bool turned = false;
        const void* stored = nullptr; ///< the first one; null: their rows have to be made
        int64_t stride = 0;           ///< of `stored`, in numbers of the cache's dtype
    };

    /// Some entries that are read in one way, and some of the channels of those that are not turned.
    struct Some {
        bool values = false, turned = false;
        const int64_t* places = nullptr;
        int64_t n = 0;
        int64_t first_channel = 0, channels = 0;
    };

    CodedEntries() = default;
    CodedEntries(const CodedEntries&) = delete;
    CodedEntries& operator=(const CodedEntries&) = delete;
    virtual ~CodedEntries() = default;
    /// Keys or values of n entries, as numbers that the cache's dtype has. \param places  [n], of KeyList::columns
    /// \param to  [n, channels], channels [first, first + channels) of each
    virtual void read(bool values, const int64_t* places, int64_t n, int64_t first, int64_t channels,
                      float* to) const = 0;

    /// Numbers of a turned row; 0: no entry is read turned.
    [[nodiscard]] virtual int64_t turned_width(bool values) const;
    /// \param n  at least 1
    /// \param most_made  at most so many of those whose rows have to be made; at least 1
    [[nodiscard]] virtual Stretch stretch(bool values, const int64_t* places, int64_t n,
                                          int64_t most_made) const;
    /// \param n  at most at_once
    virtual void sort(bool values, const int64_t* places, int64_t n, Sorted& to) const;
    /// Of places that are all read turned: [n, turned_width].
    virtual void read_turned(bool values, const int64_t* places, int64_t n, float* to) const;
    // Straight from codes, with the bits that the AVX-512 kernels give for the rows. \return false: nothing was done, rows have to be made
    /// y[i, k] = product of x[i] with entry k. \param x  [rows] of the entries' width
    [[nodiscard]] virtual bool dots(const Some& some, const float* x, int64_t x_stride, int64_t rows,
                                    float* y, int64_t y_stride) const;
    /// acc[i] += sum over k ascending of p[i, k] times entry k.
    [[nodiscard]] virtual bool weighted_sum(const Some& some, const float* p, int64_t p_stride, int64_t rows,
                                            float* acc, int64_t acc_stride) const;
    /// \param query  [head_dim]; \param to  [turned_width of keys], is written
    virtual void turn(const float* query, float* to) const;
    /// \param sum  [turned_width of values]; \param to  [head_dim], is added to
    virtual void turn_back(const float* sum, float* to) const;
};

/// The entries of one KV head that a call may read: entry i stands at absolute position positions[i], in column columns[i]
/// of the cache. Positions ascend; columns need no order. Masks, sums and dropout go by position.
struct KeyList {
    const int64_t* positions = nullptr;
    const int64_t* columns = nullptr; ///< may be `positions`, where column = position
    int64_t n = 0;
    const CodedEntries* coded = nullptr; ///< null: columns are those of the cache; else places of these
};

/// Inputs of one attention call: `rows` query rows of one layer against one cache.
struct AttentionInputs {
    at::Tensor q; ///< [rows, heads, head_dim], after RoPE
    at::Tensor
        k_cache; ///< [kv_heads, capacity, head_dim] of this layer, a view of the cache; columns >= n are never read
    at::Tensor v_cache; ///< same shape

    /// Row r sees cache columns [first_visible[r], num_visible[r]): so causal mask, length and sliding window are one
    /// thing. An empty first_visible is 0 for every row. 0 <= first_visible[r]; a row with first >= num_visible sees
    /// only its own column, if it brings one. Columns below the smallest first_visible are never read.
    std::span<const int64_t> num_visible;
    std::span<const int64_t> first_visible;

    /// Optional, [rows, kv_heads, head_dim] or undefined: row r also sees this column of its own, as the last key,
    /// after the visible ones. Used by MC rows, which must not write to the cache. Its position, in the dropout key and
    /// in `probabilities`, is num_visible[r]. fp32, or the cache's dtype: a row repeats bit for bit what it would get
    /// from the cache if the column holds the values that the cache would hold (rounded to its dtype).
    at::Tensor own_k, own_v;

    /// Optional: row r sees these columns of the cache as well, as the keys of positions num_visible[r], num_visible[r] + 1, ...
    /// [rows, m] int64 on the CPU, padded with -1 at the end of a row. Rows that share the first columns and go on with a
    /// tail of their own keep it anywhere in the cache. first_visible counts over both. A row repeats bit for bit what it
    /// would get if its tail stood after the visible columns. Not beside own columns or lists (asserted).
    at::Tensor tails;

    /// Optional, [kv_heads] or empty: what each KV head may read. A row sees the listed entries whose position is in its
    /// range; no other column is read. Empty = every column, and column = position. num_visible may then exceed the number of
    /// columns. The lists outlive the call. Not beside tails (asserted).
    std::span<const KeyList> lists;

    double scale = 0.0; ///< usually 1 / sqrt(head_dim)
    double soft_cap =
        0.0; ///< scaled scores s become cap * tanh(s / cap); 0: they stay. Source: Gemma Team 2024 (Gemma 2)

    /// Optional: where the result goes, of its shape and dtype, contiguous; else it is a new tensor.
    at::Tensor out;

    /// Optional: where the softmax of row 0 before dropout goes as IEEE halves (rounded to nearest, ties to even), by position,
    /// [heads, num_visible[0] (+1 with own columns)], on the host. The thread that has made a head's numbers writes them. Not beside
    /// lists or tails (asserted).
    std::span<uint16_t> halves;
    int64_t bin =
        1; ///< of `halves`: positions that a number is the sum of (kernels/shared/attention_bins.h); each head has so many fewer

    /// Attention dropout of row r: pass = passes[r] (0 = none). Probabilities are masked and scaled by 1/(1-p) after
    /// the softmax. Empty = no dropout anywhere.
    DropoutKey dropout_key;
    std::span<const int32_t> passes;
    float dropout_p = 0.0F;
};

/// Softmax attention with grouped queries (query head h reads KV head h / (heads / kv_heads)).
/// \param probabilities  when not null, set to the softmax before dropout, [rows, heads, max visible (+1 with own
///                       columns, + its tail)] fp32; entries that a row does not attend are 0. With lists, [rows, heads,
///                       longest list (+1)]: number i belongs to entry i of the head's list, and an own column to the number
///                       of entries that the row sees before it.
/// \return [rows, heads, head_dim], dtype of q; zeros for a row that sees nothing.
/// Scores, softmax and the weighted sum are fp32. CPU: batch-invariant (dense.h); sums run over positions ascending.
/// Source: Vaswani et al. 2017; GQA: Ainslie et al. 2023.
[[nodiscard]] at::Tensor attention(const AttentionInputs& in, at::Tensor* probabilities = nullptr);

namespace reference {
[[nodiscard]] at::Tensor attention(const AttentionInputs& in, at::Tensor* probabilities = nullptr);
} // namespace reference

} // namespace refreshlab::kernels
