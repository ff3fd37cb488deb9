#pragma once

#include <string>
#include <vector>

namespace refreshlab::test {

/// Runs the program's code in a process of its own without starting the program: a process that was forked off before the suite had any
/// thread forks again for each call. So a call costs milliseconds, ends by itself whatever becomes of it, and runs under the
/// sanitizers that the suite was compiled with.
/// \param arguments  after the program's name
/// \param out, err   files that get its standard streams
/// \return the exit status; 128 + signal where it died of one
[[nodiscard]] int run_forked(const std::vector<std::string>& arguments, const std::string& out,
                             const std::string& err);

} // namespace refreshlab::test
