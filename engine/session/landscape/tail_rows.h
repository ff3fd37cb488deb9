#pragma once

#include "engine/model/forward/layer_hooks.h"
#include "engine/model/model_config.h"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>
#include <vector>

namespace refreshlab {

/// Rows of one forward that share a cache's first columns, each up to a number of its own, and go on with tails of their own
/// (AttentionInputs::tails): so many runs that differ in their last refresh are read at once.
class TailRows final : public LayerHooks {
public:
    /// \param places  of the rows; num_visible = the shared columns that a row sees
    /// \param tails   per row the columns behind them, its own one last; at least as many lists as places (asserted)
    /// The configuration outlives this.
    TailRows(const ModelConfig& config, std::vector<RowPlace> places,
             std::span<const std::vector<int64_t>> tails);

    void place(std::span<RowPlace> rows) override;
    void attend(int64_t layer, kernels::AttentionInputs& inputs) override;

private:
    const ModelConfig& m_config;
    std::vector<RowPlace> m_places;
    at::Tensor m_tails;           ///< [rows, longest], -1 behind the end of a list
    std::vector<int64_t> m_first; ///< of a layer with a sliding window
};

} // namespace refreshlab
