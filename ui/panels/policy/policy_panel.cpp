#include "engine/base/error.h"
#include "engine/base/json_file.h"
#include "engine/base/json_text.h"
#include "engine/signals/registry.h"
#include "ui/base/colour.h"
#include "ui/base/format.h"
#include "ui/panels/panel.h"
#include "ui/panels/policy/find_threshold.h"
#include "ui/scene/policy/thresholds.h"
#include "ui/widgets/path_picker.h"
#include "ui/widgets/widgets.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace refreshlab::ui {

namespace {

struct Wording {
    Comparison comparison;
    const char* text;
};
constexpr Wording wordings[] = {{Comparison::above, "above"},
                                {Comparison::at_least, "at least"},
                                {Comparison::below, "below"},
                                {Comparison::at_most, "at most"}};

struct FireWording {
    OnFire on_fire;
    const char *label, *help;
};
constexpr FireWording fire_wordings[] = {
    {OnFire::keep, "keep", "The token already chosen stays: costs nothing, traces stay comparable"},
    {OnFire::teacher_token, "teacher's token",
     "The token is drawn again from the teacher's last row: costs nothing more"},
    {OnFire::redraw, "redraw", "The token is drawn again over the refreshed cache: costs one student step"},
};

/// State of a card: "armed", "off", or what holds it back at the newest step.
struct CardState {
    std::string text;
    bool armed = false;
};

class PolicyPanel final : public Panel {
public:
    std::string_view title() const override { return "Policy"; }

    void draw(UiContext& ctx) override {
        const RefreshPolicy policy = ctx.drafts.policy();
        draw_preset(ctx, policy);
        if (ctx.status->applied.mode != Mode::overfill && ctx.recording)
            muted_text(
                ctx,
                "No refreshes in this mode: they need the teacher's and the student's cache (mode OverFill)");
        const std::vector<CardState> states = card_states(ctx, policy);
        for (size_t i = 0; i < policy.triggers.size(); ++i)
            draw_card(ctx, policy, i, states[i]);
        m_find.draw(ctx, policy);
        if (policy.triggers.empty())
            muted_text(ctx, "No trigger: nothing refreshes by itself; Refresh now (R) still does");
        draw_add(ctx, policy);
        draw_combine(ctx, policy);
        draw_action(ctx, policy);
        draw_budget(ctx, policy);
        heading(ctx, "Cache policy");
        const float column = ImGui::GetFontSize() * 6.5F;
        for (const char* model : {"Teacher", "Student"}) {
            ImGui::TextUnformatted(model);
            ImGui::SameLine(ImGui::GetCursorStartPos().x + column);
            const char* what = "full: every position is attended";
            if (ImGui::CalcTextSize(what).x > ImGui::GetContentRegionAvail().x) what = "full"; // narrow
            ImGui::TextDisabled("%s", what);
            ImGui::SetItemTooltip("Every position is attended");
        }
    }

private:
    /// Of a combo box that shows this text whole.
    static float combo_width(const std::string& text) {
        return ImGui::CalcTextSize(text.c_str()).x + ImGui::GetFrameHeight() +
               2 * ImGui::GetStyle().FramePadding.x;
    }

    void draw_preset(UiContext& ctx, const RefreshPolicy& policy) {
        const float em = ImGui::GetFontSize(), start = ImGui::GetCursorPosX();
        std::string shown = policy.name;
        for (const Preset& preset : presets())
            if (preset.name == policy.name) shown = preset.label;
        const bool known =
            std::ranges::any_of(presets(), [&](const Preset& p) { return p.name == policy.name; });
        if (known && is_modified_preset(policy)) shown += " (modified)";
        const float menu = ImGui::GetFrameHeight(), spacing = ImGui::GetStyle().ItemSpacing.x;
        // In a narrow panel the name of the preset says enough without its caption.
        const float needs = combo_width(shown) + menu + spacing;
        if (ImGui::GetContentRegionAvail().x - em * 4 >= needs) {
            ImGui::AlignTextToFramePadding();
            ImGui::TextUnformatted("Preset");
            ImGui::SameLine(start + em * 4);
        }
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
        if (ImGui::IsItemHovered(ImGuiHoveredFlags_DelayNormal))
            ImGui::SetTooltip("Preset: %s", shown.c_str());
        if (ctx.drafts.policy_pending())
            ImGui::GetWindowDrawList()->AddRect(ImGui::GetItemRectMin(), ImGui::GetItemRectMax(),
                                                ctx.theme.accent, ImGui::GetStyle().FrameRounding);
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
            m_picker =
                std::make_unique<PathPicker>(save ? PathPicker::Want::save_file : PathPicker::Want::open_file,
                                             start_folder() / (save ? "policy.json" : ""), ".json");
            ImGui::OpenPopup("policy file");
        }
        draw_file_popup(ctx, policy);
    }

