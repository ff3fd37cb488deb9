#pragma once

#include "ui/context/context.h"
#include "ui/scene/series/layer_pick.h"

namespace refreshlab::ui {

/// Menu items for what a plot shows of a layered signal's layers: mean, largest, smallest, all as a strip, one of them.
void draw_layer_items(const UiContext& ctx, LayerPick& pick);
/// The same as a combo box, `width` pixels wide.
void draw_layer_choice(const UiContext& ctx, LayerPick& pick, float width);

} // namespace refreshlab::ui
