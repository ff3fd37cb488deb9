#include "ui/base/value_format.h"
#include "ui/context/go_to.h"
#include "ui/draw/offer_run.h"
#include "ui/draw/text_entry.h"
#include "ui/panels/panel.h"
#include "ui/scene/runs/note_rows.h"
#include "ui/scene/runs/run_set.h"
#include "ui/scene/text/step_marks.h"
#include "ui/scene/theme/run_colours.h"

#include <fmt/format.h>
#include <imgui.h>

#include <algorithm>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace refreshlab::ui {
namespace {

/// What a person wrote beside steps of the window's runs: found by words, sorted by any column; a click goes there.
class NotesPanel final : public Panel {
public:
    [[nodiscard]] std::string_view title() const override { return "Notes"; }
    [[nodiscard]] std::pair<float, float> size_in_ems() const override { return {40.0F, 18.0F}; }
    void draw(UiContext& ctx) override;

private:
    void update(const UiContext& ctx);
    [[nodiscard]] bool is_here(const NoteRow& row) const {
        return m_here.contains({row.owner.get(), row.note.id});
    }
    void draw_toolbar(UiContext& ctx);
    void draw_table(UiContext& ctx);
    [[nodiscard]] static std::vector<NoteColumn> columns_in(const UiContext& ctx, float width);
    void draw_rows(UiContext& ctx, const std::vector<NoteColumn>& columns);
    void draw_row(UiContext& ctx, const std::vector<NoteColumn>& columns, size_t index);
    void draw_menu(UiContext& ctx, const NoteRow& row) const;
    void read_order();

