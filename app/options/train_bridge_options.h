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
    int threads = 0;
};

} // namespace refreshlab::app
