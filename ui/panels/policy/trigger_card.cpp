// One card of the Policy panel: a trigger with its numbers, its state and its cost.
#include "engine/signals/registry.h"
#include "ui/base/colour.h"
#include "ui/base/format.h"
#include "ui/draw/text.h"
#include "ui/draw/widgets.h"
#include "ui/panels/policy/policy_panel.h"
#include "ui/scene/policy/thresholds.h"
#include "ui/scene/policy/trigger_state.h"
#include "ui/scene/series/layer_pick.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>

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

ImU32 state_colour(const UiContext& ctx, const TriggerState& state) {
    return state.armed ? ctx.theme.text_ok : ctx.theme.text_muted;
}

float button_width(const char* label) {
    return ImGui::CalcTextSize(label).x + 2 * ImGui::GetStyle().FramePadding.x;
}

bool remove_button(UiContext& ctx, size_t index) {
    const float size = ImGui::GetFrameHeight() * 0.75F;
    const bool pressed = ImGui::InvisibleButton("remove", ImVec2(size, ImGui::GetFrameHeight()));
    const ImVec2 low = ImGui::GetItemRectMin(), high = ImGui::GetItemRectMax();
    ctx.landmarks.set({low.x, low.y, high.x - low.x, high.y - low.y}, "policy/remove/{}", index);
    const ImVec2 c((low.x + high.x) * 0.5F, (low.y + high.y) * 0.5F);
    const float h = size * 0.2F;
    const ImU32 ink = ImGui::IsItemHovered() ? ctx.theme.text : ctx.theme.text_muted;
    ImGui::GetWindowDrawList()->AddLine(ImVec2(c.x - h, c.y - h), ImVec2(c.x + h, c.y + h), ink, 1.5F);
    ImGui::GetWindowDrawList()->AddLine(ImVec2(c.x - h, c.y + h), ImVec2(c.x + h, c.y - h), ink, 1.5F);
    ImGui::SetItemTooltip("Remove this trigger");
    return pressed;
}

float comparison_width(const Trigger& trigger) {
    const auto* shown = std::ranges::find(wordings, trigger.comparison, &Wording::comparison);
    return ImGui::CalcTextSize(shown->text).x + 8;
}

void draw_comparison(UiContext& ctx, size_t index, const Trigger& trigger) {
    const auto* shown = std::ranges::find(wordings, trigger.comparison, &Wording::comparison);
    ImGui::PushStyleColor(ImGuiCol_FrameBg, IM_COL32_BLACK_TRANS);
    ImGui::PushStyleColor(ImGuiCol_Text, ctx.theme.text_muted);
    ImGui::PushStyleVar(ImGuiStyleVar_FramePadding, ImVec2(2, ImGui::GetStyle().FramePadding.y));
    ImGui::SetNextItemWidth(comparison_width(trigger));
    const bool open = ImGui::BeginCombo("##comparison", shown->text, ImGuiComboFlags_NoArrowButton);
    if (!open) {
        const ImVec2 low = ImGui::GetItemRectMin(), size = ImGui::GetItemRectSize();
        ctx.landmarks.set({low.x, low.y, size.x, size.y}, "policy/comparison/{}", index);
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
                ctx.drafts.edit(ctx.engine, trigger_key(index, TriggerField::comparison),
                                to_string(wording.comparison));
            });
    ImGui::EndCombo();
}

