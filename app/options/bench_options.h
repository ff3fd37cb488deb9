#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace refreshlab::app {

/// What `bench` was asked for.
struct BenchCommandOptions {
    std::string teacher, student, mode, device, dtype;
    std::vector<std::string> set, only;
    int threads = 0;
    bool quick = false, decode_only = false, start = false;
    std::optional<int64_t> tokens, rounds, pairs, warm_ups;
    std::vector<std::string> cache_policies; ///< empty: all
    std::vector<int64_t> cache_lengths;      ///< empty: the usual ones
    std::optional<int64_t> cache_steps;
    std::string json, figures, ui, ids, folder;
    bool plan = false; ///< predict a step instead of measuring; what follows belongs to it
    std::string device_model, model, shape, student_model, student_shape, refresh_logits;
    std::optional<int64_t> context, mc, refresh, attention_rows, attention_bins;
    int64_t began_ns = 0,
            parsed_ns = 0; ///< monotonic: the program's own code began to run; its command line was read
};

} // namespace refreshlab::app
