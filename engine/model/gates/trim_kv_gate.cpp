// TRIM-KV's gate: ln beta = logsigmoid(W2 silu(W1 h) + c) of each token and KV head, beta being the share of its attention that a token
// keeps from step to step. c begins at 10, where hardly anything decays.
// Source: reference/cache-definitions.md, section 11; Bui et al. 2025.
#include "engine/model/gates/token_gate.h"

namespace refreshlab {

GateKind gate_kinds::trim_kv() {
    GateKind kind;
    kind.method = "trim_kv";
    kind.settings = {{"input",
                      "h is what the layer's attention is given, after the norm, or the residual before it",
                      {"normed", "residual"}}};
    kind.weights = [](const ModelConfig& model, int64_t width) {
        return std::vector<GateWeight>{{"w1", {width, model.hidden_size}, true},
                                       {"w2", {model.num_kv_heads, width}},
                                       {"c", {model.num_kv_heads}, false, 10}};
    };
    kind.scores = [](std::span<const at::Tensor> w, const GateSettings& settings, const GateInputs& in,
                     const GateMath& math) {
        const at::Tensor& h = settings.find("input")->second == "normed" ? in.input : in.residual;
        return math.log_sigmoid(math.linear(math.silu(math.linear(h, w[0], {})), w[1], w[2]));
    };
    return kind;
}

} // namespace refreshlab
