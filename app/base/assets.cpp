#include "app/base/assets.h"

#include "engine/base/error.h"
#include "engine/base/model_path.h"
#include "engine/control/parameters.h"

#include <cstdlib>

namespace refreshlab::app {

namespace fs = std::filesystem;

fs::path find_assets() {
    if (const char* named = std::getenv("REFRESHLAB_ASSETS"); named != nullptr && *named != '\0') {
        if (!fs::is_directory(named))
            throw Error("looking for assets", named, "no such folder", "check REFRESHLAB_ASSETS");
        return named;
    }
    std::error_code ignored;
    const fs::path program = fs::read_symlink("/proc/self/exe", ignored).parent_path();
    for (const fs::path& candidate : {program / "assets", program / "../assets", fs::path(RL_ASSETS)}) {
        if (fs::is_directory(candidate / "models", ignored)) return candidate.lexically_normal();
    }
    throw Error("looking for assets", {}, "neither beside the program nor at " RL_ASSETS,
                "set REFRESHLAB_ASSETS", ErrorKind::failure);
}

fs::path assets_if_any() {
    try {
        return find_assets();
    } catch (const Error&) {
        return {};
    }
}

RunConfig first_start_config(const fs::path& assets) {
    RunConfig config;
    const BundledPair bundled = bundled_pair(assets);
    config.teacher_dir = bundled.teacher;
    config.student_dir = bundled.student;
    config.prompt = "Write a chronicle of 6 companies.";
    config.max_tokens = 330;
    config.policy = preset_policy("entropy");
    set_parameter(config, "entropy.threshold", "6");
    set_parameter(config, "entropy.every", "1");
    set_parameter(config, "entropy.cooldown", "4");
    set_parameter(config, "on_fire", "redraw");
    return config;
}

} // namespace refreshlab::app
