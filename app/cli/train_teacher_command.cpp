#include "app/base/output.h"
#include "app/cli/train_commands.h"
#include "app/cli/train_model_options.h"
#include "app/options/engine_module.h"
#include "app/options/train_teacher_options.h"

#include <memory>

namespace refreshlab::app {

Command add_train_teacher(CLI::App& train) {
    auto options = std::make_shared<TrainTeacherOptions>();
    CLI::App* command =
        train.add_subcommand("teacher", "Trains a model from nothing: a shape, a tokenizer, and texts");
    command->add_option("--shape", options->shape, "A config.json, or a folder that has one")
        ->type_name("FILE");
    command->add_option("--tokenizer", options->tokenizer, "A folder with tokenizer.json, or a model")
        ->type_name("DIR");
    command->add_option("--weight-decay", options->weight_decay, "Of matrices (default 0.1)")
        ->type_name("X")
        ->check(CLI::Range(0.0, 10.0));
    add_training_options(*command, *options, "0.001");
    const auto read_recipe = add_recipe_option(*command);
    return [options, read_recipe] {
        read_recipe();
        options->command = command_line();
        return engine_module().carry_out(*options);
    };
}

} // namespace refreshlab::app
