#pragma once

#include <filesystem>
#include <optional>

namespace refreshlab::kernels {

/// CPU cores that this process may use: the smaller of the calling thread's affinity (taskset, Slurm, cpusets) and the
/// CPU quota of its control group (containers), rounded up. At least 1.
[[nodiscard]] int usable_cores();

/// The number of threads when none was asked for: OMP_NUM_THREADS (the first of its list), at most usable_cores().
/// Without that variable, or where it is not a positive number: usable_cores().
[[nodiscard]] int default_threads();

/// The number of threads for a wish: 0 gives default_threads(). More threads than cores would only wait for each other,
/// so usable_cores() is the most. Results never depend on the number: a run that was recorded on a larger machine
/// replays here.
[[nodiscard]] int threads_for(int wanted);

/// CPUs that the control groups of this process grant (cpu.max of version 2, cpu.cfs_quota_us of version 1), the smallest of
/// them; nothing where no limit is set. \param root  the folder that holds proc/ and sys/
[[nodiscard]] std::optional<double> cpu_quota(const std::filesystem::path& root = "/");

} // namespace refreshlab::kernels
