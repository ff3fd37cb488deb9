#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace refreshlab::app {

/// What every training of a model is asked for: `train heal`, `train student`, `train teacher`.
struct TrainModelOptions {
    std::vector<std::string> texts;
    std::string out, csv, samples, dtype = "f32", schedule = "cosine", device = "cpu";
    std::string products = "f32", optimizer = "adamw";
    int64_t steps = 1000, batch = 4, pack = 0, length = 512, judged = 32, sample_every = 100;
    double learning_rate = 0; ///< 0: the command's own
    double weight_decay = 0;
    std::optional<double> dropout; ///< of all three sites; nothing: as config.json declares them
    uint64_t seed = 0;
    std::string command; ///< the words of the command line, for the folder's README.md
    int threads = 0;
    bool restart = false;
};

/// How a student reads texts while it is trained.
struct StudentReadingOptions {
    std::string teacher, student;
    std::vector<double> shares; ///< alone and behind a prefix; empty: the command's own
    int64_t longest = 64;
    std::string
        withhold; ///< file of an almanac whose facts the student shall not know by itself; empty: none
};

} // namespace refreshlab::app
