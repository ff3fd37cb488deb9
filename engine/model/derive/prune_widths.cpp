#include "engine/model/derive/prune_widths.h"

#include "engine/base/check.h"
#include "engine/base/error.h"
#include "engine/model/checkpoint/llama_weights.h"
#include "engine/model/derive/calibration.h"
#include "engine/model/derive/channel_dims.h"
#include "engine/model/forward/layer_hooks.h"
#include "kernels/ops/dense.h"

#include <ATen/ATen.h>
#include <c10/core/InferenceMode.h>
#include <fmt/format.h>

#include <cmath>

namespace refreshlab {

namespace {

/// Means over the tokens of a text, which may come in several chunks.
class TextMeans {
public:
    /// \param rows  [tokens, held width]
    void add(const at::Tensor& rows, int64_t width) {
        const at::Tensor sum = rows.narrow(1, 0, width).to(at::kCPU, at::kDouble).sum(0);
        m_sum = m_sum.defined() ? m_sum + sum : sum;
        m_tokens += rows.size(0);
    }
    /// The mean of every channel, [width] fp64 on the CPU; undefined where there was no row. Begins again.
    [[nodiscard]] at::Tensor take() {
        const at::Tensor mean = m_sum.defined() ? m_sum / static_cast<double>(m_tokens) : m_sum;
        *this = {};
        return mean;
    }

private:
    at::Tensor m_sum;
    int64_t m_tokens = 0;
};

/// What both norms of every layer give, and what down_proj reads.
class WidthHook final : public LayerHooks {
public:
    explicit WidthHook(const LlamaModel& model)
        : m_model(model)
        , m_means(static_cast<size_t>(model.config().num_layers))
        , m_hidden(at::zeros({model.config().hidden_size}, at::kDouble))
        , m_ffn(m_means.size()) {}

    [[nodiscard]] LayerTaps taps(int64_t) const override {
        LayerTaps taps;
        taps.all_rows = true;
        return taps;
    }
    void observe(const LayerView& view) override {
        layer(view.layer).before.add(view.input, m_model.config().hidden_size);
        m_residual = view.residual.clone();
    }
    void branch(int64_t index, Branch place, at::Tensor& rows) override {
        if (place != Branch::attention_output) return;
        const ModelConfig& config = m_model.config();
        layer(index).after.add(
            kernels::rms_norm(m_residual + rows,
                              m_model.weights().layers[static_cast<size_t>(index)].post_norm,
                              config.rms_norm_eps, config.hidden_size),
            config.hidden_size);
    }
    void inner(int64_t index, const at::Tensor& rows) override {
        layer(index).inner.add(rows, m_model.config().intermediate_size);
    }

    /// The text is read.
    void end_text() {
        at::Tensor sum = at::zeros_like(m_hidden);
        for (size_t l = 0; l < m_means.size(); ++l) {
            Means& means = m_means[l];
            for (const at::Tensor& mean : {means.before.take(), means.after.take()})
                sum += mean.abs();
            const at::Tensor squares = means.inner.take().square();
            m_ffn[l] = m_ffn[l].defined() ? m_ffn[l] + squares : squares;
        }
        m_hidden += sum.square();
    }
    [[nodiscard]] std::vector<double> hidden() const { return numbers(m_hidden.sqrt()); }
    [[nodiscard]] std::vector<std::vector<double>> ffn() const {
        std::vector<std::vector<double>> scores;
        for (const at::Tensor& sum : m_ffn)
            scores.push_back(numbers(sum.sqrt()));
        return scores;
    }

private:
    struct Means {
        TextMeans before, after, inner;
    };
    Means& layer(int64_t index) { return m_means[static_cast<size_t>(index)]; }
    static std::vector<double> numbers(const at::Tensor& x) {
        const auto* const first = x.const_data_ptr<double>();
        return {first, first + x.numel()};
    }

