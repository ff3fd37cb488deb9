// Locret: a trained gate guesses what attention a prompt's token will receive from the answer. The prompt goes through in chunks; after
// each, the `budget` entries with the highest scores stay, the newest `stabilizers` among them whatever their score, but not after the
// last chunk. The prompt's last tokens come after that and are never pruned, nor is what is generated.
// Source: reference/cache-definitions.md, section 11; Huang et al. 2024.
#include "engine/policies/cache_scores.h"
#include "engine/policies/common_parameters.h"
#include "engine/policies/methods/method_list.h"

#include <algorithm>
#include <iterator>

namespace refreshlab {

namespace {

struct LocretSizes {
    int64_t budget = 0, chunk = 0, stabilizers = 0, last_tokens = 0;
};

class Locret final : public CacheMethodBase<Locret> {
public:
    Locret(const LocretSizes& sizes, const PolicyContext& context)
        : m_sizes(sizes)
        , m_kv_heads(context.kv_heads) {}

    [[nodiscard]] PolicyNeeds needs() const override { return {.prompt_gate = true}; }

    /// A score depends on its token alone, so the chunks can be gone through when all of them are known.
    void read_prompt(const PromptView& view, CacheEditor& cache) override {
        const int64_t pruned = view.length - m_sizes.last_tokens;
        for (int64_t head = 0; head < m_kv_heads; ++head) {
            for (int64_t begin = 0; begin < pruned; begin += m_sizes.chunk) {
                const int64_t end = std::min(begin + m_sizes.chunk, pruned);
                prune(view, head, end, end < pruned ? m_sizes.stabilizers : 0, cache);
            }
        }
    }

private:
    /// Of the entries before `end` the budget stays, the newest `safe` of them in any case.
    void prune(const PromptView& view, int64_t head, int64_t end, int64_t safe, CacheEditor& cache) const {
        const auto held = cache.held(view.layer, head);
        const int64_t n = std::ranges::lower_bound(held, end) - held.begin();
        if (n <= m_sizes.budget) return;
        safe = std::min(safe, m_sizes.budget);
        const auto candidates = held.first(static_cast<size_t>(n - safe));
        std::vector<float> scores;
        for (const int64_t p : candidates)
            scores.push_back(view.gate.row(0, head)[static_cast<size_t>(p)]);
        cache.score(view.layer, head, candidates, scores);
        std::vector<int64_t> kept;
        for (const int64_t i : cache_scores::top(scores, m_sizes.budget - safe))
            kept.push_back(candidates[static_cast<size_t>(i)]);
        std::vector<int64_t> gone;
        std::ranges::set_difference(candidates, kept, std::back_inserter(gone));
        cache.evict(view.layer, head, gone);
    }

    LocretSizes m_sizes;
    int64_t m_kv_heads;
};

} // namespace

CacheMethod cache_method_list::locret() {
    using namespace cache_parameters;
    CacheMethod method;
    method.name = "locret";
    method.label = "Locret";
    method.summary = "Of the prompt, what a trained gate thinks the answer will read stays, and its last "
                     "tokens; all that is generated stays.";
    method.cost = "stores and reads `budget` + `last_tokens` entries and the generated ones; a small network "
                  "on each token of the prompt";
    method.source = "Huang et al. 2024";
    method.prompt_only = true;
    method.parameters = {budget(6000),
                         whole("chunk", "Chunk", "tokens", "The prompt's entries are chosen chunk by chunk.",
                               1, most_entries, 3072),
                         whole("stabilizers", "Stabilizers", "entries",
                               "The newest entries, which stay after every chunk but the last.", 0,
                               most_entries, 2500),
                         whole("last_tokens", "Last tokens", "tokens",
                               "The prompt's last tokens, which are never pruned.", 0, most_entries, 100)};
    method.files = {gate_file()};
    method.make = [](const CacheValues& values,
                     const PolicyContext& context) -> std::unique_ptr<CachePolicy> {
        return std::make_unique<Locret>(LocretSizes{values.whole("budget"), values.whole("chunk"),
                                                    values.whole("stabilizers"), values.whole("last_tokens")},
                                        context);
    };
    return method;
}

} // namespace refreshlab
