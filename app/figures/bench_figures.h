#pragma once

#include "engine/bench/report/bench_report.h"

#include <filesystem>

namespace refreshlab::app {

/// Pictures of a benchmark into a folder that exists: latency.svg (histogram of the refreshed run's steps), decode.svg (tokens a
/// second by context), refresh.svg (cost against delta), each with its numbers as .csv; what was not measured is left out.
/// Throws Error{bad_input} where a file cannot be written, and in a build without the window.
void draw_bench_figures(const bench::BenchReport& report, const std::filesystem::path& folder);

} // namespace refreshlab::app
