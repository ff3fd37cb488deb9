#include "ui/panels/table/table_panel.h"

#include "engine/base/error.h"
#include "ui/base/format.h"
#include "ui/base/short_name.h"
#include "ui/base/value_format.h"
#include "ui/draw/text.h"
#include "ui/draw/widgets.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace refreshlab::ui {

namespace {

constexpr double look_every_s = 0.5;

/// A list of columns of numbers.
void column_choice(const char* id, const char* words, const DataTable& table, size_t chosen,
                   std::string& name, float width) {
    ImGui::AlignTextToFramePadding();
    ImGui::TextUnformatted(words);
    ImGui::SameLine();
    ImGui::SetNextItemWidth(width);
    if (!ImGui::BeginCombo(id, table.columns[chosen].c_str(), ImGuiComboFlags_HeightLarge)) return;
    for (const size_t column : number_columns(table))
        if (ImGui::Selectable(table.columns[column].c_str(), column == chosen)) name = table.columns[column];
    ImGui::EndCombo();
}

} // namespace

std::unique_ptr<Panel> make_table_panel() {
    return std::make_unique<TablePanel>();
}

TablePanel::Answer TablePanel::read_again(const Question& question) {
    try {
        return {read_table_file(question.path), {}};
    } catch (const Error& e) {
        return {nullptr, e.what()};
    }
}

/// A file that has changed is read again; what cannot be read leaves the table that is there.
void TablePanel::follow(UiContext& ctx) {
    const auto file = ctx.tables.shown();
    if (const Answer* answer = m_answers.answer();
        answer != nullptr && !m_answers.busy() && (answer->table || !answer->fault.empty())) {
        m_fault = answer->fault;
        if (!answer->table) m_refused = m_asked;
        if (answer->table && answer->table->path == file->path) ctx.tables.replace(answer->table);
        m_answers.clear();
    }
    if (m_answers.busy()) ctx.wait_for_jobs();
    const double now = ImGui::GetTime();
    if (now - m_looked_s < look_every_s || m_answers.busy()) return;
    m_looked_s = now;
    const auto stamp = stamp_of(file->path);
    if (!stamp)
        m_fault = fmt::format("{} is not there any more", file->path.filename().string());
    else if (*stamp == file->stamp)
        m_fault.clear();
    else if (const Question now_there{file->path, *stamp}; m_refused != now_there) { // not twice the same
        m_asked = now_there;
        m_answers.ask(now_there, false);
    }
    if (m_answers.busy()) ctx.wait_for_jobs();
}

/// The figure and the order of the rows, where the table or its view has changed.
void TablePanel::update(const UiContext& ctx) {
    const auto file = ctx.tables.shown();
    const FileTableView& view = ctx.views.file_table;
    if (m_file == file && m_view == view) return;
    if (m_file == nullptr || m_file->path != file->path) m_selected.reset();
    m_file = file;
    m_view = view;
    if (m_selected && *m_selected >= file->table.rows.size()) m_selected.reset();
    m_rows = sorted_rows(file->table, view.table);
    constexpr size_t long_text = 40;
    m_long.assign(file->table.columns.size(), false);
    for (const auto& row : file->table.rows)
        for (size_t c = 0; c < row.size(); ++c)
            m_long[c] = m_long[c] || row[c].size() > long_text;
    m_figure.reset();
    m_problem =
        file->table.rows.empty() ? "The table has no rows yet" : "No two columns of this table have numbers";
    try {
        if (const auto plot = shown_plot(*file, view)) {
            m_figure = make_table_figure(*plot, file->table, file->path.filename().string());
            m_single = plot->facets.empty() && plot->parts.size() == 1;
            m_problem.clear();
        }
    } catch (const Error& e) {
        m_problem = e.problem();
    }
}

void TablePanel::draw(UiContext& ctx) {
    if (!ctx.tables.shown()) {
        muted_text(ctx,
                   "A CSV file appears here as a plot and a table: of a study or a sweep, or the losses of a "
                   "training. Rows that name cache policies start runs with them.");
        if (ImGui::Button("Open table...")) ctx.run_action("file.open_table");
        return;
    }
    follow(ctx);
    draw_files(ctx);
    if (!ctx.tables.shown()) return; // the last one was closed
    update(ctx);
    draw_axes(ctx);
    if (!m_fault.empty()) {
        ImGui::PushStyleColor(ImGuiCol_Text, ctx.theme.text_error);
        ImGui::TextWrapped("%s", m_fault.c_str());
        ImGui::PopStyleColor();
    }
    m_hovered.reset();
    const float em = ImGui::GetFontSize();
    const ImVec2 at = ImGui::GetCursorScreenPos(), room = ImGui::GetContentRegionAvail();
    const bool beside = room.x > 2.2F * room.y && room.x > 60 * em; // a wide, low panel
    const PixelBox plot{at.x, at.y, beside ? std::round(room.x * 0.5F) : room.x,
                        beside ? room.y : std::round(std::max(room.y * 0.58F, room.y - 30 * em))};
    if (plot.height > 8 * em) draw_plot(ctx, plot);
    ImGui::SetCursorScreenPos(
        beside ? ImVec2(at.x + plot.width + em * 0.5F, at.y)
               : ImVec2(at.x, plot.height > 8 * em ? at.y + plot.height + em * 0.4F : at.y));
    draw_rows(ctx);
}

