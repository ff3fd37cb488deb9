#pragma once

#include "app/options/run_options.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace refreshlab::app {

/// What `landscape` was asked for.
struct LandscapeCommandOptions {
    RunOptions run;
    std::string trace, output, run_id, values, summary, objective;
    int64_t every = 1, best = 16;
    int64_t rows_at_once = 0; ///< 0: the most
    std::optional<double> price;
    std::vector<std::string> given_options; ///< on the command line, as "--policy"

    [[nodiscard]] bool given(const std::string& option) const {
        return std::ranges::find(given_options, option) != given_options.end();
    }
};

} // namespace refreshlab::app
