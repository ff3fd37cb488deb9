#pragma once

#include "ui/base/latest_answer.h"
#include "ui/base/pixel_box.h"
#include "ui/draw/table_sync.h"
#include "ui/figure/tables/table_figure.h"
#include "ui/panels/panel.h"
#include "ui/scene/tables/table_choice.h"

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace refreshlab::ui {

/// A CSV file as a plot and a table that sorts (development/ui.md, FT1-FT4). While somebody writes the file, the panel follows it. A
/// row that names a cache policy starts a run with it.
class TablePanel final : public Panel {
public:
    [[nodiscard]] std::string_view title() const override { return "Table"; }
    [[nodiscard]] std::string_view tab_beside() const override { return "Signals"; }
    [[nodiscard]] std::pair<float, float> size_in_ems() const override { return {46.0F, 38.0F}; }
    void draw(UiContext& ctx) override;

private:
    /// What is read again, beside the frames.
    struct Question {
        std::filesystem::path path;
        FileStamp stamp; ///< that the file has now
        friend bool operator==(const Question&, const Question&) = default;
    };
    struct Answer {
        std::shared_ptr<const TableFile> table; ///< null: it cannot be read
        std::string fault;
    };
    [[nodiscard]] static Answer read_again(const Question& question);

    void follow(UiContext& ctx);
    void update(const UiContext& ctx);
    void draw_files(UiContext& ctx);
    void draw_axes(UiContext& ctx);
    void draw_own_axes(UiContext& ctx, const TableAxes& axes);
    void draw_plot(UiContext& ctx, PixelBox place);
    void draw_rows(UiContext& ctx);
    void draw_row(UiContext& ctx, size_t row);
    void tell_row(UiContext& ctx, size_t row) const;
    void run_row(UiContext& ctx, size_t row) const;
    [[nodiscard]] static std::string why_not_run(const UiContext& ctx, const RowReading& row);

    std::shared_ptr<const TableFile> m_file; ///< that is shown
    FileTableView m_view;                    ///< that the members below are of
    std::unique_ptr<TableFigure> m_figure;   ///< null: there is nothing to draw
    bool m_single = false;                   ///< it has one plot
    std::string m_problem;                   ///< why not
    std::vector<size_t> m_rows;              ///< as they are sorted
    std::optional<size_t> m_selected;        ///< row of the file
    std::optional<size_t> m_hovered;         ///< in the plot, in this frame
    std::optional<size_t> m_row_hovered;     ///< in the table, in the last frame
    std::vector<bool> m_long;                ///< columns with long texts
    TableSync m_table;
    LatestAnswer<Question, Answer> m_answers{&read_again};
    std::optional<Question> m_asked, m_refused; ///< last; that could not be read
    double m_looked_s = -1;                     ///< at the file, ImGui time
    std::string m_fault;                        ///< of the last look
    bool m_reveal = false;                      ///< the selected row comes in sight
};

} // namespace refreshlab::ui
