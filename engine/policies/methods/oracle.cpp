// Oracle: the ceiling. It knows the text that will be read, and keeps the entries that the full run will attend to most.
//   F_p[j] = attention that entry j receives from all tokens behind position p, in one pass of the deciding model over the prompt
//            (as the run holds it) and the given text, with every entry kept and no refresh; group mean
//   above the budget, those with the largest F_p stay
// Of entries that nobody will attend to, the newer ones stay. A branch that reads other tokens is still judged by the given text.
// Exact only for that pass: evicting changes what later tokens attend to, and so does a refresh. Our choice; no source.
#include "engine/policies/cache_scores.h"
#include "engine/policies/common_parameters.h"
#include "engine/policies/methods/method_list.h"

#include <algorithm>

namespace refreshlab {

namespace {

class Oracle final : public CacheMethodBase<Oracle> {
public:
    Oracle(const CacheValues& values, const PolicyContext& context)
        : m_budget(values.whole("budget"))
        , m_group(static_cast<cache_scores::Group>(values.whole("group")))
        , m_context(context)
        , m_future(std::make_shared<Future>(static_cast<size_t>(context.layers * context.kv_heads))) {}

    [[nodiscard]] PolicyNeeds needs() const override { return {.future = true}; }
    void set_values(const CacheValues& values) override { m_budget = values.whole("budget"); }

    void read_future(const FutureView& view) override {
        for (int64_t head = 0; head < m_context.kv_heads; ++head) {
            for (int64_t i = 0; i < view.rows.n0; ++i) {
                std::vector<std::span<const float>> heads;
                for (int64_t g = 0; g < m_context.group(); ++g)
                    heads.push_back(view.rows.row(i, head * m_context.group() + g)
                                        .first(static_cast<size_t>(view.first_pos + i + 1)));
                rows(view.layer, head).push_back(cache_scores::reduce_group(heads, m_group));
            }
        }
    }
    void finish_prompt(CacheEditor& cache) override {
        for (Rows& of_head : *m_future) { // attention into sums over what comes
            for (size_t i = of_head.size(); i-- > 1;)
                for (size_t j = 0; j < of_head[i - 1].size(); ++j)
                    of_head[i - 1][j] += of_head[i][j];
        }
        for (int64_t layer = 0; layer < m_context.layers; ++layer)
            thin(layer, m_context.prompt_length - 1, cache);
    }
    void after_attention(const StepView& view, CacheEditor& cache) override {
        thin(view.layer, view.position, cache);
    }

private:
    using Rows =
        std::vector<std::vector<float>>; ///< row i: of the token at prompt_length + i and all behind it
    using Future = std::vector<Rows>;    ///< per layer and KV head

    [[nodiscard]] Rows& rows(int64_t layer, int64_t head) const {
        return (*m_future)[static_cast<size_t>(layer * m_context.kv_heads + head)];
    }

    void thin(int64_t layer, int64_t newest, CacheEditor& cache) const {
        for (int64_t head = 0; head < m_context.kv_heads; ++head) {
            const auto held = cache.held(layer, head);
            if (std::ssize(held) <= m_budget) continue;
            const Rows& future = rows(layer, head);
            const auto next = static_cast<size_t>(newest + 1 - m_context.prompt_length);
            std::vector<float> scores(held.size(), 0.0F);
            for (size_t i = 0; i < held.size() && next < future.size(); ++i)
                scores[i] = future[next][static_cast<size_t>(held[i])];
            cache.score(layer, head, held, scores);
            std::vector<int64_t> kept;
            for (const int64_t i : cache_scores::top(scores, m_budget))
                kept.push_back(held[static_cast<size_t>(i)]);
            cache.keep(layer, head, kept);
        }
    }

    int64_t m_budget;
    cache_scores::Group m_group;
    PolicyContext m_context;
    std::shared_ptr<Future> m_future; ///< of all copies: it never changes once the prompt is finished
};

} // namespace

CacheMethod cache_method_list::oracle() {
    using namespace cache_parameters;
    CacheMethod method;
    method.name = "oracle";
    method.label = "Oracle";
    method.summary = "What the rest of a given text will attend to stays: the ceiling.";
    method.cost =
        "stores and reads `budget` entries; a pass over the text before it begins, and its attention: "
        "4 B a token of the text, position, layer and KV head";
    method.source = "baseline";
    method.parameters = {live(budget()), group(1)};
    method.given_text = true;
    method.make = [](const CacheValues& values,
                     const PolicyContext& context) -> std::unique_ptr<CachePolicy> {
        return std::make_unique<Oracle>(values, context);
    };
    return method;
}

} // namespace refreshlab
