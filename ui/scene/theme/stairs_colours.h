#pragma once

#include "ui/scene/landscape/staircases.h"
#include "ui/scene/theme/theme.h"

namespace refreshlab::ui {

/// Of a way through a landscape: on its picture, in the frontier and in the table, on screen and on paper.
[[nodiscard]] inline Colour stairs_colour(const Theme& theme, StairsOf of) {
    switch (of) {
    case StairsOf::run:
        return theme.text;
    case StairsOf::policy:
        return theme.accent_ink;
    case StairsOf::blind:
        return theme.signal("mc_variance");
    case StairsOf::best:
        return theme.signal("top1_hit");
    }
    return theme.text;
}

} // namespace refreshlab::ui
