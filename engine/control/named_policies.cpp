#include "engine/control/named_policies.h"

#include "engine/base/error.h"
#include "engine/base/json_file.h"
#include "engine/policies/cache_method.h"

#include <filesystem>
#include <system_error>

namespace refreshlab {

RefreshPolicy named_policy(const std::string& name, const std::string& option) {
    for (const Preset& preset : presets()) {
        if (preset.name == name) return preset_policy(name);
    }
    std::error_code unreadable;
    if (std::filesystem::exists(name, unreadable)) return policy_from_json(read_json_file(name), name);
    if (name.ends_with(".json")) throw Error("reading " + option, name, "no such file");
    return preset_policy(name); // throws, naming the presets
}

CachePolicyConfig named_cache_policy(const std::string& name, const std::string& option) {
    if (find_cache_method(name) != nullptr) return cache_policy_defaults(name, option);
    if (name.starts_with('{')) return cache_policy_from_json(parse_json(name, option), option);
    std::error_code unreadable;
    if (std::filesystem::exists(name, unreadable)) return cache_policy_from_json(read_json_file(name), name);
    if (name.ends_with(".json")) throw Error("reading " + option, name, "no such file");
    return cache_policy_defaults(name, option); // throws, naming the nearest
}

} // namespace refreshlab
