#include "ui/shell/panel_guard.h"

#include <implot.h>
#include <implot_internal.h>

#include <utility>

namespace refreshlab::ui {

namespace {

/// Dear ImGui recovers aloud (tooltip, debug log, callback), because it is meant for mistakes that nobody has noticed.
class Silence {
public:
    Silence()
        : m_io(ImGui::GetIO())
        , m_assert(std::exchange(m_io.ConfigErrorRecoveryEnableAssert, false))
        , m_log(std::exchange(m_io.ConfigErrorRecoveryEnableDebugLog, false))
        , m_tooltip(std::exchange(m_io.ConfigErrorRecoveryEnableTooltip, false))
        , m_callback(std::exchange(ImGui::GetCurrentContext()->ErrorCallback, nullptr)) {}
    ~Silence() {
        m_io.ConfigErrorRecoveryEnableAssert = m_assert;
        m_io.ConfigErrorRecoveryEnableDebugLog = m_log;
        m_io.ConfigErrorRecoveryEnableTooltip = m_tooltip;
        ImGui::GetCurrentContext()->ErrorCallback = m_callback;
    }
    Silence(const Silence&) = delete;
    Silence& operator=(const Silence&) = delete;

private:
    ImGuiIO& m_io;
    bool m_assert, m_log, m_tooltip;
    ImGuiErrorCallback m_callback;
};

} // namespace

PanelGuard::PanelGuard()
    : m_clips(ImGui::GetWindowDrawList()->_ClipRectStack.Size) {
    ImGui::ErrorRecoveryStoreState(&m_state);
    const ImPlotContext& plots = *ImPlot::GetCurrentContext();
    m_plot_colours = plots.ColorModifiers.Size;
    m_plot_styles = plots.StyleModifiers.Size;
    m_plot_maps = plots.ColormapModifiers.Size;
}

void PanelGuard::abandon() {
    const Silence silence;
    abandon_plots();
    ImGui::ErrorRecoveryTryToRecoverState(&m_state);
    while (ImGui::GetWindowDrawList()->_ClipRectStack.Size > m_clips)
        ImGui::PopClipRect();
}

/// ImPlot has no recovery of its own, and an open plot would swallow those of all other panels. EndPlot() must not be called any
/// more: labels and linked axes may be variables of the function that has ended. The ids that it would pop go with the window's.
void PanelGuard::abandon_plots() {
    ImPlotContext& plots = *ImPlot::GetCurrentContext();
    if (plots.CurrentPlot != nullptr) {
        ImPlotItemGroup& items = plots.CurrentPlot->Items;
        for (int i = 0; i < items.GetItemCount(); ++i)
            items.GetItemByIndex(i)->SeenThisFrame = false;
    }
    plots.CurrentItems = nullptr;
    ImPlot::ResetCtxForNextPlot(&plots);
    ImPlot::ResetCtxForNextAlignedPlots(&plots);
    ImPlot::ResetCtxForNextSubplot(&plots);
    ImPlot::PopStyleColor(plots.ColorModifiers.Size - m_plot_colours);
    ImPlot::PopStyleVar(plots.StyleModifiers.Size - m_plot_styles);
    ImPlot::PopColormap(plots.ColormapModifiers.Size - m_plot_maps);
}

} // namespace refreshlab::ui