void draw_numbers(UiContext& ctx, size_t index, const Trigger& trigger, const Signal* signal, ImU32 colour) {
    const float em = ImGui::GetFontSize(), entry = em * 4.2F;
    std::string unit, key = trigger_key(index, TriggerField::threshold);
    for (const ThresholdLine& line : threshold_lines(ctx.drafts, trigger.signal))
        if (line.trigger == index) key = line.key; // the very key that the line on the plot edits
    NumberStyle style;
    style.colour = colour;
    style.integer = trigger.signal == "steps_since_refresh";
    if (signal) {
        unit = shown_unit(signal->unit);
        style.slider_min = signal->min;
        const double vocabulary =
            ctx.recording ? static_cast<double>(ctx.recording->info().vocab_size) : 4096;
        style.slider_max = signal->max > signal->min ? signal->max : std::log2(std::max(2.0, vocabulary));
        if (signal->unit != "bits" && signal->max <= signal->min)
            style.slider_max = signal->default_threshold * 4;
        style.default_value = exact_number(signal->default_threshold);
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
        return; // its threshold is the `every` of the preset; the rest has no meaning
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
    const bool probes = signal && signal->cost == SignalCost::teacher_pass;
    ImGui::SetItemTooltip("%s", probes ? "Tokens between two probes"
                                       : "The signal is checked every so many tokens");
    ImGui::SameLine(0, em * 0.4F);
    number_entry(ctx, "every", trigger_key(index, TriggerField::every), small, whole);
    ImGui::SameLine(0, em * 0.8F);
    if (ImGui::GetContentRegionAvail().x < ImGui::CalcTextSize("cool-down").x + em * 0.4F + small)
        ImGui::NewLine();
    ImGui::AlignTextToFramePadding();
    ImGui::TextDisabled("cool-down");
    ImGui::SetItemTooltip("Tokens after any refresh during which this trigger does not fire");
    ImGui::SameLine(0, em * 0.4F);
    whole.min = 0;
    number_entry(ctx, "cooldown", trigger_key(index, TriggerField::cooldown), small, whole);
    if (!with_unit) return; // both have it in their tooltips
    ImGui::SameLine(0, em * 0.4F);
    ImGui::TextDisabled("tokens");
}

/// Of a layered signal: which number of its layers is compared.
void draw_layers(UiContext& ctx, size_t index, const Trigger& trigger) {
    const float em = ImGui::GetFontSize();
    ImGui::AlignTextToFramePadding();
    ImGui::TextDisabled("layers");
    ImGui::SameLine(0, em * 0.4F);
    ImGui::SetNextItemWidth(em * 5);
    const bool open = ImGui::BeginCombo("##layers", std::string(to_string(trigger.reduce)).c_str());
    if (!open) {
        const ImVec2 low = ImGui::GetItemRectMin(), size = ImGui::GetItemRectSize();
        ctx.landmarks.set({low.x, low.y, size.x, size.y}, "policy/layers/{}", index);
        ImGui::SetItemTooltip("What is compared: mean, largest or smallest over the layers, or one layer");
    }
    if (open) {
        for (const Reduction choice : {Reduction::mean, Reduction::max, Reduction::min, Reduction::layer})
            if (ImGui::Selectable(std::string(to_string(choice)).c_str(), choice == trigger.reduce) &&
                choice != trigger.reduce)
                try_edit(ctx, [&] {
                    ctx.drafts.edit(ctx.engine, trigger_key(index, TriggerField::layers),
                                    to_string(LayerPick{.reduction = choice}));
                });
        ImGui::EndCombo();
    }
    if (trigger.reduce != Reduction::layer) return;
    NumberStyle whole;
    whole.integer = true;
    whole.min = 0;
    const int64_t layers = ctx.recording ? ctx.recording->info().layers : ctx.status->student.layers;
    whole.max = whole.slider_max = static_cast<double>(std::max<int64_t>(1, layers) - 1);
    ImGui::SameLine();
    number_entry(ctx, "layer", trigger_key(index, TriggerField::layer), em * 3, whole);
    ImGui::SetItemTooltip("Layers count from 0");
}

/// What the first line of a card had room for, and whether its cross was pressed.
struct CardHead {
    bool remove = false, state_here = false;
};

/// Switch, name, comparison, state, cross.
CardHead draw_head(UiContext& ctx, size_t index, const Trigger& trigger, const Signal* signal,
                   const TriggerState& card) {
    const float em = ImGui::GetFontSize();
    const ImGuiStyle& style = ImGui::GetStyle();
    const std::string name = signal ? std::string(signal->label) : trigger.signal;
    switch_box(ctx, "##enabled", trigger_key(index, TriggerField::enabled));
    ImGui::SetItemTooltip("%s", trigger.enabled ? "Switch this trigger off; it keeps its numbers"
                                                : "Switch this trigger on");
    ImGui::SameLine(0, style.ItemInnerSpacing.x);
    ImGui::PushFont(ctx.fonts.medium, 0);
    ImGui::TextUnformatted(name.c_str());
    ImGui::PopFont();
    if (signal) ImGui::SetItemTooltip("%s", std::string(signal->description).c_str());
    ImGui::SameLine(0, style.ItemInnerSpacing.x);
    const float close = em * 1.3F, right = content_right();
    // In a narrow panel the comparison moves to the line of the numbers: nothing may lie under the cross.
    const bool comparison_here = ImGui::GetCursorPosX() + comparison_width(trigger) < right - close;
    if (comparison_here) {
        draw_comparison(ctx, index, trigger);
        ImGui::SameLine();
    }
    // In a narrow panel the state goes to the last line instead.
    const bool state_here = ImGui::GetCursorPosX() + ImGui::CalcTextSize(card.text.c_str()).x < right - close;
    if (state_here) {
        ImGui::AlignTextToFramePadding();
        ImGui::PushStyleColor(ImGuiCol_Text, state_colour(ctx, card));
        text_right_aligned(card.text, right - close);
        ImGui::PopStyleColor();
        ImGui::SameLine();
    }
    ImGui::SetCursorPosX(right - close + em * 0.2F);
    const bool remove = remove_button(ctx, index);
    if (!comparison_here) draw_comparison(ctx, index, trigger);
    return {remove, state_here};
}

} // namespace

