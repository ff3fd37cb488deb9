#pragma once

#include <string>
#include <string_view>

namespace refreshlab::ui {

/// Text between tags of XML or HTML, and in a quoted attribute: & < > " as entities.
[[nodiscard]] std::string escaped_markup(std::string_view text);

} // namespace refreshlab::ui
