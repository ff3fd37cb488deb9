// ARKV (adaptive, resource-efficient): entries are evicted, stored in eight bits or kept as they are, by their layer's preference.
//   preference of a layer = disp^(1/tau1) * var^(1/tau2) * kurtosis^(1/tau3), moments of the window of w prompt rows as in CAKE;
//   o_l = preference / that of the layer with the largest
//   prompt: score = mean + variance_weight * variance over the window's rows, pooled by the mean, mean of the group; the best
//           budget - w and the window stay
//   step:   above the budget, score = the new token's row on all but the newest w, pooled by the mean, mean of the group; the best three
//           quarters of them stay, and the newest w. Of the best, o_l * (budget - w) stay as they are; the others become fp8 (e4m3)
// Ours: preferences are divided by the largest once, after the last layer has read the prompt (the released code: by the largest layer so
// far); what is fp8 stays so and is not coded again; a scale belongs to an entry of a KV head, keys and values apart (there to a token,
// but the heads of a layer keep different ones).
// Source: reference/cache-definitions.md, section 9; Lei and Ilager 2026 (ARKV).
#include "engine/policies/cache_scores.h"
#include "engine/policies/common_parameters.h"
#include "engine/policies/methods/method_list.h"
#include "engine/policies/methods/prompt/window_moments.h"
#include "engine/policies/methods/storage/fp8.h"

#include <algorithm>
#include <cmath>

namespace refreshlab {

namespace {

constexpr double stays_of_the_past = 0.75;

class Arkv final : public CacheMethodBase<Arkv> {
public:
    Arkv(const CacheValues& values, const PolicyContext& context)
        : m_budget(values.whole("budget"))
        , m_window(values.whole("window"))
        , m_kernel(values.whole("kernel"))
        , m_tau1(values.real("tau1"))
        , m_tau2(values.real("tau2"))
        , m_tau3(values.real("tau3"))
        , m_variance_weight(values.real("variance_weight"))
        , m_context(context)
        , m_codec(std::make_shared<Fp8Rows>())
        , m_share(static_cast<size_t>(context.layers), 0)
        , m_coded(static_cast<size_t>(context.layers * context.kv_heads)) {
        if (m_budget <= m_window) m_window = std::max<int64_t>(m_budget / 2, 1);
    }

    [[nodiscard]] PolicyNeeds needs() const override {
        return {.prompt_rows = m_window, .row = true, .encodes = true};
    }

    void read_prompt(const PromptView& view, CacheEditor& cache) override {
        if (view.length <= m_window) return; // nothing to look at
        WindowMoments moments;
        for (int64_t head = 0; head < m_context.kv_heads; ++head) {
            const std::vector<float> scores =
                moments.add(view, head, m_context, {m_window, m_kernel, m_variance_weight});
            if (view.length > m_budget)
                static_cast<void>(thin(view.layer, head, scores, m_budget - m_window, cache));
        }
        m_share[static_cast<size_t>(view.layer)] = std::pow(moments.dispersion(), 1 / m_tau1) *
                                                   std::pow(moments.change, 1 / m_tau2) *
                                                   std::pow(moments.kurtosis, 1 / m_tau3);
    }

    void finish_prompt(CacheEditor& cache) override {
        (void)cache;
        const double largest = *std::ranges::max_element(m_share);
        for (double& share : m_share) // no layer has a preference: all of them are as good
            share = largest > 0 ? share / largest : 1;
    }

