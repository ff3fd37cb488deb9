#pragma once

#include <string>
#include <vector>

namespace refreshlab::app {

/// What `doctor` was asked for.
struct DoctorOptions {
    std::vector<std::string> models; ///< none: the bundled pair
};

} // namespace refreshlab::app
