#pragma once

#include "app/base/output.h"
#include "app/cli/commands.h"
#include "app/options/engine_module.h"
#include "app/options/train_model_options.h"

#include <CLI/CLI.hpp>

#include <memory>
#include <string>

namespace refreshlab::app {

/// The options that every training of a model has. \param rate  the default of --learning-rate, for its help; other defaults in the help are
/// those that `options` has
void add_training_options(CLI::App& command, TrainModelOptions& options, const std::string& rate);
/// --teacher, --student, --shares, --longest, --withhold. \param shares  the default, for the help
void add_reading_options(CLI::App& command, StudentReadingOptions& options, const std::string& shares);

/// What runs the training of a model.
template <class Options>
[[nodiscard]] Command training_command(std::shared_ptr<Options> options) {
    return [options] {
        options->command = command_line();
        return engine_module().carry_out(*options);
    };
}

} // namespace refreshlab::app
