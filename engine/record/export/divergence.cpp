#include "engine/record/export/divergence.h"

#include "engine/base/quantile.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

namespace refreshlab {

namespace {

/// Finite values of a signal over all steps.
std::vector<double> values_of(const Recording& r, std::string_view name) {
    std::vector<double> values;
    const auto id = r.signal_id(name);
    if (!id) return values;
    for (int64_t t = 1, n = r.steps(); t <= n; ++t) {
        if (const float value = r.signal(t, *id); std::isfinite(value))
            values.push_back(static_cast<double>(value));
    }
    return values;
}

std::optional<double> mean_of(const std::vector<double>& values) {
    if (values.empty()) return std::nullopt;
    return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

void read_acceptance(const Recording& recording, Divergence& d) {
    const std::vector<double> taken = values_of(recording, "acceptance");
    d.acceptance = mean_of(taken);
    if (!d.acceptance) return;
    std::array<double, 8> tokens{};
    for (int32_t g = 1; g <= 8; ++g)
        tokens[static_cast<size_t>(g - 1)] = expected_tokens(*d.acceptance, g);
    d.tokens_per_verify = tokens;
    const auto n = static_cast<double>(taken.size());
    if (taken.size() < 2) return;
    double squares = 0;
    for (const double value : taken)
        squares += (value - *d.acceptance) * (value - *d.acceptance);
    const double half = 1.96 * std::sqrt(squares / (n - 1) / n);
    d.acceptance_low = std::max(*d.acceptance - half, 0.0);
    d.acceptance_high = std::min(*d.acceptance + half, 1.0);
}

} // namespace

double expected_tokens(double acceptance, int32_t draft) {
    double sum = 0, power = 1; // the sum that the closed form stands for: nothing divides by 0
    for (int32_t i = 0; i <= draft; ++i, power *= acceptance)
        sum += power;
    return sum;
}

Divergence divergence_of(const Recording& recording) {
    Divergence d;
    std::vector<double> kl = values_of(recording, "kl_nats");
    d.kl_rows = static_cast<int64_t>(kl.size());
    d.kl_mean = mean_of(kl);
    std::ranges::sort(kl);
    if (!kl.empty()) {
        d.kl_median = quantile_of_sorted(kl, 0.5);
        d.kl_p90 = quantile_of_sorted(kl, 0.9);
        d.kl_p99 = quantile_of_sorted(kl, 0.99);
        d.kl_max = kl.back();
    }
    d.same_top1 = mean_of(values_of(recording, "same_top1"));
    read_acceptance(recording, d);
    // Of a run whose every token is known; a record without the number must not look like a good one.
    const std::vector<double> own = values_of(recording, "logprob");
    const auto n = recording.num_tokens();
    if (n > 0 && static_cast<int64_t>(own.size()) == n) d.student_ppl = std::exp(-*mean_of(own));
    const auto end = recording.end();
    if (d.student_ppl && end && end->teacher_ppl && *end->teacher_ppl > 0)
        d.ppl_ratio = *d.student_ppl / *end->teacher_ppl;
    return d;
}

} // namespace refreshlab