    void after_attention(const StepView& view, CacheEditor& cache) override {
        for (int64_t head = 0; head < m_context.kv_heads; ++head) {
            const int64_t past = std::ssize(cache.held(view.layer, head)) - m_window;
            if (past + m_window <= m_budget) continue;
            std::vector<float> row = cache_scores::reduce_group(
                cache_scores::heads_of(view.row, m_context, head), cache_scores::Group::mean);
            row.resize(static_cast<size_t>(past));
            const std::vector<float> scores =
                cache_scores::pooled(row, m_kernel, cache_scores::Pooling::mean);
            const auto stay = static_cast<int64_t>(std::floor(stays_of_the_past * static_cast<double>(past)));
            const std::vector<float> left = thin(view.layer, head, scores, stay, cache);
            encode_rest(view.layer, head, left, cache);
        }
    }

private:
    /// Keeps the `count` best of the first entries, which have scores, and all behind them.
    /// \return scores of those that stay
    static std::vector<float> thin(int64_t layer, int64_t head, const std::vector<float>& scores,
                                   int64_t count, CacheEditor& cache) {
        const auto held = cache.held(layer, head);
        cache.score(layer, head, held.first(scores.size()), scores);
        std::vector<int64_t> kept;
        std::vector<float> left;
        for (const int64_t i : cache_scores::top(scores, count)) {
            kept.push_back(held[static_cast<size_t>(i)]);
            left.push_back(scores[static_cast<size_t>(i)]);
        }
        kept.insert(kept.end(), held.begin() + std::ssize(scores), held.end());
        cache.keep(layer, head, kept);
        return left;
    }

    /// \param scores  of the first entries; those behind them are the newest
    void encode_rest(int64_t layer, int64_t head, const std::vector<float>& scores, CacheEditor& cache) {
        const auto view = cache.held(layer, head);
        const std::vector<int64_t> held(view.begin(), view.end()); // encode() ends the view
        std::vector<int64_t>& coded = m_coded[static_cast<size_t>(layer * m_context.kv_heads + head)];
        std::erase_if(coded, [&](int64_t p) { return !std::ranges::binary_search(held, p); });
        const auto full = static_cast<int64_t>(m_share[static_cast<size_t>(layer)] *
                                               static_cast<double>(m_budget - m_window));
        const std::vector<int64_t> as_they_are = cache_scores::top(scores, full);
        std::vector<int64_t> now;
        for (int64_t i = 0; i < std::ssize(scores); ++i) {
            const int64_t position = held[static_cast<size_t>(i)];
            if (!std::ranges::binary_search(as_they_are, i) && !std::ranges::binary_search(coded, position))
                now.push_back(position);
        }
        for (const int64_t position : now) { // a block each: what is evicted later takes its bytes along
            cache.encode(layer, head, KvHalf::keys, {&position, 1}, m_codec);
            cache.encode(layer, head, KvHalf::values, {&position, 1}, m_codec);
        }
        coded.insert(coded.end(), now.begin(), now.end());
        std::ranges::sort(coded);
    }

    int64_t m_budget, m_window, m_kernel;
    double m_tau1, m_tau2, m_tau3, m_variance_weight;
    PolicyContext m_context;
    std::shared_ptr<const EntryCodec> m_codec;
    std::vector<double> m_share;               ///< per layer: its preference, then o_l
    std::vector<std::vector<int64_t>> m_coded; ///< per layer and KV head: positions in fp8, ascending
};

} // namespace

CacheMethod cache_method_list::arkv() {
    using namespace cache_parameters;
    CacheMethod method;
    method.name = "arkv";
    method.label = "ARKV";
    method.summary = "Above the budget a quarter of the older entries leaves; of those that stay each layer "
                     "keeps a part as it is and stores the others in eight bits.";
    method.cost = "stores and reads `budget` entries at most, a part of them in 1 B a number and 4 B a row; "
                  "decoded where attention reads; a window of rows, once, and a row a step";
    method.source = "Lei and Ilager 2026 (ARKV)";
    method.parameters = {
        budget(),
        window(),
        kernel(5),
        real("tau1", "Tau of spread", "", "The larger, the less a layer's spread counts.", 0.05, 10, 7.77),
        real("tau2", "Tau of change", "", "The larger, the less a layer's change counts.", 0.05, 10, 5.41),
        real("tau3", "Tau of peaks", "", "The larger, the less the kurtosis of a layer's rows counts.", 0.05,
             10, 5.53),
        real("variance_weight", "Weight of variance", "",
             "Of the variance over the window's rows in the score of a prompt's entry.", 0, 1000, 264)};
    method.make = [](const CacheValues& values,
                     const PolicyContext& context) -> std::unique_ptr<CachePolicy> {
        return std::make_unique<Arkv>(values, context);
    };
    return method;
}

} // namespace refreshlab
