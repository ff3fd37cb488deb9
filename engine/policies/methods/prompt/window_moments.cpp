#include "engine/policies/methods/prompt/window_moments.h"

#include "engine/policies/cache_scores.h"

#include <cmath>

namespace refreshlab {

std::vector<float> WindowMoments::add(const PromptView& view, int64_t kv_head, const PolicyContext& context,
                                      const Scores& scores) {
    const auto rows = static_cast<double>(scores.window);
    std::vector<std::vector<float>> all;
    for (int64_t g = 0; g < context.group(); ++g) {
        const int64_t head = kv_head * context.group() + g;
        std::vector<float>& of_head = all.emplace_back();
        for (int64_t j = 0; j < view.length - scores.window; ++j) {
            const auto at = [&](int64_t r) {
                return static_cast<double>(view.rows.row(r, head)[static_cast<size_t>(j)]);
            };
            double sum = 0, squares = 0, fourths = 0;
            for (int64_t r = 0; r < scores.window; ++r) {
                sum += at(r);
                spread -= at(r) * std::log(at(r) + 1e-10);
            }
            const double mean = sum / rows;
            for (int64_t r = 0; r < scores.window; ++r) {
                const double square = (at(r) - mean) * (at(r) - mean);
                squares += square;
                fourths += square * square;
            }
            const double variance = scores.window > 1 ? squares / (rows - 1) : 0;
            const double m2 = std::max(squares / rows, 1e-8);
            change += variance;
            kurtosis += fourths / rows / (m2 * m2);
            of_head.push_back(static_cast<float>(mean + scores.weight * variance));
        }
    }
    const std::vector<std::span<const float>> heads(all.begin(), all.end());
    return cache_scores::pooled(cache_scores::reduce_group(heads, cache_scores::Group::mean), scores.kernel,
                                cache_scores::Pooling::mean);
}

} // namespace refreshlab
