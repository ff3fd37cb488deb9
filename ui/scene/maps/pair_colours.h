#pragma once

#include "ui/scene/maps/colour_maps.h"

#include <algorithm>
#include <string_view>

namespace refreshlab::ui {

/// Colours of the cells of a PairHistogram: half a step is the lowest, so that one step stands out from none on either scale.
/// \param most  steps of the fullest cell
[[nodiscard]] inline ColourScale pair_scale(std::string_view map, double most, bool log) {
    return {colour_map(map), log ? 0.5 : 0, std::max(1.0, most), log};
}

} // namespace refreshlab::ui
