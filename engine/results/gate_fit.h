#pragma once

#include "engine/landscape/landscape.h"
#include "engine/refresh/policy.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace refreshlab {

using Landscapes = std::span<const std::shared_ptr<const Landscape>>;

/// Signals of the cell (j, i) and what a refresh at boundary i gained there, for pairs of rows j < i that are computed.
struct GainSamples {
    std::vector<std::string> signals;
    std::vector<std::vector<float>> values; ///< [signals][samples]
    std::vector<double> gains;              ///< [samples]: refresh_gain() over the horizon, nats
};
/// What becomes of a sample one of whose signals is not known there: the last KL in the landscape's first row, say.
enum class Unknown : uint8_t { left_out, absent };
/// Samples whose gain or a signal is not finite are left out.
/// \param signals  of shared_terms()                                                                  (asserted)
/// \param horizon  tokens over which a refresh is judged
/// \param most     samples at most, evenly spread over the pairs
[[nodiscard]] GainSamples gain_samples(const Landscape& landscape, std::span<const std::string> signals,
                                       int64_t horizon, Unknown unknown = Unknown::left_out,
                                       size_t most = 4000);

/// Spearman's rank correlation; ties have their mean rank. Nothing for fewer than 3 pairs or where one side is constant.
[[nodiscard]] std::optional<double> rank_correlation(std::span<const float> values,
                                                     std::span<const double> gains);
/// Area under the ROC curve: the share of pairs (a gain above 0, a gain of 0 or less) that the value orders rightly, ties half.
/// Nothing where one kind is missing. Source: Hanley and McNeil 1982.
[[nodiscard]] std::optional<double> roc_area(std::span<const float> values, std::span<const double> gains);

/// What a policy reaches on one text when its trigger's threshold is set for a wanted number of refreshes.
struct MatchedPoint {
    double threshold = 0;
    int64_t refreshes = 0; ///< the nearest that a threshold gives
    double loss = 0;
    std::optional<double> efficiency; ///< against the best of its own count
    std::optional<double> blind;      ///< efficiency of blind placement of that count, mean over phases
};
/// Nothing where no threshold gives a refresh, or the nearest count is off by more than half of what is wanted (and by more than 1).
[[nodiscard]] std::optional<MatchedPoint>
matched_point(const Landscape& landscape, const RefreshPolicy& policy, size_t trigger, int64_t refreshes);

/// How a gate is fitted.
struct GateOptions {
    enum class Form : uint8_t {
        ridge,   ///< the gain, in nats
        logistic ///< the log odds that there is a gain: how much is gained does not count
    };
    Form form = Form::ridge;
    std::vector<std::string>
        signals;          ///< the terms; empty: all that the landscapes share and that can be terms
    int64_t horizon = 32; ///< tokens over which a refresh is judged
    double ridge = 0.01;  ///< penalty, times the number of samples, on weights of standardised signals
    double per_256 = 8;   ///< refreshes in 256 tokens that the gate's threshold is set for
};

/// A fitted gate, and how good it is on texts that it has not seen.
struct FittedGate {
    RefreshPolicy
        policy; ///< one signal of its own, a weighted sum: the predicted gain in nats or its log odds, and a trigger above a threshold
    struct Judged {
        int64_t per_256 = 0;             ///< wanted refreshes in 256 tokens
        std::vector<double> gate, blind; ///< efficiency on each held-out text
        std::vector<double> entropy;     ///< of an entropy gate there
    };
    std::vector<Judged> judged; ///< at 1, 2, 4, 8, 16; leave one text out
    size_t texts = 0;
    size_t samples = 0;
};

/// A term that is not known everywhere counts there as its mean over the others, in the fit and in the gate (OwnSignal::Term::absent_as).
/// Ridge regression of the gain on standardised signals (Hoerl and Kennard 1970), or logistic regression of whether there is a gain with
/// the same penalty (le Cessie and van Houwelingen 1992), over all texts alike; judged by leaving out one text after the other. Throws
/// Error{bad_input} for fewer than two landscapes, for signals that they do not share, and for a logistic form where every sample gains.
[[nodiscard]] FittedGate fit_gate(Landscapes landscapes, const GateOptions& options);

/// Signals that every one of these landscapes tells (landscape/cell_signals.h) and that can be terms of a weighted sum.
[[nodiscard]] std::vector<std::string> shared_terms(Landscapes landscapes);

} // namespace refreshlab
