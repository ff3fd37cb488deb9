#pragma once

#include "engine/study/studies/study_table.h"

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

namespace refreshlab {

/// The 400-step simulation of entropy against MC variance (reference/refresh.md, section 8): no model; a vocabulary of 5,000
/// whose logits are a peak of height a(t) plus the noise of 20 passes. It shows that entropy fires on mere ambiguity too.
struct Simulation {
    static constexpr int64_t steps = 400, vocabulary = 5000, passes = 20, stride = 16, cooldown = 32;
    enum class Phase : uint8_t { conf, drift, post, alea };

    struct Step {
        Phase phase = Phase::conf;
        double entropy_nats = 0; ///< of the softmax of the mean of the passes' logits
        double mc_variance = 0;  ///< mean over the vocabulary of the unbiased variance over the passes
        bool entropy_fires = false, mc_fires = false;
    };
    struct PhaseSummary {
        Phase phase = Phase::conf;
        int64_t steps = 0;
        double mean_entropy_nats = 0, mean_mc_variance = 0;
        double entropy_fire_share = 0, mc_fire_share = 0; ///< fires / steps of the phase
    };

    uint64_t seed = 0;
    std::vector<Step> trace;                              ///< [steps]
    double entropy_threshold = 0, variance_threshold = 0; ///< mean + 6 standard deviations over steps 0-99

    [[nodiscard]] std::array<PhaseSummary, 4> summary() const; ///< alea, conf, drift, post
    [[nodiscard]] std::vector<int64_t> entropy_fires() const;  ///< steps
    [[nodiscard]] std::vector<int64_t> mc_fires() const;
};

[[nodiscard]] std::string_view to_string(Simulation::Phase phase);
[[nodiscard]] Simulation::Phase phase_of(int64_t step);

/// Runs it: 40 million normal numbers, about a second. Random numbers are Philox draws keyed by (seed, step, pass, element).
[[nodiscard]] Simulation simulate(uint64_t seed);

/// The printed table, thresholds and fire lists; figure data: one row per step.
[[nodiscard]] StudyResult study_simulation(uint64_t seed);

} // namespace refreshlab
