#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace refreshlab::app {

/// What `train bridge` was asked for.
struct TrainBridgeOptions {
    std::string teacher, student, out;
    std::vector<std::string> texts;
    std::string layers = "last", inputs = "both";
    int64_t reach = 0, length = 512;
    std::optional<double> lambda; ///< nothing: chosen on texts held out
    int64_t steps = 300;          ///< of the training behind the fit
    int64_t batch = 4, longest = 64;
    double learning_rate = 1e-3;
    uint64_t seed = 0;
    std::string csv;
    bool restart = false;
    int threads = 0;
};

} // namespace refreshlab::app
