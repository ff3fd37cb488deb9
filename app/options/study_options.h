#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace refreshlab::app {

/// What `study NAME` was asked for.
struct StudyCommandOptions {
    std::string name; ///< of the study
    std::string teacher, student, device, dtype, kernels, prompts, out, traces;
    std::vector<std::string> parts, methods;
    uint64_t seed = 0;
    int64_t limit = 0, length = 0;
    int32_t mc_samples = 0;
    int threads = 0;
};

} // namespace refreshlab::app
