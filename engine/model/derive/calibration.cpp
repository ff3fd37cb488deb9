#include "engine/model/derive/calibration.h"

#include "engine/base/check.h"
#include "engine/base/error.h"
#include "engine/cache/kv_cache.h"
#include "engine/model/checkpoint/llama_weights.h"
#include "engine/model/forward/layer_hooks.h"
#include "kernels/blocks/blocks.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

namespace refreshlab {

namespace {

/// Squares of the activations of every channel, each row scaled to length 1, summed over the rows of a pass.
class ChannelSquares final : public LayerHooks {
public:
    explicit ChannelSquares(const ModelConfig& config)
        : m_width(config.intermediate_size)
        , m_squares(static_cast<size_t>(config.num_layers)) {}
    [[nodiscard]] LayerTaps taps(int64_t) const override {
        LayerTaps taps;
        taps.all_rows = true;
        return taps;
    }
    void inner(int64_t layer, const at::Tensor& rows) override {
        const at::Tensor host = rows.narrow(1, 0, m_width).to(at::kCPU, at::kFloat).contiguous();
        std::vector<double>& sums = m_squares[static_cast<size_t>(layer)];
        sums.resize(static_cast<size_t>(m_width));
        for (int64_t r = 0; r < host.size(0); ++r) {
            const float* const row = host.const_data_ptr<float>() + r * m_width;
            double length = 0; // squared
            for (int64_t c = 0; c < m_width; ++c)
                length += static_cast<double>(row[c]) * static_cast<double>(row[c]);
            if (!(length > 0)) continue;
            for (int64_t c = 0; c < m_width; ++c)
                sums[static_cast<size_t>(c)] +=
                    static_cast<double>(row[c]) * static_cast<double>(row[c]) / length;
        }
    }
    [[nodiscard]] const std::vector<std::vector<double>>& squares() const { return m_squares; }

private:
    int64_t m_width;
    std::vector<std::vector<double>> m_squares;
};

std::span<const int32_t> first_tokens(std::span<const int32_t> text, int64_t most,
                                      const ModelConfig& config) {
    const int64_t n = std::min({static_cast<int64_t>(text.size()), most, config.max_position});
    return text.first(static_cast<size_t>(n));
}

/// Norms of the columns of a layer's down_proj.
std::vector<double> column_norms(const at::Tensor& weight, int64_t hidden, int64_t width) {
    const at::Tensor down = kernels::is_blocks(weight) ? kernels::block_values(weight) : weight;
    const at::Tensor host =
        down.narrow(0, 0, hidden).narrow(1, 0, width).to(at::kCPU, at::kFloat).contiguous();
    std::vector<double> norms(static_cast<size_t>(width));
    for (int64_t r = 0; r < hidden; ++r) {
        const float* const row = host.const_data_ptr<float>() + r * width;
        for (int64_t c = 0; c < width; ++c)
            norms[static_cast<size_t>(c)] += static_cast<double>(row[c]) * static_cast<double>(row[c]);
    }
    for (double& norm : norms)
        norm = std::sqrt(norm);
    return norms;
}

/// Logits of every position of a text. \return [text, vocab] fp32
at::Tensor logits_of(const LlamaModel& model, std::span<const int32_t> text) {
    const auto cache = model.make_cache(static_cast<int64_t>(text.size()));
    StepInputs in;
    in.tokens = text;
    in.origin = Origin::teacher_prefill;
    in.rows = Rows::all;
    return model.forward().prefill(*cache, in).logits;
}

/// Mean KL(teacher || student) over the rows.
double mean_kl(const at::Tensor& teacher, const at::Tensor& student) {
    std::vector<int64_t> rows(static_cast<size_t>(teacher.size(0)));
    std::iota(rows.begin(), rows.end(), 0);
    kernels::RowAsk ask;
    ask.kl_against = student;
    ask.kl_rows = rows;
    double sum = 0;
    for (const kernels::RowSummary& row : kernels::summarize_rows(teacher, ask))
        sum += row.kl_nats;
    return sum / static_cast<double>(rows.size());
}

/// Keeps a list ascending.
std::vector<int32_t> with_layer(std::vector<int32_t> layers, int32_t layer) {
    layers.insert(std::ranges::upper_bound(layers, layer), layer);
    return layers;
}

bool contains(const std::vector<int32_t>& layers, int32_t layer) {
    return std::ranges::binary_search(layers, layer);
}

} // namespace

std::vector<std::vector<double>> channel_scores(const LlamaModel& model, std::span<const int32_t> text,
                                                LayerHooks* also) {
    RL_ASSERT(!text.empty());
    const ModelConfig& config = model.config();
    const auto read = first_tokens(text, channel_tokens, config);
    ChannelSquares squares(config);
    LayerHooks* const hooks[] = {&squares, also};
    const auto cache = model.make_cache(static_cast<int64_t>(read.size()));
    StepInputs in;
    in.tokens = read;
    in.origin = Origin::teacher_prefill;
    in.logits = false;
    in.hooks = std::span(hooks).first(also != nullptr ? 2 : 1);
    static_cast<void>(model.forward().prefill(*cache, in));
    std::vector<std::vector<double>> scores = squares.squares();
    for (size_t layer = 0; layer < scores.size(); ++layer) {
        if (scores[layer].empty()) continue;
        const auto norms =
            column_norms(model.weights().layers[layer].down, config.hidden_size, config.intermediate_size);
        for (size_t c = 0; c < norms.size(); ++c)
            scores[layer][c] = std::sqrt(scores[layer][c]) * norms[c];
    }
    return scores;
}

std::vector<int64_t> best_channels(const std::vector<double>& scores, int64_t count) {
    RL_ASSERT(count > 0 && count <= static_cast<int64_t>(scores.size()));
    std::vector<int64_t> order(scores.size());
    std::iota(order.begin(), order.end(), 0);
    std::ranges::stable_sort(order, [&](int64_t a, int64_t b) {
        return scores[static_cast<size_t>(a)] > scores[static_cast<size_t>(b)];
    });
    order.resize(static_cast<size_t>(count));
    std::ranges::sort(order);
    return order;
}

Skips search_skips(const LlamaModel& teacher,
                   const std::function<std::unique_ptr<LlamaModel>(const Skips&)>& with, Skips start,
                   int64_t count, std::span<const int32_t> text, const LoadProgress& progress) {
    RL_ASSERT(!text.empty());
    const auto layers = static_cast<int32_t>(teacher.config().num_layers);
    const auto read = first_tokens(text, search_tokens, teacher.config());
    const at::Tensor wanted = logits_of(teacher, read);
    const auto trials = static_cast<double>(2 * layers * count);
    double done = 0;
    for (int64_t chosen = 0; chosen < count; ++chosen) {
        std::optional<Skips> best;
        double best_kl = 0;
        for (int32_t trial = 0; trial < 2 * layers; ++trial, ++done) {
            if (progress &&
                !progress(done / trials, fmt::format("leaving out sublayer {} of {}", chosen + 1, count)))
                throw Error("deriving a student", {}, "cancelled", {}, ErrorKind::failure);
            const int32_t layer = trial / 2;
            const bool mlp = trial % 2 == 1;
            if (contains(mlp ? start.mlp : start.attention, layer)) continue;
            Skips tried = start;
            (mlp ? tried.mlp : tried.attention) = with_layer(mlp ? start.mlp : start.attention, layer);
            const double kl = mean_kl(wanted, logits_of(*with(tried), read));
            // A student that gives no numbers is worse than any.
            if (!best || (std::isfinite(kl) && (kl < best_kl || !std::isfinite(best_kl)))) {
                best = std::move(tried);
                best_kl = kl;
            }
        }
        RL_ASSERT(best.has_value());
        start = *best;
    }
    return start;
}

} // namespace refreshlab
