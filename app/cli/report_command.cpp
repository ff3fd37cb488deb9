#include "app/base/output.h"
#include "app/cli/commands.h"
#include "engine/base/error.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <memory>

#if REFRESHLAB_UI
#include "app/base/assets.h"
#include "app/base/build_commit.h"
#include "app/base/trace_runs.h"
#include "engine/base/bytes_text.h"
#include "engine/base/json_file.h"
#include "engine/record/trace/trace_store.h"
#include "ui/report/report.h"
#include "ui/scene/landscape/text_readings.h"

#include <algorithm>
#include <filesystem>
#endif

namespace refreshlab::app {

#if REFRESHLAB_UI

namespace {

struct ReportOptions {
    std::string trace, out;
    std::vector<std::string> runs;
};

/// The chosen runs, or all of them, in the order of the trace.
std::vector<ui::ReportRun> runs_of(const ReportOptions& options) {
    constexpr const char* doing = "reporting";
    const auto [runs, labels] = load_labelled_trace(options.trace);
    if (runs.empty()) throw Error(doing, options.trace, "the trace holds no run");
    std::vector<const Recording*> chosen;
    for (const std::string& id : options.runs)
        chosen.push_back(chosen_run(runs, id, doing, options.trace).get());
    std::vector<ui::ReportRun> found;
    for (size_t i = 0; i < runs.size(); ++i) {
        if (!chosen.empty() && std::ranges::find(chosen, runs[i].get()) == chosen.end()) continue;
        ui::ReadingsOfFile readings = ui::readings_of_file(options.trace, *runs[i]);
        found.push_back({runs[i], labels[i], std::move(readings.landscape),
                         fmt::format("{}", fmt::join(readings.faults, "; "))});
    }
    return found;
}

int report(const ReportOptions& options) {
    check_outputs(std::vector<NamedFile>{{"-o", options.out}},
                  std::vector<NamedFile>{{"TRACE", options.trace}});
    const ui::Report report{std::filesystem::path(options.trace).filename().string(), runs_of(options),
                            command_line(), version()};
    const std::string html = ui::report_html(report, find_assets());
    write_file(options.out, html);
    int64_t steps = 0;
    for (const ui::ReportRun& run : report.runs)
        steps += run.recording->steps();
    say("wrote {}: {} {}, {} steps, {}\n", options.out, report.runs.size(),
        report.runs.size() == 1 ? "run" : "runs", steps, bytes_text(static_cast<int64_t>(html.size())));
    return 0;
}

} // namespace

Command add_report_command(CLI::App& app) {
    auto options = std::make_shared<ReportOptions>();
    CLI::App* command =
        app.add_subcommand("report", "One HTML file of a trace that opens offline in any browser: text, "
                                     "signals, events, notes, numbers");
    command->add_option("TRACE", options->trace, "A file written by --record or saved from the window")
        ->required();
    command->add_option("-o,--out", options->out, "The page")->type_name("FILE.html")->required();
    command
        ->add_option("--run", options->runs,
                     "Ids of runs of the trace, one section each (default: all of them)")
        ->type_name("ID");
    command->footer("The file has every value that was measured per step: about 0.4 MB for 1,000 steps. It "
                    "has no layers, attention and cache events.\n");
    return [options] { return report(*options); };
}

#else

Command add_report_command(CLI::App& app) {
    app.add_subcommand("report", "One HTML file of a trace (not part of this build)")->allow_extras();
    return []() -> int {
        throw Error("reporting", {}, "this build makes no reports (REFRESHLAB_UI=OFF)",
                    "refreshlab export writes the numbers", ErrorKind::failure);
    };
}

#endif

} // namespace refreshlab::app
