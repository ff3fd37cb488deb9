// TRIM-KV: a trained gate gives each token of each KV head a retention beta, once, when the token is read. An entry's score decays with
// its age: (seen + 1 - pos) ln beta, `seen` tokens having been read. Once `buffer` entries stand above the budget, the highest `budget`
// stay. No attention is looked at.
// Source: reference/cache-definitions.md, section 11; Bui et al. 2025.
#include "engine/policies/cache_scores.h"
#include "engine/policies/common_parameters.h"
#include "engine/policies/methods/method_list.h"

namespace refreshlab {

namespace {

class TrimKv final : public CacheMethodBase<TrimKv> {
public:
    TrimKv(int64_t budget, int64_t buffer, const PolicyContext& context)
        : m_budget(budget)
        , m_buffer(buffer)
        , m_kv_heads(context.kv_heads)
        , m_ln_beta(static_cast<size_t>(context.layers * context.kv_heads)) {}

    [[nodiscard]] PolicyNeeds needs() const override { return {.prompt_gate = true, .step_gate = true}; }

    void read_prompt(const PromptView& view, CacheEditor& cache) override {
        for (int64_t head = 0; head < m_kv_heads; ++head) {
            const auto gate = view.gate.row(0, head);
            ln_beta(view.layer, head).assign(gate.begin(), gate.end());
            thin(view.layer, head, view.length, cache);
        }
    }
    void after_attention(const StepView& view, CacheEditor& cache) override {
        for (int64_t head = 0; head < m_kv_heads; ++head) {
            ln_beta(view.layer, head).push_back(view.gate.row(0, head)[0]);
            thin(view.layer, head, view.position + 1, cache);
        }
    }
    void set_values(const CacheValues& values) override {
        m_budget = values.whole("budget");
        m_buffer = values.whole("buffer");
    }

private:
    [[nodiscard]] std::vector<float>& ln_beta(int64_t layer, int64_t head) {
        return m_ln_beta[static_cast<size_t>(layer * m_kv_heads + head)];
    }

    void thin(int64_t layer, int64_t head, int64_t seen, CacheEditor& cache) {
        const auto held = cache.held(layer, head);
        if (std::ssize(held) < m_budget + m_buffer) return;
        std::vector<float>& betas = ln_beta(layer, head);
        std::vector<float> scores, kept_betas;
        for (size_t i = 0; i < held.size(); ++i)
            scores.push_back(static_cast<float>(seen + 1 - held[i]) * betas[i]);
        cache.score(layer, head, held, scores);
        std::vector<int64_t> kept;
        for (const int64_t i : cache_scores::top(scores, m_budget)) {
            kept.push_back(held[static_cast<size_t>(i)]);
            kept_betas.push_back(betas[static_cast<size_t>(i)]);
        }
        betas = std::move(kept_betas);
        cache.keep(layer, head, kept);
    }

    int64_t m_budget, m_buffer, m_kv_heads;
    std::vector<std::vector<float>> m_ln_beta; ///< per layer and KV head, one number per held entry; 4 B each
};

} // namespace

CacheMethod cache_method_list::trim_kv() {
    using namespace cache_parameters;
    CacheMethod method;
    method.name = "trim_kv";
    method.label = "TRIM-KV";
    method.summary = "A trained gate says how long each token lasts; what has decayed the most leaves.";
    method.cost = "stores and reads `budget` to `budget` + `buffer` entries; a small network on each token";
    method.source = "Bui et al. 2025";
    method.parameters = {live(budget(512)), live(buffer())};
    method.files = {gate_file(), step_gate_file()};
    method.make = [](const CacheValues& values,
                     const PolicyContext& context) -> std::unique_ptr<CachePolicy> {
        return std::make_unique<TrimKv>(values.whole("budget"), values.whole("buffer"), context);
    };
    return method;
}

} // namespace refreshlab
