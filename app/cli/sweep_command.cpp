#include "app/cli/commands.h"
#include "app/options/engine_module.h"
#include "app/options/sweep_options.h"
#include "engine/base/error.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <memory>

namespace refreshlab::app {

Command add_sweep_command(CLI::App& app) {
    auto options = std::make_shared<SweepCommandOptions>();
    CLI::App* command = app.add_subcommand(
        "sweep",
        "A grid of modes, policies, thresholds, prompts and seeds: resumable, a database and a table");
    command->add_option("SPEC", options->spec, "The grid as JSON (docs/reference/sweeps.md)")
        ->required()
        ->type_name("SPEC.json");
    command
        ->add_option("--out", options->out,
                     "SQLite file of the results (default: the spec's name with .db); results in it are not "
                     "computed again")
        ->type_name("FILE");
    command
        ->add_option("--shard", options->shard, "Compute only every n-th run, from the i-th; join with merge")
        ->type_name("i/n");
    command
        ->add_option("--jobs", options->jobs,
                     "Runs at a time; 0: one per CPU core, or one per GPU. Results do not depend on it")
        ->type_name("N")
        ->check(CLI::Range(0, 1024));
    command->add_option("--devices", options->devices, "Devices that share the work: cuda:0,cuda:1")
        ->delimiter(',')
        ->type_name("LIST");
    command
        ->add_option("--teacher", options->teacher,
                     "Teacher: a checkpoint folder or a .gguf file, instead of the spec's")
        ->type_name("MODEL");
    command
        ->add_option("--student", options->student,
                     "Student: a checkpoint folder or a .gguf file, instead of the spec's")
        ->type_name("MODEL");
    options->tables.add_to(*command);
    command->add_flag("--dry-run", options->dry_run, "Say what would be computed, and stop");
    command->footer("Exit status: 0 when every run is there, 1 when some are missing (Ctrl-C, a run that "
                    "failed), 2 for bad "
                    "input. Runs that another process computes on the same file are waited for.");
    return [options] { return engine_module().carry_out(*options); };
}

} // namespace refreshlab::app
