#pragma once

#include "python/bindings/arrays.h"

#include <string>

namespace refreshlab {
class Recording;
}

namespace refreshlab::python {

/// A table of a recording by columns: name -> an array of NumPy, or a list where a cell is a text, a truth value or may be missing (None).
/// Numbers that were not measured carry the payload of absent(). Columns and rows are those of export_csv(), with the tables' names of
/// table_names().
/// Throws Error{bad_input} for a table that there is not.
[[nodiscard]] nb::dict table_of(const Recording& recording, const std::string& name);

/// "steps", "candidates", "layers", "refreshes", "passes", "commands", "drafts", "drift", "cache", "blocked", "notes", "parts".
[[nodiscard]] std::vector<std::string> table_names();

} // namespace refreshlab::python
