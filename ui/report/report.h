#pragma once

#include "engine/landscape/landscape.h"
#include "engine/record/recording/recording.h"
#include "engine/record/runs/run_label.h"

#include <nlohmann/json_fwd.hpp>

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

namespace refreshlab::ui {

/// One run of a report.
struct ReportRun {
    std::shared_ptr<const Recording> recording; ///< not null; it may have no step yet
    RunLabel label = {};
    std::shared_ptr<const Landscape> landscape = {}; ///< of its text; null: none
    std::string no_landscape = {}; ///< why one that is stored cannot be shown; empty: nothing
};

/// What a report is of. Plain data: the command line fills it in.
struct Report {
    std::string trace;           ///< the file's name, without its folder
    std::vector<ReportRun> runs; ///< at least one (asserted), parents before their branches
    std::string command_line;    ///< that made the report
    std::string version;         ///< of the program
};

/// One HTML file that shows the runs offline in any browser: text coloured by a signal, plots, events, notes, landscape, numbers and
/// settings. Nothing in it is fetched from elsewhere, and what stands in a trace is text there: it is never read as markup or script.
/// The same runs give the same bytes.
/// Nothing is thinned: every value that was measured per step is in it, as the shortest number that reads back. Layers of layered
/// signals (the page has their mean), attention and cache events are not.
/// Size: about 0.4 kB a step with 20 signals and 8 candidates, 0.1 MB a landscape.
/// Throws Error{bad_input, failure}: assets that are missing or cannot be read.
/// \param assets  report/, themes/, figures/ and fonts/ of it are read
[[nodiscard]] std::string report_html(const Report& report, const std::filesystem::path& assets);

} // namespace refreshlab::ui
