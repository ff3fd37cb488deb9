#include "app/cli/commands.h"
#include "app/options/engine_module.h"
#include "app/options/run_command_options.h"
#include "engine/base/error.h"

#include <algorithm>
#include <array>
#include <memory>
#include <string_view>

namespace refreshlab::app {

namespace {

/// What speaks of a recorded run needs one.
void refuse_without_trace(const CLI::App& command) {
    const bool branch = command.get_option("--branch")->count() > 0;
    for (const char* option : {"--give", "--candidate", "--refresh"}) {
        const bool given = command.get_option(option)->count() > 0;
        if (given && !branch)
            throw Error("reading", option, "needs --branch TRACE@STEP",
                        "--commands steers a run that starts");
    }
    if (command.get_option("--run")->count() > 0 && !branch && command.get_option("--replay")->count() == 0)
        throw Error("reading", "--run", "needs --branch or --replay");
    if (command.get_option("--exact")->count() > 0 && command.get_option("--replay")->count() == 0)
        throw Error("reading", "--exact", "needs --replay");
    if (command.get_option("--exact-cache")->count() > 0 && command.get_option("--save-cache")->count() == 0)
        throw Error("reading", "--exact-cache", "needs --save-cache FILE");
    if (command.get_option("--give")->count() > 0 && command.get_option("--give")->as<std::string>().empty())
        throw Error("reading", "--give", "is empty");
}

/// What a replay takes from the command line; the rest is in the trace.
void refuse_beside_replay(const CLI::App& command) {
    constexpr std::array<std::string_view, 9> used = {
        "--replay",  "--run",    "--summary",        "--exact",         "--teacher",
        "--student", "--device", "--teacher-device", "--student-device"};
    for (const CLI::Option* option : command.get_options()) {
        if (option->count() == 0 || std::ranges::find(used, option->get_name()) != used.end()) continue;
        throw Error("replaying", {}, option->get_name() + " has no effect beside --replay",
                    "prompt, settings and commands of a replay are those of the trace");
    }
}

} // namespace

Command add_run_command(CLI::App& app) {
    auto options = std::make_shared<RunCommandOptions>();
    CLI::App* command =
        app.add_subcommand("run", "One decode without a window: text on stdout, summary on stderr");
    options->run.add_to(*command);
    command->add_option("--record", options->record, "Record the run into this trace file while it goes on")
        ->type_name("FILE");
    command->add_option("--summary", options->summary, "Write the summary as JSON")->type_name("FILE");
    command
        ->add_option(
            "--save-cache", options->save_cache,
            "Save the cache of the prompt, once it is read, in four bits: other runs continue from it "
            "(--cache)")
        ->type_name("FILE");
    command->add_flag("--exact-cache", options->exact_cache,
                      "With --save-cache: the cache's own numbers; a run from them has the bits of this one");
    options->run.add_cache_to(*command);
    command
        ->add_option(
            "--commands", options->commands,
            "Steer the run as a person would: a JSON list of commands with their steps, refreshes by "
            "hand among them (docs/reference/command-files.md)")
        ->type_name("FILE");
    command
        ->add_option(
            "--branch", options->branch.at,
            "Make a recorded run again up to STEP, and go on another way from there: with --give, "
            "--candidate, --refresh, --seed, --temperature, --policy, --set, --commands; with none of "
            "them the run goes on")
        ->type_name("TRACE@STEP");
    command
        ->add_option("--run", options->branch.run_id,
                     "With --branch or --replay: id of one run of the trace (default: the newest)")
        ->type_name("ID");
    command
        ->add_option("--give", options->branch.give,
                     "With --branch: the text that step STEP chooses first; then the run continues by itself")
        ->type_name("TEXT");
    command
        ->add_option("--candidate", options->branch.candidate,
                     "With --branch: step STEP chooses its K-th likely token, counted from 1")
        ->type_name("K")
        ->check(CLI::Range(1, static_cast<int>(max_top_k)));
    command->add_flag("--refresh", options->branch.refresh, "With --branch: a refresh by hand at step STEP");
    command
        ->add_option("--replay", options->replay,
                     "Run a trace again from its configuration and commands, and compare: bit for bit, or "
                     "within a tolerance where this processor lacks the recorded kernel set or another "
                     "version recorded it")
        ->type_name("TRACE");
    command->add_flag("--exact", options->exact,
                      "With --replay: equal within the tolerance is an error too; every bit counts");
    return [options, command] {
        refuse_without_trace(*command);
        if (!options->replay.empty()) refuse_beside_replay(*command);
        return engine_module().carry_out(*options);
    };
}

} // namespace refreshlab::app
