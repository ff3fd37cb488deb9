#pragma once

#include "app/options/train_model_options.h"

namespace refreshlab::app {

/// What `train teacher` was asked for.
struct TrainTeacherOptions : TrainModelOptions {
    TrainTeacherOptions() { weight_decay = 0.1; }
    std::string shape, tokenizer;
};

} // namespace refreshlab::app
