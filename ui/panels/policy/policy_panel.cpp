#include "ui/panels/policy/policy_panel.h"

#include "engine/base/error.h"
#include "engine/base/json_file.h"
#include "engine/base/json_text.h"
#include "engine/signals/registry.h"
#include "ui/base/value_format.h"
#include "ui/draw/path_picker.h"
#include "ui/draw/widgets.h"
#include "ui/panels/panel.h"
#include "ui/scene/policy/thresholds.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <span>
#include <utility>

namespace refreshlab::ui {
namespace {

struct FireWording {
    OnFire on_fire;
    const char *label, *help;
};
constexpr FireWording fire_wordings[] = {
    {OnFire::keep, "keep", "The token already chosen stays: costs nothing, traces stay comparable"},
    {OnFire::teacher_token, "teacher's token",
     "The token is drawn again from the teacher's last row: costs nothing more"},
    {OnFire::redraw, "redraw", "The token is drawn again over the refreshed cache: costs one student step"},
    {OnFire::verify, "verify",
     "Every token since the last refresh is judged: it stays, or the teacher's takes its place"},
};

/// Of a combo box that shows this text whole.
float combo_width(const std::string& text) {
    return ImGui::CalcTextSize(text.c_str()).x + ImGui::GetFrameHeight() +
           2 * ImGui::GetStyle().FramePadding.x;
}

/// Label of its preset, or its own name.
std::string preset_text(const RefreshPolicy& policy) {
    std::string shown = policy.name;
    for (const Preset& preset : presets())
        if (preset.name == policy.name) shown = preset.label;
    const bool known = std::ranges::any_of(presets(), [&](const Preset& p) { return p.name == policy.name; });
    if (known && is_modified_preset(policy)) shown += " (modified)";
    return shown;
}

/// "Refreshes at 3 scheduled steps: 12, 40, 64".
std::string schedule_words(const RefreshPolicy& policy) {
    constexpr size_t shown = 12;
    const std::span<const int64_t> steps = policy.at;
    return fmt::format(
        "Refreshes at {}: {}{}", format_count(static_cast<int64_t>(steps.size()), "scheduled step"),
        fmt::join(steps.first(std::min(shown, steps.size())), ", "), steps.size() > shown ? ", ..." : "");
}

} // namespace

std::unique_ptr<Panel> make_policy_panel() {
    return std::make_unique<PolicyPanel>();
}

void PolicyPanel::draw(UiContext& ctx) {
    const RefreshPolicy policy = ctx.drafts.policy();
    draw_preset(ctx, policy);
    if (ctx.status->applied.mode != Mode::overfill && ctx.recording)
        muted_text(
            ctx,
            "No refreshes in this mode: they need the teacher's and the student's cache (mode OverFill)");
    const std::vector<TriggerState> states =
        trigger_states(ctx.recording.get(), ctx.steps, policy, run_state(ctx.status->state, ctx.of_engine()));
    if (ctx.recording) m_results.update(*ctx.recording, ctx.steps);
    for (size_t i = 0; i < policy.triggers.size(); ++i)
        draw_card(ctx, policy, i, states[i]);
    m_find.draw(ctx, policy);
    if (!policy.at.empty()) muted_text(ctx, schedule_words(policy).c_str());
    if (policy.triggers.empty() && policy.at.empty())
        muted_text(ctx, "No trigger: no refresh happens by itself. Refresh now still works");
    draw_add(ctx, policy);
    draw_combine(ctx, policy);
    draw_action(ctx, policy);
    draw_budget(ctx, policy);
    m_caches.draw(ctx);
}

void PolicyPanel::draw_preset(UiContext& ctx, const RefreshPolicy& policy) {
    const float em = ImGui::GetFontSize(), start = ImGui::GetCursorPosX();
    const std::string shown = preset_text(policy);
    const float menu = ImGui::GetFrameHeight(), spacing = ImGui::GetStyle().ItemSpacing.x;
    // In a narrow panel the name of the preset says enough without its caption.
    const float needs = combo_width(shown) + menu + spacing;
    if (ImGui::GetContentRegionAvail().x - em * 4 >= needs) {
        ImGui::AlignTextToFramePadding();
        ImGui::TextUnformatted("Preset");
        ImGui::SameLine(start + em * 4);
    }
    draw_preset_list(ctx, policy, menu);
    ImGui::SameLine();
    if (ImGui::Button("...##policy file", ImVec2(menu, 0))) ImGui::OpenPopup("policy file menu");
    ImGui::SetItemTooltip("Load or save the policy as JSON");
    bool load = false, save = false;
    if (ImGui::BeginPopup("policy file menu")) {
        load = ImGui::MenuItem("Load policy...");
        save = ImGui::MenuItem("Save policy...");
        ImGui::EndPopup();
    }
    if (load || save) {
        m_saving = save;
        m_picker = std::make_unique<PathPicker>(
            ctx, save ? PathPicker::Want::save_file : PathPicker::Want::open_file, "policy",
            save ? "policy.json" : "", ".json");
        ImGui::OpenPopup("policy file");
    }
    draw_file_popup(ctx, policy);
}

void PolicyPanel::draw_preset_list(UiContext& ctx, const RefreshPolicy& policy, float menu) {
    const std::string shown = preset_text(policy);
    ImGui::SetNextItemWidth(ImGui::GetContentRegionAvail().x - menu - ImGui::GetStyle().ItemSpacing.x);
    if (ImGui::BeginCombo("##preset", shown.c_str(), ImGuiComboFlags_HeightLarge)) {
        for (const Preset& preset : presets()) {
            const std::string label(preset.label), help(preset.description);
            if (ImGui::Selectable(label.c_str(), preset.name == policy.name))
                try_edit(ctx, [&] { ctx.drafts.set_policy(ctx.engine, preset_policy(preset.name)); });
            ImGui::SetItemTooltip("%s", help.c_str());
        }
        ImGui::EndCombo();
    }
    if (ImGui::IsItemHovered(ImGuiHoveredFlags_DelayNormal)) ImGui::SetTooltip("Preset: %s", shown.c_str());
    if (ctx.drafts.policy_pending())
        ImGui::GetWindowDrawList()->AddRect(ImGui::GetItemRectMin(), ImGui::GetItemRectMax(),
                                            ctx.theme.accent, ImGui::GetStyle().FrameRounding);
}

void PolicyPanel::draw_file_popup(UiContext& ctx, const RefreshPolicy& policy) {
    ImGui::SetNextWindowSize(ImVec2(ImGui::GetFontSize() * 30, 0));
    if (!ImGui::BeginPopup("policy file")) return;
    ImGui::PushFont(ctx.fonts.medium, 0);
    ImGui::TextUnformatted(m_saving ? "Save policy" : "Load policy");
    ImGui::PopFont();
    const bool enter = m_picker->draw(ctx, ImGui::GetFontSize() * 12);
    const std::string problem = m_picker->problem();
    ImGui::BeginDisabled(!problem.empty());
    const char* verb = !m_saving ? "Load" : m_picker->would_overwrite() ? "Replace" : "Save";
    const bool go = ImGui::Button(verb) || enter;
    ImGui::EndDisabled();
    if (!problem.empty()) {
        ImGui::SameLine();
        ImGui::TextDisabled("%s", problem.c_str());
    }
    if (go && problem.empty()) {
        const auto path = m_picker->path();
        try_edit(ctx, [&] {
            if (m_saving) {
                write_file(path, json_text(policy_to_json(policy), 2) + "\n");
                ctx.toasts.add(Toasts::Level::info, "Policy saved as " + path.string(), ImGui::GetTime());
            } else {
                ctx.drafts.set_policy(ctx.engine,
                                      policy_from_json(read_json_file(path, 1 << 20), path.string()));
            }
        });
        ImGui::CloseCurrentPopup();
    }
    ImGui::EndPopup();
}

void PolicyPanel::draw_add(UiContext& ctx, const RefreshPolicy& policy) {
    if (ImGui::Button("Add trigger")) ImGui::OpenPopup("add trigger");
    if (!ImGui::BeginPopup("add trigger")) return;
    for (const Signal& signal : ctx.signals()) {
        if (signal.letter == 0) continue;
        const std::string label(signal.label), hint(signal.cost_hint), help(signal.description);
        ImGui::PushStyleColor(ImGuiCol_Text, ctx.theme.text);
        if (ImGui::MenuItem(label.c_str(), hint.c_str())) {
            RefreshPolicy changed = policy;
            changed.triggers.push_back(default_trigger(signal));
            try_edit(ctx, [&] { ctx.drafts.set_policy(ctx.engine, changed); });
        }
        ImGui::PopStyleColor();
        ImGui::SetItemTooltip("%s", help.c_str());
    }
    ImGui::Separator();
    if (ImGui::MenuItem("Signal of your own...")) ctx.run_action("policy.own_signal");
    ImGui::SetItemTooltip("Arithmetic over these signals: entropy_bits - mean(entropy_bits, 16)");
    ImGui::EndPopup();
}

void PolicyPanel::draw_combine(UiContext& ctx, const RefreshPolicy& policy) {
    if (policy.triggers.size() < 2) return;
    const float em = ImGui::GetFontSize();
    const float width = ImGui::CalcTextSize("Fires whenanyall").x + ImGui::GetFrameHeight() * 2 + em * 3;
    ImGui::SameLine(0, em * 1.2F);
    if (ImGui::GetContentRegionAvail().x < width) ImGui::NewLine();
    ImGui::AlignTextToFramePadding();
    ImGui::TextDisabled("Fires when");
    for (const auto& [combine, label] : {std::pair{Combine::any, "any"}, std::pair{Combine::all, "all"}}) {
        ImGui::SameLine();
        if (ImGui::RadioButton(label, policy.combine == combine) && policy.combine != combine) {
            RefreshPolicy changed = policy;
            changed.combine = combine;
            try_edit(ctx, [&] { ctx.drafts.set_policy(ctx.engine, changed); });
        }
        ImGui::SetItemTooltip("%s", combine == Combine::any ? "One trigger is enough"
                                                            : "Every trigger that is on must hold at once");
    }
}

void PolicyPanel::draw_action(UiContext& ctx, const RefreshPolicy& policy) {
    heading(ctx, "Then refresh");
    if (ctx.status->rebuild_mode) {
        ImGui::PushStyleColor(ImGuiCol_Text, ctx.theme.text_error);
        ImGui::TextWrapped("Rebuild mode: the KV geometries differ, so nothing is copied from the teacher. A "
                           "refresh recomputes the student's own entries: a no-op.");
        ImGui::PopStyleColor();
        ImGui::SetItemTooltip("%s", ctx.status->note.c_str());
    }
    const float column = ImGui::GetFontSize() * 6.5F;
    const auto* shown = std::ranges::find(fire_wordings, policy.on_fire, &FireWording::on_fire);
    row_label("Chosen token", column, combo_width(shown->label));
    ImGui::SetNextItemWidth(-1);
    if (ImGui::BeginCombo("##on fire", shown->label)) {
        for (const FireWording& wording : fire_wordings) {
            if (ImGui::Selectable(wording.label, wording.on_fire == policy.on_fire))
                try_edit(ctx, [&] { ctx.drafts.edit(ctx.engine, "on_fire", to_string(wording.on_fire)); });
            ImGui::SetItemTooltip("%s", wording.help);
        }
        ImGui::EndCombo();
    }
    muted_text(ctx, shown->help);
    if (verifies(policy)) {
        parameter_row(ctx, "verify.rule", column);
        if (policy.verify.rule == VerifyRule::near_best) parameter_row(ctx, "verify.share", column);
        if (policy.verify.rule == VerifyRule::top_k) parameter_row(ctx, "verify.rank", column);
        parameter_row(ctx, "verify.splice", column);
    }
    parameter_row(ctx, "window.size", column, "", "Splice at most");
    parameter_row(ctx, "refresh.lag", column, "", "Lands after");
    for (const char* key : {"refresh.layers", "refresh.kv_heads", "refresh.parts", "refresh.positions"})
        parameter_row(ctx, key, column);
    if (policy.scope.positions != ScopePositions::all)
        parameter_row(ctx, "refresh.count", column, "", "So many");
}

void PolicyPanel::draw_budget(UiContext& ctx, const RefreshPolicy& policy) {
    heading(ctx, "Budget");
    const float em = ImGui::GetFontSize(), column = em * 6.5F;
    parameter_row(ctx, "budget.refreshes", column, "", "At most");
    if (!policy.budget.refreshes) return;
    parameter_row(ctx, "budget.per_tokens", column, "", "Within");
    const int64_t used = ctx.recording ? used_budget(*ctx.recording, ctx.steps, policy.budget) : 0;
    const int32_t all = *policy.budget.refreshes;
    const float share = all > 0 ? std::min(1.0F, static_cast<float>(used) / static_cast<float>(all)) : 1.0F;
    ImGui::PushStyleColor(ImGuiCol_PlotHistogram, ctx.theme.accent);
    ImGui::ProgressBar(share, ImVec2(-1, em * 0.45F), "");
    ImGui::PopStyleColor();
    muted_text(ctx, fmt::format("{} used, {} left in the last {}", used, std::max<int64_t>(0, all - used),
                                format_count(std::min<int64_t>(policy.budget.per_tokens,
                                                               std::max<int64_t>(ctx.steps, 0)),
                                             "token")));
}

} // namespace refreshlab::ui
