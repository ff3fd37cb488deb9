#pragma once

#include <cstdint>
#include <functional>

namespace refreshlab::kernels {

/// Sets how many threads (the caller included) the CPU kernels of this process use; 0 = default_threads(). Results never
/// depend on the number: every output element is computed by one thread, in one fixed order. Call between steps only.
/// What a step leaves to libtorch is small copies, so on the calling thread libtorch gets one thread (all of them where it
/// has to do the kernels' work, Isa::reference): its OpenMP workers meet at barriers, where they wait for tens of
/// milliseconds as soon as another thread, the window's say, has the core.
void set_num_threads(int num_threads);
[[nodiscard]] int num_threads();

/// As many threads for libtorch's operations on the calling thread as the kernels have, as long as the object lives: for
/// bulk work such as converting weights.
class LibtorchThreads {
public:
    LibtorchThreads();
    ~LibtorchThreads();
    LibtorchThreads(const LibtorchThreads&) = delete;
    LibtorchThreads& operator=(const LibtorchThreads&) = delete;

private:
    int m_before;
};

/// Runs body(begin, end) over [0, n) in chunks of at least `grain`, handed out from an atomic counter so that a
/// preempted thread does not stall the others. Returns when all of it is done. One caller at a time (the decode
/// thread); concurrent callers queue. Exceptions of body are rethrown in the caller. A call from inside a body runs
/// inline. At process exit the workers are joined; later calls run inline.
/// Workers spin at most ~20 us for the next call, then park (reference/performance.md, 5.4).
void parallel_for(int64_t n, int64_t grain, const std::function<void(int64_t, int64_t)>& body);

} // namespace refreshlab::kernels
