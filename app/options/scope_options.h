#pragma once

#include <cstdint>
#include <string>

namespace refreshlab::app {

/// What `scope` was asked for.
struct ScopeCommandOptions {
    std::string trace, run_id, teacher, student, device, at, csv, json;
    int64_t every = 0; ///< 0: the run's own refreshes, or 16 where it has none
    int64_t horizon = 16, blocks = 4;
    double keep = 0.95;
    int threads = 0;
};

} // namespace refreshlab::app
