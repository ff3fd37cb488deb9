#pragma once

#include "ui/scene/views/views.h"

#include <nlohmann/json_fwd.hpp>

namespace refreshlab::ui {

/// The views of a settings file. What it does not say, and names and numbers that this version does not know, are the defaults.
/// Throws nlohmann::json::exception where a value has another type.
[[nodiscard]] Views views_from_json(const nlohmann::json& settings);
/// Adds the views to a settings file: a key or more for each.
void add_views(nlohmann::json& settings, const Views& views);

} // namespace refreshlab::ui
