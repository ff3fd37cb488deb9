#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace refreshlab::ui {

/// Which columns of a table are shown, and what its rows are sorted by. Columns go by their keys: a key that a table does not have
/// changes nothing.
struct TableView {
    std::vector<std::string> hidden = {}; ///< in the order of the columns
    std::string sorted_by = {};           ///< empty: in the order in which the rows came
    bool descending = false;

    [[nodiscard]] bool shows(std::string_view key) const;
    /// The place of the column that the rows are sorted by; nothing: in the order in which they came.
    [[nodiscard]] std::optional<size_t> sorted_column(std::span<const std::string_view> keys) const;
    /// "-steps": by steps, the largest first. Empty: in the order in which they came.
    [[nodiscard]] std::string order() const { return (descending ? "-" : "") + sorted_by; }
    void set_order(std::string_view order);
    friend bool operator==(const TableView&, const TableView&) = default;
};

} // namespace refreshlab::ui
