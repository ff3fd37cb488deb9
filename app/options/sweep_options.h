#pragma once

#include "app/options/table_options.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace refreshlab::app {

/// What `sweep` was asked for.
struct SweepCommandOptions {
    std::string spec, out, shard = "1/1", teacher, student;
    std::vector<std::string> devices;
    int jobs = 0;
    bool dry_run = false;
    TableOptions tables;
};

} // namespace refreshlab::app
