#include "engine/train/compress_kv_profile.h"

#include "engine/base/check.h"
#include "engine/base/error.h"
#include "engine/cache/kv_cache.h"
#include "engine/model/forward/layer_hooks.h"
#include "engine/policies/cache_scores.h"
#include "kernels/blocks/blocks.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <set>

namespace refreshlab {

namespace {

constexpr int64_t window = 8, kernel = 5, own_heads = 4;

/// The text's rows from the window before the answer on, layer by layer.
class EndRows : public LayerHooks {
public:
    explicit EndRows(const NeedleText& text)
        : m_text(text) {}
    [[nodiscard]] int64_t first_row() const { return m_text.answer_begin - window; }
    [[nodiscard]] LayerTaps taps(int64_t) const override {
        LayerTaps taps;
        taps.attention_from = first_row();
        return taps;
    }

protected:
    const NeedleText& m_text;
};

/// What every head gives the needle: [layers][rows, heads].
class NeedleAttention final : public EndRows {
public:
    using EndRows::EndRows;
    void observe(const LayerView& view) override {
        if (!view.attention.defined()) return;
        given.resize(static_cast<size_t>(view.layer) + 1);
        given.back() = view.attention.narrow(2, m_text.needle_begin, m_text.needle_end - m_text.needle_begin)
                           .sum(2)
                           .to(at::kCPU);
    }
    std::vector<at::Tensor> given; ///< a left-out layer's is undefined
};

/// What compression changes of every layer's attention.
class CompressionError final : public EndRows {
public:
    CompressionError(const NeedleText& text, const std::vector<std::vector<int64_t>>& heads, int64_t budget)
        : EndRows(text)
        , m_heads(heads)
        , m_budget(budget) {}

    void observe(const LayerView& view) override {
        if (!view.attention.defined()) return;
        const at::Tensor kept = kept_columns(view);
        const at::Tensor weight =
            (kernels::is_blocks(view.output) ? kernels::block_values(view.output) : view.output)
                .to(at::kFloat);
        const int64_t rows = view.attention.size(0) - window, n = view.attention.size(2),
                      kv_heads = view.cache->num_kv_heads(), heads = view.attention.size(1);
        const at::Tensor all = view.attention.narrow(0, window, rows); // of the answer
        // Attention is a softmax: without some keys it is the same numbers, scaled to a sum of 1.
        const at::Tensor part = all * kept;
        const at::Tensor less = part / part.sum(2, true);
        std::vector<int64_t> positions(static_cast<size_t>(n));
        std::iota(positions.begin(), positions.end(), 0);
        double difference = 0, size = 0;
        at::Tensor changed, whole;
        for (int64_t head = 0; head < heads; ++head) {
            const at::Tensor values =
                view.cache->read(view.layer, head / (heads / kv_heads), positions)[1].to(all.device(),
                                                                                         at::kFloat);
            const int64_t d = values.size(1);
            const at::Tensor project = weight.narrow(1, head * d, d).t();
            const auto add = [&](at::Tensor& sum, const at::Tensor& by) {
                const at::Tensor out = at::matmul(at::matmul(by.select(1, head), values), project);
                sum = sum.defined() ? sum + out : out;
            };
            add(whole, all);
            add(changed, all - less);
        }
        size = whole.norm().item<double>();
        difference = changed.norm().item<double>();
        errors.resize(static_cast<size_t>(view.layer) + 1, 0);
        errors.back() = size > 0 ? difference / size : 0;
    }
    std::vector<double> errors; ///< [layers]; 0 of a left-out one

private:
    /// [n]: 1 where the policy would keep a column of the text before the answer, and for the answer.
    [[nodiscard]] at::Tensor kept_columns(const LayerView& view) const {
        const int64_t n = view.attention.size(2), columns = m_text.answer_begin - window;
        std::vector<float> sums(static_cast<size_t>(columns), 0);
        for (const int64_t head : m_heads[static_cast<size_t>(view.layer)]) {
            const at::Tensor mean = view.attention.narrow(0, 0, window)
                                        .select(1, head)
                                        .narrow(1, 0, columns)
                                        .mean(0)
                                        .to(at::kCPU)
                                        .contiguous();
            const std::vector<float> scores =
                cache_scores::pooled({mean.const_data_ptr<float>(), static_cast<size_t>(columns)}, kernel,
                                     cache_scores::Pooling::mean);
            std::ranges::transform(sums, scores, sums.begin(), std::plus<>());
        }
        at::Tensor kept = at::zeros({n}, at::kFloat);
        float* const flags = kept.mutable_data_ptr<float>();
        for (const int64_t column : cache_scores::top(sums, m_budget - window))
            flags[column] = 1;
        std::fill(flags + columns, flags + n, 1.0F);
        return kept.to(view.attention.device());
    }

