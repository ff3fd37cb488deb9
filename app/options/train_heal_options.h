#pragma once

#include "app/options/train_model_options.h"

namespace refreshlab::app {

/// What `train heal` was asked for.
struct TrainHealOptions : TrainModelOptions, StudentReadingOptions {
    int64_t rank = 16;
    double alpha = 32, next_token = 0;
    std::vector<std::string> on{"q", "k", "v", "o", "gate", "up", "down"};
    bool norms = false;
};

} // namespace refreshlab::app
