#include "ui/dialogs/derive_form.h"

#include "engine/base/error.h"
#include "ui/draw/text_entry.h"
#include "ui/draw/widgets.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <imgui.h>

#include <algorithm>

namespace refreshlab::ui {

namespace {

std::string list_text(const std::vector<int32_t>& layers) {
    return fmt::format("{}", fmt::join(layers, "+"));
}

} // namespace

void DeriveForm::open(const std::string& student) {
    m_spec = {};
    m_spec.bits = 3;
    m_fault.clear();
    try {
        if (is_derivation(student)) m_spec = derivation_of(student);
    } catch (const Error&) { // half typed: the form begins anew
    }
    m_skip_attention = list_text(m_spec.skip_attention);
    m_skip_mlp = list_text(m_spec.skip_mlp);
    m_seed = fmt::format("{}", m_spec.seed);
}

void DeriveForm::draw_rounding(float column) {
    const float em = ImGui::GetFontSize();
    label_before("Round to", column);
    ImGui::SetNextItemWidth(em * 6);
    const auto words = [](int32_t bits) {
        return bits == 0 ? std::string("off") : fmt::format("{} bits", bits);
    };
    if (ImGui::BeginCombo("##bits", words(m_spec.bits).c_str())) {
        for (int32_t bits = 0; bits <= DeriveSpec::max_bits;
             bits = bits == 0 ? DeriveSpec::min_bits : bits + 1)
            if (ImGui::Selectable(words(bits).c_str(), bits == m_spec.bits)) m_spec.bits = bits;
        ImGui::EndCombo();
    }
    if (m_spec.bits == 0) return;
    ImGui::SameLine();
    ImGui::TextDisabled("in groups of");
    ImGui::SameLine();
    ImGui::SetNextItemWidth(em * 4);
    whole_entry("##group", &m_spec.group, 1, DeriveSpec::max_group);
    ImGui::SameLine();
    ImGui::Checkbox("symmetric", &m_spec.symmetric);
}

void DeriveForm::draw_ffn(float column) {
    label_before("MLP channels", column);
    ImGui::SetNextItemWidth(ImGui::GetFontSize() * 12);
    auto percent = static_cast<float>(m_spec.ffn * 100);
    if (ImGui::SliderFloat("##ffn", &percent, 1, 100, percent >= 100 ? "all" : "%.0f %% kept"))
        m_spec.ffn = std::clamp(std::round(static_cast<double>(percent)) / 100, 0.01, 1.0);
    ImGui::SetItemTooltip("Those that the prompt uses most, as the teacher reads it (GRIFFIN)");
}

void DeriveForm::draw_skips(float column) {
    const float em = ImGui::GetFontSize();
    label_before("Leave out", column);
    ImGui::TextDisabled("attention of layers");
    ImGui::SameLine();
    ImGui::SetNextItemWidth(em * 6);
    text_entry("##skip attention", &m_skip_attention, 0, "none");
    ImGui::SetItemTooltip(
        "Layers and ranges, counted from 0: 3+5+8-11. Their keys and values are still written");
    ImGui::SameLine();
    ImGui::TextDisabled("MLP of");
    ImGui::SameLine();
    ImGui::SetNextItemWidth(em * 6);
    text_entry("##skip mlp", &m_skip_mlp, 0, "none");
    ImGui::SetItemTooltip("Layers and ranges, counted from 0: 3+5+8-11");
    label_before("", column);
    ImGui::TextDisabled("and");
    ImGui::SameLine();
    ImGui::SetNextItemWidth(em * 3);
    whole_entry("##skip auto", &m_spec.skip_auto, 0, DeriveSpec::max_skips);
    ImGui::SameLine();
    ImGui::TextDisabled("more, chosen one by one by the least KL");
}

void DeriveForm::draw_noise(float column) {
    const float em = ImGui::GetFontSize();
    label_before("Noise", column);
    ImGui::SetNextItemWidth(em * 6);
    ImGui::InputDouble("##noise", &m_spec.noise, 0, 0, "%.4g");
    ImGui::SetItemTooltip("Random noise on each weight, as a multiple of the root mean square of its matrix");
    if (m_spec.noise > 0) {
        ImGui::SameLine();
        ImGui::TextDisabled("seed");
        ImGui::SameLine();
        ImGui::SetNextItemWidth(em * 6);
        text_entry("##noise seed", &m_seed, ImGuiInputTextFlags_CharsDecimal);
    }
    if (m_spec.bits == 0 && m_spec.noise <= 0) return;
    label_before("Of", column);
    constexpr std::pair<DeriveSpec::Only, const char*> parts[] = {
        {DeriveSpec::Only::all, "all matrices"},
        {DeriveSpec::Only::mlp, "the MLP alone"},
        {DeriveSpec::Only::attention, "attention alone"}};
    for (const auto& [only, name] : parts) {
        if (ImGui::RadioButton(name, m_spec.only == only)) m_spec.only = only;
        if (only != DeriveSpec::Only::attention) ImGui::SameLine();
    }
}

/// Typed lists by the one reader of derivations.
void DeriveForm::read_lists() {
    m_fault.clear();
    try {
        std::string text = "seed=" + (m_seed.empty() ? "0" : m_seed);
        if (!m_skip_attention.empty()) text += ",skip_attention=" + m_skip_attention;
        if (!m_skip_mlp.empty()) text += ",skip_mlp=" + m_skip_mlp;
        const DeriveSpec lists = parse_derive(text);
        m_spec.skip_attention = lists.skip_attention;
        m_spec.skip_mlp = lists.skip_mlp;
        m_spec.seed = lists.seed;
    } catch (const Error& e) {
        m_fault = e.problem();
        return;
    }
    if (const auto fault = derive_fault(m_spec)) m_fault = fault->field + ": " + fault->problem;
}

bool DeriveForm::draw(const UiContext& ctx) {
    const float em = ImGui::GetFontSize(), column = em * 7;
    muted_text(ctx, "A student made of the teacher's own weights: one tokenizer, one KV geometry");
    draw_rounding(column);
    draw_ffn(column);
    draw_skips(column);
    draw_noise(column);
    read_lists();
    ImGui::PushStyleColor(ImGuiCol_Text, m_fault.empty() ? ctx.theme.text_muted : ctx.theme.text_error);
    const std::string words = m_fault.empty() ? describe(m_spec) : m_fault;
    ImGui::TextWrapped("%s", words.empty() ? "It changes nothing: the student would be the teacher"
                                           : words.c_str());
    ImGui::PopStyleColor();
    ImGui::BeginDisabled(!m_fault.empty() || derive_text(m_spec).empty());
    const bool take = accent_button(ctx, "Take it", em * 5.5F);
    ImGui::EndDisabled();
    return take && m_fault.empty();
}

} // namespace refreshlab::ui
