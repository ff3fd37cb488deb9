// LookaheadKV: soft tokens that are read behind a prompt, and a change of low rank of all projections, which these rows alone go through:
// y = W x + alpha / r * B A x. No token is scored by itself; the soft tokens' attention says what an answer will read.
// Source: reference/cache-definitions.md, section 11; Ahn et al. 2026 (LookaheadKV); Hu et al. 2021 (LoRA).
#include "engine/model/gates/token_gate.h"

#include <array>

namespace refreshlab {

namespace {

constexpr int64_t num_soft_tokens = 32;
constexpr double alpha = 32;

/// Names of A and B, and how wide they are.
struct Change {
    std::string_view a, b;
    int64_t in, out;
    bool held_in = true, held_out = true; ///< hidden or intermediate widths
};

std::array<Change, num_projections> changes_of(const ModelConfig& model) {
    const int64_t hidden = model.hidden_size, inner = model.intermediate_size,
                  q = model.num_heads * model.head_dim, kv = model.num_kv_heads * model.head_dim;
    return {{{"q_a", "q_b", hidden, q, true, false},
             {"k_a", "k_b", hidden, kv, true, false},
             {"v_a", "v_b", hidden, kv, true, false},
             {"o_a", "o_b", q, hidden, false, true},
             {"gate_a", "gate_b", hidden, inner},
             {"up_a", "up_b", hidden, inner},
             {"down_a", "down_b", inner, hidden}}};
}

} // namespace

GateKind gate_kinds::lookahead_kv() {
    GateKind kind;
    kind.method = "lookahead_kv";
    kind.width = 8;
    kind.weights = [](const ModelConfig& model, int64_t width) {
        std::vector<GateWeight> all{
            {.name = "soft", .shape = {num_soft_tokens, model.hidden_size}, .held_in = true, .shared = true}};
        for (const Change& change : changes_of(model)) {
            all.push_back({.name = change.a, .shape = {width, change.in}, .held_in = change.held_in});
            all.push_back({.name = change.b,
                           .shape = {change.out, width},
                           .held_out = change.held_out,
                           .begins_as_zero = true});
        }
        return all;
    };
    kind.soft_tokens = [](std::span<const at::Tensor> weights) { return weights[0]; };
    kind.change = [](std::span<const at::Tensor> weights, Projection place, const at::Tensor& x,
                     const GateMath& math) {
        const size_t at = 1 + 2 * static_cast<size_t>(place);
        const at::Tensor &a = weights[at], &b = weights[at + 1];
        return math.linear(math.linear(x, a, {}), b, {}) * (alpha / static_cast<double>(a.size(0)));
    };
    return kind;
}

} // namespace refreshlab
