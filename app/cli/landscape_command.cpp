#include "app/cli/commands.h"
#include "app/options/engine_module.h"
#include "app/options/landscape_options.h"
#include "engine/base/error.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <memory>

namespace refreshlab::app {

Command add_landscape_command(CLI::App& app) {
    auto options = std::make_shared<LandscapeCommandOptions>();
    CLI::App* command = app.add_subcommand(
        "landscape", "What every possible refresh is worth on a given text, and the best schedules");
    command
        ->add_option("TRACE", options->trace,
                     "A recorded run: its text is read again, and the landscape stored beside it")
        ->type_name("TRACE");
    options->run.add_to(*command);
    command
        ->add_option(
            "-o,--output", options->output,
            "Trace that gets the run and its landscape (default: TRACE itself; for a given text: none)")
        ->type_name("FILE");
    command->add_option("--run", options->run_id, "Id of one run of the trace (default: the newest)")
        ->type_name("ID");
    command
        ->add_option("--every", options->every,
                     "Only rows 0, S, 2 S, ...: a coarse landscape, whose schedules are restricted to those "
                     "boundaries")
        ->type_name("S");
    command
        ->add_option("--values", options->values,
                     "What a cell holds besides the loss: names of signals, with commas (default: those of "
                     "the student's row, kl_nats and acceptance)")
        ->type_name("NAMES");
    command
        ->add_option(
            "--objective", options->objective,
            "What schedules are judged by: loss, kl, rejection or tokens_a_pass (default: loss, of a text "
            "that the student wrote kl)")
        ->type_name("NAME");
    command->add_option("--best", options->best, "Best and blind schedules of 1 .. K refreshes (default 16)")
        ->type_name("K")
        ->check(CLI::Range(0, 100'000));
    command
        ->add_option("--price", options->price,
                     "Also the best schedule if every refresh costs so much, in the unit of the objective")
        ->type_name("PRICE")
        ->check(CLI::Range(0.0, 1e9));
    command
        ->add_option("--rows-at-once", options->rows_at_once,
                     "Rows in one forward, 1 to 64 (default 64); no number depends on it")
        ->type_name("N")
        ->check(CLI::Range(1, 64));
    command->add_option("--summary", options->summary, "Write the numbers as JSON")->type_name("FILE");
    return [options, command] {
        for (const CLI::Option* option : command->get_options())
            if (option->count() > 0) options->given_options.push_back(option->get_name());
        return engine_module().carry_out(*options);
    };
}

} // namespace refreshlab::app
