#include "app/base/build_commit.h"

#include "build_commit_text.h" // made by cmake/build_commit.cmake

namespace refreshlab::app {

std::string build_commit() {
    return RL_COMMIT;
}

const char* version() {
    return RL_VERSION;
}

const char* build_stamp() {
    return RL_VERSION " " RL_COMMIT;
}

} // namespace refreshlab::app
