#include "engine/study/sweep_score.h"

#include "engine/base/error.h"
#include "engine/base/origin.h"
#include "engine/cache/kv_cache.h"
#include "engine/model/llama_model.h"
#include "kernels/row_statistics.h"

#include <ATen/core/Tensor.h>
#include <c10/core/InferenceMode.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <vector>

namespace refreshlab {

std::optional<TextScore> score_text(const LlamaModel& teacher, std::span<const int32_t> prompt,
                                    std::span<const int32_t> text) {
    if (prompt.empty() || text.empty()) return std::nullopt;
    const c10::InferenceMode guard;
    std::vector<int32_t> ids(prompt.begin(), prompt.end());
    ids.insert(ids.end(), text.begin(), text.end());
    const auto length = static_cast<int64_t>(prompt.size()), n = static_cast<int64_t>(text.size());
    if (length + n - 1 > teacher.config().max_position) {
        throw Error("scoring", "a text",
                    fmt::format("{} tokens with its prompt, and the teacher's context is {}", length + n,
                                teacher.config().max_position));
    }
    for (const int32_t id : ids) {
        if (id >= 0 && id < teacher.config().vocab_size) continue;
        throw Error("scoring", "a text",
                    fmt::format("token id {} is outside the teacher's vocabulary of {}", id,
                                teacher.config().vocab_size),
                    "it was made with another tokenizer");
    }
    // The row at position p scores the token at p + 1; tokens stand at [length, length + n).
    const auto cache = teacher.make_cache(length + n);
    constexpr int64_t chunk = 128;
    double sum = 0, tail = 0, agreed = 0;
    const int64_t tail_tokens = std::min<int64_t>(50, n);
    while (cache->length() < length + n - 1) {
        const int64_t first = cache->length();
        const bool scores = first + chunk >= length;
        const int64_t m =
            std::min(scores ? chunk : std::min(chunk, length - 1 - first), length + n - 1 - first);
        const auto part =
            std::span<const int32_t>(ids).subspan(static_cast<size_t>(first), static_cast<size_t>(m));
        const at::Tensor rows =
            teacher.extend(*cache, part, LlamaModel::Rows::all, static_cast<uint8_t>(Origin::teacher_decode));
        const auto statistics = kernels::row_statistics(rows);
        for (int64_t i = 0; i < m; ++i) {
            const int64_t scored = first + i + 1;
            if (scored < length) continue;
            const int32_t token = ids[static_cast<size_t>(scored)];
            const auto& row = statistics[static_cast<size_t>(i)];
            // Single precision, as a recording keeps it.
            const auto lp =
                static_cast<double>(static_cast<float>(rows[i][token].item<double>() - row.log_z));
            sum += lp;
            if (scored - length >= n - tail_tokens) tail += lp;
            if (row.top1_id == token) agreed += 1;
        }
    }
    TextScore score;
    score.tokens = n;
    score.teacher_ppl = std::exp(-sum / static_cast<double>(n));
    score.tail_logprob = tail / static_cast<double>(tail_tokens);
    score.agreement = agreed / static_cast<double>(n);
    return score;
}

} // namespace refreshlab
