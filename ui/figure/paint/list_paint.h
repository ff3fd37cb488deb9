#pragma once

#include "ui/figure/pen.h"

#include <optional>
#include <string>
#include <vector>

namespace refreshlab::ui {

/// A table as papers print them: rules above and below, one under the headings, no vertical lines.
struct PrintedTable {
    struct Column {
        std::string heading;
        TextStyle::Align align = TextStyle::Align::left; ///< numbers stand to the right
        bool wraps = false; ///< its words may go over several lines where the table would be too wide
    };
    /// A small box before the words of a cell.
    struct Box {
        Colour colour = 0;
        bool hollow = false;
        std::string letter = {};
    };
    struct Cell {
        std::string words;
        std::optional<Box> box = {};
        bool strong = false; ///< in the colour of what stands out
    };
    std::vector<Column> columns;
    std::vector<std::vector<Cell>> rows; ///< each as wide as columns
    std::string below = {};              ///< a line under the table; empty: none
};

/// Height at this width. Where the table is too wide, columns that wrap become narrower, then all letters smaller; cells that still do not fit
/// end with an ellipsis.
[[nodiscard]] double table_height(const FigurePen& pen, double width, const PrintedTable& table);
void paint_table(const FigurePen& pen, const FigureRect& place, const PrintedTable& table);

} // namespace refreshlab::ui
