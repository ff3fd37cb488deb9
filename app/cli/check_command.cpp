#include "app/cli/commands.h"
#include "app/options/check_options.h"
#include "app/options/engine_module.h"
#include "engine/base/error.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <memory>

namespace refreshlab::app {

Command add_check_command(CLI::App& app) {
    auto options = std::make_shared<CheckOptions>();
    CLI::App* command = app.add_subcommand(
        "check",
        "Compares the KV caches with recomputation: cached = naive, chunked = whole, splice = fresh prefill, "
        "rewind = fresh run; then naive and cached latency. Exit status 1 when a statement is broken (with "
        "--fault: when the fault was not caught)");
    options->run.add_to(*command);
    command
        ->add_option("--fault", options->fault,
                     "A cache that is wrong on purpose: stale_cache, off_by_one_position, mask_one_too_long, "
                     "duplicated_token; the check must catch it")
        ->type_name("FAULT");
    command
        ->add_option(
            "--steps", options->exactness.steps,
            "Cached decode steps compared with the naive forward, as many as the context has room for")
        ->check(CLI::Range(1, 4096))
        ->type_name("N");
    command
        ->add_option("--lengths", options->exactness.lengths,
                     "Prompt lengths of the latency curves; those beyond the context are left out")
        ->check(CLI::Range(1, 1 << 24))
        ->delimiter(',')
        ->type_name("L,...");
    command->add_option("--repetitions", options->exactness.repetitions, "Latencies are medians of this many")
        ->check(CLI::Range(1, 100))
        ->type_name("N");
    command->add_flag("--no-latency", options->no_latency, "Leave the latency curves out");
    command->add_option("--json", options->json, "Write the whole report")->type_name("FILE");
    command->add_option("--csv", options->csv, "Write columns.csv, logits.csv, latency.csv")
        ->type_name("DIR");
    return [options] { return engine_module().carry_out(*options); };
}

} // namespace refreshlab::app
