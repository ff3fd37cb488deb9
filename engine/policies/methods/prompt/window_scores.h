#pragma once

#include "engine/policies/cache_method.h"
#include "engine/policies/cache_scores.h"

#include <cstdint>
#include <vector>

namespace refreshlab {

/// The scores of SnapKV, which PyramidKV and Ada-KV share: what the last w prompt queries attend to.
struct WindowScores {
    int64_t budget = 0; ///< of a KV head and layer, the window included
    int64_t window = 0; ///< w; half the budget where the budget does not hold more (rule 6)
    int64_t kernel = 1;
    cache_scores::Pooling pooling = cache_scores::Pooling::max;
    cache_scores::Group group = cache_scores::Group::mean;

    /// From the parameters budget, window, kernel, pool and group.
    [[nodiscard]] static WindowScores of(const CacheValues& values);

    /// Scores of the columns before the window, [length - w]: mean over the rows of the window, reduced over the group, pooled.
    [[nodiscard]] std::vector<float> score(const PromptView& view, int64_t kv_head,
                                           int64_t heads_per_kv) const;
    /// Keeps the `count` best columns before the window, and the window.
    void keep(const PromptView& view, int64_t kv_head, std::span<const float> scores, int64_t count,
              CacheEditor& cache) const;
};

} // namespace refreshlab
