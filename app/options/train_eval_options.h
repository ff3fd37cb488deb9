#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace refreshlab::app {

/// What `train eval` was asked for.
struct TrainEvalOptions {
    std::string teacher, student, baseline, prompts, out, csv, json;
    std::string command; ///< the words of the command line, for the card
    std::vector<std::string> texts, kinds;
    bool tasks = false; ///< --tasks stands there; without kinds the three of the almanac
    uint64_t seed = 0;
    int64_t limit = 0;
    int threads = 0;
};

} // namespace refreshlab::app
