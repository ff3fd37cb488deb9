#include "ui/draw/plot/run_overlays.h"

#include "ui/draw/text.h"
#include "ui/scene/theme/run_colours.h"

#include <fmt/format.h>
#include <imgui.h>

#include <algorithm>

namespace refreshlab::ui {

void RunOverlays::begin_frame(UiContext& ctx) {
    m_runs.clear();
    m_own.reset();
    const auto keys = ctx.runs.compared();
    std::erase_if(m_series,
                  [&](const auto& entry) { return std::ranges::find(keys, entry.first) == keys.end(); });
    const auto shown = ctx.runs.looked_at();
    if (keys.empty() || !shown || !ctx.recording) return;
    m_own = run_colour(ctx.theme, ctx.runs.colour(*shown));
    for (const RunKey key : keys) {
        RunOverlay& run = m_runs.emplace_back();
        run.key = key;
        run.name = ctx.runs.name(key);
        run.colour = run_colour(ctx.theme, ctx.runs.colour(key));
        run.recording = ctx.runs.recording(key);
        run.steps = run.recording->steps();
        run.shift = ctx.runs.shift_of(key);
        run.series = &m_series[key];
        run.series->begin_frame(run.recording, run.steps);
    }
}

std::vector<TipColumn> RunOverlays::columns_at(const UiContext& ctx, int64_t step) const {
    constexpr size_t most = 4;
    if (m_runs.empty()) return {};
    const float widest = ImGui::GetFontSize() * 9;
    std::vector<TipColumn> columns = {
        {shortened(ctx.runs.name(*ctx.runs.looked_at()), widest), *m_own, ctx.recording, ctx.steps, step}};
    for (const RunOverlay& run : m_runs)
        if (columns.size() < most)
            columns.push_back(
                {shortened(run.name, widest), run.colour, run.recording, run.steps, step - run.shift});
    return columns;
}

void RunOverlays::draw_legend(UiContext& ctx) {
    if (m_runs.empty()) return;
    const float em = ImGui::GetFontSize(), line = ImGui::GetTextLineHeight();
    const float left = ImGui::GetCursorScreenPos().x, right = left + ImGui::GetContentRegionAvail().x;
    ImDrawList* list = ImGui::GetWindowDrawList();
    const char* by = ctx.runs.by_position ? "by position" : "by step";
    const float switch_width = ImGui::CalcTextSize("by position").x + 2 * ImGui::GetStyle().FramePadding.x;
    const float end = right - switch_width - em * 0.5F;
    ImVec2 at = ImGui::GetCursorScreenPos();
    const float y = at.y + ImGui::GetStyle().FramePadding.y;
    size_t hidden = 0;
    const auto entry = [&](RunKey key, const std::string& name, Colour colour, bool shown) {
        // A long name loses its end, so that the next run has a place as well.
        const std::string words = shortened(name, em * 11);
        const float width = em * 1.3F + text_width(words.c_str());
        if (hidden > 0 || at.x + width > end) {
            ++hidden;
            return;
        }
        list->AddRectFilled({at.x, y + line / 2 - (shown ? 2.0F : 1.0F)},
                            {at.x + em, y + line / 2 + (shown ? 2.0F : 1.0F)}, colour, 2);
        text_at(list, {at.x + em * 1.3F, y}, shown ? ctx.theme.text : ctx.theme.text_muted, words.c_str());
        ctx.landmarks.set({at.x, y, width, line}, "signals/legend/{}", key);
        if (ImGui::IsMouseHoveringRect({at.x, y}, {at.x + width, y + line}) && ImGui::IsWindowHovered())
            ImGui::SetTooltip("%s%s", name.c_str(),
                              shown ? ", the shown one; differences are against it" : "; B shows it");
        at.x += width + em * 0.9F;
    };
    const RunKey shown = *ctx.runs.looked_at();
    entry(shown, ctx.runs.name(shown), *m_own, true);
    for (const RunOverlay& run : m_runs)
        entry(run.key, run.name, run.colour, false);
    if (hidden > 0) text_at(list, {at.x, y}, ctx.theme.text_muted, fmt::format("+{}", hidden).c_str());
    ImGui::SetCursorScreenPos({right - switch_width, at.y});
    if (ImGui::Button(fmt::format("{}###by", by).c_str(), {switch_width, 0}))
        ctx.runs.by_position = !ctx.runs.by_position;
    ImGui::SetItemTooltip(
        "Runs lie over each other by step, or by absolute position, which counts the prompt");
}

} // namespace refreshlab::ui
