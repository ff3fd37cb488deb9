#include "ui/draw/tooltips.h"

#include "ui/base/format.h"
#include "ui/base/value_format.h"
#include "ui/draw/badge.h"
#include "ui/scene/series/series_set.h"
#include "ui/scene/text/rug.h"
#include "ui/scene/text/token_colours.h"
#include "ui/scene/text/token_label.h"
#include "ui/scene/theme/run_colours.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <span>
#include <string>
#include <vector>

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

/// "Entropy", "by hand", "Entropy and more".
std::string why(const UiContext& ctx, std::span<const TriggerHit> hits) {
    if (hits.size() < 2) return reason_label(ctx.signals(), hits);
    // A trigger says more than a hand or a schedule beside it.
    const auto trigger = std::ranges::find_if(
        hits, [](const TriggerHit& hit) { return hit.trigger >= 0 && !hit.signal.empty(); });
    const TriggerHit& first = trigger == hits.end() ? hits.front() : *trigger;
    return reason_label(ctx.signals(), std::span(&first, 1)) + " and more";
}

/// "Refresh E: Entropy, 40 entries spliced".
std::string refresh_in_a_line(const UiContext& ctx, const RefreshEvent& event) {
    return fmt::format("Refresh {}: {}, {} entries spliced", reason_letter(event.hits), why(ctx, event.hits),
                       format_thousands(event.spliced));
}

/// "[E] words", the badge as it stands above the plots.
void badge_row(const UiContext& ctx, MarkLane lane, size_t index, const std::string& words) {
    const float line = ImGui::GetTextLineHeight();
    const ImVec2 at = ImGui::GetCursorScreenPos();
    draw_mark_badge(ImGui::GetWindowDrawList(), ctx, {at.x + line / 2, at.y + line / 2}, line, lane, index);
    ImGui::Dummy({line, line});
    ImGui::SameLine();
    ImGui::TextUnformatted(words.c_str());
}

