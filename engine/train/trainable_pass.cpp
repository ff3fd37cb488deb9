#include "engine/train/trainable_pass.h"

#include "engine/base/check.h"
#include "engine/base/error.h"
#include "kernels/blocks/blocks.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <cmath>
#include <limits>

namespace refreshlab {

namespace {

at::Tensor linear_of(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias) {
    return at::linear(x, weight, bias.defined() ? std::optional(bias) : std::nullopt);
}

at::Tensor rms(const at::Tensor& x, const at::Tensor& weight, double eps, int64_t width) {
    const at::Tensor mean = x.square().sum(-1, true) / static_cast<double>(width);
    return x * at::rsqrt(mean + eps) * weight;
}

int64_t columns_before(const TrainablePass::Around& around) {
    return around.before != nullptr ? around.before->k.front().size(0) : 0;
}

} // namespace

at::Tensor turned_heads(const at::Tensor& heads, const at::Tensor& cos, const at::Tensor& sin) {
    const auto halves = heads.chunk(2, -1);
    const at::Tensor c = cos.unsqueeze(1), s = sin.unsqueeze(1);
    return at::cat({halves[0] * c - halves[1] * s, halves[1] * c + halves[0] * s}, -1);
}

TrainablePass::TrainablePass(const LlamaModel& model, const std::string& doing)
    : m_model(model)
    , m_weights(model.weights()) {
    if (const auto missing = missing_in(Kernels::training, model.config()))
        throw Error(
            doing, {},
            fmt::format("the model has {}, which the forward with gradients does not compute", *missing));
    // Copies, which autograd may keep: weights are loaded in inference mode.
    m_weights.replace(model.config(), [&](const WeightPlace&, const at::Tensor& weight) {
        if (!weight.defined()) return weight;
        if (kernels::is_blocks(weight))
            throw Error(doing, {}, "the model's weights are in blocks", "load it with --dtype f32");
        return weight.to(at::kFloat, false, true);
    });
    if (model.config().tied_head) m_weights.head.reset();
}

at::Tensor TrainablePass::normed(const at::Tensor& x, const at::Tensor& weight) const {
    return rms(x, weight, config().rms_norm_eps, config().hidden_size);
}

at::Tensor TrainablePass::unseen(int64_t layer, int64_t rows, const Around& around) const {
    const auto whole = m_weights.embedding.options().dtype(at::kLong).requires_grad(false);
    const int64_t before = columns_before(around);
    const at::Tensor own = at::arange(around.first, around.first + rows, whole),
                     place = at::cat({at::arange(before, whole), own});
    const at::Tensor age = own.unsqueeze(1) - place.unsqueeze(0);
    at::Tensor mask = age.lt(0);
    if (const int64_t window = config().window(layer); window > 0) mask = mask.logical_or(age.ge(window));
    if (around.refreshed.empty()) return mask;
    RL_ASSERT(std::ssize(around.refreshed) == rows);
    at::Tensor refreshed = at::empty({rows, 1}, at::kLong);
    std::copy(around.refreshed.begin(), around.refreshed.end(), refreshed.mutable_data_ptr<int64_t>());
    refreshed = refreshed.to(whole.device());
    const at::Tensor late = place.unsqueeze(0).ge(refreshed);
    return mask.logical_or(
        at::cat({late.narrow(1, 0, before), late.narrow(1, before, rows).logical_not()}, 1));
}

at::Tensor TrainablePass::attention_of(int64_t layer, const GateInputs& in, const at::Tensor& q,
                                       const Around& around) const {
    const int64_t group = config().num_heads / config().num_kv_heads;
    at::Tensor k = in.k, v = in.v;
    if (around.before != nullptr) {
        const auto at = static_cast<size_t>(layer);
        k = at::cat({around.before->k[at], k});
        v = at::cat({around.before->v[at], v});
    }
    const auto by_head = [&](const at::Tensor& kv) { // [heads, columns, d]
        return kv.transpose(0, 1).repeat_interleave(group, 0);
    };
    at::Tensor logits = at::matmul(q.transpose(0, 1), by_head(k).transpose(1, 2)) /
                        std::sqrt(static_cast<double>(config().head_dim));
    if (around.change) logits = around.change(layer, in, logits);
    logits = logits.masked_fill(unseen(layer, q.size(0), around), -std::numeric_limits<double>::infinity());
    const at::Tensor probabilities = at::softmax(logits, -1);
    if (around.watch) around.watch(layer, in, probabilities);
    return at::matmul(probabilities, by_head(v)).transpose(0, 1).reshape({q.size(0), -1});
}

at::Tensor TrainablePass::run(at::Tensor x, const Around& around) const {
    const int64_t n = x.size(0);
    const auto [cos, sin] = m_model.rope_rows(Rope::global, around.first + n, around.first, n);
    GateInputs in;
    // Clones, because these may be made in inference mode.
    const at::Tensor turning[] = {cos.clone(), sin.clone()},
                     still[] = {at::ones_like(turning[0]), at::zeros_like(turning[0])};
    const auto heads = [&](const at::Tensor& rows, const at::Tensor& norm) {
        const at::Tensor split = rows.view({n, -1, config().head_dim});
        return norm.defined() ? rms(split, norm, config().rms_norm_eps, config().head_dim) : split;
    };
    for (int64_t layer = 0; layer < config().num_layers; ++layer) {
        const LlamaLayer& w = m_weights.layers[static_cast<size_t>(layer)];
        const auto projected = [&](Projection place, const at::Tensor& rows, const at::Tensor& weight,
                                   const at::Tensor& bias) {
            const at::Tensor made = linear_of(rows, weight, bias);
            const at::Tensor more = around.added ? around.added(layer, place, rows) : at::Tensor();
            return more.defined() ? made + more : made;
        };
        if (w.attends) {
            const bool turns = config().turns(layer);
            in.cos = (turns ? turning : still)[0];
            in.sin = (turns ? turning : still)[1];
            in.rope_size = turns ? config().rope_scaling.attention_factor : 1;
            in.residual = x;
            in.input = normed(x, w.input_norm);
            in.k = turned_heads(heads(projected(Projection::k, in.input, w.k, w.k_bias), w.k_norm), in.cos,
                                in.sin);
            in.v = heads(projected(Projection::v, in.input, w.v, w.v_bias), {});
            const at::Tensor q = turned_heads(
                heads(projected(Projection::q, in.input, w.q, w.q_bias), w.q_norm), in.cos, in.sin);
            x = x + projected(Projection::o, attention_of(layer, in, q, around), w.o, w.o_bias);
        }
        if (w.has_mlp) {
            const at::Tensor h = normed(x, w.post_norm);
            const at::Tensor inner = at::silu(projected(Projection::gate, h, w.gate, w.gate_bias)) *
                                     projected(Projection::up, h, w.up, w.up_bias);
            x = x + projected(Projection::down, inner, w.down, w.down_bias);
        }
    }
    return x;
}

at::Tensor TrainablePass::embedded(std::span<const int32_t> ids) const {
    at::Tensor index = at::empty({static_cast<int64_t>(ids.size())}, at::kInt);
    std::copy(ids.begin(), ids.end(), index.mutable_data_ptr<int32_t>());
    return m_weights.embedding.index_select(0, index.to(m_weights.embedding.device()));
}

at::Tensor TrainablePass::logits_of(const at::Tensor& x) const {
    const at::Tensor head =
        m_weights.head.defined() ? m_weights.head : m_weights.embedding.narrow(0, 0, config().vocab_size);
    return at::linear(normed(x, m_weights.final_norm), head);
}

} // namespace refreshlab