    const LlamaModel& m_model;
    std::vector<Means> m_means; ///< of the text that is read
    at::Tensor m_residual;      ///< what the layer that is computed reads
    at::Tensor m_hidden;        ///< of the texts read: sum of squares
    std::vector<at::Tensor> m_ffn;
};

void refuse(const ModelConfig& config, const char* why) {
    throw Error("pruning widths", config.model_type, why,
                "a model of the block of Llama, Mistral, Qwen 2 or Qwen 3 can be pruned");
}

} // namespace

WidthScores width_scores(const LlamaModel& model, std::span<const std::vector<int32_t>> texts,
                         ChannelScore by, const LoadProgress& progress) {
    const c10::InferenceMode guard;
    RL_ASSERT(!texts.empty());
    WidthHook hook(model);
    WidthScores scores;
    std::vector<std::vector<double>> squares; // of channel_scores(), over the texts
    for (size_t i = 0; i < texts.size(); ++i) {
        if (progress &&
            !progress(static_cast<double>(i) / static_cast<double>(texts.size()), "scoring channels"))
            throw Error("pruning widths", {}, "cancelled", {}, ErrorKind::failure);
        const auto one = channel_scores(model, texts[i], &hook);
        hook.end_text();
        squares.resize(one.size());
        for (size_t l = 0; l < one.size(); ++l) {
            squares[l].resize(one[l].size());
            for (size_t c = 0; c < one[l].size(); ++c)
                squares[l][c] += one[l][c] * one[l][c];
        }
    }
    for (std::vector<double>& layer : squares) {
        for (double& score : layer)
            score = std::sqrt(score);
    }
    return {hook.hidden(), by == ChannelScore::derive ? squares : hook.ffn()};
}

KeptChannels best_widths(const WidthScores& scores, int64_t hidden, int64_t ffn) {
    KeptChannels kept{best_channels(scores.hidden, hidden), {}};
    for (const auto& layer : scores.ffn)
        kept.ffn.push_back(best_channels(layer, ffn));
    return kept;
}

ModelConfig pruned_config(const ModelConfig& model, int64_t hidden, int64_t ffn) {
    if (model.experts.count > 0) refuse(model, "its MLPs are routed experts, whose channels are not chosen");
    if (!model.pre_norms || model.branch_norms)
        refuse(model,
               "it norms what sublayers add to the residual, and channels are scored by what sublayers read");
    if (model.embedding_scale != 1)
        refuse(model, "its embedding is multiplied by the root of the hidden width");
    if (model.multipliers.any())
        refuse(model, "its multipliers of embedding and residual belong to the hidden width");
    const auto require = [&](const char* name, int64_t wanted, int64_t there) {
        if (wanted < 1 || wanted > there)
            throw Error("pruning widths", fmt::format("--{} {}", name, wanted),
                        fmt::format("the model has {} such channels", there),
                        fmt::format("give 1 to {}", there));
    };
    require("hidden", hidden, model.hidden_size);
    require("ffn", ffn, model.intermediate_size);
    ModelConfig config = model;
    config.hidden_size = hidden;
    config.intermediate_size = ffn;
    return config;
}

std::unique_ptr<LlamaModel> prune_widths(const LlamaModel& model, const KeptChannels& kept) {
    const c10::InferenceMode guard;
    RL_ASSERT(!model.keeps_blocks() && !kept.ffn.empty());
    RL_ASSERT(static_cast<int64_t>(kept.ffn.size()) == model.config().num_layers);
    const ModelConfig config =
        pruned_config(model.config(), std::ssize(kept.hidden), std::ssize(kept.ffn.front()));
    const at::Tensor hidden = at::tensor(kept.hidden, at::kLong).to(model.device());
    LlamaWeights weights = model.weights(); // handles
    // The places of the pruned model in the order of the model's own.
    std::vector<WeightPlace> places;
    model.weights().visit(model.config(),
                          [&](const WeightPlace& place, const at::Tensor&) { places.push_back(place); });
    size_t next = 0;
    int64_t bytes = 0;
    weights.replace(config, [&](const WeightPlace& place, const at::Tensor& tensor) {
        const WeightPlace& was = places[next++];
        RL_ASSERT(was.name == place.name);
        at::Tensor part = without_padding(tensor, was.stored);
        if (const int64_t dim = hidden_dim(place); dim >= 0) part = part.index_select(dim, hidden);
        if (const int64_t dim = channel_dim(place); dim >= 0) {
            const auto& channels = kept.ffn[static_cast<size_t>(place.layer)];
            part = part.index_select(dim, at::tensor(channels, at::kLong).to(model.device()));
        }
        part = with_padding(part, place.held);
        bytes += static_cast<int64_t>(part.nbytes());
        return part;
    });
    weights.bytes = bytes;
    return LlamaModel::of_weights(config, std::move(weights), model.device(), model.dtype());
}

} // namespace refreshlab
