#pragma once

#include <CLI/CLI.hpp>

#include <cstdint>
#include <string>
#include <vector>

namespace refreshlab::app {

// Options that all commands declare alike that train on texts or read texts to measure something.

/// Files of texts; may be repeated. \param help  begins the sentence that names the kinds of files: "Texts"
CLI::Option* add_texts(CLI::App& command, const std::string& name, std::vector<std::string>& texts,
                       const std::string& help, const std::string& more = {});
/// --length, 64 and more.
CLI::Option* add_length(CLI::App& command, int64_t& length, int64_t most = 1 << 20);
/// --batch.
CLI::Option* add_batch(CLI::App& command, int64_t& batch);
/// --learning-rate. \param usual  the default, for the help
CLI::Option* add_learning_rate(CLI::App& command, double& rate, const std::string& usual);
/// --threads.
CLI::Option* add_threads(CLI::App& command, int& threads);

/// Of trainings, for add_texts().
inline constexpr const char* held_out_texts = "; every eighth text is held out";

} // namespace refreshlab::app
