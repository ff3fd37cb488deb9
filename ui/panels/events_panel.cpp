#include "ui/base/format.h"
#include "ui/base/value_format.h"
#include "ui/draw/badge.h"
#include "ui/panels/panel.h"
#include "ui/scene/axes/time_view.h"
#include "ui/scene/marks/event_table.h"
#include "ui/scene/marks/refresh_marks.h"
#include "ui/theme/run_colours.h"
#include "ui/widgets/offer_run.h"

#include <fmt/format.h>
#include <imgui.h>

#include <algorithm>
#include <cstdint>
#include <vector>

namespace refreshlab::ui {
namespace {

/// Every refresh of the run as a row: sorted by any column, a click goes to its step.
class EventsPanel final : public Panel {
public:
    [[nodiscard]] std::string_view title() const override { return "Events"; }
    [[nodiscard]] std::pair<float, float> size_in_ems() const override { return {46.0F, 20.0F}; }
    void recording_changed(UiContext&) override { m_rows.clear(); }
    void draw(UiContext& ctx) override;

private:
    void update(const UiContext& ctx);
    void draw_toolbar(UiContext& ctx);
    void draw_table(UiContext& ctx);
    void draw_row(UiContext& ctx, const EventRow& row);

    std::vector<EventRow> m_rows; ///< as they are sorted
    EventColumn m_column = EventColumn::step;
    bool m_descending = false, m_sort = false;
};

/// What came since the last frame.
void EventsPanel::update(const UiContext& ctx) {
    const auto& refreshes = ctx.recording->refreshes();
    const size_t before = m_rows.size();
    for (size_t i = before, n = refreshes.size(); i < n && refreshes[i].step <= ctx.steps; ++i)
        m_rows.push_back(event_row(*ctx.recording, ctx.signals(), i));
    if (m_rows.size() != before || m_sort) sort_events(m_rows, m_column, m_descending);
    m_sort = false;
}

void EventsPanel::draw(UiContext& ctx) {
    if (!ctx.recording || ctx.steps == 0)
        return offer_run(ctx, "The refreshes of a run appear here, one row each.");
    update(ctx);
    if (m_rows.empty()) {
        ImGui::TextDisabled("No refresh has been made in this run.");
        return;
    }
    draw_toolbar(ctx);
    draw_table(ctx);
}

void EventsPanel::draw_toolbar(UiContext& ctx) {
    ImGui::AlignTextToFramePadding();
    const auto count = static_cast<int64_t>(m_rows.size());
    ImGui::Text("%s %s", format_thousands(count).c_str(), count == 1 ? "refresh" : "refreshes");
    ImGui::SameLine();
    if (ImGui::Button("Copy table")) {
        ImGui::SetClipboardText(events_csv(m_rows).c_str());
        ctx.toasts.add(
            Toasts::Level::info,
            fmt::format("Copied the {} as CSV", count == 1 ? "row" : format_thousands(count) + " rows"),
            ImGui::GetTime());
    }
    ImGui::SetItemTooltip("These rows as CSV, in this order");
    ImGui::SameLine();
    if (ImGui::Button("Export CSV...")) ctx.run_action("export.csv");
    ImGui::SetItemTooltip(
        "Tables of the whole run; events.csv has these refreshes with all that is known of them");
}

void EventsPanel::draw_table(UiContext& ctx) {
    constexpr ImGuiTableFlags flags =
        ImGuiTableFlags_Sortable | ImGuiTableFlags_SortTristate | ImGuiTableFlags_RowBg |
        ImGuiTableFlags_Resizable | ImGuiTableFlags_ScrollX | ImGuiTableFlags_ScrollY |
        ImGuiTableFlags_SizingFixedFit | ImGuiTableFlags_Hideable | ImGuiTableFlags_NoSavedSettings;
    if (!ImGui::BeginTable("##events", static_cast<int>(num_event_columns), flags)) return;
    ImGui::TableSetupScrollFreeze(1, 1);
    for (size_t i = 0; i < num_event_columns; ++i)
        ImGui::TableSetupColumn(std::string(event_column_name(static_cast<EventColumn>(i))).c_str());
    ImGui::TableHeadersRow();
    if (ImGuiTableSortSpecs* specs = ImGui::TableGetSortSpecs(); specs && specs->SpecsDirty) {
        // Without a column to sort by: as they came.
        const bool any = specs->SpecsCount > 0;
        m_column = any ? static_cast<EventColumn>(specs->Specs[0].ColumnIndex) : EventColumn::step;
        m_descending = any && specs->Specs[0].SortDirection == ImGuiSortDirection_Descending;
        sort_events(m_rows, m_column, m_descending);
        specs->SpecsDirty = false;
    }
    ImGuiListClipper clipper;
    clipper.Begin(static_cast<int>(m_rows.size()));
    while (clipper.Step())
        for (int i = clipper.DisplayStart; i < clipper.DisplayEnd; ++i)
            draw_row(ctx, m_rows[static_cast<size_t>(i)]);
    ImGui::EndTable();
}

void EventsPanel::draw_row(UiContext& ctx, const EventRow& row) {
    const RefreshEvent& event = ctx.recording->refreshes()[row.event];
    const float line = ImGui::GetTextLineHeight();
    ImGui::TableNextRow();
    ImGui::TableNextColumn();
    ImGui::PushID(static_cast<int>(row.event));
    const ImVec2 at = ImGui::GetCursorScreenPos();
    if (ImGui::Selectable(format_thousands(row.step).c_str(), ctx.selection.step == row.step,
                          ImGuiSelectableFlags_SpanAllColumns)) {
        ctx.select_step(row.step);
        reveal_step(ctx.time, row.step, ctx.steps);
    }
    if (ImGui::IsItemHovered()) ctx.next_hovered_step = row.step;
    ctx.landmarks.set({at.x, at.y, line * 2, line}, "events/row/{}", row.event);
    ImGui::PopID();
    ImGui::TableNextColumn();
    const ImVec2 badge = ImGui::GetCursorScreenPos();
    draw_badge(ImGui::GetWindowDrawList(), ctx.theme, {badge.x + line / 2, badge.y + line / 2}, line * 0.95F,
               marker_colour(ctx.theme, event), std::string(1, marker_letter(event)));
    ImGui::Dummy({line, line});
    ImGui::SameLine(0, line * 0.35F);
    ImGui::TextUnformatted(row.reason.c_str());
    for (const std::string& text : {row.value_text, row.threshold_text, format_thousands(row.spliced),
                                    format_number(row.ms), row.token_read, row.chosen_before}) {
        ImGui::TableNextColumn();
        ImGui::TextUnformatted(text.c_str());
    }
    ImGui::TableNextColumn();
    // What a refresh changed stands out.
    const bool changed = event.token_after != event.token_before;
    ImGui::PushStyleColor(ImGuiCol_Text, changed ? ctx.theme.accent_ink : ctx.theme.text);
    ImGui::TextUnformatted(row.chosen_after.c_str());
    ImGui::PopStyleColor();
}

} // namespace

std::unique_ptr<Panel> make_events_panel() {
    return std::make_unique<EventsPanel>();
}

} // namespace refreshlab::ui
