#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace refreshlab::app {

/// What `derive` was asked for.
struct DeriveOptions {
    std::string teacher, spec, out, prompt, dtype = "f32";
    int threads = 0;
    bool raw_prompt = false;
};

} // namespace refreshlab::app
