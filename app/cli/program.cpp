#include "app/cli/program.h"

#include "app/base/build_commit.h"
#include "app/base/output.h"
#include "app/cli/commands.h"
#include "engine/base/check.h"
#include "engine/base/error.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <exception>
#include <new>
#include <string>
#include <utility>
#include <vector>

namespace refreshlab::app {

namespace {

std::string one_line(std::string text) {
    for (char& c : text) {
        if (c == '\n' || c == '\r') c = ' ';
    }
    return text;
}

int fail(const std::string& text, int status) {
    say("refreshlab: {}\n", one_line(text)); // makes other control characters visible
    return status;
}

/// An empty value is most often a variable of a script that was never set; taken as "not given" it would silently run
/// something else. The prompt alone has its own message for that.
void refuse_empty_values(CLI::App& command) {
    for (CLI::App* below : command.get_subcommands({}))
        refuse_empty_values(*below);
    for (CLI::Option* option : command.get_options()) {
        if (option->get_type_size() == 0 || option->get_name() == "--prompt") continue;
        option->check([](const std::string& value) { return value.empty() ? "is empty" : std::string(); });
    }
}

constexpr const char* exit_status =
    "Exit status: 0 = done, 2 = bad input, 1 = a failure, 128 + n = stopped by signal n.\n";

} // namespace

int run_program(int argc, const char* const* argv) {
    keep_command_line(argc, argv);
    CLI::App app{"RefreshLab: an oscilloscope with knobs for KV-cache refresh", "refreshlab"};
    app.set_version_flag("--version", std::string("refreshlab ") + version());
    app.require_subcommand(1);
    app.fallthrough(false);
    std::vector<std::pair<CLI::App*, Command>> commands;
    const auto add = [&](Command (*make)(CLI::App&)) {
        Command command = make(app);
        CLI::App* subcommand = app.get_subcommands({}).back();
        refuse_empty_values(*subcommand);
        if (subcommand->get_footer().find("Exit status") == std::string::npos)
            subcommand->footer(subcommand->get_footer() + exit_status);
        commands.emplace_back(subcommand, std::move(command));
    };
    add(add_gui_command);
    add(add_run_command);
    add(add_serve_command);
    add(add_info_command);
    add(add_export_command);
    add(add_note_command);
    add(add_figure_command);
    add(add_report_command);
    add(add_doctor_command);
    add(add_models_command);
    add(add_policies_command);
    add(add_derive_command);
    add(add_train_gate_command);
    add(add_train_command);
    add(add_profile_command);
    add(add_check_command);
    add(add_bench_command);
    add(add_landscape_command);
    add(add_scope_command);
    add(add_fit_gate_command);
    add(add_sweep_command);
    add(add_merge_command);
    add(add_score_command);
    add(add_study_command);

    // Exit status: 0, 2 for bad input, 1 for a failure. One line each.
    try {
        const bool known = argc < 2 || argv[1][0] == '-' ||
                           std::any_of(commands.begin(), commands.end(),
                                       [&](const auto& c) { return c.first->get_name() == argv[1]; });
        if (!known) {
            std::string names;
            for (const auto& [subcommand, command] : commands)
                names += (names.empty() ? "" : ", ") + subcommand->get_name();
            return fail(fmt::format("no command '{}'; the commands are {}", argv[1], names), 2);
        }
        app.parse(argc, argv);
        for (const auto& [subcommand, command] : commands) {
            if (!subcommand->parsed()) continue;
            const int status = command();
            const bool lost = std::fflush(stdout) != 0 || std::ferror(stdout) != 0;
            return status == 0 && lost ? fail("standard output is closed or full", 1) : status;
        }
        return 0;
    } catch (const CLI::Success& e) {
        return app.exit(e); // --help, --version
    } catch (const CLI::ParseError& e) {
        return fail(std::string(e.what()) + "; try --help", 2);
    } catch (const Error& e) {
        return fail(e.what(), e.kind() == ErrorKind::bad_input ? 2 : 1);
    } catch (const InvariantError& e) {
        return fail(std::string("internal error, please report it: ") + e.what(), 1);
    } catch (const std::bad_alloc&) {
        return fail("out of memory; try a shorter context or a smaller model", 1);
    } catch (const std::exception& e) {
        return fail(e.what(), 1);
    }
}

} // namespace refreshlab::app
