// Attention-Gate: a small attention block over a prompt's hidden states says of each token and KV head how likely it is kept:
// sigmoid(Wo a + c), a = softmax(q k^T / sqrt(width)) v of the block's own q, k and v.
// Source: reference/cache-definitions.md, section 11; Zeng et al. 2024 (Attention-Gate).
#include "engine/model/gates/token_gate.h"

#include <ATen/ATen.h>

#include <cmath>

namespace refreshlab {

namespace {

constexpr int64_t gate_rows_at_once = 512; // over 32k tokens: 67 MB

at::Tensor keeps(std::span<const at::Tensor> w, const GateSettings& settings, const at::Tensor& qkv,
                 const GateMath& math) {
    const auto parts = qkv.chunk(3, 1);
    const int64_t length = qkv.size(0);
    const at::Tensor q = parts[0] / std::sqrt(static_cast<double>(parts[0].size(1))),
                     k = parts[1].contiguous(), v = parts[2].t().contiguous();
    const bool causal = settings.find("sees")->second == "earlier";
    std::vector<at::Tensor> all;
    for (int64_t first = 0; first < length; first += gate_rows_at_once) {
        const int64_t n = std::min(gate_rows_at_once, length - first);
        at::Tensor logits = math.linear(q.narrow(0, first, n).contiguous(), k, {});
        if (causal) {
            const at::Tensor later =
                at::ones(logits.sizes(), logits.options().dtype(at::kBool)).triu(first + 1);
            logits = logits.masked_fill(later, -std::numeric_limits<double>::infinity());
        }
        all.push_back(math.linear(math.linear(at::softmax(logits, -1), v, {}), w[3], w[4]));
    }
    return at::sigmoid(at::cat(all));
}

} // namespace

GateKind gate_kinds::attention_gate() {
    GateKind kind;
    kind.method = "attention_gate";
    kind.width = 32;
    kind.settings = {{"input",
                      "h is what the layer's attention is given, after the norm, or the residual before it",
                      {"normed", "residual"}},
                     {"sees",
                      "a token's score depends on the whole prompt, or on what is before it",
                      {"prompt", "earlier"}}};
    kind.weights = [](const ModelConfig& model, int64_t width) {
        return std::vector<GateWeight>{{"q", {width, model.hidden_size}, true},
                                       {"k", {width, model.hidden_size}, true},
                                       {"v", {width, model.hidden_size}, true},
                                       {"o", {model.num_kv_heads, width}},
                                       {"c", {model.num_kv_heads}, false, 2}}; // most are kept at first
    };
    kind.scores = [](std::span<const at::Tensor> w, const GateSettings& settings, const GateInputs& in,
                     const GateMath& math) {
        const at::Tensor& h = settings.find("input")->second == "normed" ? in.input : in.residual;
        return at::cat({math.linear(h, w[0], {}), math.linear(h, w[1], {}), math.linear(h, w[2], {})}, 1);
    };
    kind.together = keeps;
    return kind;
}

} // namespace refreshlab
