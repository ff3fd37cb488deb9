#pragma once

#include "ui/scene/theme/theme.h"

#include <filesystem>

namespace refreshlab::ui {

/// Sets ImGui's and ImPlot's styles from the theme's file; `scale` is user scale times display density (0.75-3 x 1-3).
void apply_theme(const std::filesystem::path& assets, const Theme& theme, float scale);

} // namespace refreshlab::ui
