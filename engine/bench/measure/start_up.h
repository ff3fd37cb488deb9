#pragma once

#include "engine/bench/report/bench_report.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace refreshlab::bench {

/// The child's half: when its parts ended, by CLOCK_MONOTONIC, and its memory. One line of JSON carries it to the parent.
struct StartUpMarks {
    std::vector<std::pair<std::string, int64_t>> ends; ///< part, nanoseconds; the last is the first token
    int64_t libraries_bytes = 0, peak_bytes = 0;       ///< see StartUp
    int64_t tokens = 0;
    void mark(std::string_view part); ///< it ends now
};
[[nodiscard]] std::string to_line(const StartUpMarks& marks);
/// \param said  all that a child wrote; the line may stand among others. Throws Error{failure} where there is none.
[[nodiscard]] StartUpMarks marks_from(const std::string& said);

/// One start: from when the parent began it, in nanoseconds of CLOCK_MONOTONIC, to the child's marks.
struct Start {
    int64_t began = 0;
    StartUpMarks marks;
};
/// The parts as lengths; the first begins with the process. starts: at least one, all with the same parts (asserted).
[[nodiscard]] StartUp start_up_of(const std::vector<Start>& starts);

/// Starts a program so many times, after one start that does not count (files come from the disk then). It prints to_line().
/// Throws Error{failure} with what it said where it fails.
[[nodiscard]] StartUp measure_start_up(const std::vector<std::string>& command, int64_t times);

} // namespace refreshlab::bench
