#pragma once

namespace refreshlab::app {

/// The program for one command line: reads it, carries the command out, says in one line on stderr what went wrong.
/// \return the exit status: 0 done, 2 bad input, 1 a failure, 128 + n stopped by signal n
[[nodiscard]] int run_program(int argc, const char* const* argv);

} // namespace refreshlab::app
