#include "ui/plot/refresh_marks.h"

#include "ui/format.h"
#include "ui/plot/token_colours.h"
#include "ui/plot/token_label.h"
#include "ui/plot/value_format.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

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

size_t first_refresh_from(const Recording& recording, int64_t step) {
    const auto& refreshes = recording.refreshes();
    size_t low = 0, high = refreshes.size();
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (refreshes[middle].step < step) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

RefreshMarks refreshes_in_sight(const Recording& recording, int64_t steps, double x_min, double x_max,
                                double left_px, double width_px) {
    RefreshMarks marks;
    if (!(x_max > x_min)) return marks;
    const auto& refreshes = recording.refreshes();
    const auto from = static_cast<int64_t>(std::floor(std::clamp(x_min, 0.0, 1e15)));
    for (size_t i = first_refresh_from(recording, from), n = refreshes.size(); i < n; ++i) {
        const auto x = static_cast<double>(refreshes[i].step);
        if (refreshes[i].step > steps || x > x_max) break;
        marks.events.push_back(i);
        marks.x_px.push_back(left_px + (x - x_min) / (x_max - x_min) * width_px);
    }
    return marks;
}

char marker_letter(const RefreshEvent& event) {
    return reason_letter(event.hits);
}

ImU32 marker_colour(const Theme& theme, const RefreshEvent& event) {
    const std::string first = event.hits.empty() ? std::string() : event.hits.front().signal;
    return theme.marker(first, marker_letter(event));
}

ImU32 group_colour(const Theme& theme, const Recording& recording, const RefreshMarks& marks,
                   const MarkerGroup& group) {
    const ImU32 first = marker_colour(theme, recording.refreshes()[marks.events[group.first]]);
    for (size_t i = group.first + 1; i <= group.last; ++i)
        if (marker_colour(theme, recording.refreshes()[marks.events[i]]) != first) return theme.several;
    return first;
}

float badge_width(float height, const std::string& text) {
    const float size = height * 0.82F;
    return std::max(height, ImGui::GetFont()->CalcTextSizeA(size, 1e6F, 0, text.c_str()).x + height * 0.5F);
}

std::vector<MarkerGroup> badge_groups(const RefreshMarks& marks, float badge_height) {
    // The last group of a crowd may be one marker: half its badge and half of a wide one must fit between their middles.
    const double height = static_cast<double>(badge_height),
                 wide = static_cast<double>(badge_width(badge_height, "M 000"));
    return merge_markers(marks.x_px, height + 2, 2 * wide);
}

Landmarks::Box draw_badge(ImDrawList* list, ImVec2 centre, float height, ImU32 colour,
                          const std::string& text) {
    const float width = badge_width(height, text), size = height * 0.82F;
    const ImVec2 min(std::round(centre.x - width / 2), std::round(centre.y - height / 2));
    list->AddRectFilled(min, {min.x + width, min.y + height}, colour, height * 0.22F);
    const ImVec2 extent = ImGui::GetFont()->CalcTextSizeA(size, 1e6F, 0, text.c_str());
    list->AddText(ImGui::GetFont(), size, {min.x + (width - extent.x) / 2, min.y + (height - extent.y) / 2},
                  readable_on(colour | IM_COL32_A_MASK), text.c_str());
    return {min.x, min.y, width, height};
}

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
        const auto id = signal_id(hit.signal);
        const std::string unit = id ? std::string(signals()[*id].unit) : std::string();
        label_row(ctx, id ? std::string(signals()[*id].label).c_str() : hit.signal.c_str(),
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

std::string step_caption(const Recording& recording, int64_t steps, int64_t step) {
    const TokenTable& tokens = recording.tokens();
    const int32_t chosen = token_chosen(recording, steps, step);
    const std::string next =
        chosen >= 0 ? ", chose " + token_label(tokens, chosen, 20) : std::string(", the last");
    if (step == 0) return "prefill" + next;
    return fmt::format("step {}: read {}{}", format_thousands(step),
                       token_label(tokens, token_read(recording, steps, step), 20), next);
}

void signal_rows(const UiContext& ctx, int64_t step, std::optional<int64_t> token) {
    if (!ImGui::BeginTable("##signals", 2, ImGuiTableFlags_SizingFixedFit)) return;
    const float size = ImGui::GetFontSize() * 0.5F;
    for (size_t id = 0; id < signals().size(); ++id) {
        const Signal& signal = signals()[id];
        // What speaks about a token itself stands in the record that fed it.
        const int64_t from = token && signal.about == SignalAbout::token ? *token : step;
        const float value = from <= ctx.steps ? ctx.recording->signal(from, id) : absent();
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
        ImGui::TextUnformatted(signal.label.data(), signal.label.data() + signal.label.size());
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

void offer_run(UiContext& ctx, const char* what) {
    const EngineState state = ctx.status->state;
    const bool busy = state == EngineState::loading || state == EngineState::prefilling;
    ImGui::PushStyleColor(ImGuiCol_Text, ctx.theme.text_muted);
    if (busy) {
        ImGui::TextWrapped("%s",
                           ctx.status->message.empty() ? to_string(state) : ctx.status->message.c_str());
    } else {
        ImGui::TextWrapped("%s", what);
    }
    ImGui::PopStyleColor();
    if (busy) {
        ImGui::ProgressBar(static_cast<float>(ctx.status->progress), {ImGui::GetFontSize() * 12, 0});
        return;
    }
    if (!ctx.run_action) return;
    if (state == EngineState::paused && ctx.recording) {
        if (ImGui::Button("Resume")) ctx.run_action("run.play_pause");
    } else if (!ctx.recording || state == EngineState::failed) {
        if (ImGui::Button("New run...")) ctx.run_action("run.new");
    }
}

} // namespace refreshlab::ui
