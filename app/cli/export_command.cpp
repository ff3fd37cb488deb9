#include "app/base/output.h"
#include "app/base/trace_runs.h"
#include "app/cli/commands.h"
#include "engine/base/error.h"
#include "engine/landscape/landscape_export.h"
#include "engine/landscape/landscape_store.h"
#include "engine/landscape/objective.h"
#include "engine/record/export/export.h"
#include "engine/record/runs/own_values.h"
#include "engine/record/trace/trace_store.h"
#include "engine/refresh/own_signal.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <optional>

namespace refreshlab::app {

Command add_export_command(CLI::App& app) {
    struct Options {
        std::string trace, csv, npz, run, objective;
        std::vector<std::string> signals;
    };
    auto options = std::make_shared<Options>();
    CLI::App* command = app.add_subcommand("export", "Write a trace as CSV and JSON");
    command->add_option("TRACE", options->trace, "A file written by --record or saved from the window")
        ->required();
    command
        ->add_option("--csv", options->csv,
                     "Folder for steps.csv, topk.csv, events.csv, drift.csv and meta.json; also layers.csv, "
                     "cache.csv, "
                     "blocked.csv and notes.csv where the run has such things, schedules.csv and "
                     "frontiers.csv where it has a "
                     "landscape "
                     "(docs/reference/trace-format.md)")
        ->type_name("DIR");
    command->add_option("--npz", options->npz, "The run's landscape as arrays for NumPy, in one .npz file")
        ->type_name("FILE");
    command->add_option("--run", options->run, "Id of one run of the trace (default: the newest)")
        ->type_name("ID");
    command
        ->add_option(
            "--signal", options->signals,
            "A signal of your own as one more column, computed from what the run recorded: \"rise = "
            "entropy_bits - mean(entropy_bits, 16)\" (docs/reference/refresh-policies.md); may be repeated")
        ->type_name("NAME=EXPRESSION")
        ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
        ->allow_extra_args(false);
    command
        ->add_option("--objective", options->objective,
                     "What schedules.csv and frontiers.csv judge by: loss, kl, rejection or tokens_a_pass "
                     "(default: loss, of a text that the student wrote kl)")
        ->type_name("NAME");
    return [options] {
        if (options->csv.empty() && options->npz.empty())
            throw Error("exporting", options->trace, "nothing to write", "give --csv DIR or --npz FILE");
        check_outputs(std::vector<NamedFile>{{"--npz", options->npz}},
                      std::vector<NamedFile>{{"TRACE", options->trace}});
        const auto runs = load_trace(options->trace);
        std::vector<OwnSignal> own;
        for (const std::string& text : options->signals)
            own.push_back(own_signal_from_text(text, "--signal"));
        check_own_signals(own, "--signal");
        const auto chosen =
            with_own_signals(chosen_run(runs, options->run, "exporting", options->trace), own);
        auto landscape = load_landscape_of(options->trace, *chosen);
        if (landscape && !landscape->has_row(0)) landscape.reset(); // begun, and nothing to tell yet
        std::optional<Objective> asked;
        if (!options->objective.empty()) asked = objective_of(options->objective);
        if (asked && !landscape)
            throw Error("exporting", options->trace, "--objective is about a landscape, and the run has none",
                        "refreshlab landscape " + options->trace + " computes it");
        if (asked)
            if (const std::string why = why_untold(landscape->info().values, *asked); !why.empty())
                throw Error("exporting", "the landscape of " + options->trace, why,
                            fmt::format("refreshlab landscape {} --objective {} computes them",
                                        options->trace, to_string(*asked)));
        if (!options->npz.empty()) {
            if (!landscape) {
                throw Error("exporting", options->trace, "run " + chosen->info().id + " has no landscape",
                            "refreshlab landscape " + options->trace + " computes it");
            }
            export_landscape_npz(*landscape, options->npz);
            say("wrote {} rows to {}\n", landscape->rows().size(), options->npz);
        }
        if (options->csv.empty()) return 0;
        export_csv(*chosen, options->csv);
        if (landscape) {
            const ChosenObjective usual = default_objective(chosen->info().config, landscape->info().values);
            const Objective objective = asked.value_or(usual.objective);
            export_landscape_csv(*landscape, options->csv, 32, objective);
            say("schedules are judged by {}{}\n", to_string(objective), asked ? "" : ": " + usual.why);
        }
        say("wrote {} steps to {}\n", chosen->steps(), options->csv);
        return 0;
    };
}

} // namespace refreshlab::app
