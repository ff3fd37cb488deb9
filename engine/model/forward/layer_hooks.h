#pragma once

#include "engine/base/head_positions.h"
#include "kernels/ops/attention.h"
#include "kernels/shared/attention_bins.h"

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <span>

namespace refreshlab {

class KvCache;

/// Where one row of a pass stands. Hooks may shift it (a fault does).
struct RowPlace {
    int64_t position = 0;   ///< absolute; the column of the row lies there
    int64_t rotated_as = 0; ///< RoPE position of its query and key
    int64_t num_visible =
        0; ///< it sees the cache's columns [0, num_visible), less those before a sliding window
};

/// Where a decode step may write the attention of its query as IEEE halves, by position: a number a key, or the sums of bins of keys
/// (kernels/shared/attention_bins.h).
struct HalfRow {
    int64_t position = std::numeric_limits<int64_t>::max(); ///< of the query
    uint16_t* to = nullptr;                                 ///< [heads, numbers()]; null: not wanted
    int64_t bins = 0;                                       ///< most numbers of a head; 0: every key
    [[nodiscard]] int64_t bin() const {
        return kernels::shared::bin_width(position + 1, bins);
    } ///< keys of a number
    [[nodiscard]] int64_t numbers() const { return kernels::shared::num_bins(position + 1, bin()); }
};

/// Where a decode step may write the entropy of its query's attention, in bits: of each head, over what the head attends to.
struct HeadEntropies {
    int64_t position = std::numeric_limits<int64_t>::max(); ///< of the query
    float* to = nullptr;                                    ///< [heads]; null: not wanted
};

/// What a hook wants to be shown of one layer. What nobody asks for is not computed.
struct LayerTaps {
    static constexpr int64_t no_rows = std::numeric_limits<int64_t>::max();
    /// Attention rows of the queries at this position and after it: the last position gives the last row, L - w a window
    /// of w rows. A pass in chunks shows each chunk's part.
    int64_t attention_from = no_rows;
    /// The same of one query, written there while attention is computed, with no tensor of it. A forward may do so (view.half_row says
    /// that it has), or show the row in view.attention. At most one hook of a pass may ask             (asserted)
    HalfRow half_row;
    /// Entropies of one query, in the same way (view.entropies says that they are written).
    HeadEntropies entropies;
    /// Where the attention that each key received is added up, [heads, at least the keys] fp32 on the model's device;
    /// undefined: not wanted. Row after row, so that chunks of any size give the same bits on the CPU. Of passes that read
    /// every position. At most one hook of a pass may ask                                                 (asserted)
    at::Tensor sums;
    bool raw_queries = false; ///< q before RoPE
    bool all_rows = false;    ///< keep every row in the last layer, also those that get no logits

    /// First query whose row is shown. \param halved  half_row is written
    [[nodiscard]] int64_t shown_from(bool halved = false) const {
        return std::min({attention_from, halved ? no_rows : half_row.position, entropies.position});
    }
    LayerTaps& operator|=(const LayerTaps& other); ///< both
};

/// One layer of a pass, as hooks see it. The tensors are views of what the forward computes: on the model's device, valid
/// during the call, not to be written. Rows that ride along for dropout are not shown.
struct LayerView {
    int64_t layer = 0;
    const KvCache* cache = nullptr; ///< holds this pass's columns of this layer already, where it writes any
    std::span<const int64_t> positions; ///< [rows], ascending
    at::Tensor residual;                ///< [rows, held hidden width], what the layer reads
    at::Tensor input; ///< the same after the layer's norm: what q, k and v are projected from
    at::Tensor q;     ///< [query rows, heads, head_dim], after RoPE: the last ones of `positions`
    at::Tensor raw_q; ///< the same before RoPE; undefined unless asked for
    at::Tensor k, v;  ///< [rows, kv_heads, head_dim]; k after RoPE; undefined where only queries run
    at::Tensor
        output; ///< the layer's output projection, [held hidden width, heads * head_dim], maybe in blocks; undefined in steps

    bool left_out =
        false; ///< a derived student's skipped attention: no q, no attention; nothing is read here

