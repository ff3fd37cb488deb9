// SnapKV: of the prompt, the columns stay that the last w prompt tokens attend to most, pooled over neighbours, and these w tokens.
// What is generated later stays as well.
// Source: reference/cache-definitions.md, section 5; Li et al. 2024.
#include "engine/policies/common_parameters.h"
#include "engine/policies/methods/method_list.h"
#include "engine/policies/methods/prompt/window_scores.h"

namespace refreshlab {

namespace {

class SnapKv final : public CacheMethodBase<SnapKv> {
public:
    SnapKv(const WindowScores& scores, const PolicyContext& context)
        : m_scores(scores)
        , m_context(context) {}

    [[nodiscard]] PolicyNeeds needs() const override { return {.prompt_rows = m_scores.window}; }

    void read_prompt(const PromptView& view, CacheEditor& cache) override {
        if (view.length <= m_scores.budget) return;
        for (int64_t head = 0; head < m_context.kv_heads; ++head) {
            m_scores.keep(view, head, m_scores.score(view, head, m_context.group()),
                          m_scores.budget - m_scores.window, cache);
        }
    }

private:
    WindowScores m_scores;
    PolicyContext m_context;
};

} // namespace

CacheMethod cache_method_list::snapkv() {
    using namespace cache_parameters;
    CacheMethod method;
    method.name = "snapkv";
    method.label = "SnapKV";
    method.summary = "Of the prompt, what its last tokens attend to stays; all that is generated stays.";
    method.cost = "stores and reads `budget` entries and the generated ones; a window of rows, once";
    method.source = "Li et al. 2024";
    method.prompt_only = true;
    method.parameters = {budget(), window(), kernel(), pool(), group(), per_query_head()};
    method.make = [](const CacheValues& values,
                     const PolicyContext& context) -> std::unique_ptr<CachePolicy> {
        return std::make_unique<SnapKv>(WindowScores::of(values), context);
    };
    return method;
}

} // namespace refreshlab
