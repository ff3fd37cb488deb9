#include "ui/draw/cache_controls.h"

#include "engine/base/error.h"
#include "ui/base/format.h"
#include "ui/base/value_format.h"
#include "ui/draw/offered_files.h"
#include "ui/draw/widgets.h"

#include <fmt/format.h>
#include <misc/cpp/imgui_stdlib.h>

#include <algorithm>
#include <cmath>

namespace refreshlab::ui {
namespace {

using Kind = CacheParameter::Kind;

/// What a parameter is: its tooltip.
std::string help_of(const CacheParameter& parameter, int64_t context) {
    std::string text(parameter.help);
    if (parameter.kind == Kind::integer || parameter.kind == Kind::real) {
        const bool entries = parameter.key == "budget" || parameter.key == "partial";
        const double most = entries && context > 0 ? static_cast<double>(context) : parameter.max;
        text += fmt::format("\nFrom {:.10g} to {:.10g}", parameter.min, most);
    }
    text += fmt::format("\nDefault {}", value_text(parameter, parameter.fallback));
    return text;
}

/// The slider's ends: the usual range, but no further than a run can reach.
std::pair<double, double> slider_of(const CacheParameter& parameter, double value,
                                    const CacheControls::Subject& of) {
    constexpr double entries = 256; // a default that means a share of the prompt says nothing about the range
    double high =
        parameter.unit == "entries" ? std::max(parameter.slider_max, entries) : parameter.slider_max;
    const int64_t most = of.reach.whole > 0 ? of.reach.whole : of.context;
    if (most > 0 && parameter.unit == "entries") high = std::min(high, static_cast<double>(most));
    return {std::min(parameter.slider_min, value), std::max(high, value)};
}

} // namespace

std::optional<CachePolicyConfig> CacheControls::draw_methods(UiContext& ctx, const Subject& of, float width) {
    const CachePolicyConfig& cache = cache_of(of.config, of.owner);
    std::string shown = cache_label(cache);
    if (is_modified(cache)) { // whole or not at all
        const std::string more = shown + " (modified)";
        if (ImGui::CalcTextSize(more.c_str()).x + ImGui::GetFrameHeight() + ImGui::GetFontSize() <= width)
            shown = more;
    }
    Change change;
    ImGui::SetNextItemWidth(width);
    if (ImGui::BeginCombo(of.owner == CacheOwner::teacher ? "##teacher cache" : "##student cache",
                          shown.c_str(), ImGuiComboFlags_HeightLarge)) {
        std::string_view family;
        for (const CacheMethod& method : cache_methods()) {
            if (method.family != family) ImGui::SeparatorText(std::string(method.family).c_str());
            family = method.family;
            const std::string label(method.label);
            if (ImGui::Selectable(label.c_str(), method.name == cache.policy))
                change = chosen_cache(method.name, of.reach);
            ImGui::SetItemTooltip(
                "%s",
                fmt::format("{}\nCost: {}\nSource: {}", method.summary, method.cost, method.source).c_str());
        }
        ImGui::EndCombo();
    } else if (const CacheMethod* method = find_cache_method(cache.policy)) {
        ImGui::SetItemTooltip(
            "%s",
            fmt::format("{}\nCost: {}\nSource: {}", method->summary, method->cost, method->source).c_str());
    }
    const ImVec2 low = ImGui::GetItemRectMin(), size = ImGui::GetItemRectSize();
    ctx.landmarks.set({low.x, low.y, size.x, size.y}, "cache policy/{}",
                      of.owner == CacheOwner::teacher ? "teacher" : "student");
    return change;
}

std::optional<CachePolicyConfig> CacheControls::draw_values(UiContext& ctx, const Subject& of, float column) {
    const CacheMethod* method = find_cache_method(cache_of(of.config, of.owner).policy);
    if (method == nullptr) return {};
    const float most =
        std::max(column, ImGui::GetContentRegionAvail().x * 0.5F); // the controls need their half
    for (const CacheParameter& parameter : method->parameters)
        column = std::min(most, std::max(column, ImGui::CalcTextSize(std::string(parameter.label).c_str()).x +
                                                     ImGui::GetFontSize() * 0.6F));
    Change change;
    for (const bool live : {true, false}) {
        const auto here = [&](const CacheParameter& p) { return (of.running && p.live) == live; };
        if (!std::ranges::any_of(method->parameters, here)) continue;
        if (!live && of.running) muted_text(ctx, "From the next run:");
        for (const CacheParameter& parameter : method->parameters)
            if (here(parameter))
                if (Change made = draw_row(ctx, of, parameter, column)) change = std::move(made);
    }
    for (const CacheFile& file : method->files)
        if (Change made = draw_file(ctx, of, file, column)) change = std::move(made);
    return change;
}

/// Text that was typed or chosen becomes the value: at once where it is live, else in the policy that is given back.
std::optional<CachePolicyConfig> CacheControls::take(UiContext& ctx, const Subject& of, std::string_view key,
                                                     bool live, const std::string& text) {
    m_fault.clear();
    try {
        CachePolicyConfig changed = with_value(of.config, of.owner, key, text, of.context);
        if (!of.running || !live) return changed;
        ctx.drafts.edit(ctx.engine, cache_prefix(of.owner) + std::string(key), text);
    } catch (const Error& e) {
        m_fault_key = key;
        m_fault = e.what();
    }
    return {};
}

std::optional<CachePolicyConfig> CacheControls::draw_row(UiContext& ctx, const Subject& of,
                                                         const CacheParameter& parameter, float column) {
    const double value = cache_of(of.config, of.owner).values.find(parameter.key)->second;
    const std::string label(parameter.label), help = help_of(parameter, of.context);
    const float em = ImGui::GetFontSize();
    ImGui::PushID(parameter.key.data(), parameter.key.data() + parameter.key.size());
    row_label(label.c_str(), column, em * 2.5F);
    if (ImGui::IsItemHovered(ImGuiHoveredFlags_DelayShort)) ImGui::SetTooltip("%s", help.c_str());
    Change change;
    if (parameter.kind == Kind::boolean) {
        bool on = value != 0;
        if (ImGui::Checkbox("##switch", &on))
            change = take(ctx, of, parameter.key, parameter.live, on ? "true" : "false");
    } else if (parameter.kind == Kind::choice) {
        ImGui::SetNextItemWidth(std::min(em * 8, ImGui::GetContentRegionAvail().x));
        if (ImGui::BeginCombo("##choice", value_text(parameter, value).c_str())) {
            for (const std::string_view choice : parameter.choices)
                if (ImGui::Selectable(std::string(choice).c_str(), choice == value_text(parameter, value)))
                    change = take(ctx, of, parameter.key, parameter.live, std::string(choice));
            ImGui::EndCombo();
        }
    } else {
        change = draw_number(ctx, of, parameter, value);
    }
    const std::string note =
        parameter.key == "budget" ? budget_note(cache_of(of.config, of.owner), of.reach) : "";
    if (!note.empty()) muted_text(ctx, note);
    draw_fault(ctx, parameter.key);
    ImGui::PopID();
    return change;
}

void CacheControls::draw_fault(UiContext& ctx, std::string_view key) {
    if (m_fault.empty() || m_fault_key != key) return;
    ImGui::PushStyleColor(ImGuiCol_Text, ctx.theme.text_error);
    ImGui::TextWrapped("%s", m_fault.c_str());
    ImGui::PopStyleColor();
    const ImVec2 low = ImGui::GetItemRectMin(), size = ImGui::GetItemRectSize();
    ctx.landmarks.set("cache policy/fault", {low.x, low.y, size.x, size.y});
}

/// A path to type, and a button that opens the files.
std::optional<CachePolicyConfig> CacheControls::draw_file(UiContext& ctx, const Subject& of,
                                                          const CacheFile& file, float column) {
    const CachePolicyConfig& cache = cache_of(of.config, of.owner);
    const std::string& path = cache.files.find(file.key)->second.path;
    const std::string label(file.label), help(file.help),
        key = cache_prefix(of.owner) + std::string(file.key);
    const float em = ImGui::GetFontSize(), button = ImGui::GetFrameHeight();
    ImGui::PushID(file.key.data(), file.key.data() + file.key.size());
    row_label(label.c_str(), column, em * 2.5F);
    if (ImGui::IsItemHovered(ImGuiHoveredFlags_DelayShort)) ImGui::SetTooltip("%s", help.c_str());
    Change change;
    std::string text = m_typing == key ? m_text : path;
    ImGui::SetNextItemWidth(
        std::max(ImGui::GetContentRegionAvail().x - button - ImGui::GetStyle().ItemSpacing.x, em * 2.5F));
    if (ImGui::InputTextWithHint("##path", "beside the model", &text)) {
        m_typing = key;
        m_text = text;
    }
    if (ImGui::IsItemDeactivated() && m_typing == key) {
        m_typing.clear();
        if (!ImGui::IsKeyPressed(ImGuiKey_Escape, false)) change = take(ctx, of, file.key, false, m_text);
    }
    ImGui::SameLine();
    const bool there = ctx.status->link.has_value(); // the file is the server's
    if (ImGui::Button("...##file", ImVec2(button, 0))) {
        const bool gate = file.kind == CacheFile::Kind::gate;
        m_picker = std::make_unique<PathPicker>(ctx, PathPicker::Want::open_file, gate ? "gate" : "profile",
                                                "", gate ? ".safetensors" : ".json");
        ImGui::OpenPopup("choose a file");
    }
    ImGui::SetItemTooltip("Choose the file");
    ImGui::SetNextWindowSize(ImVec2(em * 30, 0));
    if (there && ImGui::BeginPopup("choose a file")) {
        if (const auto chosen = offered_file(ctx, LinkOffers::Part::Kind::gate, em * 12)) {
            change = take(ctx, of, file.key, false, *chosen);
            ImGui::CloseCurrentPopup();
        }
        ImGui::EndPopup();
    } else if (m_picker && !there && ImGui::BeginPopup("choose a file")) {
        const bool enter = m_picker->draw(ctx, em * 12);
        const std::string problem = m_picker->problem();
        ImGui::BeginDisabled(!problem.empty());
        const bool go = ImGui::Button("Take it") || enter;
        ImGui::EndDisabled();
        if (!problem.empty()) {
            ImGui::SameLine();
            ImGui::TextDisabled("%s", problem.c_str());
        }
        if (go && problem.empty()) {
            change = take(ctx, of, file.key, false, m_picker->path().string());
            m_picker->accept(ctx);
            ImGui::CloseCurrentPopup();
        }
        ImGui::EndPopup();
    }
    draw_fault(ctx, file.key);
    ImGui::PopID();
    return change;
}

std::optional<CachePolicyConfig> CacheControls::draw_number(UiContext& ctx, const Subject& of,
                                                            const CacheParameter& parameter, double value) {
    const float em = ImGui::GetFontSize(), entry = em * 4.6F;
    const std::string key = cache_prefix(of.owner) + std::string(parameter.key),
                      unit = shown_unit(parameter.unit);
    const float unit_width = unit.empty() ? 0 : ImGui::CalcTextSize(unit.c_str()).x + em * 0.8F;
    const float slider =
        ImGui::GetContentRegionAvail().x - entry - unit_width - ImGui::GetStyle().ItemSpacing.x;
    const auto [low, high] = slider_of(parameter, value, of);
    const bool whole = parameter.kind == Kind::integer;
    Change change;
    if (slider > em * 3) {
        if (of.running && parameter.live) {
            NumberStyle style;
            style.slider_min = low;
            style.slider_max = high;
            style.integer = whole;
            style.default_value = value_text(parameter, parameter.fallback);
            number_slider(ctx, "slider", key, std::min(slider, em * 14), style);
        } else {
            double slid = m_sliding == key ? m_slid : value;
            ImGui::SetNextItemWidth(std::min(slider, em * 14));
            if (ImGui::SliderScalar("##slider", ImGuiDataType_Double, &slid, &low, &high, "",
                                    ImGuiSliderFlags_NoInput | ImGuiSliderFlags_NoRoundToFormat)) {
                m_sliding = key;
                const double step = std::pow(10.0, std::floor(std::log10(high - low)) - 2);
                m_slid = whole ? std::round(slid) : std::round(slid / step) * step;
            }
            if (ImGui::IsItemDeactivated() && m_sliding == key) { // one change a drag
                m_sliding.clear();
                change = take(ctx, of, parameter.key, parameter.live, fmt::format("{}", m_slid));
            }
        }
        ImGui::SameLine();
    }
    std::string text = m_typing == key    ? m_text
                       : m_sliding == key ? format_value(m_slid, "")
                                          : fmt::format("{:.6g}", value);
    ImGui::SetNextItemWidth(std::clamp(ImGui::GetContentRegionAvail().x - unit_width, em * 2.5F, entry));
    if (ImGui::InputText("##entry", &text, ImGuiInputTextFlags_AutoSelectAll)) {
        m_typing = key;
        m_text = text;
    }
    if (ImGui::IsItemDeactivated() && m_typing == key) {
        m_typing.clear();
        if (!ImGui::IsKeyPressed(ImGuiKey_Escape, false))
            change = take(ctx, of, parameter.key, parameter.live, m_text);
    }
    if (!unit.empty()) {
        ImGui::SameLine();
        ImGui::TextDisabled("%s", unit.c_str());
    }
    return change;
}

} // namespace refreshlab::ui
