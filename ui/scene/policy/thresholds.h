#pragma once

#include "engine/refresh/policy.h"
#include "ui/scene/axes/value_axis.h"
#include "ui/scene/policy/drafts.h"
#include "ui/scene/series/layer_pick.h"

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace refreshlab::ui {

/// A threshold line of one signal's plot: one trigger of the refresh policy, or a parameter of the cache policy that decides by
/// this signal (engine/policies/cache_gate.h).
struct ThresholdLine {
    static constexpr size_t of_cache = SIZE_MAX;
    size_t trigger = 0; ///< index in the policy; of_cache
    std::string key;  ///< what Drafts edits: "entropy.threshold" where such a parameter exists and names this
                      ///< trigger, else trigger_key(index, "threshold")
    double value = 0; ///< the draft
    Comparison comparison = Comparison::above;
    bool enabled = true;
    bool pending = false; ///< sent and not yet applied
    LayerPick
        layers; ///< of a layered signal: the number of its layers that is compared; of a cache policy each by itself
    double fallback = 0; ///< of a cache policy: the parameter's default
};

/// Lines of one signal, in policy order.
[[nodiscard]] std::vector<ThresholdLine> threshold_lines(const Drafts& drafts, std::string_view signal);

/// Key of the parameter that is the threshold of the first trigger of this signal ("entropy.threshold",
/// "periodic.every"); empty where the signal has none.
[[nodiscard]] std::string_view threshold_parameter(std::string_view signal);

/// Limits of a threshold while it is dragged: the parameter's range where it has one, else the signal's natural floor.
struct DragLimits {
    double min, max;
};
[[nodiscard]] DragLimits drag_limits(const ThresholdLine& line, const Signal& signal);

/// Value of a line that the mouse has dragged to `wanted` on an axis of so many pixels: within the axis and the limits, and as
/// round as the pixels allow.
/// \param whole  values are whole numbers
[[nodiscard]] double dragged_value(const ValueAxis& axis, double wanted, double pixels, DragLimits limits,
                                   bool whole);

/// Those of `lines` that belong to the number of its layers that a plot shows; a strip has none.
[[nodiscard]] std::vector<ThresholdLine> lines_of_pick(std::vector<ThresholdLine> lines,
                                                       const LayerPick& pick);

/// A trigger of this signal with its default threshold, for "Add a threshold".
/// \param pick  of a layered signal: what its plot shows
[[nodiscard]] Trigger default_trigger(const Signal& signal, const LayerPick& pick = {});

} // namespace refreshlab::ui
