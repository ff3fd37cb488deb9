#include "ui/draw/plot/threshold_drag.h"

#include "ui/draw/widgets.h"

#include <imgui.h>

namespace refreshlab::ui {

bool ThresholdDrag::update(UiContext& ctx, const ThresholdLine& line, bool held) {
    if (held && m_key.empty()) {
        m_key = line.key;
        m_cancelled = false;
        m_last_sent = line.value;
        try_edit(ctx, [&] { ctx.drafts.begin_edit(line.key); });
    }
    if (m_key != line.key) return false;
    if (!held) {
        m_key.clear();
        if (m_cancelled) return false;
        // With keyboard navigation ImGui itself lets go of what is held when Esc is pressed, before it is seen here.
        const bool escaped = ImGui::IsKeyPressed(ImGuiKey_Escape, false);
        try_edit(ctx, [&] {
            if (escaped)
                ctx.drafts.cancel(ctx.engine);
            else
                ctx.drafts.commit(line.key);
        });
        return false;
    }
    ctx.host.keep_awake(0.5);
    if (m_cancelled) return false; // until the button goes up
    if (ImGui::IsKeyPressed(ImGuiKey_Escape, false)) {
        m_cancelled = true;
        try_edit(ctx, [&] { ctx.drafts.cancel(ctx.engine); });
        return false;
    }
    return ImGui::IsMouseDragging(ImGuiMouseButton_Left);
}

void ThresholdDrag::send(UiContext& ctx, const ThresholdLine& line, double value) {
    if (value == m_last_sent) return;
    m_last_sent = value;
    try_edit(ctx, [&] { ctx.drafts.edit(ctx.engine, line.key, value); });
}

void ThresholdDrag::end_frame(UiContext& ctx) {
    if (m_key.empty() || ImGui::IsMouseDown(ImGuiMouseButton_Left)) return;
    if (ctx.drafts.edited_key() == m_key) ctx.drafts.commit(m_key);
    m_key.clear();
}

} // namespace refreshlab::ui
