// PyramidKV: SnapKV's scores, with a budget that falls from the first layer to the last on a straight line.
// Source: reference/cache-definitions.md, section 5; Cai et al. 2024.
#include "engine/policies/common_parameters.h"
#include "engine/policies/methods/method_list.h"
#include "engine/policies/methods/prompt/window_scores.h"

#include <algorithm>
#include <cmath>

namespace refreshlab {

namespace {

enum class LayerBudgets : uint8_t { exact, whole_steps, kvpress };

class PyramidKv final : public CacheMethodBase<PyramidKv> {
public:
    PyramidKv(const WindowScores& scores, LayerBudgets layer_budgets, const PolicyContext& context)
        : m_scores(scores)
        , m_layer_budgets(layer_budgets)
        , m_context(context) {}

    [[nodiscard]] PolicyNeeds needs() const override { return {.prompt_rows = m_scores.window}; }

    void read_prompt(const PromptView& view, CacheEditor& cache) override {
        if (view.length <= m_scores.budget) return;
        const int64_t count = budgets(view.length)[static_cast<size_t>(view.layer)];
        for (int64_t head = 0; head < m_context.kv_heads; ++head)
            m_scores.keep(view, head, m_scores.score(view, head, m_context.group()), count, cache);
    }

private:
    /// Of each layer, the window not counted.
    [[nodiscard]] std::vector<int64_t> budgets(int64_t length) const {
        if (m_layer_budgets == LayerBudgets::kvpress) return budgets_of_kvpress(length);
        const int64_t base = m_scores.budget - m_scores.window, layers = m_context.layers;
        const int64_t candidates = length - m_scores.window;
        if (length < 2 * base || layers == 1 || base == 0)
            return std::vector<int64_t>(static_cast<size_t>(layers), base);
        int64_t low = base / 20, high = 2 * base - low;
        if (high >= candidates) {
            high = candidates;
            low = 2 * base - high;
        }
        std::vector<int64_t> stepped;
        std::vector<double> line;
        for (int64_t l = 0; l < layers; ++l) {
            stepped.push_back(high - l * ((high - low) / (layers - 1)));
            line.push_back(static_cast<double>(high) -
                           static_cast<double>(l * (high - low)) / static_cast<double>(layers - 1));
        }
        return m_layer_budgets == LayerBudgets::whole_steps ? stepped
                                                            : cache_scores::shares(line, base * layers);
    }
    /// The window is part of the line, each layer is rounded, and a line that would end below the window is flat.
    [[nodiscard]] std::vector<int64_t> budgets_of_kvpress(int64_t length) const {
        const auto all = static_cast<double>(m_scores.budget), window = static_cast<double>(m_scores.window);
        const int64_t layers = m_context.layers;
        double low = all / 20, high = 2 * all - low;
        if (high >= static_cast<double>(length) - window) {
            high = static_cast<double>(length) - window;
            low = 2 * all - high;
        }
        const bool flat = high < low || low < window;
        const double step = flat || layers == 1 ? 0 : (high - low) / static_cast<double>(layers - 1);
        std::vector<int64_t> line;
        for (int64_t l = 0; l < layers; ++l) {
            const double budget = flat ? all : high - static_cast<double>(l) * step;
            line.push_back(static_cast<int64_t>(std::nearbyint(budget)) - m_scores.window); // half to even
        }
        return line;
    }

    WindowScores m_scores;
    LayerBudgets m_layer_budgets;
    PolicyContext m_context;
};

} // namespace

CacheMethod cache_method_list::pyramidkv() {
    using namespace cache_parameters;
    CacheMethod method;
    method.name = "pyramidkv";
    method.label = "PyramidKV";
    method.summary = "As SnapKV, with more entries in the first layers and fewer in the last ones.";
    method.cost = "stores and reads `budget` entries a layer on average, and the generated ones";
    method.source = "Cai et al. 2024";
    method.prompt_only = true;
    method.parameters = {
        budget(),
        window(8),
        kernel(),
        pool(),
        group(),
        choice("layer_budgets", "Layer budgets",
               "exact: on a line that sums to the total; whole_steps: falling by a whole number, as in the "
               "released code, whose sum misses the total; kvpress: the window is part of the line.",
               {"exact", "whole_steps", "kvpress"}, 0),
        per_query_head()};
    method.make = [](const CacheValues& values,
                     const PolicyContext& context) -> std::unique_ptr<CachePolicy> {
        return std::make_unique<PyramidKv>(WindowScores::of(values),
                                           static_cast<LayerBudgets>(values.whole("layer_budgets")), context);
    };
    return method;
}

} // namespace refreshlab
