#pragma once

#include "engine/policies/cache_policy.h"

#include <cstdint>
#include <span>
#include <vector>

/// Arithmetic that cache policies share (reference/cache-definitions.md, sections 1 and 3). fp32, one order, no threads.
namespace refreshlab::cache_scores {

enum class Group : uint8_t { max, mean, first }; ///< of the query heads of a KV head
enum class Pooling : uint8_t { max, mean };

/// The first rows of the query heads of one KV head.
[[nodiscard]] std::vector<std::span<const float>> heads_of(const Cube& rows, const PolicyContext& context,
                                                           int64_t kv_head);
/// Rows of the query heads of one KV head, [heads][n], into one row of n numbers.
[[nodiscard]] std::vector<float> reduce_group(std::span<const std::span<const float>> heads, Group group);
/// sums += reduce_group(heads, mean), with its bits. \param sums  as long as the rows at most
void add_group_mean(std::span<const std::span<const float>> heads, std::span<float> sums);

/// Pooling over `kernel` neighbours. Mean divides by the whole kernel at the borders, where zeros are counted; max sees what is
/// there. kernel is odd (asserted).
[[nodiscard]] std::vector<float> pooled(std::span<const float> scores, int64_t kernel, Pooling pooling);

/// Indices of the k largest, ascending by index. Ties go to the higher index (rule 5); k is cut to what there is.
[[nodiscard]] std::vector<int64_t> top(std::span<const float> scores, int64_t k);

/// Whole shares of `total` in the ratio of the weights, by largest remainders; ties go to the lower index.
[[nodiscard]] std::vector<int64_t> shares(std::span<const double> weights, int64_t total);

} // namespace refreshlab::cache_scores
