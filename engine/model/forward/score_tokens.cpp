#include "engine/model/forward/score_tokens.h"

#include "engine/cache/kv_cache.h"
#include "kernels/ops/row_overlap.h"

#include <algorithm>

namespace refreshlab {

void score_tokens(
    const Forward& forward, KvCache& cache, std::span<const int32_t> text, int64_t first_scored,
    const std::function<void(int64_t position, const kernels::RowSummary& row, int32_t rank)>& take) {
    constexpr int64_t chunk = 128;                           // rows of logits that are alive at once
    const auto read = static_cast<int64_t>(text.size()) - 1; // the last token is never fed
    while (cache.length() < read) {
        const int64_t first = cache.length();
        const bool scores = first + 1 >= first_scored;
        const int64_t n = scores ? std::min(chunk, read - first) : std::min(first_scored - 1, read) - first;
        const auto part = [&](int64_t begin) {
            return text.subspan(static_cast<size_t>(begin), static_cast<size_t>(n));
        };
        StepInputs in;
        in.tokens = part(first);
        in.origin = Origin::teacher_decode;
        in.rows = scores ? Rows::all : Rows::none;
        in.logits = scores;
        if (scores)
            in.ask = kernels::RowAsk{.top_k = 0, .tokens = part(first + 1), .kl_against = {}, .kl_rows = {}};
        const StepOutputs out = forward.prefill(cache, in);
        if (!scores) continue;
        const auto ranks = kernels::token_ranks(out.logits, part(first + 1));
        for (size_t i = 0; i < out.summary.size(); ++i)
            take(first + 1 + static_cast<int64_t>(i), out.summary[i], ranks[i]);
    }
}

} // namespace refreshlab
