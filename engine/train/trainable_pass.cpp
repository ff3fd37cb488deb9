#include "engine/train/trainable_pass.h"

#include "engine/base/check.h"
#include "engine/base/error.h"
#include "kernels/blocks/blocks.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <map>

namespace refreshlab {

namespace {

/// Rows that attention takes at once: half of what a causal mask hides is never computed, and what is lies in the processor's cache. Of 64,
/// 128, 256 and all rows the fastest on texts of 200 to 1,024 tokens.
constexpr int64_t attention_block = 256;

at::Tensor rms(const at::Tensor& x, const at::Tensor& weight, double eps, int64_t width) {
    const at::Tensor mean = x.square().sum(-1, true) / static_cast<double>(width);
    return x * at::rsqrt(mean + eps) * weight;
}

int64_t columns_before(const TrainablePass::Text& text) {
    return text.before != nullptr ? text.before->k.front().size(0) : 0;
}

/// A mask of this shape: 0 for a share of it, 1 / (1 - share) else. Undefined where nothing is dropped.
at::Tensor kept(const std::optional<TrainablePass::Dropping>& dropping, double Dropout::*share,
                at::IntArrayRef shape, at::Device device) {
    const double dropped = dropping ? dropping->shares.*share : 0;
    if (dropped == 0) return {};
    at::Tensor mask = at::empty(shape, at::kFloat);
    return mask.bernoulli_(1 - dropped, dropping->random).div_(1 - dropped).to(device);
}
at::Tensor times(const at::Tensor& x, const at::Tensor& mask) {
    return mask.defined() ? x * mask : x;
}

} // namespace

at::Tensor turned_heads(const at::Tensor& heads, const at::Tensor& cos, const at::Tensor& sin) {
    const auto halves = heads.chunk(2, -1);
    const at::Tensor c = cos.unsqueeze(1), s = sin.unsqueeze(1);
    return at::cat({halves[0] * c - halves[1] * s, halves[1] * c + halves[0] * s}, -1);
}

TrainablePass::TrainablePass(const LlamaModel& model, const std::string& doing, Products products)
    : m_model(model)
    , m_weights(model.weights())
    , m_products(products) {
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

at::Tensor TrainablePass::factor(const at::Tensor& x) const {
    return m_products == Products::bf16 ? x.to(at::kBFloat16) : x;
}

at::Tensor TrainablePass::linear_of(const at::Tensor& x, const at::Tensor& weight,
                                    const at::Tensor& bias) const {
    return at::linear(factor(x), factor(weight), bias.defined() ? std::optional(factor(bias)) : std::nullopt)
        .to(at::kFloat);
}

/// [rows, columns]: -inf where a row does not read a column, 0 else.
at::Tensor TrainablePass::hidden_columns(int64_t window, const Text& text) const {
    const auto whole = m_weights.embedding.options().dtype(at::kLong).requires_grad(false);
    const int64_t before = columns_before(text);
    const at::Tensor own = at::arange(text.first, text.first + text.rows, whole),
                     place = at::cat({at::arange(before, whole), own});
    const at::Tensor age = own.unsqueeze(1) - place.unsqueeze(0);
    at::Tensor hidden = age.lt(0);
    if (window > 0) hidden = hidden.logical_or(age.ge(window));
    if (!text.refreshed.empty()) {
        RL_ASSERT(std::ssize(text.refreshed) == text.rows);
        at::Tensor refreshed = at::empty({text.rows, 1}, at::kLong);
        std::copy(text.refreshed.begin(), text.refreshed.end(), refreshed.mutable_data_ptr<int64_t>());
        const at::Tensor late = place.unsqueeze(0).ge(refreshed.to(whole.device()));
        hidden = hidden.logical_or(
            at::cat({late.narrow(1, 0, before), late.narrow(1, before, text.rows).logical_not()}, 1));
    }
    return factor(at::zeros(hidden.sizes(), whole.dtype(at::kFloat))
                      .masked_fill(hidden, -std::numeric_limits<double>::infinity()));
}

at::Tensor TrainablePass::attention_of(int64_t layer, const GateInputs& in, const at::Tensor& q,
                                       const Around& around, std::span<const at::Tensor> hidden) const {
    const int64_t group = config().num_heads / config().num_kv_heads;
    const double scale = 1 / std::sqrt(static_cast<double>(config().head_dim));
    const auto by_head = [&](const at::Tensor& kv) { // [heads, columns, d]
        return kv.transpose(0, 1).repeat_interleave(group, 0);
    };
    std::vector<at::Tensor> read;
    int64_t from = 0;
    for (size_t i = 0; i < around.texts.size(); ++i) {
        const Text& text = around.texts[i];
        const int64_t before = columns_before(text), columns = before + text.rows;
        const auto all_columns = [&](const at::Tensor& own, std::vector<at::Tensor> Entries::*part) {
            const at::Tensor rows = own.narrow(0, from, text.rows);
            return by_head(before > 0 ? at::cat({(text.before->*part)[static_cast<size_t>(layer)], rows})
                                      : rows);
        };
        const at::Tensor queries = factor(q.narrow(0, from, text.rows).transpose(0, 1)),
                         keys = factor(all_columns(in.k, &Entries::k));
        // To drop a column's probability in all rows is to drop its value.
        const at::Tensor values =
            factor(times(all_columns(in.v, &Entries::v), kept(around.dropping, &Dropout::attention,
                                                              {config().num_heads, columns, 1}, q.device())));
        const int64_t block = around.change || around.watch ? text.rows : attention_block;
        for (int64_t row = 0; row < text.rows; row += block) {
            const int64_t rows = std::min(block, text.rows - row), seen = before + row + rows;
            const at::Tensor queried = queries.narrow(1, row, rows),
                             keyed = keys.narrow(1, 0, seen).transpose(1, 2),
                             mask = hidden[i].narrow(0, row, rows).narrow(1, 0, seen);
            const at::Tensor logits =
                around.change
                    ? around.change(layer, in, at::bmm(queried, keyed).to(at::kFloat) * scale) + mask
                    : at::baddbmm(mask, queried, keyed, 1, scale);
            const at::Tensor probabilities = at::softmax(logits, -1, at::kFloat);
            if (around.watch) around.watch(layer, in, probabilities);
            read.push_back(at::bmm(factor(probabilities), values.narrow(1, 0, seen))
                               .to(at::kFloat)
                               .transpose(0, 1)
                               .reshape({rows, -1}));
        }
        from += text.rows;
    }
    return at::cat(read);
}

at::Tensor TrainablePass::run(at::Tensor x, const Around& all) const {
    const int64_t n = x.size(0);
    Around around = all;
    const Text whole{n};
    if (around.texts.empty()) around.texts = {&whole, 1};
    RL_ASSERT(around.texts.size() == 1 || (!around.change && !around.watch));
    std::array<std::vector<at::Tensor>, 2> turns_of_rows;
    int64_t rows = 0;
    for (const Text& text : around.texts) {
        const auto [cos, sin] =
            m_model.rope_rows(Rope::global, text.first + text.rows, text.first, text.rows);
        turns_of_rows[0].push_back(cos);
        turns_of_rows[1].push_back(sin);
        rows += text.rows;
    }
    RL_ASSERT(rows == n);
    GateInputs in;
    // Clones, because these may be made in inference mode.
    const at::Tensor turning[] = {at::cat(turns_of_rows[0]).clone(), at::cat(turns_of_rows[1]).clone()},
                     still[] = {at::ones_like(turning[0]), at::zeros_like(turning[0])};
    const auto heads = [&](const at::Tensor& split_rows, const at::Tensor& norm) {
        const at::Tensor split = split_rows.view({n, -1, config().head_dim});
        return norm.defined() ? rms(split, norm, config().rms_norm_eps, config().head_dim) : split;
    };
    const auto dropped = [&](const at::Tensor& made, double Dropout::*share) {
        return times(made, kept(around.dropping, share, made.sizes(), made.device()));
    };
    std::map<int64_t, std::vector<at::Tensor>> hidden; // by window, of each text
    const auto hidden_in = [&](int64_t layer) -> const std::vector<at::Tensor>& {
        const auto [found, fresh] = hidden.try_emplace(config().window(layer));
        if (fresh)
            for (const Text& text : around.texts)
                found->second.push_back(hidden_columns(found->first, text));
        return found->second;
    };
    x = dropped(x, &Dropout::embedding);
    for (int64_t layer = 0; layer < config().num_layers; ++layer) {
        const LlamaLayer& w = m_weights.layers[static_cast<size_t>(layer)];
        const auto projected = [&](Projection place, const at::Tensor& given, const at::Tensor& weight,
                                   const at::Tensor& bias) {
            const at::Tensor made = linear_of(given, weight, bias);
            const at::Tensor more = around.added ? around.added(layer, place, given) : at::Tensor();
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
            const at::Tensor read = attention_of(layer, in, q, around, hidden_in(layer));
            x = x + dropped(projected(Projection::o, read, w.o, w.o_bias), &Dropout::residual);
        }
        if (w.has_mlp) {
            const at::Tensor h = normed(x, w.post_norm);
            const at::Tensor inner = at::silu(projected(Projection::gate, h, w.gate, w.gate_bias)) *
                                     projected(Projection::up, h, w.up, w.up_bias);
            x = x + dropped(projected(Projection::down, inner, w.down, w.down_bias), &Dropout::residual);
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
    return linear_of(normed(x, m_weights.final_norm), head, {});
}

} // namespace refreshlab
