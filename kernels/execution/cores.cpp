#include "kernels/execution/cores.h"

#include "kernels/execution/control_groups.h"

#include <sched.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <thread>
#include <vector>

namespace refreshlab::kernels {

namespace {

/// Cores of the affinity mask; 0 if it cannot be read.
int affinity_cores() {
    // A machine may have more cores than cpu_set_t has bits: the kernel then refuses the small mask.
    for (int cores = 1024; cores <= 1 << 20; cores *= 2) {
        cpu_set_t* const mask = CPU_ALLOC(static_cast<size_t>(cores));
        if (mask == nullptr) return 0;
        const size_t bytes = CPU_ALLOC_SIZE(static_cast<size_t>(cores));
        CPU_ZERO_S(bytes, mask);
        const bool read = sched_getaffinity(0, bytes, mask) == 0;
        const int count = read ? CPU_COUNT_S(bytes, mask) : 0;
        CPU_FREE(mask);
        if (read) return count;
    }
    return 0;
}

/// CPUs that one group grants; nothing where it sets no limit.
std::optional<double> quota_of(const ControlGroup& group) {
    double quota = 0, period = 0; // microseconds
    if (group.version == 2) {
        std::ifstream file(group.folder / "cpu.max"); // "max 100000" or "150000 100000"
        if (!(file >> quota >> period)) return std::nullopt;
    } else {
        quota = static_cast<double>(number_in(group.folder / "cpu.cfs_quota_us").value_or(0)); // -1: no limit
        period = static_cast<double>(number_in(group.folder / "cpu.cfs_period_us").value_or(0));
    }
    return quota > 0 && period > 0 ? std::optional(quota / period) : std::nullopt;
}

} // namespace

std::optional<double> cpu_quota(const std::filesystem::path& root) {
    std::optional<double> least;
    for (const ControlGroup& group : control_groups("cpu", root)) {
        if (const auto quota = quota_of(group)) least = std::min(least.value_or(*quota), *quota);
    }
    return least;
}

int usable_cores() {
    int cores = affinity_cores();
    if (cores <= 0) cores = static_cast<int>(std::thread::hardware_concurrency());
    if (const auto quota = cpu_quota(); quota && *quota < cores) cores = static_cast<int>(std::ceil(*quota));
    return std::max(1, cores);
}

int default_threads() {
    const int cores = usable_cores();
    const char* const asked = std::getenv("OMP_NUM_THREADS");
    if (asked == nullptr) return cores;
    int threads = 0;
    const auto [end, error] = std::from_chars(asked, asked + std::strlen(asked), threads);
    const bool number = error == std::errc() && threads > 0 && (*end == '\0' || *end == ',');
    return number ? std::min(threads, cores) : cores;
}

int threads_for(int wanted) {
    return wanted <= 0 ? default_threads() : std::min(wanted, usable_cores());
}

} // namespace refreshlab::kernels
