// CAKE (cascading and adaptive): layers share one budget by how widely, and how changeably, their window looks over the prompt.
//   A = rows of the last w prompt queries on the columns before them, of all query heads of a layer
//   disp = -sum A ln(A + 1e-10)        over heads, rows and columns
//   var  = sum of the unbiased variance over the rows, over heads and columns
//   preference of a layer = disp^(1/tau1) * var^(1/tau2); budgets in its ratio, cut to what a layer has, sum exact
//   score of an entry = mean + 200 * variance over the rows, pooled by the mean, mean of the group
// The budgets need all layers, so nothing leaves before the last one has read the prompt. The published code shrinks earlier layers
// while later ones arrive; what it keeps at the end is the same where no layer's budget grows on the way.
// Source: reference/cache-definitions.md, section 5; Qin et al. 2025.
#include "engine/policies/cache_scores.h"
#include "engine/policies/common_parameters.h"
#include "engine/policies/methods/method_list.h"
#include "engine/policies/methods/prompt/window_moments.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace refreshlab {

namespace {

constexpr double weight_of_variance = 200;

class Cake final : public CacheMethodBase<Cake> {
public:
    Cake(const CacheValues& values, const PolicyContext& context)
        : m_budget(values.whole("budget"))
        , m_window(values.whole("window"))
        , m_kernel(values.whole("kernel"))
        , m_tau1(values.real("tau1"))
        , m_tau2(values.real("tau2"))
        , m_context(context) {
        if (m_budget <= m_window) m_window = std::max<int64_t>(m_budget / 2, 1);
    }

    [[nodiscard]] PolicyNeeds needs() const override { return {.prompt_rows = m_window}; }

    void read_prompt(const PromptView& view, CacheEditor& cache) override {
        (void)cache;
        if (view.length <= m_budget + m_window) return;
        WindowMoments moments;
        Layer layer{view.layer, view.length - m_window, 0, {}};
        for (int64_t head = 0; head < m_context.kv_heads; ++head)
            layer.scores.push_back(
                moments.add(view, head, m_context, {m_window, m_kernel, weight_of_variance}));
        layer.preference = std::pow(moments.dispersion(), 1 / m_tau1) * std::pow(moments.change, 1 / m_tau2);
        m_layers.push_back(std::move(layer));
    }

    void finish_prompt(CacheEditor& cache) override {
        const std::vector<int64_t> counts = budgets();
        for (size_t i = 0; i < m_layers.size(); ++i) {
            const Layer& layer = m_layers[i];
            for (int64_t head = 0; head < m_context.kv_heads; ++head) {
                const std::vector<float>& scores = layer.scores[static_cast<size_t>(head)];
                // Column = position: nothing is gone yet.
                cache.score(layer.index, head, cache.held(layer.index, head).first(scores.size()), scores);
                std::vector<int64_t> kept = cache_scores::top(scores, counts[i]);
                for (int64_t p = layer.columns; p < layer.columns + m_window; ++p)
                    kept.push_back(p);
                cache.keep(layer.index, head, kept);
            }
        }
        m_layers.clear();
    }

private:
    struct Layer {
        int64_t index, columns; ///< columns before the window
        double preference;
        std::vector<std::vector<float>> scores; ///< [KV heads][columns]
    };

    /// Columns that each layer keeps beside its window. Their sum is (budget - window) times the layers.
    [[nodiscard]] std::vector<int64_t> budgets() const {
        const int64_t layers = std::ssize(m_layers), total = (m_budget - m_window) * layers;
        double sum = 0;
        for (const Layer& layer : m_layers)
            sum += layer.preference;
        std::vector<int64_t> counts;
        for (const Layer& layer : m_layers) {
            // A model whose windows all look at one column has no preference.
            const double share = sum > 0 ? layer.preference / sum : 1.0 / static_cast<double>(layers);
            counts.push_back(
                std::min(static_cast<int64_t>(share * static_cast<double>(total)), layer.columns));
        }
        // What was cut off, and what truncation left, goes evenly to the layers with room; the rest to the lowest.
        for (int64_t left = total - std::accumulate(counts.begin(), counts.end(), int64_t{0}); left > 0;) {
            std::vector<size_t> open;
            for (size_t i = 0; i < counts.size(); ++i)
                if (counts[i] < m_layers[i].columns) open.push_back(i);
            const int64_t each = std::max<int64_t>(left / std::ssize(open), 1);
            for (const size_t i : open) {
                const int64_t more = std::min({each, left, m_layers[i].columns - counts[i]});
                counts[i] += more;
                left -= more;
            }
        }
        return counts;
    }

    int64_t m_budget, m_window, m_kernel;
    double m_tau1, m_tau2;
    PolicyContext m_context;
    std::vector<Layer> m_layers; ///< of the prompt, until all are read
};

} // namespace

CacheMethod cache_method_list::cake() {
    using namespace cache_parameters;
    CacheMethod method;
    method.name = "cake";
    method.label = "CAKE";
    method.summary =
        "Of the prompt, what its last tokens attend to or attend to changeably; layers share one budget by "
        "how widely they look.";
    method.cost = "stores and reads `budget` entries a layer on average, and the generated ones";
    method.source = "Qin et al. 2025 (CAKE)";
    method.prompt_only = true;
    method.parameters = {
        budget(), window(), kernel(5),
        real("tau1", "Tau of spread", "", "The larger, the less a layer's spread counts.", 0.05, 10, 1.6),
        real("tau2", "Tau of change", "", "The larger, the less a layer's change counts.", 0.05, 10, 0.4)};
    method.make = [](const CacheValues& values,
                     const PolicyContext& context) -> std::unique_ptr<CachePolicy> {
        return std::make_unique<Cake>(values, context);
    };
    return method;
}

} // namespace refreshlab