    const std::vector<std::vector<int64_t>>& m_heads;
    int64_t m_budget;
};

/// Reads a text: up to the window without hooks, the rest with one. \return logits of the rest's rows
at::Tensor read(const LlamaModel& model, const NeedleText& text, EndRows& hook) {
    const auto cache = model.make_cache(std::ssize(text.ids));
    const auto before = static_cast<size_t>(hook.first_row());
    StepInputs in;
    in.tokens = std::span(text.ids).first(before);
    in.rows = Rows::none;
    if (before > 0) static_cast<void>(model.forward().prefill(*cache, in));
    in.tokens = std::span(text.ids).subspan(before);
    in.rows = Rows::all;
    LayerHooks* const hooks[] = {&hook};
    in.hooks = hooks;
    return model.forward().prefill(*cache, in).logits;
}

/// [layers][heads]: mean attention to the needle where the first choice is one of its tokens.
std::vector<std::vector<double>> needle_attention(const LlamaModel& model, std::span<const NeedleText> texts,
                                                  const std::function<bool(double)>& progress) {
    const ModelConfig& config = model.config();
    std::vector<std::vector<double>> sums(static_cast<size_t>(config.num_layers),
                                          std::vector<double>(static_cast<size_t>(config.num_heads), 0));
    int64_t found = 0;
    for (size_t i = 0; i < texts.size(); ++i) {
        if (!progress(0.5 * static_cast<double>(i) / static_cast<double>(texts.size()))) return {};
        const NeedleText& text = texts[i];
        const std::set<int64_t> needle(text.ids.begin() + text.needle_begin,
                                       text.ids.begin() + text.needle_end);
        NeedleAttention hook(text);
        const at::Tensor choices = read(model, text, hook).argmax(1).to(at::kCPU);
        // The answer's first token is chosen by the row before it.
        for (int64_t row = window - 1; row + 1 < choices.size(0); ++row) {
            if (!needle.contains(choices[row].item<int64_t>())) continue;
            ++found;
            for (size_t layer = 0; layer < hook.given.size(); ++layer) {
                if (!hook.given[layer].defined()) continue;
                const at::Tensor of_row = hook.given[layer][row].contiguous();
                for (size_t head = 0; head < sums[layer].size(); ++head)
                    sums[layer][head] += static_cast<double>(of_row.const_data_ptr<float>()[head]);
            }
        }
    }
    if (found == 0)
        throw Error("measuring a profile", {}, "the model never answered with a word of the needle",
                    "give shorter texts, or of the kind that the model knows");
    for (auto& layer : sums)
        for (double& sum : layer)
            sum /= static_cast<double>(found);
    return sums;
}

} // namespace

std::optional<CacheProfile> measure_compress_kv(const LlamaModel& model, std::span<const NeedleText> texts,
                                                double share, const std::function<bool(double)>& progress) {
    RL_ASSERT(!texts.empty());
    const ModelConfig& config = model.config();
    const auto given = needle_attention(model, texts, progress);
    if (given.empty()) return std::nullopt;
    std::vector<std::vector<int64_t>> heads;
    for (const std::vector<double>& layer : given)
        heads.push_back(cache_scores::top(std::vector<float>(layer.begin(), layer.end()),
                                          std::min(own_heads, config.num_heads)));
    std::vector<double> errors(static_cast<size_t>(config.num_layers), 0);
    for (size_t i = 0; i < texts.size(); ++i) {
        if (!progress(0.5 + 0.5 * static_cast<double>(i) / static_cast<double>(texts.size())))
            return std::nullopt;
        const auto budget =
            std::max<int64_t>(std::llround(share * static_cast<double>(texts[i].answer_begin)), 2 * window);
        CompressionError hook(texts[i], heads, budget);
        static_cast<void>(read(model, texts[i], hook));
        for (size_t layer = 0; layer < hook.errors.size(); ++layer)
            errors[layer] += hook.errors[layer] / static_cast<double>(texts.size());
    }
    CacheProfile profile;
    profile.method = "compress_kv";
    for (size_t layer = 0; layer < errors.size(); ++layer)
        profile.layers.push_back(
            {{"heads", {heads[layer].begin(), heads[layer].end()}}, {"error", {errors[layer]}}});
    return profile;
}

} // namespace refreshlab
