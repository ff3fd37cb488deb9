#pragma once

#include "engine/signals/layer_values.h"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace refreshlab::ui {

/// What the plot of a layered signal shows of its layers: one number of them, or all of them as a heat strip.
struct LayerPick {
    Reduction reduction = Reduction::mean;
    int32_t layer = 0;  ///< of Reduction::layer, from 0; else 0
    bool strip = false; ///< all layers; the reduction is then `mean`, which the header reads

    [[nodiscard]] bool one_number() const { return !strip; }
    friend auto operator<=>(const LayerPick&, const LayerPick&) = default;
};

/// The same for a model of so many layers: of a deeper one's layers the last that is there. 0: not known, as it is.
[[nodiscard]] LayerPick within(LayerPick pick, int64_t layers);

/// "mean", "max", "min", "layer 3", "strip": on screen and in the settings file.
[[nodiscard]] std::string to_string(const LayerPick& pick);
[[nodiscard]] std::optional<LayerPick> parse_layer_pick(std::string_view text);

} // namespace refreshlab::ui
