#include "app/cli/train_commands.h"
#include "app/cli/train_model_options.h"
#include "app/options/train_heal_options.h"

#include <memory>
#include <utility>

namespace refreshlab::app {

Command add_train_heal(CLI::App& train) {
    auto options = std::make_shared<TrainHealOptions>();
    CLI::App* command = train.add_subcommand(
        "heal",
        "Trains low-rank updates of a student, so that it reads its teacher's cache and gives its rows");
    add_reading_options(*command, *options, "0,0.25");
    command->add_option("--rank", options->rank, "Rank of the updates (default 16)")
        ->type_name("N")
        ->check(CLI::Range(1, 4096));
    command->add_option("--alpha", options->alpha, "The updates are multiplied by alpha / rank (default 32)")
        ->type_name("X")
        ->check(CLI::Range(1e-3, 1e6));
    command
        ->add_option("--on", options->on,
                     "Matrices that get updates (default q,k,v,o,gate,up,down: all of a layer)")
        ->type_name("LIST")
        ->delimiter(',');
    command->add_flag("--norms", options->norms, "Train the RMSNorms too");
    command
        ->add_option("--next-token", options->next_token,
                     "Weight w of the loss of the text's next token; KL to the teacher has 1 - w (default 0)")
        ->type_name("W")
        ->check(CLI::Range(0.0, 1.0));
    add_training_options(*command, *options, "0.001");
    return training_command(std::move(options));
}

} // namespace refreshlab::app