    void draw_file_popup(UiContext& ctx, const RefreshPolicy& policy) {
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

    /// What the planner would say of each card at the next boundary, as far as it is known now.
    static std::vector<CardState> card_states(const UiContext& ctx, const RefreshPolicy& policy) {
        std::vector<CardState> states;
        const int64_t next = ctx.steps + 1;
        std::optional<int64_t> last;
        int64_t in_budget = 0;
        if (ctx.recording) {
            const auto& refreshes = ctx.recording->refreshes();
            for (size_t i = refreshes.size(); i-- > 0;) {
                const RefreshEvent& event = refreshes[i];
                if (!last) last = event.step;
                if (event.step <= next - policy.budget.per_tokens) break;
                in_budget += event.automatic ? 1 : 0;
            }
        }
        const bool spent = policy.budget.refreshes && in_budget >= *policy.budget.refreshes;
        for (const Trigger& trigger : policy.triggers) {
            const int64_t wait = last ? *last + trigger.cooldown - next : 0;
            if (!trigger.enabled)
                states.push_back({"off"});
            else if (spent)
                states.push_back({"budget used up"});
            else if (wait > 0)
                states.push_back({fmt::format("cools down, {} left", wait)});
            else
                states.push_back({"armed", true});
        }
        return states;
    }

    void draw_card(UiContext& ctx, const RefreshPolicy& policy, size_t index, const CardState& card) {
        const Trigger& trigger = policy.triggers[index];
        const auto id = signal_id(trigger.signal);
        const ImU32 colour = trigger.enabled ? ctx.theme.signal(trigger.signal)
                                             : mix(ctx.theme.signal(trigger.signal), ctx.theme.card, 0.45F);
        const float em = ImGui::GetFontSize();
        const ImGuiStyle& style = ImGui::GetStyle();
        ImGui::PushID(static_cast<int>(index));
        ImGui::PushStyleColor(ImGuiCol_ChildBg, ctx.theme.card);
        ImGui::PushStyleVar(ImGuiStyleVar_WindowPadding, ImVec2(em * 0.75F, em * 0.45F));
        ImGui::BeginChild("card", ImVec2(0, 0), ImGuiChildFlags_Borders | ImGuiChildFlags_AutoResizeY,
                          ImGuiWindowFlags_NoScrollbar | ImGuiWindowFlags_NoScrollWithMouse);
        const ImVec2 low = ImGui::GetWindowPos(), size = ImGui::GetWindowSize();
        ImGui::GetWindowDrawList()->AddRectFilled(low, ImVec2(low.x + em * 0.22F, low.y + size.y), colour,
                                                  style.ChildRounding,
                                                  ImDrawFlags_RoundTopLeft | ImDrawFlags_RoundBottomLeft);
        ctx.landmarks.set("policy/card/" + std::to_string(index), {low.x, low.y, size.x, size.y});

        const std::string name = id ? std::string(signals()[*id].label) : trigger.signal;
        switch_box(ctx, "##enabled", trigger_key(index, "enabled"));
        ImGui::SetItemTooltip("%s", trigger.enabled ? "Switch this trigger off; it keeps its numbers"
                                                    : "Switch this trigger on");
        ImGui::SameLine(0, style.ItemInnerSpacing.x);
        ImGui::PushFont(ctx.fonts.medium, 0);
        ImGui::TextUnformatted(name.c_str());
        ImGui::PopFont();
        if (id) ImGui::SetItemTooltip("%s", std::string(signals()[*id].description).c_str());
        ImGui::SameLine(0, style.ItemInnerSpacing.x);
        const float close = em * 1.3F, right = content_right();
        // In a narrow panel the comparison moves to the line of the numbers: nothing may lie under the cross.
        const bool comparison_here = ImGui::GetCursorPosX() + comparison_width(trigger) < right - close;
        if (comparison_here) {
            draw_comparison(ctx, index, trigger);
            ImGui::SameLine();
        }
        // In a narrow panel the state goes to the last line instead.
        const bool state_here =
            ImGui::GetCursorPosX() + ImGui::CalcTextSize(card.text.c_str()).x < right - close;
        const ImU32 state_colour = card.armed ? ctx.theme.text_ok : ctx.theme.text_muted;
        if (state_here) {
            ImGui::AlignTextToFramePadding();
            ImGui::PushStyleColor(ImGuiCol_Text, state_colour);
            text_right_aligned(card.text, right - close);
            ImGui::PopStyleColor();
            ImGui::SameLine();
        }
        ImGui::SetCursorPosX(right - close + em * 0.2F);
        bool remove = remove_button(ctx, ctx.landmarks, index);
        if (!comparison_here) draw_comparison(ctx, index, trigger);
        draw_numbers(ctx, index, trigger, id, colour);
        if (!state_here) {
            ImGui::PushStyleColor(ImGuiCol_Text, state_colour);
            ImGui::TextUnformatted(card.text.c_str());
            ImGui::PopStyleColor();
        }
        draw_foot(ctx, index, state_here ? std::string() : card.text, cost_of(ctx, trigger, id));
        // Beside the controls, which have menus of their own.
        if (ImGui::BeginPopupContextWindow("card menu", ImGuiPopupFlags_MouseButtonRight |
                                                            ImGuiPopupFlags_NoOpenOverItems)) {
            if (ImGui::MenuItem("Find threshold...")) m_find.open(index);
            remove |= ImGui::MenuItem("Remove this trigger");
            ImGui::EndPopup();
        }
        ImGui::EndChild();
        ImGui::PopStyleVar();
        ImGui::PopStyleColor();
        ImGui::PopID();
        if (!remove) return;
        RefreshPolicy changed = policy;
        changed.triggers.erase(changed.triggers.begin() + static_cast<std::ptrdiff_t>(index));
        try_edit(ctx, [&] { ctx.drafts.set_policy(ctx.engine, changed); });
    }

    /// What the trigger costs, and the way to a threshold by the numbers: behind the state where that stands just above,
    /// else behind the cost, else on a line of its own. Whole or shortened, but never cut.
    void draw_foot(UiContext& ctx, size_t index, const std::string& state, const std::string& cost) {
        const char *whole = "Find threshold...", *brief = "Find...";
        const float room = ImGui::GetContentRegionAvail().x;
        const auto fits_behind = [&](const std::string& words, const char* label) {
            return !words.empty() &&
                   text_width(words) + ImGui::GetStyle().ItemSpacing.x + button_width(label) <= room;
        };
        if (fits_behind(state, whole)) {
            ImGui::SameLine();
            draw_find_button(ctx, index, whole);
            if (!cost.empty()) muted_text(ctx, cost);
            return;
        }
        if (!cost.empty()) muted_text(ctx, cost);
        const bool behind = fits_behind(cost, whole) || fits_behind(cost, brief);
        if (behind) ImGui::SameLine();
        draw_find_button(ctx, index, behind && !fits_behind(cost, whole) ? brief : whole);
    }

    void draw_find_button(UiContext& ctx, size_t index, const char* label) {
        ImGui::SetCursorPosX(std::max(ImGui::GetCursorPosX(), content_right() - button_width(label)));
        if (ImGui::SmallButton(fmt::format("{}###find", label).c_str())) m_find.open(index);
        ImGui::SetItemTooltip("The threshold for a wanted number of refreshes per 1,000 tokens,\n"
                              "by the recorded values of the shown run");
        const ImVec2 low = ImGui::GetItemRectMin(), size = ImGui::GetItemRectSize();
        ctx.landmarks.set(fmt::format("policy/find/{}", index), {low.x, low.y, size.x, size.y});
    }

    static float text_width(const std::string& text) { return ImGui::CalcTextSize(text.c_str()).x; }
    static float button_width(const char* label) {
        return ImGui::CalcTextSize(label).x + 2 * ImGui::GetStyle().FramePadding.x;
    }

    static bool remove_button(const UiContext& ctx, Landmarks& landmarks, size_t index) {
        const float size = ImGui::GetFrameHeight() * 0.75F;
        const bool pressed = ImGui::InvisibleButton("remove", ImVec2(size, ImGui::GetFrameHeight()));
        const ImVec2 low = ImGui::GetItemRectMin(), high = ImGui::GetItemRectMax();
        landmarks.set(fmt::format("policy/remove/{}", index), {low.x, low.y, high.x - low.x, high.y - low.y});
        const ImVec2 c((low.x + high.x) * 0.5F, (low.y + high.y) * 0.5F);
        const float h = size * 0.2F;
        const ImU32 ink = ImGui::IsItemHovered() ? ctx.theme.text : ctx.theme.text_muted;
        ImGui::GetWindowDrawList()->AddLine(ImVec2(c.x - h, c.y - h), ImVec2(c.x + h, c.y + h), ink, 1.5F);
        ImGui::GetWindowDrawList()->AddLine(ImVec2(c.x - h, c.y + h), ImVec2(c.x + h, c.y - h), ink, 1.5F);
        ImGui::SetItemTooltip("Remove this trigger");
        return pressed;
    }

    static float comparison_width(const Trigger& trigger) {
        const auto* shown = std::ranges::find(wordings, trigger.comparison, &Wording::comparison);
        return ImGui::CalcTextSize(shown->text).x + 8;
    }

    static void draw_comparison(UiContext& ctx, size_t index, const Trigger& trigger) {
        const auto* shown = std::ranges::find(wordings, trigger.comparison, &Wording::comparison);
        ImGui::PushStyleColor(ImGuiCol_FrameBg, IM_COL32_BLACK_TRANS);
        ImGui::PushStyleColor(ImGuiCol_Text, ctx.theme.text_muted);
        ImGui::PushStyleVar(ImGuiStyleVar_FramePadding, ImVec2(2, ImGui::GetStyle().FramePadding.y));
        ImGui::SetNextItemWidth(comparison_width(trigger));
        const bool open = ImGui::BeginCombo("##comparison", shown->text, ImGuiComboFlags_NoArrowButton);
        if (!open) {
            const ImVec2 low = ImGui::GetItemRectMin(), size = ImGui::GetItemRectSize();
            ctx.landmarks.set(fmt::format("policy/comparison/{}", index), {low.x, low.y, size.x, size.y});
        }
        ImGui::PopStyleVar();
        ImGui::PopStyleColor(2);
        if (!open) {
            ImGui::SetItemTooltip("Click for above, at least, below, at most");
            return;
        }
        for (const Wording& wording : wordings)
            if (ImGui::Selectable(wording.text, wording.comparison == trigger.comparison))
                try_edit(ctx, [&] {
                    ctx.drafts.edit(ctx.engine, trigger_key(index, "comparison"),
                                    to_string(wording.comparison));
                });
        ImGui::EndCombo();
    }

    static void draw_numbers(UiContext& ctx, size_t index, const Trigger& trigger, std::optional<size_t> id,
                             ImU32 colour) {
        const float em = ImGui::GetFontSize(), entry = em * 4.2F;
        std::string unit, key = trigger_key(index, "threshold");
        for (const ThresholdLine& line : threshold_lines(ctx.drafts, trigger.signal))
            if (line.trigger == index) key = line.key; // the very key that the line on the plot edits
        NumberStyle style;
        style.colour = colour;
        style.integer = trigger.signal == "steps_since_refresh";
        if (id) {
            const Signal& signal = signals()[*id];
            unit = signal.unit;
            style.slider_min = signal.min;
            const double vocabulary =
                ctx.recording ? static_cast<double>(ctx.recording->info().vocab_size) : 4096;
            style.slider_max = signal.max > signal.min ? signal.max : std::log2(std::max(2.0, vocabulary));
            if (signal.unit != "bits" && signal.max <= signal.min)
                style.slider_max = signal.default_threshold * 4;
            style.default_value = exact_number(signal.default_threshold);
        }
        const float unit_width =
            unit.empty() ? 0 : ImGui::CalcTextSize(unit.c_str()).x + ImGui::GetStyle().ItemSpacing.x;
        const float slider =
            ImGui::GetContentRegionAvail().x - entry - unit_width - ImGui::GetStyle().ItemSpacing.x;
        number_slider(ctx, "slider", key, std::max(em * 3, slider), style);
        ImGui::SameLine();
        number_entry(ctx, "threshold", key, entry, style);
        if (!unit.empty()) {
            ImGui::SameLine();
            ImGui::TextDisabled("%s", unit.c_str());
        }
        if (trigger.signal == "steps_since_refresh")
            return; // its threshold is the stride; the rest has no meaning
        NumberStyle whole;
        whole.integer = true;
        whole.slider_max = 200;
        whole.max = 1e6;
        whole.min = 1;
        const float words = ImGui::CalcTextSize("everycool-downtokens").x + em * 2.0F;
        const bool with_unit = ImGui::GetContentRegionAvail().x > words + em * 4.4F;
        const float small = std::clamp((ImGui::GetContentRegionAvail().x - words) * 0.5F, em * 2.2F, em * 3);
        ImGui::AlignTextToFramePadding();
        ImGui::TextDisabled("every");
        const bool probes = id && signals()[*id].cost == SignalCost::teacher_pass;
        ImGui::SetItemTooltip("%s", probes ? "Tokens between two probes"
                                           : "The signal is looked at every so many tokens");
        ImGui::SameLine(0, em * 0.4F);
        number_entry(ctx, "every", trigger_key(index, "every"), small, whole);
        ImGui::SameLine(0, em * 0.8F);
        if (ImGui::GetContentRegionAvail().x < ImGui::CalcTextSize("cool-down").x + em * 0.4F + small)
            ImGui::NewLine();
        ImGui::AlignTextToFramePadding();
        ImGui::TextDisabled("cool-down");
        ImGui::SetItemTooltip("Tokens after any refresh during which this trigger rests");
        ImGui::SameLine(0, em * 0.4F);
        whole.min = 0;
        number_entry(ctx, "cooldown", trigger_key(index, "cooldown"), small, whole);
        if (!with_unit) return; // both have it in their tooltips
        ImGui::SameLine(0, em * 0.4F);
        ImGui::TextDisabled("tokens");
    }

    static std::string cost_of(const UiContext& ctx, const Trigger& trigger, std::optional<size_t> id) {
        if (!id) return {};
        const Signal& signal = signals()[*id];
        const RunConfig& config = ctx.drafts.config();
        switch (signal.cost) {
        case SignalCost::free:
            return "free until it fires";
        case SignalCost::teacher_pass:
            return fmt::format("one teacher pass every {} tokens", trigger.every);
        case SignalCost::mc_rows: {
            std::string text = fmt::format("{} extra rows every {} tokens", config.mc.samples, trigger.every);
            if (!ctx.status->student.name.empty() && !ctx.status->student.mc_calibrated)
                text += "; uncalibrated";
            return text;
        }
        }
        return {};
    }

    static void draw_add(UiContext& ctx, const RefreshPolicy& policy) {
        if (ImGui::Button("Add trigger")) ImGui::OpenPopup("add trigger");
        if (!ImGui::BeginPopup("add trigger")) return;
        for (const Signal& signal : signals()) {
            if (signal.letter == 0) continue;
            const std::string label(signal.label), hint(signal.cost_hint), help(signal.description);
            ImGui::PushStyleColor(ImGuiCol_Text, ctx.theme.text);
            if (ImGui::MenuItem(label.c_str(), hint.c_str())) {
                RefreshPolicy changed = policy;
                changed.triggers.push_back(default_trigger(signal.name));
                try_edit(ctx, [&] { ctx.drafts.set_policy(ctx.engine, changed); });
            }
            ImGui::PopStyleColor();
            ImGui::SetItemTooltip("%s", help.c_str());
        }
        ImGui::EndPopup();
    }

    static void draw_combine(UiContext& ctx, const RefreshPolicy& policy) {
        if (policy.triggers.size() < 2) return;
        const float em = ImGui::GetFontSize();
        const float width = ImGui::CalcTextSize("Fires whenanyall").x + ImGui::GetFrameHeight() * 2 + em * 3;
        ImGui::SameLine(0, em * 1.2F);
        if (ImGui::GetContentRegionAvail().x < width) ImGui::NewLine();
        ImGui::AlignTextToFramePadding();
        ImGui::TextDisabled("Fires when");
        for (const auto& [combine, label] :
             {std::pair{Combine::any, "any"}, std::pair{Combine::all, "all"}}) {
            ImGui::SameLine();
            if (ImGui::RadioButton(label, policy.combine == combine) && policy.combine != combine) {
                RefreshPolicy changed = policy;
                changed.combine = combine;
                try_edit(ctx, [&] { ctx.drafts.set_policy(ctx.engine, changed); });
            }
            ImGui::SetItemTooltip("%s", combine == Combine::any
                                            ? "One trigger is enough"
                                            : "Every trigger that is on must hold at once");
        }
    }

    static void draw_action(UiContext& ctx, const RefreshPolicy& policy) {
        heading(ctx, "Then refresh");
        if (ctx.status->rebuild_mode) {
            ImGui::PushStyleColor(ImGuiCol_Text, ctx.theme.text_error);
            ImGui::TextWrapped(
                "Rebuild mode: the KV geometries differ, so nothing is copied from the teacher. A "
                "refresh recomputes the student's own columns: a no-op.");
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
                    try_edit(ctx,
                             [&] { ctx.drafts.edit(ctx.engine, "on_fire", to_string(wording.on_fire)); });
                ImGui::SetItemTooltip("%s", wording.help);
            }
            ImGui::EndCombo();
        }
        muted_text(ctx, shown->help);
        parameter_row(ctx, "window.size", column, "", "Splice at most");
        parameter_row(ctx, "refresh.lag", column, "", "Lands after");
    }

