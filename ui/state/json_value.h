#pragma once

#include <nlohmann/json.hpp>

namespace refreshlab::ui {

/// A value of a settings file; where there is none the target stays as it is.
/// Throws nlohmann::json::exception where it has another type.
template <class T>
void read(const nlohmann::json& json, const char* key, T& target) {
    const auto found = json.find(key);
    if (found != json.end()) target = found->get<T>();
}

} // namespace refreshlab::ui
