#pragma once

#include <string>
#include <string_view>

namespace refreshlab {

/// A field of CSV (RFC 4180): as it is, or in quotes with its own doubled where it holds a comma, a quote or a line end.
[[nodiscard]] std::string csv_field(std::string_view text);

} // namespace refreshlab
