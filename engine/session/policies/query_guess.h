#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace refreshlab {

class LlamaModel;

/// What a layer's queries would be if the layer projected what the one below it projects (InfiniGen): known while that layer still runs.
/// Threads  const.
class QueryGuess {
public:
    /// \param model     outlives this
    /// \param own_norm  the input is normalised as the layer itself does; else, as published, as the layer below does. Of models whose
    ///                  projections read the residual as it is both are the same
    QueryGuess(const LlamaModel& model, bool own_norm);
    /// \param input     [1, held hidden width]: what the layer below projects its queries from
    /// \param position  of the token, in a cache of this context (KvCache::context())
    /// \return [1, heads, head_dim], after RoPE
    [[nodiscard]] at::Tensor queries(int64_t layer, const at::Tensor& input, int64_t position,
                                     int64_t context) const;

private:
    const LlamaModel& m_model;
    std::vector<at::Tensor>
        m_norms; ///< of each layer, [held hidden width]: its norm's weights, as parts of those below; or empty
};

} // namespace refreshlab
