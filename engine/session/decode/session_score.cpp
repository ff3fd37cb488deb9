#include "engine/model/forward/score_tokens.h"
#include "engine/session/decode/session_impl.h"

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

    // Tokens stand at [L, L + n).
    const int64_t length = prompt_length();
    if (!teacher)
        teacher =
            std::make_unique<TeacherReader>(pair->teacher->forward(), pair->teacher->make_cache(capacity));
    const KvCache::Quiet quiet(teacher->cache()); // the pass is no part of the run
    std::vector<int32_t> all = prompt();
    for (int64_t i = 1; i <= n; ++i)
        all.push_back(recording->token(i));
    const size_t rank_id = require_signal("teacher_rank", "scoring");
    const auto take = [&](int64_t position, const kernels::RowSummary& row, int32_t rank) {
        const int64_t step = position - length + 1;
        if (step > recording->steps()) pending.teacher_logprob = row.logprob;
        put_signal(*recording, nullptr, logprob_id, step, row.logprob);
        put_signal(*recording, nullptr, agreement_id, step,
                   row.statistics.top1_id == all[static_cast<size_t>(position)] ? 1 : 0);
        put_signal(*recording, nullptr, rank_id, step, rank);
    };
    score_tokens(pair->teacher->forward(), teacher->cache(), all, length, take);

    double sum = 0, tail = 0;
    const int64_t tail_tokens = std::min<int64_t>(50, n);
    for (int64_t step = 1; step <= n; ++step) {
        // The token chosen last by a run that was stopped has no record yet.
        const bool recorded = step <= recording->steps();
        const double lp = recorded
                              ? static_cast<double>(recording->signal(step, logprob_id))
                              : pending.teacher_logprob.value_or(std::numeric_limits<double>::quiet_NaN());
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
