#include "engine/session/decode/run_identity.h"

#include <ATen/Version.h>
#include <fmt/chrono.h>
#include <fmt/format.h>
#include <torch/headeronly/version.h>

#include <ctime>
#include <random>

namespace refreshlab {

std::string new_run_id() {
    std::random_device device;
    return fmt::format("{:08x}{:08x}", device(), device());
}

std::string utc_now() {
    return fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(std::time(nullptr)));
}

std::vector<std::pair<std::string, std::string>> version_list() {
    return {{"refreshlab", RL_VERSION}, {"libtorch", TORCH_VERSION}, {"compiler", __VERSION__}};
}

} // namespace refreshlab
