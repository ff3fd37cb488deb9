// PyramidKV: SnapKV's scores, with a budget that falls from the first layer to the last on a straight line.
// Source: reference/cache_policies.md, section 5; Cai et al. 2024.
#include "engine/policies/common_parameters.h"
#include "engine/policies/methods/method_list.h"
#include "engine/policies/methods/prompt/window_scores.h"

#include <algorithm>

namespace refreshlab {

namespace {

class PyramidKv final : public CacheMethodBase<PyramidKv> {
public:
    PyramidKv(const WindowScores& scores, bool integer_step, const PolicyContext& context)
        : m_scores(scores)
        , m_integer_step(integer_step)
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
        return m_integer_step ? stepped : cache_scores::shares(line, base * layers);
    }

    WindowScores m_scores;
    bool m_integer_step;
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
    method.parameters = {
        budget(),
        window(8),
        kernel(),
        pool(),
        group(),
        flag("integer_step", "Whole steps",
             "Budgets fall by a whole number from layer to layer, as in the released code; their sum "
             "then misses the total.",
             false)};
    method.make = [](const CacheValues& values,
                     const PolicyContext& context) -> std::unique_ptr<CachePolicy> {
        return std::make_unique<PyramidKv>(WindowScores::of(values), values.flag("integer_step"), context);
    };
    return method;
}

} // namespace refreshlab