void PolicyPanel::draw_card(UiContext& ctx, const RefreshPolicy& policy, size_t index,
                            const TriggerState& card) {
    const Trigger& trigger = policy.triggers[index];
    const Signal* signal = ctx.find_signal_info(trigger.signal);
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
    ctx.landmarks.set({low.x, low.y, size.x, size.y}, "policy/card/{}", index);

    const CardHead head = draw_head(ctx, index, trigger, signal, card);
    bool remove = head.remove;
    draw_numbers(ctx, index, trigger, signal, colour);
    if (signal && signal->layered) draw_layers(ctx, index, trigger);
    if (!head.state_here) {
        ImGui::PushStyleColor(ImGuiCol_Text, state_colour(ctx, card));
        ImGui::TextUnformatted(card.text.c_str());
        ImGui::PopStyleColor();
    }
    const bool uncalibrated = !ctx.status->student.name.empty() && !ctx.status->student.mc_calibrated;
    draw_foot(ctx, index, head.state_here ? std::string() : card.text,
              trigger_cost(trigger, signal, ctx.drafts.config().mc.samples, uncalibrated));
    draw_result(ctx, index, trigger);
    // Beside the controls, which have menus of their own.
    if (ImGui::BeginPopupContextWindow("card menu",
                                       ImGuiPopupFlags_MouseButtonRight | ImGuiPopupFlags_NoOpenOverItems)) {
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

/// What it has done so far in the shown run.
void PolicyPanel::draw_result(UiContext& ctx, size_t index, const Trigger& trigger) {
    if (!ctx.recording || ctx.steps == 0 || ctx.recording->info().config.mode != Mode::overfill) return;
    const ImVec2 at = ImGui::GetCursorScreenPos();
    muted_text(ctx, result_text(m_results.of(trigger.signal)));
    const ImVec2 size = ImGui::GetItemRectSize();
    ctx.landmarks.set({at.x, at.y, size.x, size.y}, "policy/result/{}", index);
    ImGui::SetItemTooltip(
        "Refreshes of this run that it asked for, and their time.\n"
        "KL: mean over up to %d tokens before and after each, as far as the teacher has read them",
        static_cast<int>(compared_tokens));
}

/// What the trigger costs, and the way to a threshold by the numbers: after the state where that stands just above,
/// else after the cost, else on a line of its own. Whole or shortened, but never cut.
void PolicyPanel::draw_foot(UiContext& ctx, size_t index, const std::string& state, const std::string& cost) {
    const char *whole = "Find threshold...", *brief = "Find...";
    const float room = ImGui::GetContentRegionAvail().x;
    const auto fits_after = [&](const std::string& words, const char* label) {
        return !words.empty() &&
               text_width(words) + ImGui::GetStyle().ItemSpacing.x + button_width(label) <= room;
    };
    if (fits_after(state, whole)) {
        ImGui::SameLine();
        draw_find_button(ctx, index, whole);
        if (!cost.empty()) muted_text(ctx, cost);
        return;
    }
    if (!cost.empty()) muted_text(ctx, cost);
    const bool after = fits_after(cost, whole) || fits_after(cost, brief);
    if (after) ImGui::SameLine();
    draw_find_button(ctx, index, after && !fits_after(cost, whole) ? brief : whole);
}

void PolicyPanel::draw_find_button(UiContext& ctx, size_t index, const char* label) {
    ImGui::SetCursorPosX(std::max(ImGui::GetCursorPosX(), content_right() - button_width(label)));
    if (ImGui::SmallButton(fmt::format("{}###find", label).c_str())) m_find.open(index);
    ImGui::SetItemTooltip("The threshold for a wanted number of refreshes per 1,000 tokens,\n"
                          "by the recorded values of the shown run");
    const ImVec2 low = ImGui::GetItemRectMin(), size = ImGui::GetItemRectSize();
    ctx.landmarks.set({low.x, low.y, size.x, size.y}, "policy/find/{}", index);
}

} // namespace refreshlab::ui
