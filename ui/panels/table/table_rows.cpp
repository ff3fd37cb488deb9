// The plot of a table and its rows: what is under the mouse, and runs that rows start.
#include "ui/base/format.h"
#include "ui/base/value_format.h"
#include "ui/draw/screen_canvas.h"
#include "ui/draw/text.h"
#include "ui/draw/widgets.h"
#include "ui/panels/table/table_panel.h"
#include "ui/scene/policy/cache_words.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string_view>
#include <utility>

namespace refreshlab::ui {

namespace {

/// Where a mark of the row was drawn.
void ring(const UiContext& ctx, ImVec2 at, bool strong) {
    const float radius = ImGui::GetFontSize() * (strong ? 0.5F : 0.42F);
    ImGui::GetWindowDrawList()->AddCircle(at, radius, strong ? ctx.theme.text : ctx.theme.accent, 0, 1.5F);
}

} // namespace

/// A figure of several plots that needs more height than there is scrolls.
void TablePanel::draw_plot(UiContext& ctx, PixelBox place) {
    ImGui::SetCursorScreenPos({place.x, place.y});
    if (!m_figure) {
        muted_text(ctx, m_problem);
        return;
    }
    if (ImGui::BeginChild("##plot", {place.width, place.height})) {
        const ScreenPen pen(ctx, ImGui::GetWindowDrawList());
        const ImVec2 at = ImGui::GetCursorScreenPos(), room = ImGui::GetContentRegionAvail();
        const double needed = m_figure->height(pen, static_cast<double>(room.x));
        const bool fits = m_single || static_cast<double>(room.y) > 0.7 * needed;
        const double high = fits ? static_cast<double>(room.y) : needed;
        const FigureRect rect{static_cast<double>(at.x), static_cast<double>(at.y),
                              static_cast<double>(room.x), high};
        m_figure->draw(pen, rect);
        ctx.landmarks.set(pixel_box(rect), "table/plot");
        const bool clicked = ImGui::InvisibleButton(
            "##marks", {std::max(1.0F, room.x), std::max(1.0F, static_cast<float>(high))});
        const bool hovered = ImGui::IsItemHovered();
        const ImVec2 mouse = ImGui::GetIO().MousePos;
        double nearest = static_cast<double>(ImGui::GetFontSize()) * 0.8;
        const auto places = m_figure->places(pen, rect);
        const auto point = [](const PlacedMark& mark) {
            return ImVec2(static_cast<float>(mark.at.x), static_cast<float>(mark.at.y));
        };
        for (const PlacedMark& mark : places) {
            if (places.size() <= 200) // a curve of thousands has no place that somebody looks for
                ctx.landmarks.set({point(mark).x, point(mark).y, 1, 1}, "table/mark/{}", mark.row);
            const double far = std::hypot(mark.at.x - static_cast<double>(mouse.x),
                                          mark.at.y - static_cast<double>(mouse.y));
            if (hovered && far < nearest) {
                nearest = far;
                m_hovered = mark.row;
            }
        }
        for (const PlacedMark& mark : places)
            if (m_selected == mark.row || m_hovered == mark.row || m_row_hovered == mark.row)
                ring(ctx, point(mark), m_selected != mark.row);
        if (m_hovered) {
            if (clicked) {
                m_selected = m_hovered;
                m_reveal = true;
                run_row(ctx, *m_hovered);
            }
            tell_row(ctx, *m_hovered);
        }
    }
    ImGui::EndChild();
}

void TablePanel::draw_rows(UiContext& ctx) {
    const DataTable& table = m_file->table;
    constexpr int most_columns = 60; // of a table of Dear ImGui
    const int columns = std::min(static_cast<int>(table.columns.size()), most_columns);
    constexpr ImGuiTableFlags flags =
        ImGuiTableFlags_Sortable | ImGuiTableFlags_SortTristate | ImGuiTableFlags_RowBg |
        ImGuiTableFlags_Resizable | ImGuiTableFlags_ScrollX | ImGuiTableFlags_ScrollY |
        ImGuiTableFlags_SizingFixedFit | ImGuiTableFlags_Hideable | ImGuiTableFlags_NoSavedSettings;
    m_row_hovered.reset();
    const ImGuiIO& io = ImGui::GetIO();
    const bool focused = ImGui::IsWindowFocused(ImGuiFocusedFlags_ChildWindows);
    // A row that a click has chosen; one that the keyboard has reached is pressed by Dear ImGui.
    if (m_selected && focused && !io.NavVisible && !io.WantTextInput &&
        (ImGui::IsKeyPressed(ImGuiKey_Enter, false) || ImGui::IsKeyPressed(ImGuiKey_KeypadEnter, false)))
        run_row(ctx, *m_selected);
    // Another file is another table: its columns have widths of their own.
    ImGui::PushID(m_file->path.c_str());
    if (columns > 0 && ImGui::BeginTable("##rows", columns, flags)) {
        const float em = ImGui::GetFontSize();
        std::vector<std::string_view> keys;
        for (int c = 0; c < columns; ++c) {
            const std::string& name = table.columns[static_cast<size_t>(c)];
            const bool long_words = m_long[static_cast<size_t>(c)];
            ImGui::TableSetupColumn(fmt::format("{}###{}", name, c).c_str(),
                                    long_words ? ImGuiTableColumnFlags_WidthFixed
                                               : ImGuiTableColumnFlags_None,
                                    long_words ? em * 14 : 0);
            keys.push_back(std::ranges::find(keys, name) == keys.end() ? std::string_view(name)
                                                                       : std::string_view());
        }
        ImGui::TableSetupScrollFreeze(1, 1);
        m_table.follow(ctx.views.file_table.table, keys);
        ImGui::TableHeadersRow();
        if (std::exchange(m_reveal, false) && m_selected) {
            const auto place = std::ranges::find(m_rows, *m_selected) - m_rows.begin();
            const float line = ImGui::GetTextLineHeightWithSpacing();
            const float y = static_cast<float>(place) * line;
            if (y < ImGui::GetScrollY() || y + 2 * line > ImGui::GetScrollY() + ImGui::GetWindowHeight())
                ImGui::SetScrollY(std::max(0.0F, y - ImGui::GetWindowHeight() * 0.4F));
        }
        ImGuiListClipper clipper;
        clipper.Begin(static_cast<int>(m_rows.size()));
        while (clipper.Step())
            for (int i = clipper.DisplayStart; i < clipper.DisplayEnd; ++i)
                draw_row(ctx, m_rows[static_cast<size_t>(i)]);
        ImGui::EndTable();
    }
    ImGui::PopID();
}

void TablePanel::draw_row(UiContext& ctx, size_t row) {
    const auto& cells = m_file->table.rows[row];
    ImGui::TableNextRow();
    ImGui::PushID(static_cast<int>(row));
    const int columns = ImGui::TableGetColumnCount();
    for (int c = 0; c < columns; ++c) {
        if (!ImGui::TableSetColumnIndex(c)) continue;
        const std::string& cell = cells[static_cast<size_t>(c)];
        const auto number = cell_number(cell);
        const std::string words = number ? format_number(*number) : cell.substr(0, 300);
        if (c == 0) {
            const ImVec2 at = ImGui::GetCursorScreenPos();
            const bool pressed = ImGui::Selectable("##row", m_selected == row,
                                                   ImGuiSelectableFlags_SpanAllColumns |
                                                       ImGuiSelectableFlags_AllowDoubleClick);
            if (pressed) {
                // Enter on the row, or a double click; one click looks at it.
                const bool start = ImGui::IsMouseDoubleClicked(ImGuiMouseButton_Left) ||
                                   !ImGui::IsMouseReleased(ImGuiMouseButton_Left);
                m_selected = row;
                if (start) run_row(ctx, row);
            }
            if (ImGui::IsItemHovered()) {
                m_row_hovered = row;
                if (ImGui::IsItemHovered(ImGuiHoveredFlags_DelayNormal)) tell_row(ctx, row);
            }
            ctx.landmarks.set({at.x, at.y, ImGui::GetFontSize() * 3, ImGui::GetTextLineHeight()},
                              "table/row/{}", row);
            ImGui::SameLine(0, 0);
        }
        if (number) {
            const float room = ImGui::GetContentRegionAvail().x - text_width(words);
            if (room > 0) ImGui::SetCursorPosX(ImGui::GetCursorPosX() + room);
        }
        ImGui::TextUnformatted(words.c_str());
    }
    ImGui::PopID();
}

/// What is known of it, and what a click does.
void TablePanel::tell_row(UiContext& ctx, size_t row) const {
    if (!ImGui::BeginTooltip()) return;
    ImGui::TextUnformatted(row_words(*m_file, row).c_str());
    const RowReading& reading = m_file->rows[row];
    if (reading.policy && !reading.policy->config.is_full() && ctx.reach_to_compare) {
        const std::string why = why_not_run(ctx, reading);
        ImGui::TextDisabled("%s", why.empty()
                                      ? fmt::format("A click on the point, or Enter on the row, runs the "
                                                    "shown prompt with\n{}",
                                                    cache_words(reading.policy->in(ctx.reach_to_compare())))
                                            .c_str()
                                      : why.c_str());
    } else if (!reading.problem.empty()) {
        ImGui::TextDisabled("It starts no run: %s", reading.problem.c_str());
    }
    ImGui::EndTooltip();
}

std::string TablePanel::why_not_run(const UiContext& ctx, const RowReading& row) {
    if (!row.policy) return row.problem;
    const bool prompt = ctx.recording || !ctx.status->applied.prompt.empty();
    return prompt ? std::string() : "No run yet: start one with \"New run...\", and rows start others";
}

/// The present prompt and pair with the row's policy, beside the shown run. What cannot be is a toast.
void TablePanel::run_row(UiContext& ctx, size_t row) const {
    const RowReading& reading = m_file->rows[row];
    const std::string why = why_not_run(ctx, reading);
    if (!why.empty()) {
        ctx.toasts.add(Toasts::Level::warning, why, ImGui::GetTime());
    } else if (reading.policy) {
        ctx.compare_cache(reading.policy->in(ctx.reach_to_compare()));
    }
}

} // namespace refreshlab::ui
