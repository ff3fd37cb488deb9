#include "engine/policies/methods/prompt/window_scores.h"

#include <algorithm>

namespace refreshlab {

WindowScores WindowScores::of(const CacheValues& values) {
    WindowScores w;
    w.budget = values.whole("budget");
    w.window = values.whole("window");
    if (w.budget <= w.window) w.window = std::max<int64_t>(w.budget / 2, 1);
    w.kernel = values.whole("kernel");
    w.pooling = static_cast<cache_scores::Pooling>(values.whole("pool"));
    w.group = static_cast<cache_scores::Group>(values.whole("group"));
    return w;
}

std::vector<float> WindowScores::score(const PromptView& view, int64_t kv_head, int64_t heads_per_kv) const {
    const auto columns = static_cast<size_t>(view.length - window);
    std::vector<std::vector<float>> means;
    for (int64_t g = 0; g < heads_per_kv; ++g) {
        std::vector<float>& mean = means.emplace_back(columns, 0.0F);
        for (int64_t r = 0; r < window; ++r) {
            const auto row = view.rows.row(r, kv_head * heads_per_kv + g);
            for (size_t j = 0; j < columns; ++j)
                mean[j] += row[j];
        }
        for (float& value : mean)
            value /= static_cast<float>(window);
    }
    const std::vector<std::span<const float>> heads(means.begin(), means.end());
    return cache_scores::pooled(cache_scores::reduce_group(heads, group), kernel, pooling);
}

void WindowScores::keep(const PromptView& view, int64_t kv_head, std::span<const float> scores, int64_t count,
                        CacheEditor& cache) const {
    // Column = position: nothing is gone yet.
    cache.score(view.layer, kv_head, cache.held(view.layer, kv_head).first(scores.size()), scores);
    std::vector<int64_t> kept = cache_scores::top(scores, count);
    for (int64_t p = view.length - window; p < view.length; ++p)
        kept.push_back(p);
    cache.keep(view.layer, kv_head, kept);
}

} // namespace refreshlab
