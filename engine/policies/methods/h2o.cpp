// H2O (heavy hitters): acc[j] = the attention that entry j received from every query so far, those of the prompt included. Above
// the budget, the newest half (`recent`) stays, and of the others those with the largest acc.
// Source: reference/cache-definitions.md, section 4; Zhang et al. 2023.
#include "engine/policies/cache_scores.h"
#include "engine/policies/common_parameters.h"
#include "engine/policies/methods/method_list.h"

#include <algorithm>

namespace refreshlab {

namespace {

using cache_scores::Group;

class H2o final : public CacheMethodBase<H2o> {
public:
    H2o(int64_t budget, double recent, Group group, bool per_query_mean, const PolicyContext& context)
        : m_budget(budget)
        , m_recent(recent)
        , m_group(group)
        , m_per_query_mean(per_query_mean)
        , m_context(context)
        , m_acc(static_cast<size_t>(context.layers * context.kv_heads)) {}

    [[nodiscard]] PolicyNeeds needs() const override { return {.prompt_sums = true, .row = true}; }

    void read_prompt(const PromptView& view, CacheEditor& cache) override {
        for (int64_t head = 0; head < m_context.kv_heads; ++head) {
            acc(view.layer, head) =
                cache_scores::reduce_group(cache_scores::heads_of(view.sums, m_context, head), m_group);
            thin(view.layer, head, view.length - 1, cache);
        }
    }
    void after_attention(const StepView& view, CacheEditor& cache) override {
        for (int64_t head = 0; head < m_context.kv_heads; ++head) {
            const std::vector<float> row =
                cache_scores::reduce_group(cache_scores::heads_of(view.row, m_context, head), m_group);
            std::vector<float>& sums = acc(view.layer, head);
            sums.resize(cache.held(view.layer, head).size(),
                        0); // the new entry starts with its own attention
            for (size_t i = 0; i < sums.size(); ++i)
                sums[i] += row[i];
            thin(view.layer, head, view.position, cache);
        }
    }

    void set_values(const CacheValues& values) override { m_budget = values.whole("budget"); }

private:
    [[nodiscard]] std::vector<float>& acc(int64_t layer, int64_t head) {
        return m_acc[static_cast<size_t>(layer * m_context.kv_heads + head)];
    }

    void thin(int64_t layer, int64_t head, int64_t newest, CacheEditor& cache) {
        const auto held = cache.held(layer, head);
        const int64_t n = std::ssize(held);
        if (n <= m_budget) return;
        std::vector<float>& sums = acc(layer, head);
        const auto heavy = static_cast<int64_t>(static_cast<double>(m_budget) * (1 - m_recent));
        const int64_t recent = m_budget - heavy;
        std::vector<float> scores(sums.begin(), sums.begin() + (n - recent));
        for (size_t i = 0; i < scores.size() && m_per_query_mean;
             ++i) // queries that saw it: its own and all later ones
            scores[i] /= static_cast<float>(newest - held[i] + 1);
        cache.score(layer, head, held.first(scores.size()), scores);
        std::vector<int64_t> stay = cache_scores::top(scores, heavy);
        for (int64_t i = n - recent; i < n; ++i)
            stay.push_back(i);
        std::vector<int64_t> kept;
        std::vector<float> kept_sums;
        for (const int64_t i : stay) {
            kept.push_back(held[static_cast<size_t>(i)]);
            kept_sums.push_back(sums[static_cast<size_t>(i)]);
        }
        sums = std::move(kept_sums);
        cache.keep(layer, head, kept);
    }

    int64_t m_budget;
    double m_recent; ///< share of the budget
    Group m_group;
    bool m_per_query_mean;
    PolicyContext m_context;
    std::vector<std::vector<float>> m_acc; ///< per layer and KV head, one number per held entry; 4 B each
};

} // namespace

CacheMethod cache_method_list::h2o() {
    using namespace cache_parameters;
    CacheMethod method;
    method.name = "h2o";
    method.label = "H2O";
    method.summary =
        "The newest half stays, and of the others those that received the most attention so far.";
    method.cost = "stores and reads `budget` entries; column sums of the prompt, a row a step";
    method.source = "Zhang et al. 2023";
    method.parameters = {
        live(budget(2048)), recent(), group(1),
        flag("per_query_mean", "Mean per query",
             "Divides an entry's sum by the number of queries that saw it: sums favour old tokens.", false),
        per_query_head()};
    method.make = [](const CacheValues& values,
                     const PolicyContext& context) -> std::unique_ptr<CachePolicy> {
        return std::make_unique<H2o>(values.whole("budget"), values.real("recent"),
                                     static_cast<Group>(values.whole("group")), values.flag("per_query_mean"),
                                     context);
    };
    return method;
}

} // namespace refreshlab
