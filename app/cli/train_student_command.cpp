#include "app/cli/train_commands.h"
#include "app/cli/train_model_options.h"
#include "app/options/train_student_options.h"

#include <memory>
#include <utility>

namespace refreshlab::app {

Command add_train_student(CLI::App& train) {
    auto options = std::make_shared<TrainStudentOptions>();
    CLI::App* command = train.add_subcommand(
        "student", "Trains all weights of a student to read its teacher's cache and to give its rows");
    add_reading_options(*command, *options, "0.25,0.25");
    command
        ->add_option(
            "--next-token", options->next_token,
            "Weight w of the loss of the text's next token; KL to the teacher has 1 - w (default 0.5)")
        ->type_name("W")
        ->check(CLI::Range(0.0, 1.0));
    command->add_flag(
        "--alone", options->alone,
        "Without a teacher's entries and rows: the baseline. The teacher is read for the comparison");
    add_training_options(*command, *options, "0.0005");
    return training_command(std::move(options));
}

} // namespace refreshlab::app