    static void draw_budget(UiContext& ctx, const RefreshPolicy& policy) {
        heading(ctx, "Budget");
        const float em = ImGui::GetFontSize(), column = em * 6.5F;
        parameter_row(ctx, "budget.refreshes", column, "", "At most");
        if (!policy.budget.refreshes) return;
        parameter_row(ctx, "budget.per_tokens", column, "", "Within");
        int64_t used = 0;
        if (ctx.recording) {
            const auto& refreshes = ctx.recording->refreshes();
            for (size_t i = refreshes.size();
                 i-- > 0 && refreshes[i].step > ctx.steps - policy.budget.per_tokens;)
                used += refreshes[i].automatic ? 1 : 0;
        }
        const int32_t all = *policy.budget.refreshes;
        const float share =
            all > 0 ? std::min(1.0F, static_cast<float>(used) / static_cast<float>(all)) : 1.0F;
        ImGui::PushStyleColor(ImGuiCol_PlotHistogram, ctx.theme.accent);
        ImGui::ProgressBar(share, ImVec2(-1, em * 0.45F), "");
        ImGui::PopStyleColor();
        muted_text(
            ctx, fmt::format("{} used, {} left in the last {} tokens", used, std::max<int64_t>(0, all - used),
                             std::min<int64_t>(policy.budget.per_tokens, std::max<int64_t>(ctx.steps, 0))));
    }

    std::unique_ptr<PathPicker> m_picker;
    bool m_saving = false;
    FindThreshold m_find;
};

} // namespace

std::unique_ptr<Panel> make_policy_panel() {
    return std::make_unique<PolicyPanel>();
}

} // namespace refreshlab::ui
