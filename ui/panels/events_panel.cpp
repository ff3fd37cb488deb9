#include "ui/base/format.h"
#include "ui/base/value_format.h"
#include "ui/draw/badge.h"
#include "ui/draw/offer_run.h"
#include "ui/draw/table_sync.h"
#include "ui/panels/panel.h"
#include "ui/scene/axes/time_view.h"
#include "ui/scene/text/event_choice.h"
#include "ui/scene/text/event_table.h"
#include "ui/scene/text/step_marks.h"

#include <fmt/format.h>
#include <imgui.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace refreshlab::ui {
namespace {

/// What happened in the run as rows: sorted by any column, a click goes to its step.
class EventsPanel final : public Panel {
public:
    [[nodiscard]] std::string_view title() const override { return "Events"; }
    [[nodiscard]] std::pair<float, float> size_in_ems() const override { return {46.0F, 20.0F}; }
    void recording_changed(UiContext&) override { forget(); }
    void draw(UiContext& ctx) override;

private:
    void forget() {
        m_rows.clear();
        m_taken = {};
        m_waiting_at.reset();
    }
    /// A note was written or erased: their numbers are others.
    void forget_notes() {
        std::erase_if(m_rows, [](const EventRow& row) { return row.lane == MarkLane::note; });
        m_taken[static_cast<size_t>(MarkLane::note)] = 0;
    }
    void update(const UiContext& ctx);
    static void next_in_line(float width);
    static void draw_choice(UiContext& ctx);
    void draw_toolbar(UiContext& ctx);
    void draw_table(UiContext& ctx);
    void draw_row(UiContext& ctx, const EventRow& row);
    static void draw_reason(UiContext& ctx, const EventRow& row, float line);

