// KV-Direct: entries are what their tokens say. The newest `budget` entries stay; the others are computed again whenever they are
// read, which is at every step, by a pass over their tokens. So nothing is lost, and time is paid for memory.
//   K_l = RoPE(Wk_l norm_l(h_l)), V_l = Wv_l norm_l(h_l): one residual per token suffices only if every lower layer runs again, so it
//   equals a prefill of the tokens that are gone, in position order
// The oldest leave, so every earlier column is there when a token is computed again. Entries that the teacher wrote come from the
// teacher's cache. Tokens are the run's text: 4 B each, which it keeps in any case.
// Source: reference/cache-definitions.md, section 10; KV-Direct.
#include "engine/policies/common_parameters.h"
#include "engine/policies/methods/method_list.h"

#include <algorithm>
#include <numeric>

namespace refreshlab {

namespace {

class KvDirect final : public CacheMethodBase<KvDirect> {
public:
    KvDirect(int64_t budget, int64_t kv_heads)
        : m_budget(budget)
        , m_kv_heads(kv_heads) {}

    [[nodiscard]] PolicyNeeds needs() const override { return {.recomputes = true}; }
    void set_values(const CacheValues& values) override { m_budget = values.whole("budget"); }

    void read_prompt(const PromptView& view, CacheEditor& cache) override { trim(view.layer, cache); }
    const HeadPositions* before_attention(const StepView& view, CacheEditor&) override {
        std::vector<int64_t> every(static_cast<size_t>(view.position + 1));
        std::iota(every.begin(), every.end(), 0);
        m_read.assign(static_cast<size_t>(m_kv_heads), every);
        return &m_read;
    }
    void after_attention(const StepView& view, CacheEditor& cache) override { trim(view.layer, cache); }

private:
    void trim(int64_t layer, CacheEditor& cache) const {
        for (int64_t head = 0; head < m_kv_heads; ++head) {
            const auto held = cache.held(layer, head);
            const int64_t excess = std::ssize(held) - m_budget;
            if (excess <= 0) continue;
            const std::vector<int64_t> gone(held.begin(), held.begin() + excess);
            cache.evict(layer, head, gone);
        }
    }

    int64_t m_budget, m_kv_heads;
    HeadPositions m_read;
};

} // namespace

CacheMethod cache_method_list::kv_direct() {
    using namespace cache_parameters;
    CacheMethod method;
    method.name = "kv_direct";
    method.label = "KV-Direct";
    method.summary =
        "The newest entries stay; the others are computed again from their tokens, and all are read.";
    method.cost =
        "stores `budget` entries, reads n; a pass over the other tokens at every step, and a dense cache of "
        "them while it runs";
    method.source = "KV-Direct";
    method.parameters = {live(budget())};
    method.make = [](const CacheValues& values,
                     const PolicyContext& context) -> std::unique_ptr<CachePolicy> {
        return std::make_unique<KvDirect>(values.whole("budget"), context.kv_heads);
    };
    return method;
}

} // namespace refreshlab
