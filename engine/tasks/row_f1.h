#pragma once

#include <string_view>

namespace refreshlab {

/// How well a table of tab-separated lines tells another one, rows in any order: the harmonic mean of the share of rows that
/// are right and the share of true rows that are there; duplicates count. The first lines are headers and only their widths
/// count. Cells are compared without case, ASCII punctuation, the words a, an, the, and blanks. 0 where there is no row in
/// either, or the widths differ. A last row of another width is left out, as a text that was cut off has one; another row of a
/// wrong width is wrong.
/// Source: reference/cache-definitions.md, section 13 (HTML to TSV of LongProc); our tables stand without a fence and quotes.
[[nodiscard]] double row_f1(std::string_view table, std::string_view truth);

} // namespace refreshlab
