// DapQ (decoding-aligned): what stays of the prompt is judged from where the answer will stand, not from the prompt's own end.
//   N pseudo tokens are read behind the prompt, at positions L .. L+N-1; what they say hardly matters, where they stand does
//   score[h][j] = sum over their rows of the attention on prompt entry j, maximum of the group; not pooled (kernel 1)
// The best `budget` entries stay, none of them by its place. The pseudo tokens' own entries are dropped, and decoding begins at L.
// Ours: the pseudo tokens are the prompt's last N again, which every prompt has.
// Source: reference/cache-definitions.md, section 5; Tian et al. 2026 (DapQ).
#include "engine/policies/cache_scores.h"
#include "engine/policies/common_parameters.h"
#include "engine/policies/methods/method_list.h"

namespace refreshlab {

namespace {

class DapQ final : public CacheMethodBase<DapQ> {
public:
    DapQ(const CacheValues& values, const PolicyContext& context)
        : m_budget(values.whole("budget"))
        , m_pseudo_tokens(values.whole("pseudo_tokens"))
        , m_kernel(values.whole("kernel"))
        , m_pooling(static_cast<cache_scores::Pooling>(values.whole("pool")))
        , m_group(static_cast<cache_scores::Group>(values.whole("group")))
        , m_context(context)
        , m_sums(static_cast<size_t>(context.layers)) {}

    [[nodiscard]] PolicyNeeds needs() const override {
        // Where everything stays nothing is read for it.
        return {.pseudo_tokens = m_context.prompt_length > m_budget ? m_pseudo_tokens : 0};
    }

    void read_future(const FutureView& view) override {
        const auto length = static_cast<size_t>(m_context.prompt_length);
        auto& sums = m_sums[static_cast<size_t>(view.layer)];
        sums.resize(static_cast<size_t>(m_context.heads), std::vector<float>(length, 0));
        for (int64_t row = 0; row < view.rows.n0; ++row)
            for (int64_t head = 0; head < m_context.heads; ++head) {
                const auto attention = view.rows.row(row, head);
                for (size_t j = 0; j < length; ++j)
                    sums[static_cast<size_t>(head)][j] += attention[j];
            }
    }

    void finish_prompt(CacheEditor& cache) override {
        for (size_t layer = 0; layer < m_sums.size(); ++layer) {
            if (m_sums[layer].empty()) continue; // everything fits, or nothing is read here
            const std::vector<std::span<const float>> all(m_sums[layer].begin(), m_sums[layer].end());
            const auto group = static_cast<size_t>(m_context.group());
            for (int64_t head = 0; head < m_context.kv_heads; ++head) {
                const auto heads = std::span(all).subspan(static_cast<size_t>(head) * group, group);
                const std::vector<float> scores =
                    cache_scores::pooled(cache_scores::reduce_group(heads, m_group), m_kernel, m_pooling);
                const auto index = static_cast<int64_t>(layer);
                // Column = position: nothing is gone yet.
                cache.score(index, head, cache.held(index, head), scores);
                cache.keep(index, head, cache_scores::top(scores, m_budget));
            }
        }
        m_sums.clear();
    }

private:
    int64_t m_budget, m_pseudo_tokens, m_kernel;
    cache_scores::Pooling m_pooling;
    cache_scores::Group m_group;
    PolicyContext m_context;
    std::vector<std::vector<std::vector<float>>>
        m_sums; ///< [layers][heads][prompt], until the prompt is read
};

} // namespace

CacheMethod cache_method_list::dapq() {
    using namespace cache_parameters;
    CacheMethod method;
    method.name = "dapq";
    method.label = "DapQ";
    method.summary = "Of the prompt, what tokens attend to that stand where the answer will; all that is "
                     "generated stays.";
    method.cost = "stores and reads `budget` entries and the generated ones; a pass over `pseudo_tokens` "
                  "tokens, once";
    method.source = "Tian et al. 2026 (DapQ)";
    method.prompt_only = true;
    method.parameters = {budget(),
                         whole("pseudo_tokens", "Pseudo tokens", "tokens",
                               "Tokens that are read behind the prompt to see what they attend to.", 1, 4096,
                               32),
                         kernel(1), pool(), group(0)};
    method.make = [](const CacheValues& values,
                     const PolicyContext& context) -> std::unique_ptr<CachePolicy> {
        return std::make_unique<DapQ>(values, context);
    };
    return method;
}

} // namespace refreshlab
