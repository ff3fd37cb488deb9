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
    ImGui::Checkbox("Log", &m_colours.log);
    ImGui::SetItemTooltip(
        "%s",
        m_colours.differences()
            ? "Logarithmic colours on both sides of 0, linear right about it (symlog)"
            : fmt::format("Logarithmic colours, over {} decades", AttentionColours::log_decades).c_str());
    ImGui::SameLine();
    if (ImGui::Button("Options")) ImGui::OpenPopup("attention options");
    draw_options(f);
    if (ImGui::GetContentRegionAvail().x > 36 * f.em) {
        ImGui::SameLine();
        draw_order_choice(f);
    }
    ImGui::SameLine();
    draw_scale(ctx, f);
}

/// In which order heads stand, and how many of a ranking.
void AttentionPanel::draw_order_choice(const Frame& f) {
    ImGui::SetNextItemWidth(10 * f.em);
    if (ImGui::BeginCombo("##order", std::string(head_order_label(m_order)).c_str())) {
        for (size_t i = 0; i < num_head_orders; ++i) {
            const auto order = static_cast<HeadOrder>(i);
            if (ImGui::Selectable(std::string(head_order_label(order)).c_str(), order == m_order))
                m_order = order;
        }
        ImGui::EndCombo();
    }
    ImGui::SetItemTooltip("All heads by layer, or the first of a ranking over the shown queries.\n"
                          "The sink is position 0; differences need the rows of both models.");
    if (m_order == HeadOrder::place) return;
    ImGui::SameLine();
    ImGui::SetNextItemWidth(4 * f.em);
    if (ImGui::BeginCombo("##best", fmt::format("{}", m_best).c_str())) {
        for (const int best : {4, 8, 12, 16, 24, 48})
            if (ImGui::Selectable(fmt::format("{}", best).c_str(), best == m_best)) m_best = best;
        ImGui::EndCombo();
    }
    ImGui::SetItemTooltip("Heads that are shown");
}

/// The scale of what is enlarged; in the default, shared range it is everybody's.
void AttentionPanel::draw_scale(UiContext& ctx, const Frame& f) {
    using Range = AttentionColours::Range;
    const ColourScale scale =
        m_colours.scale(place_of(f.layers, ctx.selection.layer), place_of(f.heads, ctx.selection.head));
    draw_fitting_colour_bar("weight", scale, 7 * f.em);
    const Range range = m_colours.range;
    std::string note = range == Range::unit ? "fixed" : range == Range::shared ? "shared" : "this head";
    if (m_colours.log && m_colours.differences()) note += ", symlog";
    if (range != Range::unit && m_colours.without_first) note += ", without position 0";
    ctx.landmarks.set_text([&] { return fmt::format("{}, up to {}", note, format_number(scale.max)); },
                           "attention/range");
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
    ImGui::SeparatorText("Heads");
    draw_order_choice(f);
    ImGui::SeparatorText("Shown");
    ImGui::Checkbox("Read missing rows of the teacher", &m_read_missing);
    ImGui::SetItemTooltip("One pass of the teacher for each row of the map, while nothing runs");
    ImGui::SetNextItemWidth(7 * f.em);
    if (ImGui::BeginCombo("Queries", fmt::format("{}", m_rows).c_str())) {
        for (const int rows : {16, 32, 64, 128, 256})
            if (ImGui::Selectable(fmt::format("{}", rows).c_str(), rows == m_rows)) m_rows = rows;
        ImGui::EndCombo();
    }
    ImGui::SetNextItemWidth(7 * f.em);
    const bool differences = m_colours.differences();
    ImGui::BeginDisabled(differences);
    const bool by_theme = differences || m_colours.map.empty();
    if (ImGui::BeginCombo("Colours", by_theme ? "of the theme" : m_colours.map.c_str())) {
        if (ImGui::Selectable("of the theme", m_colours.map.empty())) m_colours.map.clear();
        for (const std::string_view name : colour_map_names())
            if (!name.starts_with("rdbu") &&
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
