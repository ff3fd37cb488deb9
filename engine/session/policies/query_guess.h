#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace refreshlab {

class LlamaModel;

/// What a layer's queries would be if the layer projected what the one below it projects (InfiniGen): known while that layer still runs.
/// Threads  const.
class QueryGuess {
public:
    explicit QueryGuess(const LlamaModel& model) ///< outlives this
        : m_model(model) {}
    /// \param input     [1, held hidden width]: what the layer below projects its queries from
    /// \param position  of the token, in a cache of this context (KvCache::context())
    /// \return [1, heads, head_dim], after RoPE
    [[nodiscard]] at::Tensor queries(int64_t layer, const at::Tensor& input, int64_t position,
                                     int64_t context) const;

private:
    const LlamaModel& m_model;
};

} // namespace refreshlab
