#pragma once

#include "engine/bench/report/bench_report.h"

#include <cstdint>
#include <filesystem>

namespace refreshlab::bench {

/// What the kernel says of this machine; load_after is left at 0.
/// \param root  the folder that holds proc/ and sys/
[[nodiscard]] Machine this_machine(const std::filesystem::path& root = "/");
/// Processes that were running or waiting, mean over the last minute; 0 where nobody says.
[[nodiscard]] double machine_load(const std::filesystem::path& root = "/");
/// Most bytes of memory that this process ever held (VmHWM); 0 where nobody says.
[[nodiscard]] int64_t peak_memory(const std::filesystem::path& root = "/");
/// CLOCK_MONOTONIC, nanoseconds: the same clock in every process.
[[nodiscard]] int64_t monotonic_ns();

} // namespace refreshlab::bench
