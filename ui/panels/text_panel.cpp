#include "engine/text/utf8.h"
#include "ui/base/colour.h"
#include "ui/base/format.h"
#include "ui/base/value_format.h"
#include "ui/draw/colour_bar.h"
#include "ui/draw/tooltips.h"
#include "ui/panels/panel.h"
#include "ui/scene/axes/auto_range.h"
#include "ui/scene/maps/colour_maps.h"
#include "ui/scene/marks/refresh_marks.h"
#include "ui/scene/marks/token_origins.h"
#include "ui/scene/series/series_set.h"
#include "ui/scene/text/text_layout.h"
#include "ui/scene/text/token_colours.h"
#include "ui/scene/text/token_label.h"
#include "ui/theme/run_colours.h"
#include "ui/widgets/offer_run.h"

#include <fmt/format.h>
#include <imgui.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <string>

namespace refreshlab::ui {
namespace {

constexpr const char* map_name = "viridis";

/// Prompt and generated tokens, coloured by a signal. Step t is tied to the token it chose, y_{t+1}; so token y_t is
/// coloured by record t-1, and clicking it selects step t-1 (y_1, chosen by the prefill: step 1, which read it). Signals
/// about y_t itself (logprob) colour it by record t.
class TextPanel final : public Panel {
public:
    [[nodiscard]] std::string_view title() const override { return "Text"; }
    void recording_changed(UiContext&) override { forget(); }
    void draw(UiContext& ctx) override;

private:
    /// Sizes of this frame, pixels.
    struct Metrics {
        float font, flag, pitch; ///< text height, room above it for refresh flags, distance of lines
    };
    void forget();
    void update_layout(UiContext& ctx, float width, const Metrics& m);
    void draw_toolbar(UiContext& ctx);
    [[nodiscard]] std::string count_verdicts(const UiContext& ctx, size_t signal);
    void draw_prompt(UiContext& ctx, const Metrics& m, float clip_top, float clip_bottom);
    void draw_tokens(UiContext& ctx, const Metrics& m, float clip_top, float clip_bottom);
    void draw_fragment(UiContext& ctx, const Metrics& m, size_t index, ImVec2 origin);
    void draw_flag(UiContext& ctx, const Metrics& m, const RefreshEvent& event, ImVec2 at);
    void draw_frame(UiContext& ctx, const Metrics& m, int64_t token, ImVec2 origin, ImU32 colour,
                    float thickness);
    void draw_legend(UiContext& ctx);
    void follow_selection(UiContext& ctx, const Metrics& m, float prompt_height);
    void token_tooltip(UiContext& ctx, int64_t token);
    void draw_candidates(UiContext& ctx, int64_t step, int32_t chosen);
    [[nodiscard]] float value_of(const UiContext& ctx, int64_t token) const;
    [[nodiscard]] bool is_pending(const UiContext& ctx, int64_t token) const {
        return token == ctx.steps + 1;
    }
    [[nodiscard]] Producer producer_of(const UiContext& ctx, int64_t token) const;

