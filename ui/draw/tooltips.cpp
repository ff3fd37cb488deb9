#include "ui/draw/tooltips.h"

#include "ui/base/format.h"
#include "ui/base/value_format.h"
#include "ui/draw/badge.h"
#include "ui/scene/marks/refresh_marks.h"
#include "ui/scene/series/series_set.h"
#include "ui/scene/text/token_colours.h"
#include "ui/scene/text/token_label.h"
#include "ui/theme/run_colours.h"

#include <fmt/format.h>

namespace refreshlab::ui {
namespace {

void label_row(const UiContext& ctx, const char* label, const std::string& value) {
    ImGui::TableNextRow();
    ImGui::TableNextColumn();
    ImGui::PushStyleColor(ImGuiCol_Text, ctx.theme.text_muted);
    ImGui::TextUnformatted(label);
    ImGui::PopStyleColor();
    ImGui::TableNextColumn();
    ImGui::TextUnformatted(value.c_str());
}

std::string comparison_words(const RefreshPolicy& policy, const TriggerHit& hit) {
    if (hit.trigger < 0 || static_cast<size_t>(hit.trigger) >= policy.triggers.size()) return "threshold";
    switch (policy.triggers[static_cast<size_t>(hit.trigger)].comparison) {
    case Comparison::above:
        return "above";
    case Comparison::at_least:
        return "at least";
    case Comparison::below:
        return "below";
    case Comparison::at_most:
        return "at most";
    }
    return "threshold";
}

} // namespace

void describe_refresh(const UiContext& ctx, const RefreshEvent& event) {
    const Recording& recording = *ctx.recording;
    const float line = ImGui::GetTextLineHeight();
    const ImVec2 at = ImGui::GetCursorScreenPos();
    const std::string letter(1, marker_letter(event));
    draw_badge(ImGui::GetWindowDrawList(), {at.x + line / 2, at.y + line / 2}, line,
               marker_colour(ctx.theme, event), letter);
    ImGui::Dummy({line, line});
    ImGui::SameLine();
    ImGui::Text("Refresh at step %s", format_thousands(event.step).c_str());
    if (!ImGui::BeginTable("##refresh", 2, ImGuiTableFlags_SizingFixedFit)) return;
    const RefreshPolicy policy = ctx.status->applied.policy;
    for (const TriggerHit& hit : event.hits) {
        if (hit.trigger < 0 || hit.signal.empty()) {
            label_row(ctx, "Reason", "by hand");
            continue;
        }
        const Signal* signal = ctx.find_signal_info(hit.signal);
        const std::string unit(signal ? signal->unit : "");
        std::string label = signal ? std::string(signal->label) : hit.signal;
        if (hit.reduce != Reduction::mean)
            label += ", " + to_string(LayerPick{.reduction = hit.reduce, .layer = hit.layer});
        label_row(ctx, label.c_str(),
                  fmt::format("{}, {} {}", format_value(hit.value, unit), comparison_words(policy, hit),
                              format_number(hit.threshold)));
    }
    if (event.fired_step != event.step) {
        label_row(ctx, "Fired at",
                  fmt::format("step {}, lag {} tokens", format_thousands(event.fired_step),
                              event.step - event.fired_step));
    }
    label_row(ctx, "Delta", fmt::format("{} tokens", format_thousands(event.delta)));
    label_row(ctx, "Spliced",
              fmt::format("{} entries from position {}", format_thousands(event.spliced),
                          format_thousands(event.first_pos)));
    label_row(ctx, "Teacher pass (ms)", format_number(event.teacher_ms));
    label_row(ctx, "Splice (ms)", format_number(event.splice_ms));
    if (!is_absent(event.kl_nats)) label_row(ctx, "KL (nats)", format_signal(event.kl_nats));
    if (!is_absent(event.mean_drift)) label_row(ctx, "Mean drift", format_signal(event.mean_drift));
    std::string fired(to_string(event.on_fire));
    if (event.on_fire != OnFire::keep) {
        const TokenTable& tokens = recording.tokens();
        fired += event.token_before == event.token_after
                     ? fmt::format(", {} again", token_label(tokens, event.token_after, 20))
                     : fmt::format(", {} became {}", token_label(tokens, event.token_before, 20),
                                   token_label(tokens, event.token_after, 20));
    }
    if (event.redraw_ms > 0) fired += fmt::format(", {} ms", format_number(event.redraw_ms));
    label_row(ctx, "On fire", fired);
    ImGui::EndTable();
}

void refresh_tooltip(const UiContext& ctx, const RefreshMarks& marks, const MarkerGroup& group) {
    if (!ImGui::BeginTooltip()) return;
    constexpr size_t most = 3;
    for (size_t i = group.first; i <= group.last && i < group.first + most; ++i) {
        if (i > group.first) ImGui::Separator();
        ImGui::PushID(static_cast<int>(i));
        describe_refresh(ctx, ctx.recording->refreshes()[marks.events[i]]);
        ImGui::PopID();
    }
    if (group.count() > most) ImGui::TextDisabled("and %zu more here", group.count() - most);
    ImGui::EndTooltip();
}

void signal_rows(const UiContext& ctx, int64_t step, std::optional<int64_t> token) {
    if (!ImGui::BeginTable("##signals", 2, ImGuiTableFlags_SizingFixedFit)) return;
    const float size = ImGui::GetFontSize() * 0.5F;
    for (size_t id = 0; id < ctx.signals().size(); ++id) {
        const Signal& signal = ctx.signals()[id];
        // What speaks about a token itself stands in the record that fed it.
        const int64_t from = token && signal.about == SignalAbout::token ? *token : step;
        const LayerPick pick = ctx.layer_pick(signal);
        const float value = from <= ctx.steps ? picked_value(*ctx.recording, from, id, pick) : absent();
        if (is_absent(value)) continue;
        ImGui::TableNextRow();
        ImGui::TableNextColumn();
        const ImVec2 at = ImGui::GetCursorScreenPos();
        const float middle = at.y + ImGui::GetTextLineHeight() / 2;
        ImGui::GetWindowDrawList()->AddRectFilled({at.x, middle - size / 2}, {at.x + size, middle + size / 2},
                                                  ctx.theme.signal(signal.name), size * 0.2F);
        ImGui::Dummy({size, size});
        ImGui::SameLine(0, size * 0.8F);
        ImGui::PushStyleColor(ImGuiCol_Text, ctx.theme.text_muted);
        std::string label(signal.label);
        if (pick != LayerPick() && !pick.strip) label += ", " + to_string(pick);
        ImGui::TextUnformatted(label.c_str());
        ImGui::PopStyleColor();
        ImGui::TableNextColumn();
        if (const Verdicts* words = verdicts_of(signal.name))
            ImGui::TextUnformatted(std::string(value >= 0.5F ? words->yes : words->no).c_str());
        else
            ImGui::TextUnformatted(format_signal(value, signal.unit).c_str());
    }
    ImGui::EndTable();
}

void step_tooltip(const UiContext& ctx, int64_t step) {
    if (!ctx.recording || step < 1 || step > ctx.steps || !ImGui::BeginTooltip()) return;
    ImGui::TextUnformatted(step_caption(*ctx.recording, ctx.steps, step).c_str());
    signal_rows(ctx, step);
    if (const RefreshEvent* event = ctx.recording->refresh_at(step)) {
        ImGui::Separator();
        describe_refresh(ctx, *event);
    }
    ImGui::EndTooltip();
}

} // namespace refreshlab::ui
