#pragma once

#include "engine/model/projection.h"

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace refreshlab {

/// Rows of a prefill that are no tokens: trained vectors in place of embeddings, and trained changes of what they are multiplied by. They
/// alone are changed; the entries that they read are those of the model as it is.
/// Threads  called on the thread of the pass.
class SoftRows {
public:
    SoftRows() = default;
    SoftRows(const SoftRows&) = delete;
    SoftRows& operator=(const SoftRows&) = delete;
    virtual ~SoftRows() = default;

    /// What the first layer reads, [rows, held hidden width]; at most LlamaWeights::chunk_rows rows.
    [[nodiscard]] virtual at::Tensor embedded() const = 0;
    /// \param x     [rows, in], what a projection of a layer is given
    /// \param rows  [rows, out], what it made of it, bias included; to be changed in place
    virtual void project(int64_t layer, Projection place, const at::Tensor& x, at::Tensor& rows) const = 0;
};

} // namespace refreshlab
