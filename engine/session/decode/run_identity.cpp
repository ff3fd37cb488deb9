#include "engine/session/decode/run_identity.h"

#include <ATen/Version.h>
#include <fmt/format.h>
#include <torch/headeronly/version.h>

#include <random>
#include <utility>

namespace refreshlab {

namespace {

std::string& program_commit() {
    static std::string commit;
    return commit;
}

} // namespace

std::string new_run_id() {
    std::random_device device;
    return fmt::format("{:08x}{:08x}", device(), device());
}

std::vector<std::pair<std::string, std::string>> version_list() {
    return {{"refreshlab", RL_VERSION}, {"libtorch", TORCH_VERSION}, {"compiler", __VERSION__}};
}

std::vector<std::pair<std::string, std::string>> writer_versions() {
    auto versions = version_list();
    if (!program_commit().empty()) versions.emplace_back("commit", program_commit());
    return versions;
}

void set_program_commit(std::string commit) {
    program_commit() = std::move(commit);
}

} // namespace refreshlab
