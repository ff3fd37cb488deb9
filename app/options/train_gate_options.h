#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace refreshlab::app {

/// What `train-gate` was asked for. 0 and empty: the method's own.
struct TrainGateOptions {
    std::string method, model, out, csv;
    std::vector<std::string> texts, readings;
    int64_t steps = 3000, batch = 4, length = 512, width = 0;
    double learning_rate = 0, capacity = 0.25, capacity_weight = 1, smoothness = 0.0025;
    uint64_t seed = 0;
    int threads = 0;
    bool restart = false;
};

} // namespace refreshlab::app
