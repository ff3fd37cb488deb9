#include "app/cli/commands.h"
#include "app/options/engine_module.h"
#include "app/options/scope_options.h"

#include <memory>

namespace refreshlab::app {

Command add_scope_command(CLI::App& app) {
    auto options = std::make_shared<ScopeCommandOptions>();
    CLI::App* command = app.add_subcommand("scope", "Where in the cache refreshes pay: layers, KV heads, "
                                                    "keys, values, positions, and the smallest scopes");
    command
        ->add_option("TRACE", options->trace,
                     "A recorded run: its text is read again with parts of its refreshes")
        ->required()
        ->type_name("TRACE");
    command->add_option("--run", options->run_id, "Id of one run of the trace (default: the newest)")
        ->type_name("ID");
    command
        ->add_option("--every", options->every,
                     "Refreshes every R tokens (default: where the run refreshed; every 16 where it did not)")
        ->type_name("R")
        ->check(CLI::Range(1, 1000000));
    command->add_option("--at", options->at, "Refreshes at these steps, ascending: 32,64,96")
        ->type_name("STEPS");
    command
        ->add_option("--horizon", options->horizon,
                     "Tokens after each refresh whose loss counts (default 16)")
        ->type_name("H")
        ->check(CLI::Range(1, 4096));
    command
        ->add_option("--blocks", options->blocks,
                     "Blocks that the positions of a refresh are cut into (default 4)")
        ->type_name("B")
        ->check(CLI::Range(1, 64));
    command
        ->add_option("--keep", options->keep,
                     "The greedy order of KV heads goes on until it keeps this share of the gain (default "
                     "0.95); 0: none")
        ->type_name("SHARE")
        ->check(CLI::Range(0.0, 1.0));
    command->add_option("--csv", options->csv, "Writes all tables, and how they are drawn, into this folder")
        ->type_name("DIR");
    command->add_option("--json", options->json, "Writes all losses as JSON")->type_name("FILE");
    command
        ->add_option("--teacher", options->teacher,
                     "Teacher: a checkpoint folder or a .gguf file (default: the run's)")
        ->type_name("MODEL");
    command
        ->add_option("--student", options->student,
                     "Student: a checkpoint folder, a .gguf file or derive:SPEC (default: the run's)")
        ->type_name("MODEL");
    command->add_option("--device", options->device, "auto, cpu, cuda, cuda:N")->type_name("DEVICE");
    command->add_option("--threads", options->threads, "CPU threads (default: all cores)")
        ->type_name("N")
        ->check(CLI::Range(1, 4096));
    return [options] { return engine_module().carry_out(*options); };
}

} // namespace refreshlab::app
