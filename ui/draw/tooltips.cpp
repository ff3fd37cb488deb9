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

/// "Refresh E: Entropy, 40 entries spliced".
std::string refresh_in_a_line(const UiContext& ctx, const RefreshEvent& event) {
    std::string why = "by hand";
    for (const TriggerHit& hit : event.hits) {
        if (hit.signal == scheduled_hit) why = "scheduled";
        if (hit.trigger < 0 || hit.signal.empty()) continue;
        const Signal* signal = ctx.find_signal_info(hit.signal);
        why = signal ? std::string(signal->label) : hit.signal;
        break;
    }
    if (event.hits.size() > 1) why += " and more";
    return fmt::format("Refresh {}: {}, {} entries spliced", marker_letter(event), why,
                       format_thousands(event.spliced));
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
    const RefreshPolicy& policy = ctx.changes.policy_at(event.fired_step); // thresholds may be others by now
    for (const TriggerHit& hit : event.hits) {
        if (hit.trigger < 0 || hit.signal.empty()) {
            label_row(ctx, "Reason", hit.signal == scheduled_hit ? "scheduled at this step" : "by hand");
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
    label_row(ctx, "Spliced",
              fmt::format("{} of {} tokens, from position {}", format_thousands(event.spliced),
                          format_thousands(event.delta), format_thousands(event.first_pos)));
    std::string time = fmt::format("teacher {} ms, splice {} ms", format_number(event.teacher_ms),
                                   format_number(event.splice_ms));
    if (event.redraw_ms > 0) time += fmt::format(", redraw {} ms", format_number(event.redraw_ms));
    label_row(ctx, "Time", time);
    if (!is_absent(event.kl_nats) || !is_absent(event.mean_drift)) {
        std::string told;
        if (!is_absent(event.kl_nats)) told = fmt::format("{} nats", format_signal(event.kl_nats));
        if (!is_absent(event.mean_drift))
            told += fmt::format("{}mean drift {}", told.empty() ? "" : ", ", format_signal(event.mean_drift));
        label_row(ctx, is_absent(event.kl_nats) ? "Drift" : "KL", told);
    }
    std::string fired(to_string(event.on_fire));
    if (event.on_fire != OnFire::keep) {
        const TokenTable& tokens = recording.tokens();
        fired += event.token_before == event.token_after
                     ? fmt::format(", {} again", token_label(tokens, event.token_after, 20))
                     : fmt::format(", {} became {}", token_label(tokens, event.token_before, 20),
                                   token_label(tokens, event.token_after, 20));
    }
    label_row(ctx, "Chosen token", fired);
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

namespace {

/// What speaks about a token itself stands in the record that fed it.
float shown_value(const UiContext& ctx, size_t id, int64_t step, std::optional<int64_t> token) {
    const Signal& signal = ctx.signals()[id];
    const int64_t from = token && signal.about == SignalAbout::token ? *token : step;
    return from >= 1 && from <= ctx.steps ? picked_value(*ctx.recording, from, id, ctx.layer_pick(signal))
                                          : absent();
}

void signal_row(const UiContext& ctx, const Signal& signal, float value) {
    const float size = ImGui::GetFontSize() * 0.5F;
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
    if (const LayerPick pick = ctx.layer_pick(signal); pick != LayerPick() && !pick.strip)
        label += ", " + to_string(pick);
    ImGui::TextUnformatted(label.c_str());
    ImGui::PopStyleColor();
    ImGui::TableNextColumn();
    if (const Verdicts* words = verdicts_of(signal.name))
        ImGui::TextUnformatted(std::string(value >= 0.5F ? words->yes : words->no).c_str());
    else
        ImGui::TextUnformatted(format_signal(value, signal.unit).c_str());
}

} // namespace

bool any_signal_rows(const UiContext& ctx, int64_t step, SignalAbout about) {
    for (size_t id = 0; id < ctx.signals().size(); ++id)
        if (ctx.signals()[id].about == about && !is_absent(shown_value(ctx, id, step, {}))) return true;
    return false;
}

void signal_rows(const UiContext& ctx, int64_t step, SignalRows which, std::optional<int64_t> token,
                 std::optional<SignalAbout> about) {
    if (!ImGui::BeginTable("##signals", 2, ImGuiTableFlags_SizingFixedFit)) return;
    int room = which == SignalRows::all ? static_cast<int>(max_signals) : 6;
    for (size_t id = 0; id < ctx.signals().size() && room > 0; ++id) {
        const Signal& signal = ctx.signals()[id];
        if (which == SignalRows::plotted && !ctx.plots.of(signal.name).shown) continue;
        if (about && signal.about != *about) continue;
        const float value = shown_value(ctx, id, step, token);
        if (is_absent(value)) continue;
        signal_row(ctx, signal, value);
        --room;
    }
    ImGui::EndTable();
}

void step_tooltip(const UiContext& ctx, int64_t step) {
    if (!ctx.recording || step < 1 || step > ctx.steps || !ImGui::BeginTooltip()) return;
    ImGui::TextUnformatted(step_caption(*ctx.recording, ctx.steps, step).c_str());
    signal_rows(ctx, step, SignalRows::plotted);
    if (const RefreshEvent* event = ctx.recording->refresh_at(step))
        ImGui::TextDisabled("%s", refresh_in_a_line(ctx, *event).c_str());
    ImGui::EndTooltip();
}

} // namespace refreshlab::ui