    std::shared_ptr<const Recording> m_recording; ///< that the layouts belong to
    TextLayout m_text, m_prompt;
    float m_width = 0, m_font = 0;
    SeriesSet m_series;
    ColourRange m_range;
    std::string m_range_signal;
    TokenColours m_colours;
    const Verdicts* m_verdicts = nullptr; ///< of the signal that colours, if it says yes or no
    std::array<TokenColours::Entry, 2> m_verdict_colours{}; ///< no, yes
    ColourScale m_scale;
    TokenOrigins m_origins;
    bool m_prompt_open = true, m_show_origin = false;
    std::optional<int64_t> m_seen_selection; ///< to notice a selection made elsewhere
    bool m_was_live = true, m_at_end = true;
    int64_t m_hovered_token = 0;
    bool m_first_token = false; ///< step 1 was selected by a click on y_1: the frame stays there
};

void TextPanel::forget() {
    m_recording.reset();
    m_range.reset();
    m_at_end = true;
    m_seen_selection.reset();
    m_was_live = true;
    m_origins.reset();
}

void TextPanel::update_layout(UiContext& ctx, float width, const Metrics& m) {
    const auto& recording = ctx.recording;
    if (m_recording != recording || m_width != width || m_font != m.font ||
        m_text.num_tokens() > static_cast<size_t>(ctx.steps) + 1) {
        if (m_recording != recording) m_prompt_open = recording->prompt_length() <= 80;
        m_recording = recording;
        m_width = width;
        m_font = m.font;
        const auto measure = [](std::string_view text) {
            return ImGui::CalcTextSize(text.data(), text.data() + text.size()).x;
        };
        ImFont* font = ImGui::GetFont();
        TextLayout::Style style;
        style.width = width;
        style.space = std::max(3.0F, measure(" ") * 1.1F);
        style.newline = font->IsGlyphInFont(0x21B5) ? "\u21B5" : "\\n";
        style.dot = font->IsGlyphInFont(0xB7) ? "\u00B7" : ".";
        m_text.reset(style, measure);
        m_prompt.reset(style, measure);
        for (const int32_t id : recording->info().prompt_ids)
            m_prompt.append(recording->tokens().token_bytes(id), recording->tokens().is_special(id));
    }
    // y_1 is known with the prefill; y_{t+1} with record t, which also says when there is none.
    const auto add = [&](int32_t id) {
        if (id >= 0) m_text.append(recording->tokens().token_bytes(id), recording->tokens().is_special(id));
    };
    if (m_text.num_tokens() == 0) add(recording->info().first_token);
    while (m_text.num_tokens() > 0 && static_cast<int64_t>(m_text.num_tokens()) <= ctx.steps) {
        const size_t before = m_text.num_tokens();
        add(recording->step(static_cast<int64_t>(before)).next_token_id);
        if (m_text.num_tokens() == before) break; // the last record chose nothing
    }
}

float TextPanel::value_of(const UiContext& ctx, int64_t token) const {
    const auto id = signal_id(ctx.coloured_signal);
    if (!id) return absent();
    return m_series.value(signals()[*id].about == SignalAbout::token ? token : token - 1, *id);
}

Producer TextPanel::producer_of(const UiContext& ctx, int64_t token) const {
    if (token == 1) return ctx.recording->info().first_producer;
    return ctx.recording->step(token - 1).next_producer;
}

void TextPanel::draw(UiContext& ctx) {
    m_series.begin_frame(ctx.recording, ctx.steps);
    draw_toolbar(ctx);
    if (!ctx.recording) {
        offer_run(ctx, "The text of a run appears here, every token coloured by a signal.");
        return;
    }
    const float font = ImGui::GetTextLineHeight();
    const Metrics m{font, std::round(font * 0.5F), std::round(font * 1.62F)};
    const float legend = ImGui::GetTextLineHeight() + ImGui::GetStyle().ItemSpacing.y;
    ImGui::PushStyleVar(ImGuiStyleVar_WindowPadding, {0, 0});
    if (ImGui::BeginChild("##text", {0, -legend}, ImGuiChildFlags_None)) {
        const float width = ImGui::GetWindowWidth() - ImGui::GetStyle().ScrollbarSize - 6;
        update_layout(ctx, std::max(width, font * 4), m);
        const float top = ImGui::GetWindowPos().y, bottom = top + ImGui::GetWindowHeight();
        m_hovered_token = 0;
        draw_prompt(ctx, m, top, bottom);
        const float prompt_height = ImGui::GetCursorPosY();
        draw_tokens(ctx, m, top, bottom);
        follow_selection(ctx, m, prompt_height);
        // Whether the newest line is in sight decides if the panel goes on following it.
        m_at_end = ImGui::GetScrollY() >= ImGui::GetScrollMaxY() - m.pitch;
    }
    ImGui::EndChild();
    ImGui::PopStyleVar();
    if (m_hovered_token > 0) token_tooltip(ctx, m_hovered_token);
    draw_legend(ctx);
}

/// "120 right, 14 wrong". Cost: one look at every step.
std::string TextPanel::count_verdicts(const UiContext& ctx, size_t signal) {
    if (!ctx.recording || ctx.steps == 0) return {};
    const SignalSeries& series = m_series.series(signal);
    if (!series.any_measured()) return std::string(m_verdicts->neither);
    int64_t yes = 0, all = 0;
    for (int64_t t = 1; t <= ctx.steps; ++t) {
        const float value = series.at(t);
        if (is_absent(value)) continue;
        ++all;
        yes += value >= 0.5F ? 1 : 0;
    }
    return fmt::format("{} {}, {} {}", format_thousands(yes), m_verdicts->yes, format_thousands(all - yes),
                       m_verdicts->no);
}

void TextPanel::draw_toolbar(UiContext& ctx) {
    const auto id = signal_id(ctx.coloured_signal);
    m_verdicts = verdicts_of(ctx.coloured_signal);
    const float row = ImGui::GetContentRegionAvail().x, font = ImGui::GetFontSize();
    const float spacing = ImGui::GetStyle().ItemSpacing.x, inner = ImGui::GetStyle().ItemInnerSpacing.x;
    // The bar with its numbers keeps its width; the list takes what is left, the caption goes first where room is short.
    const std::string unit = id ? std::string(signals()[*id].unit) : std::string();
    const std::string counted = m_verdicts && id ? count_verdicts(ctx, *id) : std::string();
    const float numbers = m_verdicts ? ImGui::CalcTextSize(counted.c_str()).x
                                     : ImGui::CalcTextSize(format_value(m_scale.min, "").c_str()).x +
                                           ImGui::CalcTextSize(format_value(m_scale.max, unit).c_str()).x +
                                           2 * inner;
    const float bar = m_verdicts ? 0 : std::clamp(row * 0.18F, font * 2.5F, font * 7);
    const char* caption = "Colour by";
    const float caption_width = ImGui::CalcTextSize(caption).x + spacing;
    const bool with_caption = row - bar - numbers - spacing - caption_width > font * 9;
    if (with_caption) {
        ImGui::AlignTextToFramePadding();
        ImGui::PushStyleColor(ImGuiCol_Text, ctx.theme.text_muted);
        ImGui::TextUnformatted(caption);
        ImGui::PopStyleColor();
        ImGui::SameLine();
    }
    const float left_over = row - bar - numbers - spacing - (with_caption ? caption_width : 0);
    const bool beside = left_over > font * 6;
    ImGui::SetNextItemWidth(beside ? std::min(left_over, font * 15) : row);
    std::string current = id ? with_unit(signals()[*id].label, signals()[*id].unit) : ctx.coloured_signal;
    // In a narrow panel without its unit: that stands at the end of the bar as well.
    if (id &&
        ImGui::CalcTextSize(current.c_str()).x + ImGui::GetFrameHeight() + font > ImGui::CalcItemWidth())
        current = signals()[*id].label;
    if (ImGui::BeginCombo("##signal", current.c_str(), ImGuiComboFlags_HeightLarge)) {
        for (size_t i = 0; i < signals().size(); ++i) {
            const Signal& s = signals()[i];
            const bool empty = !ctx.recording || !m_series.series(i).any_measured();
            std::string label = with_unit(s.label, s.unit);
            if (empty) label += ", not measured";
            if (ImGui::Selectable(label.c_str(), id == i)) ctx.coloured_signal = s.name;
            ImGui::SetItemTooltip("%s\nCost: %s", std::string(s.description).c_str(),
                                  std::string(s.cost_hint).c_str());
        }
        ImGui::Separator();
        ImGui::Checkbox("Underline by cache origin", &m_show_origin);
        ImGui::SetItemTooltip(
            "Who wrote the cache entry of each token: the student, or the teacher at a refresh");
        ImGui::EndCombo();
    }
    if (m_range_signal != ctx.coloured_signal) {
        m_range.reset();
        m_range_signal = ctx.coloured_signal;
    }
    if (!id) return;
    if (ctx.recording && ctx.steps > 0) {
        const SeriesSummary all = m_series.series(*id).summary(1, ctx.steps);
        if (all.finite > 0) {
            m_range.include(static_cast<double>(all.min));
            m_range.include(static_cast<double>(all.max));
        }
    }
    m_scale.map = colour_map(map_name);
    m_scale.min = m_range.range().min;
    m_scale.max = m_range.range().max;
    if (beside) ImGui::SameLine();
    const ImU32 background = ImGui::GetColorU32(ImGuiCol_WindowBg) | IM_COL32_A_MASK;
    if (m_verdicts) {
        ImGui::AlignTextToFramePadding();
        ImGui::PushStyleColor(ImGuiCol_Text, ctx.theme.text_muted);
        ImGui::TextUnformatted(counted.c_str());
        ImGui::PopStyleColor();
        if (ImGui::IsItemHovered())
            ImGui::SetTooltip("Tokens of the run so far: %s, %s", std::string(m_verdicts->yes).c_str(),
                              std::string(m_verdicts->no).c_str());
        for (const bool yes : {false, true})
            m_verdict_colours[yes ? 1 : 0] =
                TokenColours::entry(verdict_colour(yes), background, ctx.theme.text);
        return;
    }
    if (!m_colours.matches(m_scale.map.data(), background, ctx.theme.text))
        m_colours.build(m_scale.map, background, ctx.theme.text);
    const ImVec2 at = ImGui::GetCursorScreenPos();
    draw_colour_bar("##range", m_scale, bar, signals()[*id].unit, &m_colours);
    ctx.landmarks.set("text/scale", {at.x, at.y, ImGui::GetItemRectSize().x, ImGui::GetItemRectSize().y});
    if (ImGui::IsItemHovered()) {
        ImGui::SetTooltip(
            "Range of the run so far; it widens by itself.\nClick to fit it to the values again.");
        if (ImGui::IsMouseClicked(ImGuiMouseButton_Left)) m_range.reset();
    }
}

void TextPanel::draw_prompt(UiContext& ctx, const Metrics& m, float clip_top, float clip_bottom) {
    const int64_t length = ctx.recording->prompt_length();
    ImDrawList* list = ImGui::GetWindowDrawList();
    const ImVec2 at = ImGui::GetCursorScreenPos();
    const std::string label = fmt::format("Prompt, {} tokens", format_thousands(length));
    if (ImGui::InvisibleButton("##prompt", {std::max(1.0F, ImGui::GetContentRegionAvail().x), m.font + 4}))
        m_prompt_open = !m_prompt_open;
    const ImU32 ink = ImGui::IsItemHovered() ? ctx.theme.text : ctx.theme.text_muted;
    const float s = m.font * 0.26F;
    const ImVec2 c(at.x + s + 1, at.y + m.font / 2 + 1);
    if (m_prompt_open) {
        list->AddTriangleFilled({c.x - s, c.y - s * 0.7F}, {c.x + s, c.y - s * 0.7F}, {c.x, c.y + s}, ink);
    } else {
        list->AddTriangleFilled({c.x - s * 0.7F, c.y - s}, {c.x + s, c.y}, {c.x - s * 0.7F, c.y + s}, ink);
    }
    list->AddText({at.x + 3 * s + 2, at.y + 1}, ink, label.c_str());
    if (m_prompt_open) {
        const ImVec2 origin = ImGui::GetCursorScreenPos();
        const float pitch = std::round(m.font * 1.25F);
        const auto lines = static_cast<int64_t>(m_prompt.num_lines());
        const auto first = std::clamp<int64_t>(static_cast<int64_t>((clip_top - origin.y) / pitch), 0, lines);
        const auto last =
            std::clamp<int64_t>(static_cast<int64_t>((clip_bottom - origin.y) / pitch) + 1, 0, lines);
        for (int64_t i = first; i < last; ++i) {
            const auto range = m_prompt.line(static_cast<size_t>(i));
            const float y = origin.y + static_cast<float>(i) * pitch;
            for (size_t f = range.first; f < range.last; ++f) {
                const auto& fragment = m_prompt.fragments()[f];
                const std::string_view text = m_prompt.text(fragment);
                const bool mark = fragment.kind != TextLayout::Kind::text;
                list->AddText({origin.x + fragment.x, y},
                              with_alpha(ctx.theme.text_muted, mark ? 0.6F : 1.0F), text.data(),
                              text.data() + text.size());
            }
        }
        ImGui::Dummy({1, static_cast<float>(lines) * pitch});
        const ImVec2 mouse = ImGui::GetMousePos();
        if (ImGui::IsWindowHovered() && mouse.y >= origin.y &&
            mouse.y < origin.y + static_cast<float>(lines) * pitch) {
            const int32_t token =
                m_prompt.token_at(static_cast<size_t>((mouse.y - origin.y) / pitch), mouse.x - origin.x);
            if (token >= 0) {
                const int32_t id = ctx.recording->info().prompt_ids[static_cast<size_t>(token)];
                ImGui::SetTooltip("%s\nprompt token, position %d, id %d",
                                  token_label(ctx.recording->tokens(), id).c_str(), token, id);
            }
        }
    }
    const ImVec2 end = ImGui::GetCursorScreenPos();
    list->AddLine({end.x, end.y + 1}, {end.x + ImGui::GetContentRegionAvail().x, end.y + 1},
                  ctx.theme.plot_border);
    ImGui::Dummy({1, 4});
}

void TextPanel::draw_tokens(UiContext& ctx, const Metrics& m, float clip_top, float clip_bottom) {
    const ImVec2 origin = ImGui::GetCursorScreenPos();
    const auto lines = static_cast<int64_t>(m_text.num_lines());
    const float height = static_cast<float>(lines) * m.pitch + m.font * 0.5F;
    ImGui::InvisibleButton("##tokens",
                           {std::max(1.0F, ImGui::GetContentRegionAvail().x), std::max(1.0F, height)});
    const bool hovered = ImGui::IsItemHovered();
    const bool clicked = hovered && ImGui::IsMouseClicked(ImGuiMouseButton_Left);
    const auto first =
        std::clamp<int64_t>(static_cast<int64_t>((clip_top - origin.y) / m.pitch) - 1, 0, lines);
    const auto last =
        std::clamp<int64_t>(static_cast<int64_t>((clip_bottom - origin.y) / m.pitch) + 1, 0, lines);
    if (m_show_origin) m_origins.update(*ctx.recording, std::clamp<int64_t>(ctx.shown_step(), 0, ctx.steps));
    const size_t end = last > first ? m_text.line(static_cast<size_t>(last - 1)).last : 0;
    const size_t begin = last > first ? m_text.line(static_cast<size_t>(first)).first : 0;
    for (size_t i = begin; i < end; ++i)
        draw_fragment(ctx, m, i, origin);

    // Refresh flags: before y_{t+1}, whose choice the refresh at step t followed.
    if (begin < end) {
        const int64_t first_token = m_text.fragments()[begin].token + 1,
                      last_token = m_text.fragments()[end - 1].token + 1;
        const auto& refreshes = ctx.recording->refreshes();
        for (size_t i = first_refresh_from(*ctx.recording, first_token - 1), n = refreshes.size(); i < n;
             ++i) {
            const int64_t token = refreshes[i].step + 1;
            if (token > last_token || refreshes[i].step > ctx.steps) break;
            if (token > static_cast<int64_t>(m_text.num_tokens())) break;
            const auto& f = m_text.fragments()[m_text.token(static_cast<size_t>(token - 1)).first];
            draw_flag(ctx, m, refreshes[i],
                      {origin.x + f.x, origin.y + static_cast<float>(f.line) * m.pitch});
        }
    }
    const auto frame = [&](int64_t step, ImU32 colour, float thickness) {
        if (step >= 0 && step < static_cast<int64_t>(m_text.num_tokens()))
            draw_frame(ctx, m, step + 1, origin, colour, thickness);
    };
    if (ctx.selection.step != 1) m_first_token = false;
    if (ctx.selection.step)
        frame(m_first_token ? 0 : *ctx.selection.step, ctx.theme.selection | IM_COL32_A_MASK, 2);
    if (ctx.hovered_step) frame(*ctx.hovered_step, ctx.theme.crosshair, 1);

    if (!hovered) return;
    const ImVec2 mouse = ImGui::GetMousePos();
    if (mouse.y < clip_top || mouse.y > clip_bottom) return;
    const int32_t index = m_text.token_at(static_cast<size_t>(std::max(0.0F, (mouse.y - origin.y) / m.pitch)),
                                          mouse.x - origin.x);
    if (index < 0) return;
    m_hovered_token = index + 1;
    if (index >= 1) ctx.next_hovered_step = index;
    if (clicked) {
        // y_1 was chosen by the prefill, which has no record: the step that read it stands for it.
        m_first_token = index == 0;
        if (ctx.steps > 0) ctx.select_step(std::max<int64_t>(1, index));
        m_seen_selection = ctx.selection.step; // made here: no scrolling
    }
}

void TextPanel::draw_fragment(UiContext& ctx, const Metrics& m, size_t index, ImVec2 origin) {
    using Kind = TextLayout::Kind;
    const auto& fragments = m_text.fragments();
    const TextLayout::Fragment& f = fragments[index];
    const int64_t token = f.token + 1;
    ImDrawList* list = ImGui::GetWindowDrawList();
    const float line_y = origin.y + static_cast<float>(f.line) * m.pitch;
    const ImVec2 min(std::floor(origin.x + f.x), line_y + m.flag - 1);
    const ImVec2 max(std::floor(origin.x + f.x + f.width), line_y + m.flag + m.font + 1);
    const bool mark = f.kind == Kind::newline || f.kind == Kind::space || f.kind == Kind::escape;

    // Corners are round where a word begins and ends; pieces of one word touch.
    const bool begins = index == 0 || fragments[index - 1].line != f.line || f.gap > 0;
    const bool ends =
        index + 1 >= fragments.size() || fragments[index + 1].line != f.line || fragments[index + 1].gap > 0;
    const ImDrawFlags corners = (begins ? ImDrawFlags_RoundLeft : 0) | (ends ? ImDrawFlags_RoundRight : 0);
    const ImDrawFlags rounding = corners ? corners : ImDrawFlags_RoundNone;
    const float value = value_of(ctx, token);
    ImU32 ink = mark ? ctx.theme.text_muted : ctx.theme.text;
    ImU32 underline = 0;
    bool strike = false;
    if (is_pending(ctx, token)) {
        list->AddRect({min.x - 0.5F, min.y}, {max.x + 0.5F, max.y}, ctx.theme.accent_ink, 2, 1.0F, rounding);
    } else if (!is_absent(value)) {
        if (std::isnan(value)) {
            underline = nan_colour;
        } else if (m_verdicts) {
            const auto& colour = m_verdict_colours[value >= 0.5F ? 1 : 0];
            list->AddRectFilled(min, max, colour.background, 2, rounding);
            if (!mark) ink = colour.text;
            underline = colour.underline;
            strike = value < 0.5F;
        } else {
            const auto& colour = m_colours.at(m_scale.fraction(static_cast<double>(value)));
            list->AddRectFilled(min, max, colour.background, 2, rounding);
            if (!mark) ink = colour.text;
            underline = colour.underline;
        }
    }
    if (m_show_origin) underline = origin_colour(ctx.theme, m_origins.of(token));
    if (underline) list->AddRectFilled({min.x, max.y}, {max.x, max.y + token_underline}, underline);
    const std::string_view text = m_text.text(f);
    list->AddText({min.x, line_y + m.flag}, ink, text.data(), text.data() + text.size());
    if (strike) { // wrong is wrong without colours too
        const float y = std::round(line_y + m.flag + m.font * 0.56F);
        list->AddRectFilled({min.x, y}, {max.x, y + std::max(1.0F, m.font * 0.07F)}, underline);
    }

    // Who made it: a line above the teacher's tokens; a double underline where a refresh drew the token again.
    if (producer_of(ctx, token) == Producer::teacher)
        list->AddRectFilled({min.x, min.y - 2}, {max.x, min.y}, ctx.theme.origin_prefill);
    const RefreshEvent* event = token >= 2 ? ctx.recording->refresh_at(token - 1) : nullptr;
    if (event && event->on_fire != OnFire::keep)
        list->AddRectFilled({min.x, max.y + 3}, {max.x, max.y + 5}, ctx.theme.accent);
    if (f.starts_token)
        ctx.landmarks.set(fmt::format("text/token/{}", token),
                          {min.x, min.y, std::max(2.0F, max.x - min.x), max.y - min.y});
}

void TextPanel::draw_flag(UiContext& ctx, const Metrics& m, const RefreshEvent& event, ImVec2 at) {
    ImDrawList* list = ImGui::GetWindowDrawList();
    const ImU32 colour = marker_colour(ctx.theme, event);
    const float x = std::floor(at.x) - 2, size = m.flag + 4;
    list->AddRectFilled({x, at.y}, {x + 1.5F, at.y + m.flag + m.font + 2}, colour);
    const std::string letter(1, marker_letter(event));
    const float width = size * 0.95F;
    list->AddRectFilled({x, at.y - 3}, {x + width, at.y - 3 + size}, colour, 2, ImDrawFlags_RoundRight);
    ImFont* font = ImGui::GetFont();
    const ImVec2 extent = font->CalcTextSizeA(size * 0.95F, 1e6F, 0, letter.c_str());
    list->AddText(font, size * 0.95F, {x + (width - extent.x) / 2 + 0.5F, at.y - 3 + (size - extent.y) / 2},
                  readable_on(colour | IM_COL32_A_MASK), letter.c_str());
}

void TextPanel::draw_frame(UiContext&, const Metrics& m, int64_t token, ImVec2 origin, ImU32 colour,
                           float thickness) {
    ImDrawList* list = ImGui::GetWindowDrawList();
    const auto range = m_text.token(static_cast<size_t>(token - 1));
    for (size_t i = range.first; i < range.last; ++i) {
        const auto& f = m_text.fragments()[i];
        const float y = origin.y + static_cast<float>(f.line) * m.pitch + m.flag;
        list->AddRect({std::floor(origin.x + f.x) - 2, y - 3},
                      {std::floor(origin.x + f.x + f.width) + 2, y + m.font + 4}, colour, 3, thickness);
    }
}

void TextPanel::follow_selection(UiContext& ctx, const Metrics& m, float prompt_height) {
    const auto scroll_to = [&](int64_t token) {
        if (token < 1 || token > static_cast<int64_t>(m_text.num_tokens())) return;
        const auto& f = m_text.fragments()[m_text.token(static_cast<size_t>(token - 1)).first];
        const float y = prompt_height + static_cast<float>(f.line) * m.pitch,
                    height = ImGui::GetWindowHeight();
        if (y < ImGui::GetScrollY() || y + m.pitch > ImGui::GetScrollY() + height)
            ImGui::SetScrollY(std::max(0.0F, y - height * 0.4F));
    };
    if (ctx.live()) {
        if (!m_was_live || m_at_end) ImGui::SetScrollY(ImGui::GetCursorPosY());
    } else if (ctx.selection.step != m_seen_selection) {
        scroll_to(*ctx.selection.step + 1);
    }
    m_seen_selection = ctx.selection.step;
    m_was_live = ctx.live();
}

void TextPanel::draw_candidates(UiContext& ctx, int64_t step, int32_t chosen) {
    const StepRecord& record = ctx.recording->step(step);
    if (record.top_k == 0) return;
    ImGui::PushStyleColor(ImGuiCol_Text, ctx.theme.text_muted);
    ImGui::TextUnformatted("Candidates, before temperature and filters");
    ImGui::PopStyleColor();
    const float font = ImGui::GetFontSize(), bar = font * 7, line = ImGui::GetTextLineHeight();
    float names = font * 4;
    const size_t count = std::min<size_t>(record.top_k, max_top_k);
    for (size_t k = 0; k < count; ++k)
        names = std::max(
            names,
            ImGui::CalcTextSize(token_label(ctx.recording->tokens(), record.top_ids[k], 18).c_str()).x);
    ImDrawList* list = ImGui::GetWindowDrawList();
    bool listed = false;
    for (size_t k = 0; k < count; ++k) {
        const bool is_chosen = record.top_ids[k] == chosen;
        listed |= is_chosen;
        const ImVec2 at = ImGui::GetCursorScreenPos();
        const float p = std::clamp(record.top_probs[k], 0.0F, 1.0F);
        list->AddText(at, is_chosen ? ctx.theme.accent_ink : ctx.theme.text,
                      token_label(ctx.recording->tokens(), record.top_ids[k], 18).c_str());
        const float x = at.x + names + font * 0.6F;
        list->AddRectFilled({x, at.y + line * 0.22F}, {x + bar, at.y + line * 0.78F}, ctx.theme.grid, 2);
        list->AddRectFilled({x, at.y + line * 0.22F}, {x + std::max(1.0F, bar * p), at.y + line * 0.78F},
                            is_chosen ? ctx.theme.accent : ctx.theme.signal("entropy_bits"), 2);
        list->AddText({x + bar + font * 0.5F, at.y}, ctx.theme.text,
                      format_signal(record.top_probs[k]).c_str());
        ImGui::Dummy({names + bar + font * 4.5F, line});
    }
    if (!listed && chosen >= 0) ImGui::TextDisabled("chosen from below the likeliest %zu", count);
}

void TextPanel::token_tooltip(UiContext& ctx, int64_t token) {
    if (token < 1 || token > static_cast<int64_t>(m_text.num_tokens()) || !ImGui::BeginTooltip()) return;
    const Recording& recording = *ctx.recording;
    const int64_t step = token - 1;
    const int32_t id = token_chosen(recording, ctx.steps, step);
    ImGui::PushFont(ctx.fonts.medium, 0);
    ImGui::TextUnformatted(token_label(recording.tokens(), id).c_str());
    ImGui::PopFont();
    const char* who = producer_of(ctx, token) == Producer::teacher ? "the teacher" : "the student";
    const std::string when =
        step == 0 ? std::string("prefill") : fmt::format("step {}", format_thousands(step));
    std::string line = fmt::format("chosen at {} by {}, position {}, id {}", when, who,
                                   format_thousands(recording.prompt_length() + token - 1), id);
    if (is_pending(ctx, token)) line += ", not yet fed";
    ImGui::TextDisabled("%s", line.c_str());
    if (step >= 1) {
        ImGui::Spacing();
        draw_candidates(ctx, step, id);
        ImGui::Spacing();
        signal_rows(ctx, step, token);
        if (const RefreshEvent* event = recording.refresh_at(step)) {
            ImGui::Separator();
            describe_refresh(ctx, *event);
        }
    } else {
        ImGui::TextDisabled("ln p %s", format_number(recording.info().first_logprob).c_str());
    }
    ImGui::EndTooltip();
}

void TextPanel::draw_legend(UiContext& ctx) {
    ImDrawList* list = ImGui::GetWindowDrawList();
    const float font = ImGui::GetTextLineHeight(),
                right = ImGui::GetCursorScreenPos().x + ImGui::GetContentRegionAvail().x;
    ImVec2 at = ImGui::GetCursorScreenPos();
    const float sample = font * 0.9F;
    const auto entry = [&](const char* words, auto&& draw_sample) {
        const float width = sample + 5 + ImGui::CalcTextSize(words).x;
        if (at.x + width > right) return;
        draw_sample(ImVec2(at.x, at.y + 3), ImVec2(at.x + sample, at.y + font - 2));
        list->AddText({at.x + sample + 5, at.y}, ctx.theme.text_muted, words);
        at.x += width + font * 0.9F;
    };
    const auto swatch = [&](ImU32 colour) {
        return [list, colour](ImVec2 a, ImVec2 b) {
            list->AddRectFilled({a.x, b.y - 3}, {b.x, b.y}, colour);
        };
    };
    if (m_show_origin) {
        entry("student's entry", swatch(ctx.theme.origin_student));
        entry("refreshed", swatch(ctx.theme.origin_refresh));
        entry("skipped", swatch(ctx.theme.origin_skipped));
        entry("teacher decode", swatch(ctx.theme.origin_prefill));
        return;
    }
    entry("teacher's token", [&](ImVec2 a, ImVec2 b) {
        list->AddRectFilled({a.x, a.y + 2}, {b.x, b.y}, ctx.theme.grid);
        list->AddRectFilled({a.x, a.y}, {b.x, a.y + 2}, ctx.theme.origin_prefill);
    });
    entry("drawn again", [&](ImVec2 a, ImVec2 b) {
        list->AddRectFilled(a, {b.x, b.y - 3}, ctx.theme.grid);
        list->AddRectFilled({a.x, b.y - 2}, b, ctx.theme.accent);
    });
    entry("pending", [&](ImVec2 a, ImVec2 b) { list->AddRect(a, b, ctx.theme.accent_ink, 2); });
    entry("selected",
          [&](ImVec2 a, ImVec2 b) { list->AddRect(a, b, ctx.theme.selection | IM_COL32_A_MASK, 2, 2.0F); });
}

} // namespace

std::unique_ptr<Panel> make_text_panel() {
    return std::make_unique<TextPanel>();
}

} // namespace refreshlab::ui
