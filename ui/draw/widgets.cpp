#include "ui/draw/widgets.h"

#include "engine/base/error.h"
#include "ui/base/colour.h"
#include "ui/base/format.h"
#include "ui/draw/text_entry.h"

#include <fmt/format.h>
#include <misc/cpp/imgui_stdlib.h>

#include <algorithm>
#include <cmath>

namespace refreshlab::ui {

namespace {

/// Hollow outline while the engine works with another value than the one shown.
void mark_pending(const UiContext& ctx, const std::string& key) {
    if (!ctx.drafts.pending(key)) return;
    const ImGuiStyle& style = ImGui::GetStyle();
    ImGui::GetWindowDrawList()->AddRect(ImGui::GetItemRectMin(), ImGui::GetItemRectMax(), ctx.theme.accent,
                                        style.FrameRounding, std::max(1.0F, ImGui::GetFontSize() * 0.08F));
    const auto applied = ctx.drafts.applied_value(key);
    if (applied && ImGui::IsItemHovered(ImGuiHoveredFlags_DelayNormal))
        ImGui::SetTooltip("The engine still works with %s", applied->c_str());
}

void context_menu(UiContext& ctx, const std::string& key, const std::string& default_value) {
    if (!ImGui::BeginPopupContextItem()) return;
    const auto value = ctx.drafts.value(key);
    if (!default_value.empty() && ImGui::MenuItem(fmt::format("Default ({})", default_value).c_str()))
        try_edit(ctx, [&] { ctx.drafts.edit(ctx.engine, key, default_value); });
    if (value && ImGui::MenuItem(fmt::format("Copy {}", *value).c_str()))
        ImGui::SetClipboardText(value->c_str());
    ImGui::EndPopup();
}

/// A number being typed: half of it ("6" of "60") must not reach the engine, so it waits here until the entry is left.
/// There is one keyboard, hence one of these; UI thread only.
struct Typed {
    ImGuiID item = 0;
    double value = 0;
};
std::optional<Typed> typed;

/// What slider and entry share: a drag is one edit, Esc gives the old value back and lets go of the mouse.
/// `changed` and `value` are this frame's result of the control.
void follow_drag(UiContext& ctx, const std::string& key, bool changed, double value, bool integer) {
    const ImGuiID given_up = ImGui::GetID("given up");
    ImGuiStorage& memory = *ImGui::GetStateStorage();
    if (ImGui::IsItemActivated()) {
        memory.SetBool(given_up, false);
        ctx.drafts.begin_edit(key);
    }
    if (ImGui::IsItemActive()) {
        ctx.host.keep_awake(0.5);
        if (ImGui::IsKeyPressed(ImGuiKey_Escape, false) && !ImGui::GetIO().WantTextInput) {
            ctx.drafts.cancel(ctx.engine);
            memory.SetBool(given_up, true); // the mouse is still down: what it says no longer counts
        }
    }
    if (changed && ImGui::GetIO().WantTextInput) {
        typed = Typed{ImGui::GetItemID(), value};
        changed = false;
    }
    if (ImGui::IsItemDeactivated() && typed && typed->item == ImGui::GetItemID()) {
        value = typed->value;
        changed = true;
        typed.reset();
    }
    if (changed && !memory.GetBool(given_up)) {
        const double next = integer ? std::round(value) : value;
        try_edit(ctx, [&] { ctx.drafts.edit(ctx.engine, key, next); });
    }
    if (ImGui::IsItemDeactivated()) {
        // With keyboard navigation ImGui itself lets go of the item when Esc is pressed, before it is seen above.
        if (ImGui::IsKeyPressed(ImGuiKey_Escape, false) && ctx.drafts.edited_key() == key)
            ctx.drafts.cancel(ctx.engine);
        else
            ctx.drafts.commit(key);
        memory.SetBool(given_up, false);
    }
}

/// Three significant digits without trailing zeros, for ImGui's own formatting.
std::string number_format(double value, bool integer) {
    return integer || std::abs(value) >= 1000 ? "%.0f" : "%.3g";
}

/// A slider's step: three significant digits of its range, so that nobody gets 5.2371853.
double rounded_to_range(double value, double range) {
    const double step = std::pow(10.0, std::floor(std::log10(std::max(range, 1e-9))) - 2);
    return std::round(value / step) * step;
}

} // namespace

void try_edit(UiContext& ctx, const std::function<void()>& work) {
    try {
        work();
    } catch (const Error& e) {
        ctx.toasts.add(Toasts::Level::error, e.what(), ImGui::GetTime());
    }
}

bool number_slider(UiContext& ctx, const char* id, const std::string& key, float width,
                   const NumberStyle& style) {
    const auto draft = ctx.drafts.number(key);
    if (!draft) return false;
    double value = *draft;
    ImGui::PushID(id);
    ImGui::SetNextItemWidth(width);
    if (style.colour) {
        ImGui::PushStyleColor(ImGuiCol_SliderGrab, style.colour);
        ImGui::PushStyleColor(ImGuiCol_SliderGrabActive, style.colour);
    }
    const double low = std::min(style.slider_min, value), high = std::max(style.slider_max, value);
    // NoInput: the entry beside it is for typing.
    bool changed = ImGui::SliderScalar("##slider", ImGuiDataType_Double, &value, &low, &high, "",
                                       ImGuiSliderFlags_NoInput | ImGuiSliderFlags_NoRoundToFormat);
    if (style.colour) ImGui::PopStyleColor(2);
    value = style.integer ? std::round(value) : rounded_to_range(value, high - low);
    changed = changed && value != *draft;
    follow_drag(ctx, key, changed, value, style.integer);
    mark_pending(ctx, key);
    context_menu(ctx, key, style.default_value);
    ImGui::PopID();
    return true;
}

bool number_entry(UiContext& ctx, const char* id, const std::string& key, float width,
                  const NumberStyle& style) {
    const auto draft = ctx.drafts.number(key);
    if (!draft) return false;
    double value = *draft;
    ImGui::PushID(id);
    ImGui::SetNextItemWidth(width);
    const double range = style.slider_max - style.slider_min;
    const float speed =
        static_cast<float>(style.integer ? std::max(0.1, range / 400) : std::max(1e-6, range / 400));
    const double low = style.max > style.min ? style.min : -1e12,
                 high = style.max > style.min ? style.max : 1e12;
    const std::string format = number_format(value, style.integer);
    bool changed =
        ImGui::DragScalar("##entry", ImGuiDataType_Double, &value, speed, &low, &high, format.c_str(),
                          ImGuiSliderFlags_AlwaysClamp | ImGuiSliderFlags_NoRoundToFormat);
    if (style.integer)
        value = std::round(value);
    else if (ImGui::IsMouseDown(ImGuiMouseButton_Left))
        value = rounded_to_range(value, range);
    changed = changed && value != *draft;
    follow_drag(ctx, key, changed, value, style.integer);
    mark_pending(ctx, key);
    if (ImGui::IsItemHovered(ImGuiHoveredFlags_DelayNormal | ImGuiHoveredFlags_NoSharedDelay) &&
        !ctx.drafts.pending(key))
        ImGui::SetTooltip("Drag sideways, or double click to type");
    context_menu(ctx, key, style.default_value);
    ImGui::PopID();
    return true;
}

bool switch_box(UiContext& ctx, const char* label, const std::string& key) {
    const auto value = ctx.drafts.value(key);
    if (!value) return false;
    bool on = *value == "true" || *value == "1";
    if (ImGui::Checkbox(label, &on))
        try_edit(ctx, [&] { ctx.drafts.edit(ctx.engine, key, on ? std::string_view("true") : "false"); });
    mark_pending(ctx, key);
    return true;
}

namespace {

/// Whole numbers with commas, or the word for none or all of them; or what else is typed. Enter sets them; what cannot be read is refused in one line and changes nothing.
void list_entry(UiContext& ctx, const std::string& key) {
    std::string entered = ctx.drafts.value(key).value_or("");
    ImGui::SetNextItemWidth(std::min(ImGui::GetFontSize() * 11, ImGui::GetContentRegionAvail().x));
    if (text_entry("##list", &entered, ImGuiInputTextFlags_EnterReturnsTrue))
        try_edit(ctx, [&] { ctx.drafts.edit(ctx.engine, key, entered); });
    mark_pending(ctx, key);
}

} // namespace

bool choice_box(UiContext& ctx, const char* id, const std::string& key, float width) {
    const auto value = ctx.drafts.value(key);
    const Parameter* parameter = find_parameter(key);
    if (!value || !parameter) return false;
    ImGui::SetNextItemWidth(width);
    if (ImGui::BeginCombo(id, value->c_str())) {
        for (const std::string_view choice : parameter->choices) {
            const bool chosen = choice == *value;
            if (ImGui::Selectable(std::string(choice).c_str(), chosen) && !chosen)
                try_edit(ctx, [&] { ctx.drafts.edit(ctx.engine, key, choice); });
            if (chosen) ImGui::SetItemDefaultFocus();
        }
        ImGui::EndCombo();
    }
    mark_pending(ctx, key);
    return true;
}

bool parameter_row(UiContext& ctx, const std::string& key, float label_width, std::string_view hint,
                   std::string_view label) {
    const Parameter* parameter = find_parameter(key);
    const auto value = ctx.drafts.value(key);
    if (!parameter || !value) return false;
    ImGui::PushID(key.c_str());
    const float start = ImGui::GetCursorPosX();
    const std::string shown(label.empty() ? parameter->label : label);
    const char* no_limit = key == "mc.p" ? "as in training" : "unlimited";
    const bool unlimited = parameter->optional && *value == "none";
    const float box = ImGui::GetFrameHeight() + ImGui::GetStyle().ItemSpacing.x;
    row_label(shown.c_str(), label_width,
              unlimited ? box + ImGui::CalcTextSize(no_limit).x : ImGui::GetFontSize() * 2.5F);
    if (ImGui::IsItemHovered(ImGuiHoveredFlags_DelayShort))
        ImGui::SetTooltip("%s", std::string(parameter->help).c_str());

    NumberStyle style;
    style.slider_min = parameter->slider_min;
    style.slider_max = parameter->slider_max;
    style.min = parameter->min;
    style.max = parameter->max;
    style.integer = parameter->kind == Parameter::Kind::integer;
    if (const auto normal = parameter_value(RunConfig{}, key)) style.default_value = *normal;
    const float em = ImGui::GetFontSize(), entry = em * 4.6F;
    switch (parameter->kind) {
    case Parameter::Kind::boolean:
        switch_box(ctx, "##switch", key);
        break;
    case Parameter::Kind::choice:
        choice_box(ctx, "##choice", key, std::min(em * 11, ImGui::GetContentRegionAvail().x));
        break;
    case Parameter::Kind::list:
    case Parameter::Kind::text:
        list_entry(ctx, key);
        break;
    case Parameter::Kind::integer:
    case Parameter::Kind::real: {
        if (parameter->optional) {
            bool limited = *value != "none";
            if (ImGui::Checkbox("##limited", &limited)) {
                const double first = std::clamp(parameter->slider_max / 2, parameter->min, parameter->max);
                try_edit(ctx, [&] {
                    ctx.drafts.edit(ctx.engine, key,
                                    limited ? exact_number(std::round(first)) : std::string("none"));
                });
            }
            ImGui::SameLine();
            if (!limited) {
                ImGui::TextDisabled("%s", no_limit);
                break;
            }
        }
        const float unit = ImGui::CalcTextSize(shown_unit(parameter->unit).c_str()).x + em * 0.8F;
        const float slider =
            ImGui::GetContentRegionAvail().x - entry - unit - ImGui::GetStyle().ItemSpacing.x;
        // A random seed is typed, not slid.
        if (slider > em * 3 && key != "seed") {
            number_slider(ctx, "slider", key, std::min(slider, em * 14), style);
            ImGui::SameLine();
        }
        const float left = ImGui::GetContentRegionAvail().x - unit;
        number_entry(ctx, "entry", key, std::clamp(left, em * 2.5F, entry), style);
        if (!parameter->unit.empty()) {
            ImGui::SameLine();
            ImGui::TextDisabled("%s", shown_unit(parameter->unit).c_str());
        }
        break;
    }
    }
    if (!hint.empty()) {
        ImGui::SetCursorPosX(start + label_width);
        muted_text(ctx, hint);
    }
    ImGui::PopID();
    return true;
}

void muted_text(const UiContext& ctx, std::string_view text) {
    ImGui::PushStyleColor(ImGuiCol_Text, ctx.theme.text_muted);
    ImGui::PushTextWrapPos(0);
    ImGui::TextUnformatted(text.data(), text.data() + text.size());
    ImGui::PopTextWrapPos();
    ImGui::PopStyleColor();
}

bool accent_button(const UiContext& ctx, const char* label, float width) {
    ImGui::PushStyleColor(ImGuiCol_Button, ctx.theme.accent);
    ImGui::PushStyleColor(ImGuiCol_ButtonHovered, mix(ctx.theme.accent, IM_COL32_WHITE, 0.15F));
    ImGui::PushStyleColor(ImGuiCol_ButtonActive, mix(ctx.theme.accent, IM_COL32_BLACK, 0.12F));
    ImGui::PushStyleColor(ImGuiCol_Text, ctx.theme.accent_text);
    const bool pressed = ImGui::Button(label, ImVec2(width, 0));
    ImGui::PopStyleColor(4);
    return pressed;
}

void label_before(const char* label, float column) {
    ImGui::AlignTextToFramePadding();
    ImGui::TextUnformatted(label);
    ImGui::SameLine(column);
}

void row_label(const char* label, float column, float needs) {
    const float start = ImGui::GetCursorPosX(), room = ImGui::GetContentRegionAvail().x;
    ImGui::AlignTextToFramePadding();
    ImGui::TextUnformatted(label);
    if (room - column >= needs)
        ImGui::SameLine(start + column);
    else
        ImGui::SetCursorPosX(start + std::min(ImGui::GetFontSize(), std::max(0.0F, room - needs)));
}

void heading(const UiContext& ctx, const char* text) {
    ImGui::Dummy(ImVec2(0, ImGui::GetFontSize() * 0.15F));
    ImGui::PushFont(ctx.fonts.medium, 0);
    ImGui::TextUnformatted(text);
    ImGui::PopFont();
}

float content_right() {
    return ImGui::GetCursorPosX() + ImGui::GetContentRegionAvail().x;
}

void text_right_aligned(std::string_view text, float right) {
    const float width = ImGui::CalcTextSize(text.data(), text.data() + text.size()).x;
    ImGui::SetCursorPosX(std::max(ImGui::GetCursorPosX(), right - width));
    ImGui::TextUnformatted(text.data(), text.data() + text.size());
}

} // namespace refreshlab::ui
