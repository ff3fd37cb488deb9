#pragma once

#include <nlohmann/json.hpp>

namespace refreshlab::remote {

// For lists of fields that hold in both directions: each(fields, into(object)) writes, each(fields, out_of(object)) reads and throws
// nlohmann::json::exception where a key is missing or of another type.

[[nodiscard]] inline auto into(nlohmann::json& object) {
    return [&object](const char* key, const auto& value) { object[key] = value; };
}
[[nodiscard]] inline auto out_of(const nlohmann::json& object) {
    return [&object](const char* key, auto& value) { object.at(key).get_to(value); };
}

} // namespace refreshlab::remote
