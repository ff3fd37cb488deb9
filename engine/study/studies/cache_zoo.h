#pragma once

#include "engine/policies/cache_policy_config.h"
#include "engine/study/measure/cache_reading.h"
#include "engine/study/studies/study_table.h"

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace refreshlab {

/// A cache policy at a budget, as a row of a table of all of them.
struct ZooRow {
    std::string budget; ///< as tables name it: "1/4", "4 bits", "all"
    CachePolicyConfig config;
};

/// Every method of the registry that can be compared on a text of `prompt` tokens whose end is read under it, `full` first: with a half to a
/// sixteenth of the prompt's entries, or with codes of 8, 4 and 2 bits. Parameters other than budgets are the defaults, but what a method keeps
/// in any case (a window, the last tokens) is a quarter of the budget at most, evictions come every 16 steps at most, and InfiniGen reads as much as
/// its limit allows. Rows of two prompts have the same methods and budgets in the same order. Left out are those that read what they do not hold,
/// which costs time and no entries.
[[nodiscard]] std::vector<ZooRow> zoo_rows(int64_t prompt);

/// The same methods, each once, for runs that write `tokens` behind a prompt, `full` first: with an eighth of all entries, or where a method thins the
/// prompt alone, a fourth of the prompt's; with codes of 4 bits, or 0.4 of the channels dropped.
[[nodiscard]] std::vector<ZooRow> axes_rows(int64_t prompt, int64_t tokens);

/// Which rows no other beats: none costs as little, or less, with as small a loss, or a smaller one. Both are finite and as many (asserted).
[[nodiscard]] std::vector<bool> on_frontier(std::span<const double> cost, std::span<const double> loss);

/// What the rows gave: means over texts with intervals, and which of them are on the frontier: no other row holds as few bytes, or fewer, with as
/// small a KL to the full cache, or a smaller one.
/// \param rows      of any of the prompts
/// \param readings  [texts][rows], the first row `full`
/// \param kinds     of each text; several make a column each of the share of first choices
[[nodiscard]] StudyTable zoo_table(const std::string& name, const std::string& title,
                                   std::span<const ZooRow> rows,
                                   const std::vector<std::vector<CacheReading>>& readings,
                                   std::span<const std::string> kinds, uint64_t seed);

} // namespace refreshlab
