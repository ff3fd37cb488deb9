#pragma once

#include "engine/bench/measure/bench.h"
#include "engine/bench/measure/timed_run.h"

namespace refreshlab::bench {

/// What a section is made of.
struct SectionInputs {
    const Bench& bench;
    const BenchOptions& options;
    const std::function<void(const std::string&)>& tell; ///< throws to cancel
};

// One function a section; each adds to the report. A new one is a function and a line in the table of bench.cpp.
void measure_bandwidth(const SectionInputs& in, BenchReport& report); ///< models, and their floors
void measure_first_token(const SectionInputs& in, BenchReport& report);
void measure_decode(const SectionInputs& in, BenchReport& report);
void measure_refreshed_run(const SectionInputs& in, BenchReport& report);
void measure_probes(const SectionInputs& in, BenchReport& report); ///< and the noise, the same way
void measure_refresh(const SectionInputs& in, BenchReport& report);
void measure_cache_policies(const SectionInputs& in, BenchReport& report); ///< study/measure/policy_cost.h

/// Gigabytes a second that were measured for the model that decodes in this mode; nothing where they were not.
[[nodiscard]] std::optional<double> measured_bandwidth(const BenchReport& report, Mode mode);

} // namespace refreshlab::bench
