// Random: the floor. Every entry draws one number for good; the largest stay, and the newest token always. So what is held is
// a uniform sample of the past at any time. Our choice; no source.
#include "engine/policies/cache_scores.h"
#include "engine/policies/common_parameters.h"
#include "engine/policies/methods/method_list.h"
#include "engine/policies/mixed_bits.h"

#include <algorithm>

namespace refreshlab {

namespace {

class Random final : public CacheMethodBase<Random> {
public:
    Random(int64_t budget, const PolicyContext& context)
        : m_budget(budget)
        , m_context(context) {}

    void read_prompt(const PromptView& view, CacheEditor& cache) override { thin(view.layer, cache); }
    void after_attention(const StepView& view, CacheEditor& cache) override { thin(view.layer, cache); }
    void set_values(const CacheValues& values) override { m_budget = values.whole("budget"); }

private:
    void thin(int64_t layer, CacheEditor& cache) const {
        for (int64_t head = 0; head < m_context.kv_heads; ++head) {
            const auto held = cache.held(layer, head);
            if (std::ssize(held) <= m_budget) continue;
            std::vector<float> drawn;
            for (const int64_t position : held.first(held.size() - 1))
                drawn.push_back(draw(layer, head, position));
            std::vector<int64_t> kept;
            for (const int64_t i : cache_scores::top(drawn, m_budget - 1))
                kept.push_back(held[static_cast<size_t>(i)]);
            kept.push_back(held.back());
            cache.keep(layer, head, kept);
        }
    }
    [[nodiscard]] float draw(int64_t layer, int64_t head, int64_t position) const {
        const uint64_t key =
            mixed_bits(m_context.seed ^ mixed_bits(static_cast<uint64_t>(layer * m_context.kv_heads + head)));
        return static_cast<float>(mixed_bits(key ^ static_cast<uint64_t>(position)) >>
                                  40); // 24 bits: exact in a float
    }

    int64_t m_budget;
    PolicyContext m_context;
};

} // namespace

CacheMethod cache_method_list::random() {
    CacheMethod method;
    method.name = "random";
    method.label = "Random";
    method.summary = "A random sample stays: the floor that any rule must beat.";
    method.cost = "stores and reads `budget` entries";
    method.source = "baseline";
    method.parameters = {cache_parameters::live(cache_parameters::budget())};
    method.make = [](const CacheValues& values,
                     const PolicyContext& context) -> std::unique_ptr<CachePolicy> {
        return std::make_unique<Random>(values.whole("budget"), context);
    };
    return method;
}

} // namespace refreshlab
