#include "app/base/output.h"
#include "app/cli/commands.h"
#include "app/options/table_options.h"
#include "engine/results/sweep_table.h"

#include <fmt/format.h>

#include <cstdio>
#include <filesystem>
#include <memory>

namespace refreshlab::app {

Command add_merge_command(CLI::App& app) {
    struct Options {
        std::string out;
        std::vector<std::string> inputs;
        TableOptions tables;
        bool mixed_kernels = false;
    };
    auto options = std::make_shared<Options>();
    CLI::App* command =
        app.add_subcommand("merge", "Join the shards of a sweep, or make the table of a sweep's file again");
    command->add_option("OUT", options->out, "The joined file; results in it stay")
        ->required()
        ->type_name("OUT.db");
    command->add_option("IN", options->inputs, "Files of sweep --shard")->type_name("IN.db");
    command->add_flag(
        "--mixed-kernels", options->mixed_kernels,
        "Join shards that were computed with kernel sets which round differently; the table names them");
    options->tables.add_to(*command);
    command->footer(
        "Exit status: 0 when every run is there, 1 when some are missing or have other numbers in "
        "different files under one digest, 2 when the files do not belong together.");
    return [options] {
        options->tables.check();
        std::string disputed;
        if (!options->inputs.empty())
            disputed = merge_sweeps(options->out, {options->inputs.begin(), options->inputs.end()},
                                    options->mixed_kernels ? KernelMix::allow : KernelMix::refuse);
        const auto store = SweepStore::open_existing(options->out, true);
        const SweepTable table = make_sweep_table(store->plan(), store->results(), options->tables.against());
        options->tables.write(table, true);
        if (table.overhead_lacks_none) say("merge: {}\n", overhead_hint);
        if (!disputed.empty()) say("merge: {}\n", disputed);
        say("merge: {} of {} runs in {}\n", table.runs, table.expected, options->out);
        const bool complete = table.runs == table.expected && table.timings == table.expected_timings;
        return complete && disputed.empty() ? 0 : 1;
    };
}

} // namespace refreshlab::app
