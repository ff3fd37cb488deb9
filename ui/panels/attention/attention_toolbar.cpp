// Controls of the Attention panel: whose attention, the scale, what is shown.
#include "ui/base/format.h"
#include "ui/draw/colour_bar.h"
#include "ui/draw/text.h"
#include "ui/panels/attention/attention_frame.h"
#include "ui/panels/attention/attention_panel.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace refreshlab::ui {
namespace {

void draw_chooser(const char* label, std::vector<uint8_t>& shown) {
    ImGui::PushID(label);
    ImGui::TextUnformatted(label);
    ImGui::SameLine(5 * ImGui::GetFontSize());
    if (ImGui::SmallButton("All")) std::ranges::fill(shown, uint8_t{1});
    ImGui::SameLine();
    if (ImGui::SmallButton("None")) std::ranges::fill(shown, uint8_t{0});
    for (size_t i = 0; i < shown.size(); ++i) {
        if (i % 8 != 0) ImGui::SameLine();
        bool on = shown[i] != 0;
        if (ImGui::Checkbox(fmt::format("{}", i).c_str(), &on)) shown[i] = on ? 1 : 0;
    }
    ImGui::PopID();
}

/// Place of `one` in `all`; the first where it is not there.
size_t place_of(const std::vector<int32_t>& all, int32_t one) {
    const auto found = std::ranges::find(all, one);
    return found == all.end() ? 0 : static_cast<size_t>(found - all.begin());
}

} // namespace

void AttentionPanel::draw_model_choice(Mode mode, float em) {
    ImGui::BeginDisabled(mode != Mode::overfill);
    ImGui::SetNextItemWidth(6.8F * em);
    constexpr std::array names{"Student", "Teacher", "Difference"};
    if (ImGui::BeginCombo("##model", names[static_cast<size_t>(m_colours.of())])) {
        for (const AttentionOf of : {AttentionOf::student, AttentionOf::teacher, AttentionOf::difference})
            if (ImGui::Selectable(names[static_cast<size_t>(of)], of == m_colours.of())) m_colours.show(of);
        ImGui::EndCombo();
    }
    ImGui::EndDisabled();
    ImGui::SetItemTooltip(
        mode == Mode::overfill
            ? "Whose attention is shown; the difference is teacher - student, over the same keys.\n"
              "The teacher's is read on request."
            : "This run has one model only.");
}

void AttentionPanel::draw_toolbar(UiContext& ctx, Frame& f) {
    draw_model_choice(f.recording->info().config.mode, f.em);
    ImGui::SameLine();
    const bool differences = m_colours.differences();
    bool log = m_colours.log && !differences;
    ImGui::BeginDisabled(differences);
    if (ImGui::Checkbox("Log", &log)) m_colours.log = log;
    ImGui::EndDisabled();
    if (ImGui::IsItemHovered(ImGuiHoveredFlags_ForTooltip | ImGuiHoveredFlags_AllowWhenDisabled))
        ImGui::SetTooltip("%s", differences ? "Differences have signs: their colours are linear."
                                            : fmt::format("Logarithmic colours, over {} decades.",
                                                          AttentionColours::log_decades)
                                                  .c_str());
    ImGui::SameLine();
    if (ImGui::Button("Options")) ImGui::OpenPopup("attention options");
    draw_options(f);
    ImGui::SameLine();
    draw_scale(ctx, f);
}

/// The scale of what is enlarged; in the default, shared range it is everybody's.
void AttentionPanel::draw_scale(UiContext& ctx, const Frame& f) {
    using Range = AttentionColours::Range;
    const ColourScale scale =
        m_colours.scale(place_of(f.layers, ctx.selection.layer), place_of(f.heads, ctx.selection.head));
    draw_fitting_colour_bar("weight", scale, 7 * f.em);
    const Range range = m_colours.range;
    std::string note = range == Range::unit ? "fixed" : range == Range::shared ? "shared" : "this head";
    if (range != Range::unit && m_colours.without_first) note += ", without position 0";
    ctx.landmarks.set_text("attention/range", fmt::format("{}, up to {}", note, format_number(scale.max)));
    ImGui::SameLine();
    if (ImGui::GetContentRegionAvail().x > text_width(note)) {
        ImGui::AlignTextToFramePadding();
        ImGui::TextDisabled("%s", note.c_str());
    } else {
        ImGui::NewLine();
    }
}

void AttentionPanel::draw_range_options() {
    using Range = AttentionColours::Range;
    ImGui::SeparatorText("Colour range");
    const auto choice = [this](const char* label, Range range, const char* help) {
        if (ImGui::RadioButton(label, m_colours.range == range)) m_colours.range = range;
        ImGui::SetItemTooltip("%s", help);
    };
    choice("0 to 1", Range::unit, "The same for every run.");
    choice("Largest weight of all heads", Range::shared, "One scale for the whole grid.");
    choice("Largest weight of each head", Range::per_head, "Heads cannot be compared by colour.");
    ImGui::BeginDisabled(m_colours.range == Range::unit);
    if (ImGui::Checkbox("Range without position 0", &m_colours.without_first)) m_colours.reset_range();
    ImGui::SetItemTooltip("Many heads put most of their weight there.");
    if (ImGui::Button("Fit range")) m_colours.reset_range();
    ImGui::SetItemTooltip(
        "The range widens by itself and narrows only here, so that colours do not flicker.");
    ImGui::EndDisabled();
}

void AttentionPanel::draw_options(const Frame& f) {
    if (!ImGui::BeginPopup("attention options")) return;
    draw_range_options();
    ImGui::SeparatorText("Shown");
    ImGui::SetNextItemWidth(7 * f.em);
    if (ImGui::BeginCombo("Queries", fmt::format("{}", m_rows).c_str())) {
        for (const int rows : {16, 32, 64, 128, 256})
            if (ImGui::Selectable(fmt::format("{}", rows).c_str(), rows == m_rows)) m_rows = rows;
        ImGui::EndCombo();
    }
    ImGui::SetNextItemWidth(7 * f.em);
    const bool differences = m_colours.differences();
    ImGui::BeginDisabled(differences);
    const std::string shown = differences ? std::string(AttentionColours::signed_map) : m_colours.map;
    if (ImGui::BeginCombo("Colours", shown.c_str())) {
        for (const std::string_view name : colour_map_names())
            if (name != AttentionColours::signed_map &&
                ImGui::Selectable(std::string(name).c_str(), name == m_colours.map))
                m_colours.map = name;
        ImGui::EndCombo();
    }
    ImGui::EndDisabled();
    draw_chooser("Layers", m_layer_shown);
    draw_chooser("Heads", m_head_shown);
    ImGui::EndPopup();
}

} // namespace refreshlab::ui