    NoteRowsKey m_key;
    std::vector<NoteRow> m_all;                           ///< of all runs
    std::vector<NoteRow> m_rows;                          ///< those that are listed, as they are sorted
    std::set<std::pair<const RunNotes*, int64_t>> m_here; ///< owner and id of notes that the shown run shows
    std::string m_words;                                  ///< that a note must have
    bool m_shown_run_alone = false, m_stale = true;
    std::shared_ptr<const Recording> m_looked;
    NoteColumn m_column = NoteColumn::run;
    bool m_descending = false, m_ordered = false; ///< a person chose a column
};

std::string cell(const NoteRow& row, NoteColumn column) {
    if (column == NoteColumn::words) return note_words(row.note);
    if (column == NoteColumn::run) return row.run_name;
    std::string written = row.note.made_at.substr(0, 16); // to the minute
    std::ranges::replace(written, 'T', ' ');
    return written;
}

void NotesPanel::update(const UiContext& ctx) {
    if (NoteRowsKey key = note_rows_key(ctx.runs); key != m_key) {
        m_key = std::move(key);
        m_all = note_rows(ctx.runs);
        m_stale = true;
    }
    if (std::exchange(m_looked, ctx.recording) != ctx.recording) m_stale = true;
    if (!std::exchange(m_stale, false)) return;
    m_here.clear();
    for (const RunNotes::Seen& seen : ctx.recording->notes()->seen())
        m_here.emplace(seen.owner ? seen.owner.get() : ctx.recording->notes().get(), seen.note.id);
    m_rows.clear();
    for (const NoteRow& row : m_all)
        if (note_has(row, m_words) && (!m_shown_run_alone || is_here(row))) m_rows.push_back(row);
    if (m_ordered) sort_notes(m_rows, m_column, m_descending);
}

void NotesPanel::draw(UiContext& ctx) {
    if (!ctx.recording || ctx.steps == 0)
        return offer_run(ctx, "What you write beside steps of a run appears here: M writes a note.");
    update(ctx);
    draw_toolbar(ctx);
    if (m_rows.empty()) {
        ImGui::TextDisabled(
            "%s", m_all.empty() ? "No run of this window has a note. M writes one beside the shown step."
                                : "No note has these words.");
        return;
    }
    draw_table(ctx);
}

void NotesPanel::draw_toolbar(UiContext& ctx) {
    if (ImGui::Button("Note...")) ctx.run_action("note.edit");
    ImGui::SetItemTooltip(
        "%s",
        ctx.with_key("Writes a note beside the shown step, or opens the one that stands there", "note.edit")
            .c_str());
    ImGui::SameLine();
    const float em = ImGui::GetFontSize(), spacing = ImGui::GetStyle().ItemSpacing.x;
    const char* alone = "Shown run alone";
    const float after = ImGui::GetFrameHeight() + ImGui::CalcTextSize(alone).x +
                        ImGui::CalcTextSize("Copy table").x + 2 * ImGui::GetStyle().FramePadding.x +
                        3 * spacing;
    const float room = ImGui::GetContentRegionAvail().x;
    const bool one_line = room > after + em * 9;
    ImGui::SetNextItemWidth(one_line ? room - after - em * 0.5F : room);
    text_entry("##words", &m_words, ImGuiInputTextFlags_None, "Words of a note");
    if (ImGui::IsItemEdited()) m_stale = true;
    if (one_line) ImGui::SameLine();
    if (ImGui::Checkbox(alone, &m_shown_run_alone)) m_stale = true;
    ImGui::SetItemTooltip("Notes at steps of the run that is shown; else those of every run");
    ImGui::SameLine();
    ImGui::BeginDisabled(m_rows.empty());
    if (ImGui::Button("Copy table")) {
        ImGui::SetClipboardText(notes_csv(m_rows).c_str());
        ctx.toasts.add(Toasts::Level::info,
                       fmt::format("Copied {} as CSV", m_rows.size() == 1
                                                           ? "the row"
                                                           : fmt::format("the {} rows", m_rows.size())),
                       ImGui::GetTime());
    }
    ImGui::EndDisabled();
    ImGui::SetItemTooltip("These rows as CSV, in this order");
}

void NotesPanel::read_order() {
    ImGuiTableSortSpecs* specs = ImGui::TableGetSortSpecs();
    if (!specs || !specs->SpecsDirty) return;
    m_ordered = specs->SpecsCount > 0;
    if (m_ordered) {
        m_column = static_cast<NoteColumn>(specs->Specs[0].ColumnUserID);
        m_descending = specs->Specs[0].SortDirection == ImGuiSortDirection_Descending;
        sort_notes(m_rows, m_column, m_descending);
    } else {
        m_stale = true; // as they came
    }
    specs->SpecsDirty = false;
}

/// The run where there are several, the time where a line of words has room beside it.
std::vector<NoteColumn> NotesPanel::columns_in(const UiContext& ctx, float width) {
    std::vector<NoteColumn> columns{NoteColumn::steps, NoteColumn::words};
    if (ctx.runs.tree().runs().size() > 1) columns.push_back(NoteColumn::run);
    if (width > ImGui::GetFontSize() * 30) columns.push_back(NoteColumn::written);
    return columns;
}

void NotesPanel::draw_table(UiContext& ctx) {
    constexpr ImGuiTableFlags flags = ImGuiTableFlags_Sortable | ImGuiTableFlags_SortTristate |
                                      ImGuiTableFlags_RowBg | ImGuiTableFlags_Resizable |
                                      ImGuiTableFlags_ScrollY | ImGuiTableFlags_SizingFixedFit |
                                      ImGuiTableFlags_NoSavedSettings;
    const std::vector<NoteColumn> columns = columns_in(ctx, ImGui::GetContentRegionAvail().x);
    // Another set of columns is another table: each keeps its widths.
    ImGui::PushID(static_cast<int>(columns.size()) * 8 + static_cast<int>(columns.back()));
    if (ImGui::BeginTable("##notes", static_cast<int>(columns.size()), flags)) {
        draw_rows(ctx, columns);
        ImGui::EndTable();
    }
    ImGui::PopID();
}

void NotesPanel::draw_rows(UiContext& ctx, const std::vector<NoteColumn>& columns) {
    ImGui::TableSetupScrollFreeze(0, 1);
    for (const NoteColumn column : columns)
        ImGui::TableSetupColumn(std::string(note_column_name(column)).c_str(),
                                column == NoteColumn::words ? ImGuiTableColumnFlags_WidthStretch
                                                            : ImGuiTableColumnFlags_WidthFixed,
                                0, static_cast<ImGuiID>(column));
    ImGui::TableHeadersRow();
    read_order();
    ImGuiListClipper clipper;
    clipper.Begin(static_cast<int>(m_rows.size()));
    while (clipper.Step())
        for (int i = clipper.DisplayStart; i < clipper.DisplayEnd; ++i)
            draw_row(ctx, columns, static_cast<size_t>(i));
}

void NotesPanel::draw_row(UiContext& ctx, const std::vector<NoteColumn>& columns, size_t index) {
    const NoteRow& row = m_rows[index];
    const StepNote& note = row.note;
    const float line = ImGui::GetTextLineHeight(), box = std::round(line * 0.6F);
    ImGui::TableNextRow();
    ImGui::TableNextColumn();
    ImGui::PushID(static_cast<int>(index));
    const ImVec2 at = ImGui::GetCursorScreenPos();
    const bool shown = ctx.selection.step == note.first_step && is_here(row);
    // What is drawn over the row stands at the same place whether it is selected or not.
    if (ImGui::Selectable("##row", shown,
                          ImGuiSelectableFlags_SpanAllColumns | ImGuiSelectableFlags_AllowDoubleClick)) {
        go_to_note(ctx, row);
        if (ImGui::IsMouseDoubleClicked(ImGuiMouseButton_Left)) {
            ctx.note_to_edit = std::pair(row.owner, note.id);
            ctx.run_action("note.edit");
        }
    }
    if (ImGui::IsItemHovered()) {
        if (is_here(row)) ctx.next_hovered_step = std::min(note.first_step, ctx.steps);
        ImGui::SetTooltip("%s\n%s, %s", note.text.empty() ? "bookmark" : note.text.c_str(),
                          row.run_name.c_str(), note_place(note).c_str());
    }
    draw_menu(ctx, row);
    ctx.landmarks.set({at.x, at.y, line * 2, line}, "notes/row/{}", index);
    ImGui::PopID();
    ImGui::GetWindowDrawList()->AddRectFilled({at.x, at.y + (line - box) / 2},
                                              {at.x + box, at.y + (line + box) / 2},
                                              run_colour(ctx.theme, note.colour), box * 0.25F);
    ImGui::SameLine(0, 0);
    ImGui::SetCursorScreenPos({at.x + box * 1.6F, at.y});
    ImGui::TextUnformatted(
        note.first_step == note.last_step
            ? format_thousands(note.first_step).c_str()
            : fmt::format("{} - {}", format_thousands(note.first_step), format_thousands(note.last_step))
                  .c_str());
    for (const NoteColumn column : columns) {
        if (column == NoteColumn::steps) continue;
        ImGui::TableNextColumn();
        ImGui::TextUnformatted(cell(row, column).c_str());
    }
}

void NotesPanel::draw_menu(UiContext& ctx, const NoteRow& row) const {
    if (!ImGui::BeginPopupContextItem("##note menu")) return;
    if (ImGui::MenuItem("Go there")) go_to_note(ctx, row);
    if (ImGui::MenuItem("Change or erase...")) {
        ctx.note_to_edit = std::pair(row.owner, row.note.id);
        ctx.run_action("note.edit");
    }
    if (ImGui::MenuItem("Copy the words", nullptr, false, !row.note.text.empty()))
        ImGui::SetClipboardText(row.note.text.c_str());
    ImGui::EndPopup();
}

} // namespace

std::unique_ptr<Panel> make_notes_panel() {
    return std::make_unique<NotesPanel>();
}

} // namespace refreshlab::ui
