// TOVA: above the budget, the entry leaves that the newest token attends least, by the mean over all query heads: one set for
// all KV heads of a layer. The newest token itself stays (as kvpress has it).
// Source: reference/cache-definitions.md, section 4; Oren et al. 2024.
#include "engine/policies/cache_scores.h"
#include "engine/policies/common_parameters.h"
#include "engine/policies/methods/method_list.h"

namespace refreshlab {

namespace {

class Tova final : public CacheMethodBase<Tova> {
public:
    Tova(int64_t budget, const PolicyContext& context)
        : m_budget(budget)
        , m_context(context) {}

    [[nodiscard]] PolicyNeeds needs() const override { return {.prompt_rows = 1, .row = true}; }

    void read_prompt(const PromptView& view, CacheEditor& cache) override {
        thin(view.layer, view.rows, cache);
    }
    void after_attention(const StepView& view, CacheEditor& cache) override {
        thin(view.layer, view.row, cache);
    }
    void set_values(const CacheValues& values) override { m_budget = values.whole("budget"); }

private:
    void thin(int64_t layer, const Cube& rows, CacheEditor& cache) const {
        const auto held = cache.held(layer, 0); // the same in all heads
        const int64_t n = std::ssize(held);
        if (n <= m_budget) return;
        std::vector<std::span<const float>> heads;
        for (int64_t head = 0; head < m_context.heads; ++head)
            heads.push_back(rows.row(0, head).first(static_cast<size_t>(n - 1))); // all but the newest
        const std::vector<float> scores = cache_scores::reduce_group(heads, cache_scores::Group::mean);
        for (int64_t head = 0; head < m_context.kv_heads; ++head)
            cache.score(layer, head, held.first(scores.size()), scores);
        std::vector<int64_t> kept;
        for (const int64_t i : cache_scores::top(scores, m_budget - 1))
            kept.push_back(held[static_cast<size_t>(i)]);
        kept.push_back(held.back());
        for (int64_t head = 0; head < m_context.kv_heads; ++head)
            cache.keep(layer, head, kept);
    }

    int64_t m_budget;
    PolicyContext m_context;
};

} // namespace

CacheMethod cache_method_list::tova() {
    CacheMethod method;
    method.name = "tova";
    method.label = "TOVA";
    method.summary = "At each step the entry leaves that the newest token attends least.";
    method.cost = "stores and reads `budget` entries; a row a step";
    method.source = "Oren et al. 2024";
    method.parameters = {cache_parameters::live(cache_parameters::budget(512))};
    method.make = [](const CacheValues& values,
                     const PolicyContext& context) -> std::unique_ptr<CachePolicy> {
        return std::make_unique<Tova>(values.whole("budget"), context);
    };
    return method;
}

} // namespace refreshlab
