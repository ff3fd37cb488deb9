#pragma once

#include <fmt/format.h>

#include <span>
#include <string>
#include <utility>

namespace refreshlab::app {

/// Writes to stderr. One that is closed or full is no reason to end a run: what cannot be written is lost.
void say(const std::string& text);
template <typename... T>
void say(fmt::format_string<T...> format, T&&... args) {
    say(fmt::format(format, std::forward<T>(args)...));
}

/// A file that an option names; an empty path counts as not given.
struct NamedFile {
    std::string option, path;
};
/// Refuses an output that is one of the inputs, lies in a folder that is one (a checkpoint), or is another output:
/// writing it would destroy what the same command reads or writes. Throws Error{bad_input}.
void check_outputs(std::span<const NamedFile> outputs, std::span<const NamedFile> inputs);

} // namespace refreshlab::app
