#pragma once

#include "app/base/output.h"
#include "app/cli/commands.h"
#include "app/options/engine_module.h"
#include "app/options/train_model_options.h"

#include <CLI/CLI.hpp>

#include <functional>
#include <memory>
#include <string>

namespace refreshlab::app {

/// The options that every training of a model has. \param rate  the default of --learning-rate, for its help
void add_training_options(CLI::App& command, TrainModelOptions& options, const std::string& rate);
/// --optimizer, --weight-decay, --dropout. Defaults in the help are those that `options` has.
void add_whole_model_options(CLI::App& command, WholeModelOptions& options);
/// --teacher, --student, --shares, --longest. \param shares  the default, for the help
void add_reading_options(CLI::App& command, StudentReadingOptions& options, const std::string& shares);

/// --recipe FILE: a JSON object {"train": "heal", "steps": 1000, "texts": ["a.jsonl"], ...} with any of the command's options. What the command
/// line has too is the command line's. \return what reads it, to be called once the command line is read; throws Error{bad_input} naming the key
[[nodiscard]] std::function<void()> add_recipe_option(CLI::App& command);

/// The end of a training of a model: --recipe, and what runs it.
template <class Options>
[[nodiscard]] Command training_command(CLI::App& command, std::shared_ptr<Options> options) {
    return [options, read_recipe = add_recipe_option(command)] {
        read_recipe();
        options->command = command_line();
        return engine_module().carry_out(*options);
    };
}

} // namespace refreshlab::app
