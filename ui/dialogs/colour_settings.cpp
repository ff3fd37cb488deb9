#include "ui/dialogs/colour_settings.h"

#include "ui/draw/widgets.h"
#include "ui/figure/style.h"
#include "ui/scene/maps/colour_maps.h"
#include "ui/state/dialog.h"
#include "ui/state/shell_state.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

namespace refreshlab::ui {

namespace {

constexpr const char* paper = "paper";

struct MapChoice {
    const char *label, *id, *help;
    std::string ChosenColours::*chosen;
    std::string Theme::*usual;
};
constexpr MapChoice map_choices[] = {
    {"Amounts", "amounts", "Attention, drift, losses: nothing to much", &ChosenColours::map_amounts,
     &Theme::map_amounts},
    {"Ages", "ages", "Steps since an entry was written", &ChosenColours::map_ages, &Theme::map_ages},
    {"Differences", "signed", "Values with a sign, around 0", &ChosenColours::map_signed, &Theme::map_signed},
};

} // namespace

const Theme& ColourSettings::usual(const ShellState& state) {
    const auto known = m_usual.find(m_of);
    if (known != m_usual.end()) return known->second;
    const auto assets = state.ctx.host.assets();
    return m_usual
        .emplace(m_of, m_of == paper ? load_figure_style(assets, paper).theme : load_theme(assets, m_of))
        .first->second;
}

ChosenColours& ColourSettings::chosen(ShellState& state) {
    return state.settings.colours[m_of];
}

void ColourSettings::changed(ShellState& state) const {
    if (m_of == state.ctx.theme.name) state.wanted_theme = m_of; // read anew, with what is chosen now
}

void ColourSettings::draw(ShellState& state) {
    const float em = ImGui::GetFontSize(), column = em * 7;
    m_of = m_paper ? paper : state.ctx.theme.name;
    ImGui::Dummy(ImVec2(0, em * 0.3F));
    label_before("Colours of", column);
    if (ImGui::RadioButton(fmt::format("the window, {}###window", state.ctx.theme.name).c_str(), !m_paper))
        m_paper = false;
    ImGui::SameLine();
    if (ImGui::RadioButton("figures on paper", m_paper)) m_paper = true;
    ImGui::SameLine();
    ImGui::BeginDisabled(chosen(state).empty());
    if (ImGui::Button("Reset all")) {
        chosen(state) = {};
        changed(state);
    }
    ImGui::EndDisabled();
    ImGui::SetItemTooltip("To those of the theme");
    draw_maps(state);
    draw_signals(state);
}

void ColourSettings::draw_maps(ShellState& state) {
    const float em = ImGui::GetFontSize(), column = em * 7;
    for (const MapChoice& choice : map_choices) {
        label_before(choice.label, column);
        ImGui::SetNextItemWidth(em * 10);
        std::string& map = chosen(state).*choice.chosen;
        const std::string& theme = usual(state).*choice.usual;
        if (ImGui::BeginCombo(fmt::format("##{}", choice.id).c_str(), (map.empty() ? theme : map).c_str())) {
            for (const std::string_view name : colour_map_names())
                if (ImGui::Selectable(std::string(name).c_str(), name == (map.empty() ? theme : map))) {
                    map = name == theme ? std::string() : std::string(name);
                    changed(state);
                }
            ImGui::EndCombo();
        }
        ImGui::SetItemTooltip("%s", choice.help);
    }
}

void ColourSettings::draw_signals(ShellState& state) {
    const float em = ImGui::GetFontSize();
    // The list scrolls, not the dialog.
    const float room = ImGui::GetMainViewport()->WorkSize.y * most_dialog_height - ImGui::GetCursorPosY() -
                       ImGui::GetStyle().WindowPadding.y - em;
    const bool visible = ImGui::BeginChild("signals", ImVec2(0, std::clamp(room, em * 5, em * 20)));
    if (visible && ImGui::BeginTable("signals", 3, ImGuiTableFlags_RowBg)) {
        ImGui::TableSetupColumn("colour", ImGuiTableColumnFlags_WidthFixed, em * 2);
        ImGui::TableSetupColumn("signal", ImGuiTableColumnFlags_WidthStretch);
        ImGui::TableSetupColumn("reset", ImGuiTableColumnFlags_WidthFixed, em * 5);
        auto& colours = chosen(state).signals;
        for (const Signal& signal : state.ctx.signals()) {
            const std::string name(signal.name);
            ImGui::PushID(name.c_str());
            ImGui::TableNextRow();
            ImGui::TableNextColumn();
            const auto own = colours.find(name);
            ImVec4 rgb = ImGui::ColorConvertU32ToFloat4(own == colours.end() ? usual(state).signal(name)
                                                                             : own->second);
            if (ImGui::ColorEdit3("##colour", &rgb.x, ImGuiColorEditFlags_NoInputs)) {
                colours[name] = ImGui::ColorConvertFloat4ToU32({rgb.x, rgb.y, rgb.z, 1});
                changed(state);
            }
            const ImVec2 low = ImGui::GetItemRectMin(), size = ImGui::GetItemRectSize();
            state.ctx.landmarks.set({low.x, low.y, size.x, size.y}, "settings/colour/{}", name);
            ImGui::TableNextColumn();
            ImGui::AlignTextToFramePadding();
            ImGui::TextUnformatted(std::string(signal.label).c_str());
            ImGui::SetItemTooltip("%s", name.c_str());
            ImGui::TableNextColumn();
            if (colours.contains(name) && ImGui::Button("Reset")) {
                colours.erase(name);
                changed(state);
            }
            ImGui::PopID();
        }
        ImGui::EndTable();
    }
    ImGui::EndChild();
}

} // namespace refreshlab::ui
