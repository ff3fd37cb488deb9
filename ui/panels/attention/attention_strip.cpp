// The strip of the enlarged head: the weights of the shown query over its keys.
#include "ui/base/format.h"
#include "ui/draw/cells.h"
#include "ui/draw/text.h"
#include "ui/panels/attention/attention_frame.h"
#include "ui/panels/attention/attention_panel.h"

#include <algorithm>
#include <cmath>
#include <span>

namespace refreshlab::ui {
namespace {

/// Bars that stand on one line, upwards or downwards.
struct Bars {
    float foot = 0;            ///< y that they stand on
    float height = 0;          ///< of a bar that reaches `top`
    float top = 0;             ///< weight
    float edge = 0, right = 0; ///< y of the strip's edge that they grow to; its right side
    bool up = true;
};

void draw_bar(ImDrawList* list, const Bars& bars, const StripBar& bar, Colour colour, Colour beyond,
              float em) {
    if (bar.value < 0 || bars.top <= 0) return;
    const float h = std::round(std::min(1.0F, bar.value / bars.top) * bars.height);
    // At least two pixels wide, else a single strong key is lost; two neighbours then share one.
    if (h > 0)
        list->AddRectFilled(ImVec2(std::min(bar.x0, bars.right - 2), bars.up ? bars.foot - h : bars.foot),
                            ImVec2(std::max(bar.x1, bar.x0 + 2), bars.up ? bars.foot : bars.foot + h),
                            colour);
    if (bar.value > bars.top * 1.001F) { // beyond the scale
        const float base = bars.edge + (bars.up ? 0.3F : -0.3F) * em;
        list->AddTriangleFilled(ImVec2(bar.x0, base), ImVec2(bar.x0 + em * 0.5F, base),
                                ImVec2(bar.x0 + em * 0.25F, bars.edge), beyond);
    }
}

} // namespace

/// Behind the bars: keys that the shown query did not read.
void AttentionPanel::draw_unread_keys(UiContext& ctx, const Frame& f, ImVec2 min, ImVec2 max) const {
    if (!marks_unread(f)) return;
    const int64_t kv_head = m_history.kv_head_of(ctx.selection.head), step = f.query - f.prompt + 1;
    const auto keys = static_cast<int64_t>(m_row.weights.size());
    const auto is_unread = [&](int64_t key) {
        uint8_t unread = 0;
        m_history.unread_steps(ctx.selection.layer, kv_head, key, step, std::span(&unread, 1));
        return unread != 0 && m_row.weights[static_cast<size_t>(key)] == 0;
    };
    for (int64_t key = 0; key < keys;) {
        const int64_t first = key;
        while (key < keys && is_unread(key))
            ++key;
        if (key > first)
            ImGui::GetWindowDrawList()->AddRectFilled(ImVec2(f.axis.x(static_cast<double>(first)), min.y + 1),
                                                      ImVec2(f.axis.x(static_cast<double>(key)), max.y - 1),
                                                      f.unread);
        else
            ++key;
    }
}

void AttentionPanel::draw_strip(UiContext& ctx, Frame& f, ImVec2 min, ImVec2 max) {
    ImDrawList* list = ImGui::GetWindowDrawList();
    list->AddRectFilled(min, max, ctx.theme.plot_background);
    list->AddRect(min, max,
                  ctx.theme.plot_border); // behind the bars: the newest key stands at its right edge
    draw_unread_keys(ctx, f, min, max);
    // A difference shows what it is made of: the teacher's weights upwards, the student's downwards, on one scale.
    const bool both = m_colours.differences();
    const std::vector<float>& upward = both ? m_row.teacher : m_row.weights;
    // Position 0 would often squeeze all others; then it is cut off and marked.
    const size_t from = f.view->without_first && m_row.weights.size() > 1 ? 1 : 0;
    const float top = strip_top(upward, m_row.student, from);
    const float height = both ? std::floor((max.y - min.y - 2) / 2) : max.y - min.y - 2;
    const float foot = both ? min.y + 1 + height : max.y - 1;
    const auto draw_bars = [&](const std::vector<float>& row, bool up, Colour colour) {
        const Bars bars{foot, height, top, up ? min.y : max.y, max.x, up};
        for (const StripBar& bar : strip_bars(row, f.axis))
            draw_bar(list, bars, bar, colour, ctx.theme.text, f.em);
    };
    if (both) {
        draw_bars(m_row.teacher, true, ctx.theme.origin_prefill);
        draw_bars(m_row.student, false, ctx.theme.origin_student);
        list->AddLine(ImVec2(min.x, foot), ImVec2(max.x, foot), ctx.theme.plot_border);
    } else {
        // Okabe-Ito sky blue; blue on white.
        draw_bars(m_row.weights, true, ctx.theme.dark ? rgba(0x56, 0xB4, 0xE9) : rgba(0x00, 0x72, 0xB2));
    }
    const std::string label = format_number(static_cast<double>(top));
    text_at(list, ImVec2(min.x - text_width(label) - f.em * 0.3F, min.y - f.em * 0.1F), ctx.theme.text_muted,
            label);
    const auto keys = static_cast<int64_t>(m_row.weights.size());
    if (const auto held = ctx.selection.key_position; held && *held < keys) {
        const float x = std::round(f.axis.x(static_cast<double>(*held) + 0.5));
        draw_marked_line(list, ctx.theme, ImVec2(x, min.y), ImVec2(x, max.y), ctx.theme.selection);
    }
    ctx.landmarks.set("attention/strip", {min.x, min.y, max.x - min.x, max.y - min.y});
    ImGui::SetCursorScreenPos(min);
    const bool clicked = ImGui::InvisibleButton("strip", ImVec2(max.x - min.x, max.y - min.y));
    if (ImGui::IsItemHovered())
        hover_key(ctx, f, f.query, strip_key(m_row.weights, f.axis, ImGui::GetIO().MousePos.x), clicked);
}

} // namespace refreshlab::ui
