// CompressKV: of the prompt, what a few heads of each layer attend to stays, those that find things in a text (semantic retrieval heads);
// one set serves all KV heads of a layer. Layers that suffer more from compression keep more. What is generated stays.
//   score[j] = mean over the profile's heads of what the last w prompt tokens give j, pooled over neighbours
//   budget   of layer l: floor + round(e_l (cap - floor) NL), e_l the layer's share of the profile's errors, between floor and 3 cap, and
//            corrected by ones until the sum is NL cap: more for the layers with the largest error, less for those with the smallest
// Ours: no layer gets more than the prompt has, so that the sum is met by short prompts too; a budget below the floor is the floor.
// Source: reference/cache-definitions.md, section 5; Lin et al. 2025 (CompressKV).
#include "engine/base/check.h"
#include "engine/policies/cache_profile.h"
#include "engine/policies/common_parameters.h"
#include "engine/policies/methods/method_list.h"
#include "engine/policies/methods/prompt/window_scores.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace refreshlab {

namespace {

constexpr int64_t retrieval_heads = 4, most_shares = 3;

class CompressKv final : public CacheMethodBase<CompressKv> {
public:
    CompressKv(const WindowScores& scores, int64_t floor, const PolicyContext& context)
        : m_scores(scores)
        , m_kv_heads(context.kv_heads) {
        RL_ASSERT(context.profile != nullptr);
        std::vector<double> errors;
        for (size_t layer = 0; layer < static_cast<size_t>(context.layers); ++layer) {
            auto& heads = m_heads.emplace_back();
            for (const double head : context.profile->of(layer, "heads"))
                heads.push_back(static_cast<int64_t>(head));
            errors.push_back(context.profile->of(layer, "error").front());
        }
        m_budgets = budgets(errors, std::min(floor, scores.budget), context.prompt_length);
    }

    [[nodiscard]] PolicyNeeds needs() const override { return {.prompt_rows = m_scores.window}; }

    void read_prompt(const PromptView& view, CacheEditor& cache) override {
        if (view.length <= m_scores.budget) return;
        const auto layer = static_cast<size_t>(view.layer);
        std::vector<float> sums(static_cast<size_t>(view.length - m_scores.window), 0);
        for (const int64_t head : m_heads[layer]) {
            const std::vector<float> scores = m_scores.score(view, head, 1); // of this query head alone
            std::ranges::transform(sums, scores, sums.begin(), std::plus<>());
        }
        for (float& score : sums)
            score /= static_cast<float>(m_heads[layer].size());
        for (int64_t head = 0; head < m_kv_heads; ++head)
            m_scores.keep(view, head, sums, m_budgets[layer] - m_scores.window, cache);
    }

private:
    [[nodiscard]] std::vector<int64_t> budgets(const std::vector<double>& errors, int64_t floor,
                                               int64_t length) const {
        const auto layers = static_cast<int64_t>(errors.size());
        const int64_t cap = m_scores.budget, most = std::max(std::min(most_shares * cap, length), floor);
        const double sum = std::accumulate(errors.begin(), errors.end(), 0.0);
        std::vector<int64_t> counts;
        for (const double error : errors) {
            const double share = sum > 0 ? error / sum : 1 / static_cast<double>(layers);
            const double more = std::nearbyint(share * static_cast<double>((cap - floor) * layers));
            counts.push_back(std::clamp(floor + static_cast<int64_t>(more), floor, most));
        }
        std::vector<size_t> order(errors.size());
        std::iota(order.begin(), order.end(), 0);
        std::ranges::stable_sort(order, [&](size_t a, size_t b) { return errors[a] > errors[b]; });
        int64_t left = cap * layers - std::accumulate(counts.begin(), counts.end(), int64_t{0});
        const int64_t one = left > 0 ? 1 : -1;
        if (one < 0) std::ranges::reverse(order);
        for (bool changed = true; left != 0 && changed;) {
            changed = false;
            for (const size_t layer : order) {
                if (left == 0 || counts[layer] == (one > 0 ? most : floor)) continue;
                counts[layer] += one;
                left -= one;
                changed = true;
            }
        }
        return counts;
    }

    WindowScores m_scores;
    int64_t m_kv_heads;
    std::vector<std::vector<int64_t>> m_heads; ///< [layers]: query heads
    std::vector<int64_t> m_budgets;            ///< [layers], the window included
};

} // namespace

CacheMethod cache_method_list::compress_kv() {
    using namespace cache_parameters;
    CacheMethod method;
    method.name = "compress_kv";
    method.label = "CompressKV";
    method.summary =
        "Of the prompt, what the heads that find things attend to stays, more in layers that need "
        "it; all that is generated stays.";
    method.cost =
        "stores and reads `budget` entries in the mean of all layers and the generated ones; a window "
        "of rows, once";
    method.source = "Lin et al. 2025 (CompressKV)";
    method.prompt_only = true;
    method.parameters = {
        budget(), window(8), kernel(5), pool(1),
        whole("floor", "Floor", "entries", "Entries that every layer keeps.", 1, most_entries, 32)};
    method.files = {profile_file()};
    method.profile = [](const PolicyContext& context) {
        return std::vector<ProfilePart>{
            {"heads", std::min(retrieval_heads, context.heads), static_cast<double>(context.heads - 1), true},
            {"error", 1, 1e6}};
    };
    method.make = [](const CacheValues& values,
                     const PolicyContext& context) -> std::unique_ptr<CachePolicy> {
        WindowScores scores;
        scores.budget = values.whole("budget");
        scores.window = values.whole("window");
        if (scores.budget <= scores.window) scores.window = std::max<int64_t>(scores.budget / 2, 1);
        scores.kernel = values.whole("kernel");
        scores.pooling = static_cast<cache_scores::Pooling>(values.whole("pool"));
        return std::make_unique<CompressKv>(scores, values.whole("floor"), context);
    };
    return method;
}

} // namespace refreshlab
