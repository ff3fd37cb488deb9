// Ada-KV: SnapKV's scores; the KV heads of a layer share their budget by how many of the layer's best columns are theirs.
// Source: reference/cache-definitions.md, section 5; Feng et al. 2024.
#include "engine/policies/common_parameters.h"
#include "engine/policies/methods/method_list.h"
#include "engine/policies/methods/prompt/window_scores.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace refreshlab {

namespace {

class AdaKv final : public CacheMethodBase<AdaKv> {
public:
    AdaKv(const WindowScores& scores, double alpha, bool pinned, const PolicyContext& context)
        : m_scores(scores)
        , m_alpha(alpha)
        , m_pinned(pinned)
        , m_context(context) {}

    [[nodiscard]] PolicyNeeds needs() const override { return {.prompt_rows = m_scores.window}; }

    void read_prompt(const PromptView& view, CacheEditor& cache) override {
        const int64_t base = m_scores.budget - m_scores.window;
        if (base >= view.length - m_scores.window) return;
        std::vector<std::vector<float>> scores;
        for (int64_t head = 0; head < m_context.kv_heads; ++head)
            scores.push_back(m_scores.score(view, head, m_context.group()));
        const std::vector<int64_t> counts = m_pinned ? pinned_counts(scores) : shared_counts(scores);
        for (int64_t head = 0; head < m_context.kv_heads; ++head) {
            const auto at = static_cast<size_t>(head);
            m_scores.keep(view, head, scores[at], counts[at], cache);
        }
    }

private:
    /// How many of the best Hk * base columns of the layer are each head's.
    [[nodiscard]] std::vector<int64_t> won(const std::vector<std::vector<float>>& scores,
                                           int64_t total) const {
        std::vector<float> all;
        for (const auto& row : scores)
            all.insert(all.end(), row.begin(), row.end());
        std::vector<int64_t> counts(scores.size(), 0);
        for (const int64_t i : cache_scores::top(all, total))
            ++counts[static_cast<size_t>(i) / scores[0].size()];
        return counts;
    }
    /// (1 - alpha) of what it won, and alpha of an equal share.
    [[nodiscard]] std::vector<int64_t> shared_counts(const std::vector<std::vector<float>>& scores) const {
        const int64_t base = m_scores.budget - m_scores.window, total = base * m_context.kv_heads;
        std::vector<double> weights;
        for (const int64_t count : won(scores, total))
            weights.push_back((1 - m_alpha) * static_cast<double>(count) +
                              m_alpha * static_cast<double>(base));
        if (total == 0) return std::vector<int64_t>(scores.size(), 0);
        return cache_scores::shares(weights, total);
    }
    /// kvpress: the best alpha * budget columns of each head stay for sure, the window among them; the rest is shared freely.
    [[nodiscard]] std::vector<int64_t> pinned_counts(std::vector<std::vector<float>> scores) const {
        const int64_t base = m_scores.budget - m_scores.window;
        const auto safe =
            static_cast<int64_t>(m_alpha * static_cast<double>(m_scores.budget)) - m_scores.window;
        for (auto& row : scores) {
            for (const int64_t i : cache_scores::top(row, safe))
                row[static_cast<size_t>(i)] = std::numeric_limits<float>::infinity();
        }
        return won(scores, base * m_context.kv_heads);
    }

    WindowScores m_scores;
    double m_alpha;
    bool m_pinned;
    PolicyContext m_context;
};

} // namespace

CacheMethod cache_method_list::adakv() {
    using namespace cache_parameters;
    CacheMethod method;
    method.name = "adakv";
    method.label = "Ada-KV";
    method.summary = "As SnapKV; the KV heads of a layer share its budget by the scores of their columns.";
    method.cost = "stores and reads `budget` entries a KV head on average, and the generated ones";
    method.source = "Feng et al. 2024";
    method.prompt_only = true;
    method.parameters = {
        budget(),
        window(),
        kernel(),
        pool(),
        group(),
        real("alpha", "Safeguard", "", "The part of the budget that every KV head has for sure.", 0, 1, 0.5),
        choice("allocation", "Allocation",
               "counts: a mean of equal shares and of what a head won; pinned: a head's best columns stay "
               "for sure, the "
               "rest is shared freely (kvpress).",
               {"counts", "pinned"}, 0)};
    method.make = [](const CacheValues& values,
                     const PolicyContext& context) -> std::unique_ptr<CachePolicy> {
        return std::make_unique<AdaKv>(WindowScores::of(values), values.real("alpha"),
                                       values.whole("allocation") == 1, context);
    };
    return method;
}

} // namespace refreshlab
