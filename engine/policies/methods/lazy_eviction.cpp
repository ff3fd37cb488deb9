// LazyEviction: an entry that was attended again after long gaps is given as long again before it goes. Every `window` steps, above
// the budget, the newest `window` entries stay and of the others those with the largest score.
//   TS  = last step with attention >= alpha (the entry's own step at first)
//   MRI = largest gap between two such steps (0 at first)
//   score = 2 sigma(-(t - TS) / MRI) + H2, first term 0 where MRI = 0; H2 = 2 sigma(-MRI - 1) or 2 sigma(-1 / MRI), 0 where MRI = 0
// Source: reference/cache-definitions.md, section 6; Zhang et al. 2025.
#include "engine/policies/cache_scores.h"
#include "engine/policies/common_parameters.h"
#include "engine/policies/methods/method_list.h"

#include <algorithm>
#include <cmath>

namespace refreshlab {

namespace {

double twice_sigma(double x) {
    return 2 / (1 + std::exp(-x));
}

class LazyEviction final : public CacheMethodBase<LazyEviction> {
public:
    LazyEviction(const CacheValues& values, const PolicyContext& context)
        : m_budget(values.whole("budget"))
        , m_window(std::min(values.whole("interval"), m_budget))
        , m_alpha(static_cast<float>(values.real("attended_from")))
        , m_inverse(values.whole("recurrence") == 1)
        , m_context(context)
        , m_entries(static_cast<size_t>(context.layers * context.kv_heads)) {}

    [[nodiscard]] PolicyNeeds needs() const override { return {.row = true}; }

    void after_attention(const StepView& view, CacheEditor& cache) override {
        for (int64_t head = 0; head < m_context.kv_heads; ++head) {
            std::vector<Entry>& entries =
                m_entries[static_cast<size_t>(view.layer * m_context.kv_heads + head)];
            const auto held = cache.held(view.layer, head);
            for (size_t i = entries.size(); i < held.size(); ++i) // time is counted in positions
                entries.push_back({held[i], 0});
            watch(view, head, entries);
            if (view.step % m_window == 0 && std::ssize(held) > m_budget) thin(view, head, entries, cache);
        }
    }

    void set_values(const CacheValues& values) override {
        m_budget = values.whole("budget");
        m_window = std::min(values.whole("interval"), m_budget);
        m_alpha = static_cast<float>(values.real("attended_from"));
    }

private:
    struct Entry {
        int64_t last_seen = 0; ///< TS
        int64_t longest = 0;   ///< MRI
    };

    void watch(const StepView& view, int64_t head, std::vector<Entry>& entries) const {
        const std::vector<float> row = cache_scores::reduce_group(
            cache_scores::heads_of(view.row, m_context, head), cache_scores::Group::max);
        for (size_t i = 0; i < entries.size(); ++i) {
            if (row[i] < m_alpha) continue;
            entries[i].longest = std::max(entries[i].longest, view.position - entries[i].last_seen);
            entries[i].last_seen = view.position;
        }
    }

    void thin(const StepView& view, int64_t head, std::vector<Entry>& entries, CacheEditor& cache) const {
        const auto held = cache.held(view.layer, head);
        const int64_t old = std::ssize(held) - m_window;
        std::vector<float> scores;
        for (int64_t i = 0; i < old; ++i)
            scores.push_back(score(entries[static_cast<size_t>(i)], view.position));
        cache.score(view.layer, head, held.first(scores.size()), scores);
        std::vector<int64_t> stay = cache_scores::top(scores, m_budget - m_window);
        for (int64_t i = old; i < std::ssize(held); ++i)
            stay.push_back(i);
        std::vector<int64_t> kept;
        std::vector<Entry> kept_entries;
        for (const int64_t i : stay) {
            kept.push_back(held[static_cast<size_t>(i)]);
            kept_entries.push_back(entries[static_cast<size_t>(i)]);
        }
        entries = std::move(kept_entries);
        cache.keep(view.layer, head, kept);
    }

    [[nodiscard]] float score(const Entry& entry, int64_t now) const {
        if (entry.longest == 0) return 0;
        const auto longest = static_cast<double>(entry.longest);
        const double recurrence = m_inverse ? -1 / longest : -longest - 1;
        return static_cast<float>(twice_sigma(-static_cast<double>(now - entry.last_seen) / longest) +
                                  twice_sigma(recurrence));
    }

    int64_t m_budget, m_window;
    float m_alpha;
    bool m_inverse;
    PolicyContext m_context;
    std::vector<std::vector<Entry>> m_entries; ///< per layer and KV head, one per held entry
};

} // namespace

CacheMethod cache_method_list::lazy_eviction() {
    using namespace cache_parameters;
    CacheMethod method;
    method.name = "lazy_eviction";
    method.label = "LazyEviction";
    method.summary = "What comes back after long gaps stays longer; the rest leaves, some steps at a time.";
    method.cost = "stores and reads `budget` entries to `budget` + `interval`; a row a step";
    method.source = "Zhang et al. 2025";
    method.parameters = {live(budget()), interval(64),
                         live(real("attended_from", "Attended from", "",
                                   "Attention from here on counts as attended.", 0, 1, 5e-4)),
                         choice("recurrence", "Recurrence term",
                                "How a long gap counts: 2 sigma(-MRI - 1), or 2 sigma(-1 / MRI).",
                                {"minus_one", "inverse"}, 0)};
    method.make = [](const CacheValues& values,
                     const PolicyContext& context) -> std::unique_ptr<CachePolicy> {
        return std::make_unique<LazyEviction>(values, context);
    };
    return method;
}

} // namespace refreshlab
