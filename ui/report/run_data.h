#pragma once

#include "ui/report/page_colours.h"
#include "ui/report/report.h"
#include "ui/scene/text/step_marks.h"

#include <nlohmann/json_fwd.hpp>

#include <string>

namespace refreshlab::ui {

// What the page's script gets of a run, as JSON. assets/report/read.js is its reader.

/// All but its figures: facts, text, signals, candidates, marks, notes, numbers, settings.
/// \param trace  name of the file that it was read from
[[nodiscard]] nlohmann::json run_data(const ReportRun& run, const std::string& trace, PageColours& colours);

// Its parts, in the order of the page.

/// Tokens y_1 .. y_n: ids, who drew each ("t", "s"), and the pieces of text that each shows, as the window's panel has them: a string,
/// or pairs of a kind ("special", "escape") and a string.
[[nodiscard]] nlohmann::json text_data(const Recording& recording);
/// Every signal that was measured at some step: what it is, its colours and scales, thresholds as they were, and a value a step. A value
/// that was not measured is null; a measured NaN is "nan", infinity "inf" or "-inf".
[[nodiscard]] nlohmann::json signals_data(const std::shared_ptr<const Recording>& recording,
                                          PageColours& colours);
/// Candidates of each step: "rows" [[id, probability, ...], ...], "labels" {id: words}.
[[nodiscard]] nlohmann::json candidates_data(const Recording& recording);
/// What lanes of marks are called.
[[nodiscard]] nlohmann::json lanes_data();
/// Refreshes, those prevented, drafts cut and changes by hand, by step; the columns are those of the panel Events.
[[nodiscard]] nlohmann::json marks_data(const Recording& recording, const StepMarks& marks,
                                        PageColours& colours);
[[nodiscard]] nlohmann::json notes_data(const StepMarks& marks, PageColours& colours);

/// A float as the double whose shortest text is the float's: 0.1F is 0.1.
[[nodiscard]] double short_double(float value);

} // namespace refreshlab::ui
