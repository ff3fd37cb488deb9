#pragma once

#include "engine/model/forward/layer_hooks.h"
#include "engine/model/model_config.h"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>
#include <vector>

namespace refreshlab {

/// Shows keep() the attention probabilities of one query, layer by layer, for the layers asked for, on the host; 0 in a layer whose
/// attention is left out.
class AttentionCapture : public LayerHooks {
public:
    [[nodiscard]] LayerTaps taps(int64_t layer) const final;
    [[nodiscard]] StepUse step_use() const final { return {StepUse::Choice::nothing, true}; }
    void observe(const LayerView& view) final;

    [[nodiscard]] const std::vector<int32_t>& layers() const { return m_layers; } ///< never empty
    [[nodiscard]] int64_t heads() const { return m_heads; }
    [[nodiscard]] int64_t position() const { return m_position; }
    /// Every layer asked for was seen.
    [[nodiscard]] bool is_complete() const;

protected:
    /// \param layers    empty = all; each inside the model                                                 (asserted)
    /// \param position  of the query
    AttentionCapture(const ModelConfig& config, std::vector<int32_t> layers, int64_t position);
    /// \param index  of the layer in layers()
    /// \param row    [heads, position + 1]; gone after the call
    virtual void keep(size_t index, std::span<const float> row) = 0;
    /// Where the forward may write such a row itself, as IEEE halves in bins(); then keep() is not called. Null: nowhere.
    [[nodiscard]] virtual uint16_t* halves_of(size_t index) const {
        (void)index;
        return nullptr;
    }
    [[nodiscard]] virtual int64_t bins() const { return 0; } ///< as HalfRow

private:
    /// Of the layer in layers(); its size: not asked for.
    [[nodiscard]] size_t index_of(int64_t layer) const;

    std::vector<int32_t> m_layers;
    int64_t m_heads, m_position;
    std::vector<bool> m_seen; ///< [layers asked]
};

/// Entropy of one query's attention, per layer: the mean over the query heads of -sum a log2 a, in bits. 0 log 0 = 0. absent() in
/// a layer whose attention is left out.
class AttentionEntropy final : public LayerHooks {
public:
    AttentionEntropy(const ModelConfig& config, int64_t position);
    [[nodiscard]] LayerTaps taps(int64_t layer) const override;
    [[nodiscard]] StepUse step_use() const override { return {StepUse::Choice::nothing, true}; }
    void observe(const LayerView& view) override;
    [[nodiscard]] const std::vector<float>& bits() const { return m_bits; } ///< [layers]

private:
    int64_t m_position;
    mutable std::vector<float> m_of_heads; ///< where a forward may write those of a layer
    std::vector<float> m_bits;
};

/// Attention that positions [first_pos, position] receive from the query at `position`: the mean over layers and query heads. A layer whose
/// attention is left out gives none.
class AttentionReceived final : public LayerHooks {
public:
    AttentionReceived(const ModelConfig& config, int64_t first_pos, int64_t position);
    [[nodiscard]] LayerTaps taps(int64_t layer) const override;
    [[nodiscard]] StepUse step_use() const override { return {StepUse::Choice::nothing, true}; }
    void observe(const LayerView& view) override;
    [[nodiscard]] const std::vector<float>& received() const {
        return m_received;
    } ///< [position + 1 - first_pos]

private:
    int64_t m_first, m_position;
    double m_share; ///< of one row of a query head
    std::vector<float> m_received;
};

/// Keeps the residual stream: what every layer reads, and what the final norm reads. Costs one copy of
/// layers * rows * hidden floats to the host.
class HiddenCapture final : public LayerHooks {
public:
    /// \param rows     rows of the pass that count, the first ones
    /// \param padding  keep the zero channels that odd widths are padded with (checkpoint/llama_weights.h)
    HiddenCapture(const ModelConfig& config, int64_t rows, bool padding = false);
    [[nodiscard]] LayerTaps taps(int64_t layer) const override;
    void observe(const LayerView& view) override;
    void finish(const at::Tensor& residual) override;
    /// [layers + 1, rows, hidden] fp32 CPU; [0] are the embeddings.
    [[nodiscard]] const at::Tensor& states() const { return m_states; }

private:
    void keep(int64_t layer, const at::Tensor& x);

    at::Tensor m_states;
    int64_t m_first_row = 0; ///< of the chunk under way
};

/// A decode step that is wrong on purpose, for the exactness check (control/exactness.h).
class StepFault final : public LayerHooks {
public:
    int64_t position_shift = 0; ///< the token is rotated (RoPE) as if it stood so many positions further
    int64_t mask_shift = 0;     ///< its query sees so many columns beyond its own, as they are
    void place(std::span<RowPlace> rows) override;
};

} // namespace refreshlab
