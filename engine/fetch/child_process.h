#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace refreshlab {

struct ChildResult {
    int status = -1;      ///< exit status; 128 + signal when it died of one
    std::string said;     ///< the end of what it wrote to stdout and stderr, at most 64 KiB
    bool stopped = false; ///< by `go_on`
};

/// Runs a program and waits for it: without a shell, with nothing on its stdin. It is searched in PATH unless its name
/// has a slash.
/// \param environment  variables that are set beside this process's own
/// \param go_on        asked about ten times a second; false kills the program and all that it started
/// Throws Error{failure} when it cannot be started.
[[nodiscard]] ChildResult run_child(const std::vector<std::string>& command,
                                    const std::vector<std::pair<std::string, std::string>>& environment,
                                    const std::function<bool()>& go_on);

} // namespace refreshlab
