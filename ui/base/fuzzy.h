#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace refreshlab::ui {

/// Letters A to Z as small ones, other bytes as they are.
[[nodiscard]] std::string ascii_lower(std::string_view text);

/// How well `query` matches `text`: its letters must appear in order, case ignored; spaces in the query are skipped.
/// Higher is better: beginnings of words and unbroken stretches count more, late matches less. Nothing = no match.
/// An empty query matches everything with 0.
[[nodiscard]] std::optional<int> fuzzy_score(std::string_view query, std::string_view text);

} // namespace refreshlab::ui
