// Make Each Token Count: TRIM-KV's decay, with one budget for the whole model. A trained gate gives each token of each KV head a retention
// beta when it is read; an entry's score is (seen + 1 - pos) ln beta. Once `buffer` entries a KV head stand above the budget, the highest
// (layers * KV heads * `budget`) of all layers and heads together stay: layers and heads that need more have more.
// Ours: a KV head's newest entry always stays, so that none is empty; of equal scores the newer entry stays, then that of the higher layer.
// Source: reference/cache-definitions.md, section 11; Bui et al. 2026 (Make Each Token Count).
#include "engine/policies/cache_scores.h"
#include "engine/policies/common_parameters.h"
#include "engine/policies/methods/method_list.h"

#include <algorithm>
#include <limits>
#include <tuple>

namespace refreshlab {

namespace {

class MakeEachTokenCount final : public CacheMethodBase<MakeEachTokenCount> {
public:
    MakeEachTokenCount(int64_t budget, int64_t buffer, const PolicyContext& context)
        : m_budget(budget)
        , m_buffer(buffer)
        , m_kv_heads(context.kv_heads)
        , m_ln_beta(static_cast<size_t>(context.layers * context.kv_heads)) {}

    [[nodiscard]] PolicyNeeds needs() const override { return {.prompt_gate = true, .step_gate = true}; }

    void read_prompt(const PromptView& view, CacheEditor&) override {
        for (int64_t head = 0; head < m_kv_heads; ++head) {
            const auto gate = view.gate.row(0, head);
            ln_beta(view.layer, head).assign(gate.begin(), gate.end());
        }
        m_layers.push_back(view.layer);
        m_seen = view.length;
    }
    void finish_prompt(CacheEditor& cache) override { thin(cache); }

    /// The last layer's is the model's.
    void after_attention(const StepView& view, CacheEditor& cache) override {
        for (int64_t head = 0; head < m_kv_heads; ++head)
            ln_beta(view.layer, head).push_back(view.gate.row(0, head)[0]);
        m_seen = view.position + 1;
        if (view.layer == m_layers.back()) thin(cache);
    }
    void set_values(const CacheValues& values) override {
        m_budget = values.whole("budget");
        m_buffer = values.whole("buffer");
    }

private:
    struct Candidate {
        float score;
        int64_t position, layer, head;
        size_t index; ///< among the held entries of its head
    };

    [[nodiscard]] std::vector<float>& ln_beta(int64_t layer, int64_t head) {
        return m_ln_beta[static_cast<size_t>(layer * m_kv_heads + head)];
    }

    void thin(CacheEditor& cache) {
        const int64_t heads = std::ssize(m_layers) * m_kv_heads;
        int64_t entries = 0;
        for (const int64_t layer : m_layers)
            for (int64_t head = 0; head < m_kv_heads; ++head)
                entries += std::ssize(cache.held(layer, head));
        if (entries < heads * (m_budget + m_buffer)) return;

        std::vector<Candidate> all;
        for (const int64_t layer : m_layers) {
            for (int64_t head = 0; head < m_kv_heads; ++head) {
                const auto held = cache.held(layer, head);
                const std::vector<float>& betas = ln_beta(layer, head);
                std::vector<float> scores;
                for (size_t i = 0; i < held.size(); ++i)
                    scores.push_back(static_cast<float>(m_seen + 1 - held[i]) * betas[i]);
                cache.score(layer, head, held.first(held.size() - 1),
                            std::span(scores).first(held.size() - 1));
                scores.back() = std::numeric_limits<float>::max(); // the newest is not chosen: it stays
                for (size_t i = 0; i < held.size(); ++i)
                    all.push_back({scores[i], held[i], layer, head, i});
            }
        }
        const auto kept = all.begin() + std::min<int64_t>(heads * m_budget, std::ssize(all));
        std::nth_element(all.begin(), kept, all.end(), [](const Candidate& a, const Candidate& b) {
            return std::tuple(a.score, a.position, a.layer, a.head) >
                   std::tuple(b.score, b.position, b.layer, b.head);
        });
        std::vector<std::vector<size_t>> stays(m_ln_beta.size()); // of each head
        for (auto it = all.begin(); it != kept; ++it)
            stays[static_cast<size_t>(it->layer * m_kv_heads + it->head)].push_back(it->index);
        for (const int64_t layer : m_layers)
            for (int64_t head = 0; head < m_kv_heads; ++head)
                keep(layer, head, stays[static_cast<size_t>(layer * m_kv_heads + head)], cache);
    }

    void keep(int64_t layer, int64_t head, std::vector<size_t>& stays, CacheEditor& cache) {
        std::ranges::sort(stays);
        const auto held = cache.held(layer, head);
        std::vector<int64_t> positions;
        std::vector<float> betas;
        for (const size_t i : stays) {
            positions.push_back(held[i]);
            betas.push_back(ln_beta(layer, head)[i]);
        }
        ln_beta(layer, head) = std::move(betas);
        cache.keep(layer, head, positions);
    }

    int64_t m_budget, m_buffer, m_kv_heads;
    int64_t m_seen = 0;                        ///< tokens
    std::vector<int64_t> m_layers;             ///< those that attend
    std::vector<std::vector<float>> m_ln_beta; ///< per layer and KV head, one number per held entry; 4 B each
};

} // namespace

CacheMethod cache_method_list::make_each_token_count() {
    using namespace cache_parameters;
    CacheMethod method;
    method.name = "make_each_token_count";
    method.label = "Make Each Token Count";
    method.summary = "A trained gate says how long each token lasts; what has decayed the most in the whole "
                     "model leaves.";
    method.cost =
        "stores and reads `budget` entries in the mean of all KV heads, up to `buffer` more; a small "
        "network on each token";
    method.source = "Bui et al. 2026 (Make Each Token Count)";
    method.parameters = {live(budget(512)), live(buffer())};
    method.files = {gate_file(), step_gate_file()};
    method.make = [](const CacheValues& values,
                     const PolicyContext& context) -> std::unique_ptr<CachePolicy> {
        return std::make_unique<MakeEachTokenCount>(values.whole("budget"), values.whole("buffer"), context);
    };
    return method;
}

} // namespace refreshlab