    std::vector<EventRow> m_rows;                    ///< as they are sorted
    std::array<size_t, mark_lanes.size()> m_taken{}; ///< marks of each lane that have a row
    EventChoice m_choice;                            ///< that the rows are of
    std::optional<int64_t> m_waiting_at; ///< a row's step was not made yet when there were so many
    uint64_t m_notes = 0;                ///< revision of the rows of notes
    TableSync m_table;
};

/// What came since the last frame. A change is told before the step that feels it is made; its tokens come with it.
void EventsPanel::update(const UiContext& ctx) {
    if (m_choice.hidden != ctx.views.events.hidden || (m_waiting_at && *m_waiting_at != ctx.steps)) forget();
    const bool sort = m_choice != ctx.views.events;
    m_choice = ctx.views.events;
    if (std::exchange(m_notes, ctx.marks.notes_revision()) != ctx.marks.notes_revision()) forget_notes();
    const size_t before = m_rows.size();
    for (const MarkLane lane : mark_lanes) {
        size_t& taken = m_taken[static_cast<size_t>(lane)];
        for (; m_choice.shows(lane) && taken < ctx.marks.count(lane); ++taken) {
            m_rows.push_back(event_row(*ctx.recording, ctx.steps, ctx.marks, lane, taken));
            if (m_rows.back().step > ctx.steps) m_waiting_at = ctx.steps;
        }
    }
    if (m_rows.size() != before || sort) sort_events(m_rows, m_choice.table);
}

void EventsPanel::draw(UiContext& ctx) {
    if (!ctx.recording || ctx.steps == 0)
        return offer_run(
            ctx, "Refreshes, those that a limit prevented, and changes by hand appear here, one row each.");
    update(ctx);
    draw_choice(ctx);
    if (m_rows.empty()) {
        const bool any =
            std::ranges::any_of(mark_lanes, [&](MarkLane lane) { return ctx.marks.count(lane) > 0; });
        ImGui::TextDisabled("%s", any ? "Nothing of the chosen kinds has happened in this run."
                                      : "No refresh has been made in this run.");
        return;
    }
    draw_toolbar(ctx);
    draw_table(ctx);
}

/// Goes on in the line where what comes has room there.
void EventsPanel::next_in_line(float width) {
    ImGui::SameLine();
    if (ImGui::GetContentRegionAvail().x < width) ImGui::NewLine();
}

/// A box for each lane that the run has, with its count.
void EventsPanel::draw_choice(UiContext& ctx) {
    const float box = ImGui::GetFrameHeight();
    bool first = true;
    for (const MarkLane lane : mark_lanes) {
        const auto i = static_cast<size_t>(lane);
        const size_t count = ctx.marks.count(lane);
        const LaneWords& words = lane_words(lane);
        bool shown = ctx.views.events.shows(lane);
        if (count == 0 && lane != MarkLane::refresh) continue;
        const std::string label =
            fmt::format("{} {}", format_thousands(static_cast<int64_t>(count)), words.of(count));
        if (!std::exchange(first, false))
            next_in_line(box + ImGui::GetStyle().ItemInnerSpacing.x + ImGui::CalcTextSize(label.c_str()).x);
        const ImVec2 at = ImGui::GetCursorScreenPos();
        if (ImGui::Checkbox(fmt::format("{}###{}", label, words.key).c_str(), &shown))
            ctx.views.events.hidden[i] = !shown;
        ImGui::SetItemTooltip("%s", std::string(words.meaning).c_str());
        ctx.landmarks.set({at.x, at.y, box, box}, "events/choice/{}", words.key);
    }
}

void EventsPanel::draw_toolbar(UiContext& ctx) {
    const auto count = static_cast<int64_t>(m_rows.size());
    const float padding = 2 * ImGui::GetStyle().FramePadding.x;
    next_in_line(ImGui::CalcTextSize("Copy table").x + padding);
    if (ImGui::Button("Copy table")) {
        ImGui::SetClipboardText(to_csv(events_table(m_rows)).c_str());
        ctx.toasts.add(
            Toasts::Level::info,
            fmt::format("Copied the {} as CSV", count == 1 ? "row" : format_thousands(count) + " rows"),
            ImGui::GetTime());
    }
    ImGui::SetItemTooltip("These rows as CSV, in this order");
    next_in_line(ImGui::CalcTextSize("Export CSV...").x + padding);
    if (ImGui::Button("Export CSV...")) ctx.run_action("export.csv");
    ImGui::SetItemTooltip(
        "Tables of the whole run; events.csv and blocked.csv have these rows with all that is "
        "known of them");
}

void EventsPanel::draw_table(UiContext& ctx) {
    constexpr ImGuiTableFlags flags =
        ImGuiTableFlags_Sortable | ImGuiTableFlags_SortTristate | ImGuiTableFlags_RowBg |
        ImGuiTableFlags_Resizable | ImGuiTableFlags_ScrollX | ImGuiTableFlags_ScrollY |
        ImGuiTableFlags_SizingFixedFit | ImGuiTableFlags_Hideable | ImGuiTableFlags_NoSavedSettings;
    if (!ImGui::BeginTable("##events", static_cast<int>(num_event_columns), flags)) return;
    ImGui::TableSetupScrollFreeze(1, 1);
    for (size_t i = 0; i < num_event_columns; ++i) {
        // What was changed by hand may be a long text: it is in the tooltip, and the column can be widened.
        const float width =
            static_cast<EventColumn>(i) == EventColumn::reason ? ImGui::GetFontSize() * 10 : 0;
        ImGui::TableSetupColumn(std::string(event_column_name(static_cast<EventColumn>(i))).c_str(),
                                width > 0 ? ImGuiTableColumnFlags_WidthFixed : ImGuiTableColumnFlags_None,
                                width);
    }
    m_table.follow(ctx.views.events.table, event_column_keys());
    ImGui::TableHeadersRow();
    ImGuiListClipper clipper;
    clipper.Begin(static_cast<int>(m_rows.size()));
    while (clipper.Step())
        for (int i = clipper.DisplayStart; i < clipper.DisplayEnd; ++i)
            draw_row(ctx, m_rows[static_cast<size_t>(i)]);
    ImGui::EndTable();
}

/// The badge of its reason, and the words.
void EventsPanel::draw_reason(UiContext& ctx, const EventRow& row, float line) {
    const ImVec2 at = ImGui::GetCursorScreenPos();
    if (row.lane != MarkLane::change)
        draw_mark_badge(ImGui::GetWindowDrawList(), ctx, {at.x + line / 2, at.y + line / 2}, line * 0.95F,
                        row.lane, row.index);
    ImGui::Dummy({line, line});
    ImGui::SameLine(0, line * 0.35F);
    ImGui::TextUnformatted(row.reason.c_str());
}

void EventsPanel::draw_row(UiContext& ctx, const EventRow& row) {
    const float line = ImGui::GetTextLineHeight();
    ImGui::TableNextRow();
    ImGui::TableNextColumn();
    ImGui::PushID(static_cast<int>(row.lane));
    ImGui::PushID(static_cast<int>(row.index));
    const ImVec2 at = ImGui::GetCursorScreenPos();
    const int64_t step = std::min(row.step, ctx.steps); // of a change for a step that is not made yet
    if (ImGui::Selectable(format_thousands(row.step).c_str(), ctx.selection.step == row.step,
                          ImGuiSelectableFlags_SpanAllColumns)) {
        ctx.select_step(step);
        reveal_step(ctx.time, step, ctx.steps);
    }
    if (ImGui::IsItemHovered()) ctx.next_hovered_step = step;
    ImGui::SetItemTooltip("%s", row.reason.c_str());
    if (row.lane == MarkLane::refresh)
        ctx.landmarks.set({at.x, at.y, line * 2, line}, "events/row/{}", row.index);
    else
        ctx.landmarks.set({at.x, at.y, line * 2, line}, "events/row/{}/{}", lane_words(row.lane).key,
                          row.index);
    ImGui::PopID();
    ImGui::PopID();
    ImGui::TableNextColumn();
    draw_reason(ctx, row, line);
    const auto number = [](double value, auto&& text) {
        return std::isnan(value) ? std::string("-") : text();
    };
    for (const std::string& text :
         {row.value_text, row.threshold_text,
          number(row.spliced, [&] { return format_thousands(static_cast<int64_t>(row.spliced)); }),
          number(row.ms, [&] { return format_number(row.ms); }), row.token_read, row.chosen_before}) {
        ImGui::TableNextColumn();
        ImGui::TextUnformatted(text.c_str());
    }
    ImGui::TableNextColumn();
    // What a refresh changed stands out.
    const bool changed = row.chosen_after != row.chosen_before;
    ImGui::PushStyleColor(ImGuiCol_Text, changed ? ctx.theme.accent_ink : ctx.theme.text);
    ImGui::TextUnformatted(row.chosen_after.c_str());
    ImGui::PopStyleColor();
}

} // namespace

std::unique_ptr<Panel> make_events_panel() {
    return std::make_unique<EventsPanel>();
}

} // namespace refreshlab::ui