    // --- after attention only ---
    /// What attention read, [kv_heads]; empty: every column, and column = position.
    std::span<const kernels::KeyList> lists;
    /// [shown rows, heads, n] fp32: softmax before dropout, 0 where a row does not attend. The shown rows are the last
    /// ones of `positions`. Number i of a head belongs to entry i of its KV head's list, else to position i. n is at least the
    /// longest list, else the last row's position + 1. Undefined unless asked for. Made for the call: it may be kept.
    at::Tensor attention;
    bool half_row = false;  ///< taps().half_row has been written
    bool entropies = false; ///< taps().entropies have been written
};

/// Places of a layer where a branch joins the residual.
enum class Branch : uint8_t { attention_output, mlp_output };

/// What a hook does in a decode step, said before the step: so a forward knows which way it can take. The default is anything.
struct StepUse {
    enum class Choice : uint8_t {
        nothing, ///< select() does nothing
        ahead, ///< it reads layer, positions and cache of its view alone, may edit the cache, and returns null: what is held then is read. A
        ///< forward may call it for all layers before the step; the new position is held already, without keys and values
        by_queries, ///< it looks at the layer, or returns a choice
    } choice = Choice::by_queries;
    /// After the layer it wants its attention row at most, and changes nothing but the cache: taps() asks for rows from the step's position on,
    /// for half_row or for entropies; place, attend, inner, branch and finish do nothing; observe() reads layer, positions, left_out, lists, attention,
    /// half_row and entropies. A forward may call it after the step, layer by layer: for those that were asked for where nobody chooses, else for all.
    bool rows_alone = false;

    StepUse& operator|=(const StepUse& other); ///< what a forward must do for both
};

/// What a policy or a probe sees and decides inside the layers of a pass. The default of every method does nothing. A
/// pass without hooks pays nothing.
///
/// Order, per pass: place; per layer: taps, select, attend, observe, branch, inner, branch; then finish. A sublayer that a
/// derived student leaves out has no select, attend, inner and branch; a left-out attention is observed all the same.
/// Threads  called on the thread of the pass.
class LayerHooks {
public:
    LayerHooks() = default;
    LayerHooks(const LayerHooks&) = delete;
    LayerHooks& operator=(const LayerHooks&) = delete;
    virtual ~LayerHooks() = default;

    /// Once, before the first layer. \param rows  all rows of the pass
    virtual void place(std::span<RowPlace> rows) { (void)rows; }
    [[nodiscard]] virtual LayerTaps taps(int64_t layer) const {
        (void)layer;
        return {};
    }
    [[nodiscard]] virtual StepUse step_use() const { return {}; }
    /// Before attention: which entries this layer reads (interface Select of reference/cache-definitions.md). What is not held any
    /// more when this returns is not read.
    /// \return held positions of each KV head, valid until the layer is done; null: every entry that is held. At most one hook of
    ///         a pass may choose                                                                            (asserted)
    [[nodiscard]] virtual const HeadPositions* select(const LayerView& view) {
        (void)view;
        return nullptr;
    }
    /// Before attention: the call as it will be made. Dropout is set here.
    virtual void attend(int64_t layer, kernels::AttentionInputs& inputs) {
        (void)layer;
        (void)inputs;
    }
    /// After attention, with what taps() asked for.
    virtual void observe(const LayerView& view) { (void)view; }
    /// What an MLP's down projection reads: silu(gate) * up. \param rows  [all rows, held intermediate width], not to be written
    virtual void inner(int64_t layer, const at::Tensor& rows) {
        (void)layer;
        (void)rows;
    }
    /// A branch before it is added to the residual; may be changed. \param rows  [all rows, held hidden width]
    virtual void branch(int64_t layer, Branch place, at::Tensor& rows) {
        (void)layer;
        (void)place;
        (void)rows;
    }
    /// After the last layer. \param residual  [rows, held hidden width], what the final norm reads; the last row alone
    /// where nobody asked for more
    virtual void finish(const at::Tensor& residual) { (void)residual; }
};

} // namespace refreshlab
