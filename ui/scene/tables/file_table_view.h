#pragma once

#include "ui/base/table_view.h"

#include <string>
#include <string_view>

namespace refreshlab::ui {

inline constexpr std::string_view columns_plot = "*"; ///< no figure has this name

/// What a person has chosen to see of the tables of files. Names of columns and figures that a table does not have count as not chosen.
struct FileTableView {
    std::string plot =
        {}; ///< name of a figure that the table brings; columns_plot: x and y below; empty: as shown_plot() chooses
    std::string x = {}, y = {};        ///< columns; empty: the usual ones
    bool log_x = false, log_y = false; ///< of those columns
    bool frontier = true;              ///< of those columns, where rows are cache policies
    TableView table = {};              ///< columns by their names
    friend bool operator==(const FileTableView&, const FileTableView&) = default;
};

} // namespace refreshlab::ui
