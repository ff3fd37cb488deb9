#include "app/cli/commands.h"
#include "app/cli/output.h"
#include "engine/base/check.h"
#include "engine/base/error.h"

#include <c10/util/Exception.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string>

#if defined(__GLIBC__)
#include <malloc.h>
#endif

namespace {

std::string one_line(std::string text) {
    for (char& c : text) {
        if (c == '\n' || c == '\r') c = ' ';
    }
    return text;
}

int fail(const std::string& text, int status) {
    refreshlab::app::say("refreshlab: {}\n", one_line(text)); // makes other control characters visible
    return status;
}

/// A standard stream that was closed would give its number to the next file that is opened, and what is printed would
/// go there.
void occupy_standard_streams() {
    for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
        if (fcntl(stream, F_GETFD) == -1)
            static_cast<void>(open("/dev/null", O_RDONLY)); // writes fail, as before
    }
}

/// A decode step gets and frees rows of logits and of attention. The C library would give such memory back to the system after
/// each step, and the next step would wait for pages again.
void keep_freed_memory() {
#if defined(__GLIBC__)
    constexpr int mapped_alone_from = 16 << 20, kept = 256 << 20, asked_for_at_once = 8 << 20; // bytes
    mallopt(M_MMAP_THRESHOLD, mapped_alone_from);
    mallopt(M_TRIM_THRESHOLD, kept);
    mallopt(M_TOP_PAD, asked_for_at_once);
#endif
}

/// An empty value is most often a variable of a script that was never set; taken as "not given" it would silently run
/// something else. The prompt alone has its own message for that.
void refuse_empty_values(CLI::App& command) {
    for (CLI::Option* option : command.get_options()) {
        if (option->get_type_size() == 0 || option->get_name() == "--prompt") continue;
        option->check([](const std::string& value) { return value.empty() ? "is empty" : std::string(); });
    }
}

constexpr const char* exit_status =
    "Exit status: 0 = done, 2 = bad input, 1 = a failure, 128 + n = stopped by signal n.\n";

int run_program(int argc, char** argv) {
    occupy_standard_streams();
    keep_freed_memory();
    std::signal(SIGPIPE, SIG_IGN); // a closed pipe is an error of the write, not the end of the program
    std::signal(SIGXFSZ, SIG_IGN); // so is the limit on file sizes
    CLI::App app{"RefreshLab: an oscilloscope with knobs for KV-cache refresh", "refreshlab"};
    app.set_version_flag("--version", "refreshlab " RL_VERSION);
    app.require_subcommand(1);
    app.fallthrough(false);
    std::vector<std::pair<CLI::App*, refreshlab::app::Command>> commands;
    const auto add = [&](refreshlab::app::Command (*make)(CLI::App&)) {
        refreshlab::app::Command command = make(app);
        CLI::App* subcommand = app.get_subcommands({}).back();
        refuse_empty_values(*subcommand);
        if (subcommand->get_footer().find("Exit status") == std::string::npos)
            subcommand->footer(subcommand->get_footer() + exit_status);
        commands.emplace_back(subcommand, std::move(command));
    };
    add(refreshlab::app::add_gui_command);
    add(refreshlab::app::add_run_command);
    add(refreshlab::app::add_info_command);
    add(refreshlab::app::add_export_command);
    add(refreshlab::app::add_figure_command);
    add(refreshlab::app::add_doctor_command);
    add(refreshlab::app::add_models_command);
    add(refreshlab::app::add_policies_command);
    add(refreshlab::app::add_derive_command);
    add(refreshlab::app::add_check_command);
    add(refreshlab::app::add_bench_command);
    add(refreshlab::app::add_landscape_command);
    add(refreshlab::app::add_fit_gate_command);
    add(refreshlab::app::add_sweep_command);
    add(refreshlab::app::add_merge_command);
    add(refreshlab::app::add_score_command);
    add(refreshlab::app::add_study_command);

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
    } catch (const refreshlab::Error& e) {
        return fail(e.what(), e.kind() == refreshlab::ErrorKind::bad_input ? 2 : 1);
    } catch (const refreshlab::InvariantError& e) {
        return fail(std::string("internal error, please report it: ") + e.what(), 1);
    } catch (const c10::Error& e) {
        return fail(std::string("the device or libtorch failed: ") + e.what_without_backtrace(), 1);
    } catch (const std::bad_alloc&) {
        return fail("out of memory; try a shorter context or a smaller model", 1);
    } catch (const std::exception& e) {
        return fail(e.what(), 1);
    }
}

} // namespace

int main(int argc, char** argv) {
    const int status = run_program(argc, argv);
    // The destructors of libtorch's globals take some 70 ms, for memory that the system takes back anyway. A sanitizer reports there.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    return status;
#else
    static_cast<void>(std::fflush(nullptr));
    std::_Exit(status);
#endif
}
