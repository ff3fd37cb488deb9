#pragma once

#include "engine/control/exactness.h"

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace refreshlab {

class LlamaModel;

/// A prompt of this length and one step after it are within the model's context.
[[nodiscard]] bool latency_length_fits(const LlamaModel& model, int64_t length);

/// The prefill/decode micro-benchmark (reference/refresh.md, section 9): for each prompt length L the time of one prefill, and
/// per step t the naive latency (a forward over L + t tokens) and the cached one. 3 warm-ups, medians of
/// options.repetitions. The naive curve is sampled at up to eight steps: it costs more than all the rest.
/// Appends one curve per length that fits the context. \param tell  fraction done; may throw to cancel
void measure_latency(const LlamaModel& model, const std::string& subject, const ExactnessOptions& options,
                     std::vector<LatencyCurve>& out, const std::function<void(double fraction)>& tell);

} // namespace refreshlab
