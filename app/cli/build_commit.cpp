#include "app/cli/build_commit.h"

#include "build_commit_text.h" // made by cmake/build_commit.cmake

namespace refreshlab::app {

std::string build_commit() {
    return RL_COMMIT;
}

} // namespace refreshlab::app
