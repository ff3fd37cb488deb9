#pragma once

#include "app/options/train_model_options.h"

namespace refreshlab::app {

/// What `train teacher` was asked for.
struct TrainTeacherOptions : TrainModelOptions {
    std::string shape, tokenizer;
    double weight_decay = 0.1;
};

} // namespace refreshlab::app
