#include "engine/train/frozen_llama.h"

#include "engine/base/error.h"
#include "engine/model/checkpoint/llama_weights.h"
#include "kernels/blocks/blocks.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <cmath>
#include <limits>

namespace refreshlab {

namespace {

/// A copy that autograd may keep: weights are loaded in inference mode.
at::Tensor frozen(const at::Tensor& weight) {
    if (!weight.defined()) return {};
    if (kernels::is_blocks(weight))
        throw Error("training a gate", {}, "the model's weights are in blocks", "load it with --dtype f32");
    return weight.to(at::kFloat, false, true);
}

at::Tensor linear_of(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias) {
    return at::linear(x, weight, bias.defined() ? std::optional(bias) : std::nullopt);
}

/// RoPE of heads [n, heads, d]; channel c turns with c + d / 2.
at::Tensor turned(const at::Tensor& heads, const at::Tensor& cos, const at::Tensor& sin) {
    const auto halves = heads.chunk(2, -1);
    const at::Tensor c = cos.unsqueeze(1), s = sin.unsqueeze(1);
    return at::cat({halves[0] * c - halves[1] * s, halves[1] * c + halves[0] * s}, -1);
}

at::Tensor rms(const at::Tensor& x, const at::Tensor& weight, double eps, int64_t width) {
    const at::Tensor mean = x.square().sum(-1, true) / static_cast<double>(width);
    return x * at::rsqrt(mean + eps) * weight;
}

} // namespace

FrozenLlama::FrozenLlama(const LlamaModel& model)
    : m_model(model) {
    if (const auto missing = missing_in(Kernels::training, model.config()))
        throw Error(
            "training a gate", {},
            fmt::format("the model has {}, which the forward with gradients does not compute", *missing));
    const LlamaWeights& w = model.weights();
    m_embedding = frozen(w.embedding);
    m_final_norm = frozen(w.final_norm);
    m_head = w.head.is_same(w.embedding) ? m_embedding : frozen(w.head);
    for (const LlamaLayer& from : w.layers) {
        if (!from.attends || !from.has_mlp)
            throw Error("training a gate", {}, "the student leaves sublayers out",
                        "train it for the teacher");
        m_layers.push_back({frozen(from.input_norm), frozen(from.q), frozen(from.k), frozen(from.v),
                            frozen(from.o), frozen(from.post_norm), frozen(from.gate), frozen(from.up),
                            frozen(from.down), frozen(from.q_bias), frozen(from.k_bias), frozen(from.v_bias),
                            frozen(from.o_bias), frozen(from.gate_bias), frozen(from.up_bias),
                            frozen(from.down_bias), frozen(from.q_norm), frozen(from.k_norm)});
    }
}

at::Tensor FrozenLlama::normed(const at::Tensor& x, const at::Tensor& weight) const {
    return rms(x, weight, m_model.config().rms_norm_eps, m_model.config().hidden_size);
}

at::Tensor FrozenLlama::attention_of(int64_t layer, const GateInputs& in, const at::Tensor& q,
                                     const Around& around) const {
    const ModelConfig& config = m_model.config();
    const int64_t n = q.size(0), group = config.num_heads / config.num_kv_heads;
    at::Tensor k = in.k, v = in.v;
    if (around.before != nullptr) {
        const auto at = static_cast<size_t>(layer);
        k = at::cat({around.before->k[at], k});
        v = at::cat({around.before->v[at], v});
    }
    const int64_t keys = k.size(0);
    const auto by_head = [&](const at::Tensor& kv) { // [heads, keys, d]
        return kv.transpose(0, 1).repeat_interleave(group, 0);
    };
    at::Tensor logits = at::matmul(q.transpose(0, 1), by_head(k).transpose(1, 2)) /
                        std::sqrt(static_cast<double>(config.head_dim));
    if (around.change) logits = around.change(layer, in, logits);
    const auto whole = q.options().dtype(at::kLong);
    const at::Tensor age =
        at::arange(keys - n, keys, whole).unsqueeze(1) - at::arange(keys, whole).unsqueeze(0);
    at::Tensor unseen = age.lt(0);
    if (const int64_t window = config.window(layer); window > 0) unseen = unseen.logical_or(age.ge(window));
    logits = logits.masked_fill(unseen, -std::numeric_limits<double>::infinity());
    const at::Tensor probabilities = at::softmax(logits, -1);
    if (around.watch) around.watch(layer, in, probabilities);
    return at::matmul(probabilities, by_head(v)).transpose(0, 1).reshape({n, -1});
}

at::Tensor FrozenLlama::pass(at::Tensor x, const Around& around) const {
    const ModelConfig& config = m_model.config();
    const int64_t n = x.size(0), first = around.before != nullptr ? around.before->k.front().size(0) : 0;
    const auto [cos, sin] = m_model.rope_rows(Rope::global, first + n, first, n);
    GateInputs in;
    // Clones, because these may be made in inference mode.
    const at::Tensor turning[] = {cos.clone(), sin.clone()},
                     still[] = {at::ones_like(turning[0]), at::zeros_like(turning[0])};
    const auto heads = [&](const at::Tensor& rows, const at::Tensor& norm) {
        const at::Tensor split = rows.view({n, -1, config.head_dim});
        return norm.defined() ? rms(split, norm, config.rms_norm_eps, config.head_dim) : split;
    };
    for (int64_t layer = 0; layer < config.num_layers; ++layer) {
        const Layer& w = m_layers[static_cast<size_t>(layer)];
        const auto projected = [&](Projection place, const at::Tensor& rows, const at::Tensor& weight,
                                   const at::Tensor& bias) {
            const at::Tensor made = linear_of(rows, weight, bias);
            return around.soft != nullptr ? made + around.soft->change(layer, place, rows, training_math())
                                          : made;
        };
        const bool turns = config.turns(layer);
        in.cos = (turns ? turning : still)[0];
        in.sin = (turns ? turning : still)[1];
        in.rope_size = turns ? config.rope_scaling.attention_factor : 1;
        in.residual = x;
        in.input = normed(x, w.input_norm);
        in.k = turned(heads(projected(Projection::k, in.input, w.k, w.k_bias), w.k_norm), in.cos, in.sin);
        in.v = heads(projected(Projection::v, in.input, w.v, w.v_bias), {});
        const at::Tensor q =
            turned(heads(projected(Projection::q, in.input, w.q, w.q_bias), w.q_norm), in.cos, in.sin);
        x = x + projected(Projection::o, attention_of(layer, in, q, around), w.o, w.o_bias);
        const at::Tensor h = normed(x, w.post_norm);
        const at::Tensor inner = at::silu(projected(Projection::gate, h, w.gate, w.gate_bias)) *
                                 projected(Projection::up, h, w.up, w.up_bias);
        x = x + projected(Projection::down, inner, w.down, w.down_bias);
    }
    return x;
}

at::Tensor FrozenLlama::run(std::span<const int32_t> ids, const Change& change, const Watch& watch) const {
    at::Tensor index = at::empty({static_cast<int64_t>(ids.size())}, at::kInt);
    std::copy(ids.begin(), ids.end(), index.mutable_data_ptr<int32_t>());
    const at::Tensor x = m_embedding.index_select(0, index.to(m_embedding.device()));
    return at::linear(normed(pass(x, {nullptr, nullptr, change, watch}), m_final_norm), m_head);
}

void FrozenLlama::run_soft(const Entries& text, const TokenGate& gate, const Watch& watch) const {
    static_cast<void>(pass(gate.soft_tokens(), {&text, &gate, {}, watch}));
}

} // namespace refreshlab
