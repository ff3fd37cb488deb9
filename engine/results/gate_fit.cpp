#include "engine/results/gate_fit.h"

#include "engine/base/check.h"
#include "engine/base/error.h"
#include "engine/landscape/best_schedule.h"
#include "engine/landscape/cell_signals.h"
#include "engine/landscape/frontier.h"
#include "engine/landscape/staircase.h"
#include "engine/signals/registry.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

namespace refreshlab {

namespace {

constexpr auto fitting_a_gate = "fitting a gate";
constexpr const char* gate_name = "fitted_gate";
constexpr int64_t targets[] = {1, 2, 4, 8, 16}; ///< refreshes in 256 tokens

/// Ranks from 1, ties with their mean.
template <class T>
std::vector<double> ranks_of(std::span<const T> values) {
    std::vector<size_t> order(values.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::ranges::sort(order, {}, [&](size_t i) { return values[i]; });
    std::vector<double> ranks(values.size());
    for (size_t first = 0; first < order.size();) {
        size_t end = first + 1;
        while (end < order.size() && values[order[end]] == values[order[first]])
            ++end;
        for (size_t i = first; i < end; ++i)
            ranks[order[i]] = static_cast<double>(first + end + 1) / 2;
        first = end;
    }
    return ranks;
}

/// Solves the symmetric positive definite system a x = b in place (Cholesky).
void solve(std::vector<double>& a, std::vector<double>& b) {
    const size_t n = b.size();
    for (size_t i = 0; i < n; ++i) {
        for (size_t j = 0; j <= i; ++j) {
            double sum = a[i * n + j];
            for (size_t k = 0; k < j; ++k)
                sum -= a[i * n + k] * a[j * n + k];
            a[i * n + j] = i == j ? std::sqrt(sum) : sum / a[j * n + j];
        }
    }
    for (size_t i = 0; i < n; ++i) {
        for (size_t k = 0; k < i; ++k)
            b[i] -= a[i * n + k] * b[k];
        b[i] /= a[i * n + i];
    }
    for (size_t i = n; i-- > 0;) {
        for (size_t k = i + 1; k < n; ++k)
            b[i] -= a[k * n + i] * b[k];
        b[i] /= a[i * n + i];
    }
}

/// Samples of several texts, one after the other, their signals standardised over all of them.
struct Standardised {
    std::vector<double> mean, sd; ///< [signals], of what is known
    std::vector<bool> gaps;       ///< [signals]: not known in every sample; its mean stands in there
    std::vector<double> x;        ///< [samples, signals + 1]; the last column is 1, for the offset
    std::vector<double> gains;    ///< [samples]
    [[nodiscard]] size_t width() const { return mean.size() + 1; }
};

Standardised standardised(std::span<const GainSamples* const> texts) {
    const size_t d = texts.front()->signals.size();
    Standardised all{std::vector<double>(d), std::vector<double>(d), std::vector<bool>(d), {}, {}};
    for (const GainSamples* text : texts) {
        for (size_t s = 0; s < text->gains.size(); ++s) {
            for (size_t f = 0; f < d; ++f)
                all.x.push_back(static_cast<double>(text->values[f][s]));
            all.x.push_back(1);
            all.gains.push_back(text->gains[s]);
        }
    }
    for (size_t f = 0; f < d; ++f) {
        const auto value = [&](size_t s) -> double& { return all.x[s * (d + 1) + f]; };
        double known = 0;
        for (size_t s = 0; s < all.gains.size(); ++s) {
            if (std::isnan(value(s))) continue;
            all.mean[f] += value(s);
            ++known;
        }
        all.gaps[f] = known < static_cast<double>(all.gains.size());
        if (known > 0) all.mean[f] /= known;
        for (size_t s = 0; s < all.gains.size(); ++s) {
            if (!std::isnan(value(s))) all.sd[f] += std::pow(value(s) - all.mean[f], 2) / known;
        }
        all.sd[f] = all.sd[f] > 0 ? std::sqrt(all.sd[f]) : 1;
        for (size_t s = 0; s < all.gains.size(); ++s)
            value(s) = std::isnan(value(s)) ? 0 : (value(s) - all.mean[f]) / all.sd[f];
    }
    return all;
}

/// Solves (X' W X / n + ridge) b = X' z / n; the offset's column is not penalised. \param weights  W; empty: all 1
std::vector<double> least_squares(const Standardised& data, std::span<const double> weights,
                                  std::span<const double> z, double ridge) {
    const size_t d = data.width();
    const auto n = static_cast<double>(data.gains.size());
    std::vector<double> normal(d * d), right(d);
    for (size_t s = 0; s < data.gains.size(); ++s) {
        const double* const row = &data.x[s * d];
        const double weight = weights.empty() ? 1 : weights[s];
        for (size_t f = 0; f < d; ++f) {
            for (size_t g = 0; g < d; ++g)
                normal[f * d + g] += weight * row[f] * row[g] / n;
            right[f] += row[f] * z[s] / n;
        }
    }
    for (size_t f = 0; f + 1 < d; ++f)
        normal[f * d + f] += ridge;
    solve(normal, right);
    return right;
}

/// Weights that maximise the penalised likelihood of "a refresh gains here", by Newton's steps (McCullagh and Nelder 1989, 4.4).
std::vector<double> logistic(const Standardised& data, double ridge) {
    constexpr int most_steps = 50;
    constexpr double still = 1e-10,
                     least_weight = 1e-6; // a text that is told apart wholly has no maximum without a ridge
    const size_t d = data.width();
    std::vector<double> b(d), weights(data.gains.size()), z(data.gains.size());
    for (int round = 0; round < most_steps; ++round) {
        for (size_t s = 0; s < data.gains.size(); ++s) {
            double eta = 0;
            for (size_t f = 0; f < d; ++f)
                eta += b[f] * data.x[s * d + f];
            const double p = 1 / (1 + std::exp(-eta));
            weights[s] = std::max(p * (1 - p), least_weight);
            z[s] = weights[s] * eta + (data.gains[s] > 0 ? 1 : 0) - p;
        }
        const std::vector<double> next = least_squares(data, weights, z, ridge);
        double moved = 0;
        for (size_t f = 0; f < d; ++f)
            moved = std::max(moved, std::abs(next[f] - b[f]));
        b = next;
        if (moved < still) break;
    }
    return b;
}

/// The weighted sum that foretells the gain, fitted on these texts.
OwnSignal fitted(std::span<const GainSamples* const> texts, const GateOptions& options) {
    const Standardised data = standardised(texts);
    const std::vector<double> b = options.form == GateOptions::Form::logistic
                                      ? logistic(data, options.ridge)
                                      : least_squares(data, {}, data.gains, options.ridge);
    OwnSignal signal;
    signal.name = gate_name;
    signal.offset = b.back();
    for (size_t f = 0; f < data.mean.size(); ++f) {
        signal.terms.push_back({texts.front()->signals[f], b[f] / data.sd[f],
                                data.gaps[f] ? std::optional(data.mean[f]) : std::nullopt});
        signal.offset -= data.mean[f] * b[f] / data.sd[f];
    }
    return signal;
}

RefreshPolicy gate_of(OwnSignal signal) {
    RefreshPolicy policy;
    policy.name = "fitted gate";
    Trigger trigger;
    trigger.signal = signal.name;
    trigger.published = true;
    policy.signals.push_back(std::move(signal));
    policy.triggers.push_back(std::move(trigger));
    return policy;
}

RefreshPolicy entropy_gate() {
    RefreshPolicy policy;
    policy.name = "entropy";
    Trigger trigger;
    trigger.signal = "entropy_bits";
    policy.triggers.push_back(std::move(trigger));
    return policy;
}

int64_t wanted_on(const Landscape& landscape, double per_256) {
    return std::max<int64_t>(1, std::llround(per_256 * static_cast<double>(landscape.num_steps()) / 256));
}

double median_of(std::vector<double> values) {
    std::ranges::sort(values);
    return values.empty() ? 0 : values[values.size() / 2];
}

} // namespace

GainSamples gain_samples(const Landscape& landscape, std::span<const std::string> wanted, int64_t horizon,
                         Unknown unknown, size_t most) {
    RL_ASSERT(horizon > 0 && most > 0);
    GainSamples samples;
    samples.signals.assign(wanted.begin(), wanted.end());
    samples.values.resize(wanted.size());
    const std::vector<int64_t> rows = landscape.rows();
    const size_t pairs = rows.size() * (rows.size() - 1) / 2, stride = pairs / most + 1;
    size_t pair = 0;
    for (size_t b = 1; b < rows.size(); ++b) {
        for (size_t a = 0; a < b; ++a) {
            if (pair++ % stride != 0) continue;
            const double gain = refresh_gain(landscape, rows[a], rows[b], horizon);
            std::vector<float> values;
            for (const std::string& signal : wanted)
                values.push_back(signal_at(landscape, signal, rows[a], rows[b],
                                           usual_row_before(landscape, rows[a], rows[b])));
            const bool finite = std::isfinite(gain) && std::ranges::all_of(values, [unknown](float v) {
                                    return std::isfinite(v) || (unknown == Unknown::absent && is_absent(v));
                                });
            if (!finite) continue;
            samples.gains.push_back(gain);
            for (size_t f = 0; f < values.size(); ++f)
                samples.values[f].push_back(values[f]);
        }
    }
    return samples;
}

std::optional<double> rank_correlation(std::span<const float> values, std::span<const double> gains) {
    RL_ASSERT(values.size() == gains.size());
    if (values.size() < 3) return std::nullopt;
    const std::vector<double> x = ranks_of(values), y = ranks_of(gains);
    const double mean = static_cast<double>(x.size() + 1) / 2;
    double xy = 0, xx = 0, yy = 0;
    for (size_t i = 0; i < x.size(); ++i) {
        xy += (x[i] - mean) * (y[i] - mean);
        xx += (x[i] - mean) * (x[i] - mean);
        yy += (y[i] - mean) * (y[i] - mean);
    }
    if (xx == 0 || yy == 0) return std::nullopt;
    return xy / std::sqrt(xx * yy);
}

std::optional<double> roc_area(std::span<const float> values, std::span<const double> gains) {
    RL_ASSERT(values.size() == gains.size());
    const std::vector<double> ranks = ranks_of(values);
    double sum = 0, positive = 0;
    for (size_t i = 0; i < gains.size(); ++i) {
        if (gains[i] <= 0) continue;
        sum += ranks[i];
        ++positive;
    }
    const double negative = static_cast<double>(gains.size()) - positive;
    if (positive == 0 || negative == 0) return std::nullopt;
    return (sum - positive * (positive + 1) / 2) / (positive * negative);
}

std::optional<MatchedPoint> matched_point(const Landscape& landscape, const RefreshPolicy& policy,
                                          size_t trigger, int64_t refreshes) {
    std::optional<MatchedPoint> found;
    for (const FrontierPoint& point : threshold_frontier(landscape, policy, trigger, 128)) {
        if (point.refreshes < 1) continue;
        const int64_t off = std::abs(point.refreshes - refreshes);
        if (found && off >= std::abs(found->refreshes - refreshes)) continue;
        found = MatchedPoint{point.threshold, point.refreshes, point.loss, {}, {}};
    }
    if (!found || std::abs(found->refreshes - refreshes) > std::max<int64_t>(1, refreshes / 2))
        return std::nullopt;
    const auto best = best_schedules(landscape, found->refreshes);
    const double none = landscape.mean_loss_without_refresh();
    if (static_cast<int64_t>(best.size()) <= found->refreshes) return found;
    found->efficiency = efficiency(none, found->loss, best.back().loss);
    if (const auto blind = blind_placement(landscape, found->refreshes))
        found->blind = efficiency(none, blind->mean_loss, best.back().loss);
    return found;
}

std::vector<std::string> shared_terms(Landscapes landscapes) {
    std::vector<std::string> shared;
    for (const Signal& signal : signals()) {
        const std::string name(signal.name);
        if (!why_no_term(name).empty()) continue;
        const bool held = std::ranges::all_of(
            landscapes, [&](const auto& landscape) { return tells(landscape->info().values, name); });
        if (held) shared.push_back(name);
    }
    return shared;
}

FittedGate fit_gate(Landscapes landscapes, const GateOptions& options) {
    if (landscapes.size() < 2) {
        throw Error(
            fitting_a_gate, {},
            fmt::format("{} landscape{} given, and it takes two at least: one is held out to judge it",
                        landscapes.size(), landscapes.size() == 1 ? " is" : "s are"));
    }
    const std::vector<std::string> known = shared_terms(landscapes),
                                   terms = options.signals.empty() ? known : options.signals;
    for (const std::string& term : terms) {
        if (std::ranges::find(known, term) != known.end()) continue;
        const std::string why = why_no_term(term);
        throw Error(fitting_a_gate, term,
                    why.empty() ? "not every landscape holds it" : "it cannot be a term: " + why,
                    fmt::format("they share {}", fmt::join(known, ", ")));
    }
    FittedGate gate;
    gate.texts = landscapes.size();
    std::vector<GainSamples> samples;
    for (const auto& landscape : landscapes) {
        samples.push_back(gain_samples(*landscape, terms, options.horizon, Unknown::absent));
        gate.samples += samples.back().gains.size();
        if (samples.back().gains.empty())
            throw Error(fitting_a_gate, {}, "a landscape has one row only", "compute more of its rows");
    }
    if (options.form == GateOptions::Form::logistic) {
        for (size_t i = 0; i < samples.size(); ++i) {
            // The others must have both kinds, whichever text is left out.
            const auto kind = [&](bool gains) {
                return std::ranges::any_of(samples, [&](const GainSamples& text) {
                    return &text != &samples[i] &&
                           std::ranges::any_of(text.gains, [&](double gain) { return (gain > 0) == gains; });
                });
            };
            if (!kind(true) || !kind(false))
                throw Error(fitting_a_gate, {}, "all refreshes of these texts gain, or none does",
                            "take more texts, or the form ridge");
        }
    }
    for (const int64_t target : targets)
        gate.judged.push_back({target, {}, {}, {}});
    for (size_t held_out = 0; held_out < landscapes.size(); ++held_out) {
        std::vector<const GainSamples*> others;
        for (size_t i = 0; i < samples.size(); ++i) {
            if (i != held_out) others.push_back(&samples[i]);
        }
        const RefreshPolicy policy = gate_of(fitted(others, options));
        const Landscape& landscape = *landscapes[held_out];
        for (FittedGate::Judged& judged : gate.judged) {
            const int64_t count = wanted_on(landscape, static_cast<double>(judged.per_256));
            const auto point = matched_point(landscape, policy, 0, count);
            if (!point || !point->efficiency || !point->blind) continue;
            judged.gate.push_back(*point->efficiency);
            judged.blind.push_back(*point->blind);
            if (!landscape.value_index("entropy_bits")) continue;
            if (const auto entropy = matched_point(landscape, entropy_gate(), 0, count);
                entropy && entropy->efficiency)
                judged.entropy.push_back(*entropy->efficiency);
        }
    }
    std::vector<const GainSamples*> all;
    for (const GainSamples& text : samples)
        all.push_back(&text);
    gate.policy = gate_of(fitted(all, options));
    std::vector<double> thresholds;
    for (const auto& landscape : landscapes) {
        if (const auto point =
                matched_point(*landscape, gate.policy, 0, wanted_on(*landscape, options.per_256)))
            thresholds.push_back(point->threshold);
    }
    gate.policy.triggers[0].threshold = median_of(std::move(thresholds));
    return gate;
}

} // namespace refreshlab
