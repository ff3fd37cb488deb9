#pragma once

#include "engine/model/forward.h"

#include <cstdint>
#include <functional>
#include <span>

namespace refreshlab {

/// Reads a text and scores its tokens: the row at position p scores the token at p + 1.
/// \param cache         holds a prefix of the text already, or nothing; afterwards all of it but the last token
/// \param text          every token of the text, from position 0
/// \param first_scored  first position whose token is scored; earlier rows give no logits
/// \param take          called for every scored position that was not read before, ascending; the summary has the token's
///                      log-probability and the row's arg max; `rank` is the token's place in the row, from 1
void score_tokens(
    const Forward& forward, KvCache& cache, std::span<const int32_t> text, int64_t first_scored,
    const std::function<void(int64_t position, const kernels::RowSummary& row, int32_t rank)>& take);

} // namespace refreshlab
