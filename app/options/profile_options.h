#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace refreshlab::app {

/// What `profile` was asked for.
struct ProfileOptions {
    std::string method, model, out;
    std::vector<std::string> texts;
    int64_t length = 512;
    double share = 0.125; ///< compress_kv
    int64_t block = 128;  ///< epicache
    uint64_t seed = 0;
    int threads = 0;
};

} // namespace refreshlab::app
