#pragma once

#include <string>
#include <utility>
#include <vector>

namespace refreshlab {

[[nodiscard]] std::string new_run_id(); ///< 16 random hex digits; names a run, never enters its computation
[[nodiscard]] std::vector<std::pair<std::string, std::string>>
version_list(); ///< refreshlab, libtorch, compiler

/// What a recording says of its writer: version_list(), and the commit where the program knows it.
[[nodiscard]] std::vector<std::pair<std::string, std::string>> writer_versions();
/// The commit that this program was built from. Called once, before any run begins; empty: not known.
void set_program_commit(std::string commit);

} // namespace refreshlab
