// Attention-Gate: once the prompt is read, a trained gate says of each token and KV head how likely it is to be kept, from the hidden states
// of the whole prompt; what is not above the threshold leaves. All that is generated stays.
// Ours: the prompt's last token always stays, so that no KV head is empty; with `choose` budget the best `budget` entries stay in place of
// what is above the threshold.
// Source: reference/cache-definitions.md, section 11; Zeng et al. 2024 (Attention-Gate).
#include "engine/policies/cache_scores.h"
#include "engine/policies/common_parameters.h"
#include "engine/policies/methods/method_list.h"

#include <limits>

namespace refreshlab {

namespace {

class AttentionGate final : public CacheMethodBase<AttentionGate> {
public:
    AttentionGate(bool by_budget, int64_t budget, double threshold, const PolicyContext& context)
        : m_by_budget(by_budget)
        , m_budget(budget)
        , m_threshold(threshold)
        , m_kv_heads(context.kv_heads) {}

    [[nodiscard]] PolicyNeeds needs() const override { return {.prompt_gate = true}; }

    void read_prompt(const PromptView& view, CacheEditor& cache) override {
        for (int64_t head = 0; head < m_kv_heads; ++head) {
            const auto held = cache.held(view.layer, head);
            const auto gate = view.gate.row(0, head);
            std::vector<float> scores(gate.begin(), gate.end());
            cache.score(view.layer, head, held.first(held.size() - 1),
                        std::span(scores).first(held.size() - 1));
            scores.back() = std::numeric_limits<float>::max(); // the last token is not chosen: it stays
            int64_t stay = m_budget;
            if (!m_by_budget)
                stay = std::ranges::count_if(
                    scores, [this](float score) { return static_cast<double>(score) > m_threshold; });
            std::vector<int64_t> kept;
            for (const int64_t i : cache_scores::top(scores, stay))
                kept.push_back(held[static_cast<size_t>(i)]);
            cache.keep(view.layer, head, kept);
        }
    }

private:
    bool m_by_budget;
    int64_t m_budget;
    double m_threshold;
    int64_t m_kv_heads;
};

} // namespace

CacheMethod cache_method_list::attention_gate() {
    using namespace cache_parameters;
    CacheMethod method;
    method.name = "attention_gate";
    method.label = "Attention-Gate";
    method.summary =
        "Of the prompt, what a trained gate that reads all of it wants to keep stays; all that is "
        "generated stays.";
    method.cost = "stores and reads what is kept of the prompt, and the generated entries; a small attention "
                  "block over the prompt";
    method.source = "Zeng et al. 2024 (Attention-Gate)";
    method.prompt_only = true;
    method.parameters = {
        choice("choose", "Choose", "threshold: what the gate keeps stays; budget: the best `budget` entries.",
               {"threshold", "budget"}, 0),
        real("keep_above", "Keep above", "", "An entry stays whose score is above it.", 0, 1, 0.5), budget()};
    method.files = {gate_file()};
    method.make = [](const CacheValues& values,
                     const PolicyContext& context) -> std::unique_ptr<CachePolicy> {
        return std::make_unique<AttentionGate>(values.whole("choose") == 1, values.whole("budget"),
                                               values.real("keep_above"), context);
    };
    return method;
}

} // namespace refreshlab
