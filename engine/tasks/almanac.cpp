#include "engine/tasks/almanac.h"

#include "engine/base/error.h"
#include "engine/base/json_file.h"

namespace refreshlab {

Almanac read_almanac(const std::filesystem::path& file) {
    constexpr std::array<const char*, num_attributes> keys{"home", "colour", "animal"};
    const auto refuse = [&](const std::string& problem) {
        throw Error("reading the almanac", file.string(), problem);
    };
    const nlohmann::json json = read_json_file(file, size_t{1} << 26);
    if (!json.is_object()) refuse("must be an object of names");
    Almanac almanac;
    for (const auto& [name, facts] : json.items()) {
        auto& words = almanac[name];
        for (size_t i = 0; i < num_attributes; ++i) {
            const auto fact = facts.is_object() ? facts.find(keys[i]) : facts.end();
            if (fact == facts.end() || !fact->is_string()) {
                refuse("'" + name + "' has no \"" + keys[i] + "\"");
            } else {
                words[i] = fact->get<std::string>();
            }
        }
    }
    if (almanac.empty()) refuse("it holds no name");
    return almanac;
}

} // namespace refreshlab
