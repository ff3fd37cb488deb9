#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace refreshlab {

/// A table of text: what a CSV file holds.
struct DataTable {
    std::vector<std::string> columns;
    std::vector<std::vector<std::string>>
        rows; ///< each as wide as columns; a cell that does not exist is empty

    /// The first column of that name.
    [[nodiscard]] std::optional<size_t> find(std::string_view column) const;
};

/// A cell as a number; nothing for any other text, an empty cell and "-".
[[nodiscard]] std::optional<double> cell_number(std::string_view cell);

/// RFC 4180, lines ending in CR LF.
[[nodiscard]] std::string to_csv(const DataTable& table);
/// RFC 4180; lines may end in LF alone, as a last one need not.
/// Throws Error{bad_input} naming `what` and the line: no header, a row of another width, a quote that does not end.
[[nodiscard]] DataTable parse_csv(std::string_view text, const std::string& what);

} // namespace refreshlab
