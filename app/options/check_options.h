#pragma once

#include "app/options/run_options.h"
#include "engine/control/exactness.h"

#include <string>

namespace refreshlab::app {

/// What `check` was asked for.
struct CheckOptions {
    RunOptions run;
    ExactnessOptions exactness;
    std::string fault = "none", json, csv;
    bool no_latency = false;
};

} // namespace refreshlab::app
