#pragma once

#include <string>

namespace refreshlab::app {

/// The commit that this program was built from, with "-dirty" where files differed from it; empty where the build did not know.
[[nodiscard]] std::string build_commit();
[[nodiscard]] const char* version();
/// Version and commit: equal for the program and the library of its engine.
[[nodiscard]] const char* build_stamp();

} // namespace refreshlab::app
