#include "engine/base/error.h"
#include "engine/session/decode/session_state.h"

#include <c10/core/InferenceMode.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace refreshlab {

/// The closing pass: teacher rows that no probe or refresh has made, then teacher-PPL = exp(-mean lp_t) and the mean of
/// lp_t over the last min(50, N) tokens (reference/refresh.md, section 7). Not part of the run's times.
void DecodeSession::Impl::score() {
    const c10::InferenceMode guard;
    const int64_t n = recording->num_tokens();
    if (!pair->teacher || n == 0 || !recording->end()) return;
    const size_t logprob_id = require_signal("teacher_logprob", "scoring");
    const size_t agreement_id = require_signal("teacher_agreement", "scoring");

    // The row at position p scores the token at p + 1; tokens stand at [L, L + n).
    const int64_t length = prompt_length();
    if (!teacher_cache) teacher_cache = pair->teacher->make_cache(capacity);
    KvCache& cache = *teacher_cache;
    std::vector<int32_t> all = prompt();
    for (int64_t i = 1; i <= n; ++i)
        all.push_back(recording->token(i));
    constexpr int64_t chunk = 128;
    while (cache.length() < length + n - 1) {
        const int64_t first = cache.length();
        const bool scores = first + chunk >= length; // prompt rows before L - 1 score nothing
        const int64_t m =
            std::min(scores ? chunk : std::min(chunk, length - 1 - first), length + n - 1 - first);
        const auto tokens = std::span(all).subspan(static_cast<size_t>(first), static_cast<size_t>(m));
        const at::Tensor rows = pair->teacher->extend(cache, tokens, LlamaModel::Rows::all,
                                                      static_cast<uint8_t>(Origin::teacher_decode));
        const auto statistics = kernels::row_statistics(rows);
        for (int64_t i = 0; i < m; ++i) {
            const int64_t scored = first + i + 1;
            if (scored < length) continue;
            const int32_t token = all[static_cast<size_t>(scored)];
            const auto& row = statistics[static_cast<size_t>(i)];
            const double lp = rows[i][token].item<double>() - row.log_z;
            if (scored - length + 1 > recording->steps()) marks.pending.teacher_logprob = lp;
            put_signal(nullptr, logprob_id, scored - length + 1, lp);
            put_signal(nullptr, agreement_id, scored - length + 1, row.top1_id == token ? 1 : 0);
        }
    }

    double sum = 0, tail = 0;
    const int64_t tail_tokens = std::min<int64_t>(50, n);
    for (int64_t step = 1; step <= n; ++step) {
        // The token chosen last by a run that was stopped has no record yet.
        const bool recorded = step <= recording->steps();
        const double lp =
            recorded ? static_cast<double>(recording->signal(step, logprob_id))
                     : marks.pending.teacher_logprob.value_or(std::numeric_limits<double>::quiet_NaN());
        if (std::isnan(lp))
            return; // cannot happen while every row above was made; a missing one must not look like 0
        sum += lp;
        if (step > n - tail_tokens) tail += lp;
    }
    RunEnd end = *recording->end();
    end.teacher_ppl = std::exp(-sum / static_cast<double>(n));
    end.tail_logprob = tail / static_cast<double>(tail_tokens);
    recording->set_end(end);
}

} // namespace refreshlab
