#include "app/cli/commands.h"
#include "app/cli/output.h"
#include "engine/base/error.h"
#include "engine/record/export/export.h"
#include "engine/record/trace/trace_store.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <memory>

namespace refreshlab::app {

Command add_export_command(CLI::App& app) {
    struct Options {
        std::string trace, csv, run;
    };
    auto options = std::make_shared<Options>();
    CLI::App* command = app.add_subcommand("export", "Write a trace as CSV and JSON");
    command->add_option("TRACE", options->trace, "A file written by --record or saved from the window")
        ->required();
    command
        ->add_option(
            "--csv", options->csv,
            "Folder for steps.csv, topk.csv, events.csv, drift.csv and meta.json; also layers.csv, cache.csv "
            "and blocked.csv where the run has such things (docs/trace-format.md)")
        ->required()
        ->type_name("DIR");
    command->add_option("--run", options->run, "Id of one run of the trace (default: the newest)")
        ->type_name("ID");
    return [options] {
        const auto runs = load_trace(options->trace);
        if (runs.empty()) throw Error("exporting", options->trace, "the trace holds no run");
        auto chosen = runs.back();
        if (!options->run.empty()) {
            const auto found = std::find_if(runs.begin(), runs.end(),
                                            [&](const auto& r) { return r->info().id == options->run; });
            if (found == runs.end()) {
                std::string known;
                for (const auto& r : runs)
                    known += (known.empty() ? "" : ", ") + r->info().id;
                throw Error("exporting", options->trace, "no run " + options->run, "the runs are " + known);
            }
            chosen = *found;
        }
        export_csv(*chosen, options->csv);
        say("wrote {} steps to {}\n", chosen->steps(), options->csv);
        return 0;
    };
}

} // namespace refreshlab::app
