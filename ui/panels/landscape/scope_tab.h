#pragma once

#include "ui/base/latest_answer.h"
#include "ui/base/pixel_box.h"
#include "ui/context/context.h"
#include "ui/scene/landscape/scope_grid.h"

#include <cstdint>
#include <optional>
#include <string>

namespace refreshlab::ui {

/// Where in the cache refreshes pay on the run's text (docs/howto/scope.md): a map of layers and KV heads, what is missed without a part,
/// the greedy order. A click sets the scope of the drafted policy. UI thread only.
class ScopeTab {
public:
    void draw(UiContext& ctx);

private:
    void draw_toolbar(UiContext& ctx, bool there);
    static void draw_progress(UiContext& ctx, const ScopeState& state);
    void draw_compute(UiContext& ctx, bool there);
    static void draw_map(UiContext& ctx, const ScopeGrid& grid, PixelBox place);
    static void draw_curve(UiContext& ctx, const ScopeGrid& grid, PixelBox place);
    static void hover_map(UiContext& ctx, const ScopeGrid& grid, PixelBox box);
    static void tell_cell(const UiContext& ctx, const ScopeCell& cell);
    static void draw_lists(UiContext& ctx, const ScopeGrid& grid);
    static void draw_list(UiContext& ctx, const char* id, const char* title,
                          const std::vector<ScopeChoice>& choices, const char* share_title);

    int32_t m_every = 0, m_horizon = 16; ///< as command::ComputeScope
    LatestAnswer<ScopeQuestion, ScopeGrid> m_grids{scope_grid};
};

} // namespace refreshlab::ui
