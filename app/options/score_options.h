#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace refreshlab::app {

/// What `score` was asked for.
struct ScoreCommandOptions {
    std::string trace, teacher, student, device;
    bool split = false;
    int32_t every = 16;
};

} // namespace refreshlab::app