/// A row a trigger: what it saw and its threshold, which may be another one by now.
void hit_rows(const UiContext& ctx, std::span<const TriggerHit> hits, int64_t fired_step, size_t reasons) {
    const RefreshPolicy& policy = ctx.marks.changes().policy_at(fired_step);
    size_t told = 0;
    for (const TriggerHit& hit : hits) {
        if (++told == reasons && hits.size() > reasons)
            return label_row(ctx, "Reason", fmt::format("and {} more", hits.size() - reasons + 1));
        if (hit.trigger < 0 || hit.signal.empty()) {
            label_row(ctx, "Reason", reason_label(ctx.signals(), std::span(&hit, 1)));
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
}

constexpr const char* tip_width = "##plot tip width";
constexpr const char* tip_height = "##plot tip height";

} // namespace

bool begin_plot_tip(const TipBox& plot) {
    // Its size is that of the last frame: a tooltip is hidden in its first.
    const float em = ImGui::GetFontSize();
    ImGuiStorage& storage = *ImGui::GetStateStorage();
    const TipBox tip{0, 0, storage.GetFloat(ImGui::GetID(tip_width), 14 * em),
                     storage.GetFloat(ImGui::GetID(tip_height), 8 * em)};
    const ImGuiViewport& view = *ImGui::GetMainViewport();
    const ImVec2 mouse = ImGui::GetMousePos();
    const TipBox place = tip_place(plot, mouse.x, mouse.y, tip,
                                   {view.Pos.x, view.Pos.y, view.Size.x, view.Size.y}, std::round(em * 0.9F));
    ImGui::SetNextWindowPos({std::round(place.x), std::round(place.y)});
    const ImGuiID width = ImGui::GetID(tip_width), height = ImGui::GetID(tip_height);
    if (!ImGui::BeginTooltip()) return false;
    const ImVec2 size = ImGui::GetWindowSize();
    if (size.x > em && size.y > em) {
        storage.SetFloat(width, size.x);
        storage.SetFloat(height, size.y);
    }
    return true;
}

void end_plot_tip() {
    ImGui::EndTooltip();
}

void describe_refresh(const UiContext& ctx, size_t index, size_t reasons) {
    const Recording& recording = *ctx.recording;
    const RefreshEvent& event = ctx.marks.refresh(index);
    badge_row(ctx, MarkLane::refresh, index, fmt::format("Refresh at step {}", format_thousands(event.step)));
    if (!ImGui::BeginTable("##refresh", 2, ImGuiTableFlags_SizingFixedFit)) return;
    hit_rows(ctx, event.hits, event.fired_step, reasons);
    if (event.fired_step != event.step) {
        label_row(ctx, "Fired at",
                  fmt::format("step {}, lag {}", format_thousands(event.fired_step),
                              format_count(event.step - event.fired_step, "token")));
    }
    label_row(ctx, "Spliced",
              fmt::format("{} of {}, from position {}", format_thousands(event.spliced),
                          format_count(event.delta, "token"), format_thousands(event.first_pos)));
    std::string time = fmt::format("teacher {} ms, splice {} ms", format_number(event.teacher_ms),
                                   format_number(event.splice_ms));
    if (event.redraw_ms > 0) time += fmt::format(", redraw {} ms", format_number(event.redraw_ms));
    label_row(ctx, "Time", time);
    if (!is_absent(event.kl_nats) || !is_absent(event.mean_drift)) {
        std::string measured;
        if (!is_absent(event.kl_nats)) measured = fmt::format("{} nats", format_signal(event.kl_nats));
        if (!is_absent(event.mean_drift))
            measured +=
                fmt::format("{}mean drift {}", measured.empty() ? "" : ", ", format_signal(event.mean_drift));
        label_row(ctx, is_absent(event.kl_nats) ? "Drift" : "KL", measured);
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

void describe_blocked(const UiContext& ctx, size_t index, size_t reasons) {
    const BlockedFire& fire = ctx.marks.blocked(index);
    badge_row(ctx, MarkLane::blocked, index,
              fmt::format("No refresh at step {}", format_thousands(fire.step)));
    if (!ImGui::BeginTable("##blocked", 2, ImGuiTableFlags_SizingFixedFit)) return;
    hit_rows(ctx, fire.hits, fire.step, reasons);
    label_row(ctx, "Held back", fmt::format("by {}", limit_words(fire)));
    ImGui::EndTable();
}

void describe_cut(const UiContext& ctx, size_t index, size_t tokens) {
    const DraftEvent& draft = ctx.marks.cut(index);
    const TokenTable& table = ctx.recording->tokens();
    badge_row(ctx, MarkLane::cut, index, fmt::format("Draft cut at step {}", format_thousands(draft.step)));
    const auto stay = static_cast<size_t>(draft.accepted());
    if (!ImGui::BeginTable("##cut", 2, ImGuiTableFlags_SizingFixedFit)) return;
    label_row(ctx, "Stay", fmt::format("{} of {} drafted tokens", stay, draft.tokens.size()));
    for (size_t i = stay; i < draft.tokens.size(); ++i) {
        if (i - stay == tokens) {
            label_row(ctx, "Went", fmt::format("and {} more", draft.tokens.size() - i));
            break;
        }
        const DraftToken& token = draft.tokens[i];
        label_row(ctx, i == stay ? "Rejected" : "Went with it",
                  fmt::format("{}, teacher {}, student {}", token_label(table, token.token_id, 20),
                              format_number(static_cast<double>(token.p_teacher)),
                              format_number(static_cast<double>(token.p_student))));
    }
    label_row(ctx, "In its place", token_label(table, draft.instead, 20));
    ImGui::EndTable();
}

void describe_note(const UiContext& ctx, size_t index, size_t lines) {
    const StepNote& note = ctx.marks.note(index).note;
    badge_row(ctx, MarkLane::note, index, fmt::format("Note at {}", note_place(note)));
    size_t end = 0;
    for (size_t line = 0; line < lines && end < note.text.size(); ++line)
        end = std::min(note.text.find('\n', end), note.text.size() - 1) + 1;
    ImGui::PushTextWrapPos(ImGui::GetFontSize() * 30);
    ImGui::TextUnformatted(note.text.data(), note.text.data() + end);
    if (end < note.text.size()) ImGui::TextDisabled("...");
    ImGui::PopTextWrapPos();
}

void describe_marks_at(const UiContext& ctx, int64_t step) {
    const auto tell = [&](MarkLane lane, auto describe) {
        const auto index = ctx.marks.at(lane, step);
        if (!index) return;
        ImGui::Spacing();
        ImGui::Separator();
        describe(ctx, *index, SIZE_MAX);
    };
    tell(MarkLane::refresh, describe_refresh);
    tell(MarkLane::blocked, describe_blocked);
    tell(MarkLane::cut, describe_cut);
    for (const size_t note : ctx.marks.notes_over(step, step)) {
        ImGui::Spacing();
        ImGui::Separator();
        describe_note(ctx, note, SIZE_MAX);
    }
}

namespace {

/// What a crowd of refreshes did together.
void describe_work(const UiContext& ctx, const LaneMarks& marks, const MarkerGroup& group) {
    int64_t spliced = 0;
    double ms = 0;
    for (size_t i = group.first; i <= group.last; ++i) {
        const RefreshEvent& event = ctx.marks.refresh(marks.index[i]);
        spliced += event.spliced;
        ms += event.teacher_ms + event.splice_ms + event.redraw_ms;
    }
    ImGui::TextDisabled("%s entries spliced", format_thousands(spliced).c_str());
    ImGui::TextDisabled("%s ms together", format_number(ms).c_str());
}

/// A crowd in at most seven rows: its reasons, then all that was done together.
void describe_crowd(const UiContext& ctx, const LaneMarks& marks, const MarkerGroup& group) {
    constexpr size_t most = 4;
    const std::vector<ReasonShare> shares = reason_shares(ctx.marks, marks, group);
    int64_t others = 0;
    for (size_t i = 0; i < shares.size(); ++i) {
        if (i < most)
            badge_row(ctx, marks.lane, shares[i].index,
                      fmt::format("{}: {}",
                                  marks.lane == MarkLane::cut ? "rejected"
                                  : marks.lane == MarkLane::note
                                      ? "notes"
                                      : why(ctx, ctx.marks.hits(marks.lane, shares[i].index)),
                                  format_thousands(shares[i].count)));
        else
            others += shares[i].count;
    }
    if (others > 0) ImGui::TextDisabled("others: %s", format_thousands(others).c_str());
    if (marks.lane == MarkLane::refresh) describe_work(ctx, marks, group);
}

/// "Entropy, 40 entries", "Entropy, prevented by the budget", "3 of 8 drafted tokens stay; ...".
std::string in_short(const UiContext& ctx, MarkLane lane, size_t index) {
    if (lane == MarkLane::cut) return cut_words(ctx.recording->tokens(), ctx.marks.cut(index));
    if (lane == MarkLane::note) return note_words(ctx.marks.note(index).note);
    const std::string reason = why(ctx, ctx.marks.hits(lane, index));
    if (lane == MarkLane::blocked)
        return fmt::format("{}, prevented by {}", reason, limit_words(ctx.marks.blocked(index)));
    return fmt::format("{}, {} entries", reason, format_thousands(ctx.marks.refresh(index).spliced));
}

} // namespace

void marks_tooltip(const UiContext& ctx, const LaneMarks& marks, const MarkerGroup& group,
                   const TipBox& plot) {
    if (!begin_plot_tip(plot)) return;
    constexpr size_t lines = 6;
    if (group.count() == 1) {
        const size_t index = marks.index[group.first];
        if (marks.lane == MarkLane::blocked)
            describe_blocked(ctx, index, 2);
        else if (marks.lane == MarkLane::cut)
            describe_cut(ctx, index, 3);
        else if (marks.lane == MarkLane::note)
            describe_note(ctx, index, 6);
        else
            describe_refresh(ctx, index, 2);
        return end_plot_tip();
    }
    const auto step = [&](size_t i) { return format_thousands(ctx.marks.step(marks.lane, marks.index[i])); };
    ImGui::TextUnformatted(fmt::format("{} {}, steps {} to {}",
                                       format_thousands(static_cast<int64_t>(group.count())),
                                       lane_words(marks.lane).many, step(group.first), step(group.last))
                               .c_str());
    if (group.count() > lines) {
        describe_crowd(ctx, marks, group);
        return end_plot_tip();
    }
    for (size_t i = group.first; i <= group.last; ++i)
        badge_row(ctx, marks.lane, marks.index[i],
                  fmt::format("step {}: {}", step(i), in_short(ctx, marks.lane, marks.index[i])));
    end_plot_tip();
}

namespace {

constexpr size_t most_signal_rows = 6; // of a plot's tooltip

/// What speaks about a token itself stands in the record that fed it.
float shown_value(const UiContext& ctx, size_t id, int64_t step, std::optional<int64_t> token) {
    const Signal& signal = ctx.signals()[id];
    const int64_t from = token && signal.about == SignalAbout::token ? *token : step;
    return from >= 1 && from <= ctx.steps ? picked_value(*ctx.recording, from, id, ctx.layer_pick(signal))
                                          : absent();
}

/// "Entropy", "Attention entropy, layer 3".
std::string picked_label(const UiContext& ctx, const Signal& signal) {
    std::string label(signal.label);
    if (const LayerPick pick = ctx.layer_pick(signal); pick != LayerPick() && !pick.strip)
        label += ", " + to_string(pick);
    return label;
}

std::string signal_words(const Signal& signal, float value) {
    if (const Verdicts* words = verdicts_of(signal.name))
        return std::string(value >= 0.5F ? words->yes : words->no);
    return format_signal(value, signal.unit);
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
    ImGui::TextUnformatted(picked_label(ctx, signal).c_str());
    ImGui::PopStyleColor();
    ImGui::TableNextColumn();
    ImGui::TextUnformatted(signal_words(signal, value).c_str());
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
    size_t room = which == SignalRows::all ? max_signals : most_signal_rows;
    for (size_t id = 0; id < ctx.signals().size() && room > 0; ++id) {
        const Signal& signal = ctx.signals()[id];
        if (which == SignalRows::plotted && !ctx.views.signals.of(signal.name).shown) continue;
        if (about && signal.about != *about) continue;
        const float value = shown_value(ctx, id, step, token);
        if (is_absent(value)) continue;
        signal_row(ctx, signal, value);
        --room;
    }
    ImGui::EndTable();
}

namespace {

std::string value_of(const UiContext& ctx, const Signal& signal, const TipColumn& run) {
    const auto id = run.recording->signal_id(signal.name);
    if (!id || run.step < 1 || run.step > run.steps) return "-";
    const float value = picked_value(*run.recording, run.step, *id,
                                     within(ctx.layer_pick(signal), run.recording->info().layers));
    return is_absent(value) ? "-" : signal_words(signal, value);
}

/// The plotted signals, a column for each run.
void compared_rows(const UiContext& ctx, std::span<const TipColumn> runs) {
    if (!ImGui::BeginTable("##compared", static_cast<int>(runs.size()) + 1, ImGuiTableFlags_SizingFixedFit))
        return;
    ImGui::TableNextRow();
    ImGui::TableNextColumn();
    for (const TipColumn& run : runs) {
        ImGui::TableNextColumn();
        ImGui::PushStyleColor(ImGuiCol_Text, run.colour);
        ImGui::TextUnformatted(run.name.c_str());
        ImGui::PopStyleColor();
    }
    size_t room = most_signal_rows - 1;
    for (const Signal& signal : ctx.signals()) {
        if (room == 0 || !ctx.views.signals.of(signal.name).shown) continue;
        std::vector<std::string> values;
        for (const TipColumn& run : runs)
            values.push_back(value_of(ctx, signal, run));
        if (std::ranges::count(values, "-") == std::ssize(values)) continue;
        label_row(ctx, picked_label(ctx, signal).c_str(), values.front());
        for (size_t i = 1; i < values.size(); ++i) {
            ImGui::TableNextColumn();
            ImGui::TextUnformatted(values[i].c_str());
        }
        --room;
    }
    ImGui::EndTable();
}

} // namespace

void step_tooltip(const UiContext& ctx, int64_t step, const TipBox& plot, std::span<const TipColumn> runs) {
    if (!ctx.recording || step < 1 || step > ctx.steps || !begin_plot_tip(plot)) return;
    ImGui::TextUnformatted(step_caption(*ctx.recording, ctx.steps, step).c_str());
    if (runs.empty())
        signal_rows(ctx, step, SignalRows::plotted);
    else
        compared_rows(ctx, runs);
    if (const RefreshEvent* event = ctx.recording->refresh_at(step))
        ImGui::TextDisabled("%s", refresh_in_a_line(ctx, *event).c_str());
    if (const auto blocked = ctx.marks.at(MarkLane::blocked, step))
        ImGui::TextDisabled("No refresh: %s", in_short(ctx, MarkLane::blocked, *blocked).c_str());
    if (const auto cut = ctx.marks.at(MarkLane::cut, step))
        ImGui::TextDisabled("Draft cut: %s", in_short(ctx, MarkLane::cut, *cut).c_str());
    for (const size_t note : ctx.marks.notes_over(step, step))
        ImGui::TextDisabled("Note: %s", in_short(ctx, MarkLane::note, note).c_str());
    end_plot_tip();
}

} // namespace refreshlab::ui
