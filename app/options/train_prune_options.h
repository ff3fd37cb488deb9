#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace refreshlab::app {

/// What `train prune` was asked for. 0: the model's own width.
struct TrainPruneOptions {
    std::string model, out, json, ffn_score = "derive", dtype = "f32";
    std::vector<std::string> texts; ///< empty: the bundled story continuations
    int64_t hidden = 0, ffn = 0, length = 512, most_texts = 512;
    int threads = 0;
};

} // namespace refreshlab::app
