#include "app/cli/commands.h"
#include "app/options/engine_module.h"
#include "app/options/score_options.h"
#include "engine/base/error.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <memory>

namespace refreshlab::app {

Command add_score_command(CLI::App& app) {
    auto options = std::make_shared<ScoreCommandOptions>();
    CLI::App* command =
        app.add_subcommand("score", "Teacher perplexity of every run of a trace, KL divergence and "
                                    "acceptance, and where the loss comes from");
    command->add_option("TRACE", options->trace, "A file written by --record or saved from the window")
        ->required()
        ->type_name("TRACE");
    command
        ->add_option("--teacher", options->teacher,
                     "Teacher: a checkpoint folder or a .gguf file (default: each run's own)")
        ->type_name("MODEL");
    command->add_flag(
        "--split", options->split,
        "Where the loss comes from: reads each text again with the teacher's entries everywhere, with a "
        "refresh every R tokens, with none, and by the student alone");
    command->add_option("--every", options->every, "R of --split; default 16")
        ->type_name("R")
        ->check(CLI::Range(1, 1000000));
    command
        ->add_option(
            "--student", options->student,
            "Student of --split: a checkpoint folder, a .gguf file or derive:SPEC (default: each run's own)")
        ->type_name("MODEL");
    command->add_option("--device", options->device, "auto, cpu, cuda, cuda:N")->type_name("DEVICE");
    return [options] { return engine_module().carry_out(*options); };
}

} // namespace refreshlab::app
