#pragma once

#include "app/options/train_model_options.h"

namespace refreshlab::app {

/// What `train student` was asked for.
struct TrainStudentOptions : TrainModelOptions, StudentReadingOptions {
    TrainStudentOptions() { weight_decay = 0.01; }
    double next_token = 0.5;
    bool alone = false; ///< without a teacher's entries and rows
};

} // namespace refreshlab::app
