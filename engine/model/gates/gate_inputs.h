#pragma once

#include "engine/cache/kv_cache.h"
#include "engine/model/forward/layer_hooks.h"
#include "engine/model/forward/rope_table.h"
#include "engine/model/gates/token_gate.h"

namespace refreshlab {

/// The rows of a pass in one layer as a gate sees them. \param rope  of the model
[[nodiscard]] inline GateInputs gate_inputs(const LayerView& view, RopeTable& rope) {
    const auto fp32 = [](const at::Tensor& tensor) { return tensor.to(at::kFloat); };
    GateInputs in;
    in.input = fp32(view.input);
    in.residual = fp32(view.residual);
    in.k = fp32(view.k);
    in.v = fp32(view.v);
    if (view.q.defined()) in.q = fp32(view.q);
    in.rope_size = rope.size_of(view.layer);
    std::tie(in.cos, in.sin) =
        rope.rows_of(view.layer, view.cache->context(), view.positions.front(), std::ssize(view.positions));
    return in;
}

} // namespace refreshlab
