// Locret's gate: W2 silu(W1 [q of all heads; k; v]) of each token, one score for each KV head, no bias.
// Source: reference/cache-definitions.md, section 11; Huang et al. 2024.
#include "engine/model/gates/token_gate.h"
#include "kernels/ops/dense.h"

#include <ATen/ops/cat.h>

namespace refreshlab {

namespace {

/// Queries or keys as they were before RoPE.
at::Tensor turned_back(const at::Tensor& heads, const GateInputs& in) {
    at::Tensor back = heads.clone(at::MemoryFormat::Contiguous);
    kernels::rope_(back, in.cos, in.sin.neg());
    if (in.rope_size != 1) back.narrow(2, 0, 2 * in.cos.size(1)).div_(in.rope_size * in.rope_size);
    return back;
}

} // namespace

GateKind gate_kinds::locret() {
    GateKind kind;
    kind.method = "locret";
    kind.width = 32;
    kind.reads_queries = true;
    kind.settings = {{"rope", "q and k as they are before RoPE turns them, or after", {"before", "after"}}};
    kind.weights = [](const ModelConfig& model, int64_t width) {
        const int64_t in = (model.num_heads + 2 * model.num_kv_heads) * model.head_dim;
        return std::vector<GateWeight>{{"w1", {width, in}}, {"w2", {model.num_kv_heads, width}}};
    };
    kind.scores = [](std::span<const at::Tensor> w, const GateSettings& settings, const GateInputs& in,
                     const GateMath& math) {
        const bool before = settings.find("rope")->second == "before";
        const at::Tensor q = before ? turned_back(in.q, in) : in.q, k = before ? turned_back(in.k, in) : in.k;
        const at::Tensor qkv = at::cat({q.flatten(1), k.flatten(1), in.v.flatten(1)}, 1);
        return math.linear(math.silu(math.linear(qkv, w[0], {})), w[1], {});
    };
    return kind;
}

} // namespace refreshlab
