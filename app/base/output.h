#pragma once

#include <fmt/format.h>

#include <span>
#include <string>
#include <utility>

namespace refreshlab::app {

// Everything that the program says goes through these. What stands in files and options may be in it, so characters that a
// terminal would obey are made visible here, once (visible_lines).

/// Writes lines to stderr, each of at most 4,000 characters. A stderr that is closed or full is no reason to end a run: what
/// cannot be written is lost.
void say(const std::string& text);
template <typename... T>
void say(fmt::format_string<T...> format, T&&... args) {
    say(fmt::format(format, std::forward<T>(args)...));
}

/// Writes tables and findings to stdout, of any length. main() reports a stdout that is closed or full.
void print(const std::string& text);
template <typename... T>
void print(fmt::format_string<T...> format, T&&... args) {
    print(fmt::format(format, std::forward<T>(args)...));
}

/// Shows one line of progress on the terminal that stderr is, over the one before; an empty one clears it.
void draw_line(const std::string& text);

/// A file that an option names; an empty path counts as not given.
struct NamedFile {
    std::string option, path;
};
/// Refuses an output that is one of the inputs, lies in a folder that is one (a checkpoint), or is another output:
/// writing it would destroy what the same command reads or writes. Throws Error{bad_input}.
void check_outputs(std::span<const NamedFile> outputs, std::span<const NamedFile> inputs);

/// The words of the command line as a shell takes them; they go into pictures and figures, so that one can be made again. The program alone
/// has them: the engine is told them with the options of a command.
void keep_command_line(int argc, const char* const* argv);
[[nodiscard]] std::string command_line();

} // namespace refreshlab::app
