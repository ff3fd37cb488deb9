#pragma once

#include <span>
#include <vector>

namespace refreshlab::ui {

/// How the plots of a stack share its height.
struct StackHeights {
    std::vector<float> plots; ///< header and plot together, pixels; 0 = folded into its header
    int lowest = -1;          ///< the last one that is not folded, under which the x axis stands; -1 = none
};
/// Where room is short, plots get lower, and signals without a value fold into their header. The others give up the
/// height that the smallest plots need. So the axis stays in sight as long as possible.
/// \param has_data  a value to show, or nothing to show yet anywhere; a plot without one is lower
/// \param may_fold  the run has steps
/// \param room      pixels, without the labels of the x axis
/// \param header    height of a plot's header; em: size of the font
[[nodiscard]] StackHeights stack_heights(std::span<const bool> has_data, bool may_fold, float room,
                                         float header, float em);

} // namespace refreshlab::ui