/// Which of the open tables, and how many rows it has.
void TablePanel::draw_files(UiContext& ctx) {
    OpenTables& tables = ctx.tables;
    const float em = ImGui::GetFontSize(), space = ImGui::GetStyle().ItemSpacing.x;
    std::vector<std::filesystem::path> paths;
    for (const auto& table : tables.all())
        paths.push_back(table->path);
    const auto name = [&](size_t i) { return short_name(paths[i], paths); };
    const auto rows = static_cast<int64_t>(tables.shown()->table.rows.size());
    const std::string count = format_count(rows, "row");
    const float others = 2 * ImGui::GetFrameHeight() + 3 * space + text_width(count);
    ImGui::SetNextItemWidth(std::clamp(ImGui::GetContentRegionAvail().x - others, 8 * em, 24 * em));
    if (ImGui::BeginCombo("##files", name(tables.chosen()).c_str(), ImGuiComboFlags_HeightLarge)) {
        for (size_t i = 0; i < tables.all().size(); ++i) {
            if (ImGui::Selectable(fmt::format("{}###{}", name(i), paths[i].string()).c_str(),
                                  i == tables.chosen()))
                tables.choose(i);
            ImGui::SetItemTooltip("%s", paths[i].string().c_str());
        }
        ImGui::Separator();
        if (ImGui::Selectable("Open table...")) ctx.run_action("file.open_table");
        ImGui::EndCombo();
    } else {
        ImGui::SetItemTooltip("%s", paths[tables.chosen()].string().c_str());
    }
    ImGui::SameLine();
    if (ImGui::Button("x##close", {ImGui::GetFrameHeight(), 0})) tables.close(tables.chosen());
    ImGui::SetItemTooltip("Closes this table; its file stays");
    ImGui::SameLine();
    ImGui::PushStyleColor(ImGuiCol_Text, ctx.theme.text_muted);
    ImGui::TextUnformatted(count.c_str());
    ImGui::PopStyleColor();
}

/// A figure that the table brings, or two columns.
void TablePanel::draw_axes(UiContext& ctx) {
    FileTableView& view = ctx.views.file_table;
    const auto plot = shown_plot(*m_file, view);
    const auto axes = table_axes(*m_file, view);
    const float em = ImGui::GetFontSize();
    const bool named =
        plot && std::ranges::find(m_file->plots, plot->name, &TablePlot::name) != m_file->plots.end();
    if (!m_file->plots.empty()) {
        ImGui::AlignTextToFramePadding();
        ImGui::TextUnformatted("Plot");
        ImGui::SameLine();
        ImGui::SetNextItemWidth(9 * em);
        if (ImGui::BeginCombo("##plot", named ? plot->name.c_str() : "columns")) {
            for (const TablePlot& one : m_file->plots) {
                if (ImGui::Selectable(one.name.c_str(), named && one.name == plot->name))
                    view.plot = one.name;
                if (!one.title.empty()) ImGui::SetItemTooltip("%s", one.title.c_str());
            }
            if (axes && ImGui::Selectable("columns", !named)) view.plot = columns_plot;
            ImGui::EndCombo();
        }
        ImGui::SetItemTooltip("A figure that came with the table, or two of its columns");
    }
    if (named || !axes) return;
    if (!m_file->plots.empty()) ImGui::SameLine(0, em);
    draw_own_axes(ctx, *axes);
}

void TablePanel::draw_own_axes(UiContext& ctx, const TableAxes& axes) {
    FileTableView& view = ctx.views.file_table;
    const float em = ImGui::GetFontSize(), box = ImGui::GetFrameHeight() + em * 0.3F;
    const float log = box + text_width("Log") + ImGui::GetStyle().ItemSpacing.x;
    const auto next = [&](float width) { // in the line where what comes has room there
        ImGui::SameLine(0, em);
        if (ImGui::GetContentRegionAvail().x < width) ImGui::NewLine();
    };
    const auto list = [&](size_t column) { // its whole name, if that is no sentence
        return std::clamp(text_width(m_file->table.columns[column]) + ImGui::GetFrameHeight() + em, 7 * em,
                          18 * em);
    };
    column_choice("##x", "x", m_file->table, axes.x, view.x, list(axes.x));
    ImGui::SameLine();
    ImGui::Checkbox("Log##x", &view.log_x);
    next(list(axes.y) + log + 2 * em);
    column_choice("##y", "y", m_file->table, axes.y, view.y, list(axes.y));
    ImGui::SameLine();
    ImGui::Checkbox("Log##y", &view.log_y);
    if (!m_file->has_policies()) return;
    next(box + text_width("Frontier"));
    ImGui::Checkbox("Frontier", &view.frontier);
    ImGui::SetItemTooltip(
        "A stair through the rows to which no other is better in both columns; less of x is better");
}

} // namespace refreshlab::ui
