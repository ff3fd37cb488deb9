#pragma once

#include "ui/base/table_view.h"

#include <span>
#include <string_view>

namespace refreshlab::ui {

/// Keeps a view and a table of Dear ImGui the same: which columns are shown and which one sorts. A person changes either: the table by its
/// header and menu, the view by undo, by settings, by another panel.
class TableSync {
public:
    /// Between the last TableSetupColumn() and the first row. \param keys  of the columns in their order; empty: a column of the table alone,
    /// which is no choice
    void follow(TableView& view, std::span<const std::string_view> keys);

private:
    TableView m_seen; ///< what both were in the last frame
};

} // namespace refreshlab::ui
