#pragma once

#include <cstdint>
#include <functional>

namespace refreshlab::kernels {

/// Sets how many threads (the caller included) the CPU kernels of this process use; 0 = default_threads(). Also sets ATen's
/// count on the calling thread. Results never depend on the number: every output element is computed by one thread, in
/// one fixed order. Call between steps only.
void set_num_threads(int num_threads);
[[nodiscard]] int num_threads();

/// Runs body(begin, end) over [0, n) in chunks of at least `grain`, handed out from an atomic counter so that a
/// preempted thread does not stall the others. Returns when all of it is done. One caller at a time (the decode
/// thread); concurrent callers queue. Exceptions of body are rethrown in the caller. A call from inside a body runs
/// inline. At process exit the workers are joined; later calls run inline.
/// Workers spin at most ~20 us for the next call, then park (reference/performance.md, 5.4).
void parallel_for(int64_t n, int64_t grain, const std::function<void(int64_t, int64_t)>& body);

} // namespace refreshlab::kernels
