#pragma once

#include <imgui_internal.h>

namespace refreshlab::ui {

/// What Dear ImGui and ImPlot had open when a panel began to draw, so that a panel that ends by an exception leaves nothing behind:
/// no open window, table, menu or plot, no style, no clip rectangle. UI thread only, within one frame.
class PanelGuard {
public:
    PanelGuard();
    /// Closes and takes back all that was opened since. Says nothing of it anywhere: whoever caught the exception tells it.
    void abandon();

private:
    void abandon_plots();

    ImGuiErrorRecoveryState m_state;
    int m_clips = 0; ///< of the window
    int m_plot_colours = 0, m_plot_styles = 0, m_plot_maps = 0;
};

} // namespace refreshlab::ui
