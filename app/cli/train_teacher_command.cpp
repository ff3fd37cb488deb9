#include "app/cli/train_commands.h"
#include "app/cli/train_model_options.h"
#include "app/options/train_teacher_options.h"

#include <memory>
#include <utility>

namespace refreshlab::app {

Command add_train_teacher(CLI::App& train) {
    auto options = std::make_shared<TrainTeacherOptions>();
    CLI::App* command =
        train.add_subcommand("teacher", "Trains a model from nothing: a shape, a tokenizer, and texts");
    command->add_option("--shape", options->shape, "A config.json, or a folder that has one")
        ->required()
        ->type_name("FILE");
    command->add_option("--tokenizer", options->tokenizer, "A folder with tokenizer.json, or a model")
        ->required()
        ->type_name("DIR");
    add_training_options(*command, *options, "0.001");
    return training_command(std::move(options));
}

} // namespace refreshlab::app
