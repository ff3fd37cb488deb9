#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <type_traits>
#include <vector>

namespace refreshlab::kernels {

/// Threads of the calling thread's execution context (kernels/execution/execution_context.h), the caller included.
[[nodiscard]] int num_threads();

/// What parallel_for() calls. Refers to a callable that outlives it and does not own it: a decode step makes a hundred calls and
/// shall allocate nothing for them.
class RangeBody {
public:
    template <typename F>
    requires(!std::is_same_v<std::remove_cvref_t<F>, RangeBody>)
        RangeBody(F&& body) // NOLINT: a lambda becomes one where it is passed
        : m_body(const_cast<void*>(static_cast<const void*>(std::addressof(body))))
        , m_call([](void* of, int64_t begin, int64_t end) {
            (*static_cast<std::remove_reference_t<F>*>(of))(begin, end);
        }) {}
    void operator()(int64_t begin, int64_t end) const { m_call(m_body, begin, end); }

private:
    void* m_body;
    void (*m_call)(void* of, int64_t begin, int64_t end);
};

/// Runs body(begin, end) over [0, n) in chunks of at least `grain` on the pool of the calling thread's execution context.
/// Chunks are handed out as threads come, so that a preempted thread does not stall the others; they get smaller towards the end,
/// so that the threads finish together. Returns when all of it is done.
/// The bodies see the caller's context. Callers of one context queue; callers of different ones do not meet. Exceptions of
/// body are rethrown in the caller. A call from inside a body runs inline.
/// Workers spin at most ~20 us for the next call, yield their core up to 120 us, then park (development/performance.md, 5.4).
void parallel_for(int64_t n, int64_t grain, RangeBody body);

/// The threads of one execution context. Workers are started by the first job that needs them. A worker that comes in
/// time joins an open job, and nobody waits for one that does not. The caller takes chunks too, so a parked or
/// preempted worker costs only its help, never the job.
class ThreadPool {
public:
    /// \param num_threads  the caller included, 1 to 1024                                             (asserted)
    /// \param enter        called once in every worker before its first job
    ThreadPool(int num_threads, std::function<void()> enter);
    ~ThreadPool(); ///< no job is running
    ThreadPool(const ThreadPool&) = delete;
    ThreadPool& operator=(const ThreadPool&) = delete;

    [[nodiscard]] int size() const { return m_num_threads; }
    /// True while the calling thread runs a chunk of some pool: a job from here would wait for itself.
    [[nodiscard]] static bool inside();
    /// body over [0, n) in pieces of `grain` or more. Not from inside a chunk (asserted). Callers queue.
    void run(int64_t n, int64_t grain, RangeBody body);
    /// Joins the workers for good; later jobs run on the caller alone.
    void stop();

private:
    // One word holds everything that workers and caller race for: generation | open | workers inside.
    static constexpr uint32_t count_mask = (1U << 11) - 1;
    static constexpr uint32_t open_bit = 1U << 11;
    static constexpr uint32_t stop_bit = 1U << 12;
    static constexpr uint32_t generation_shift = 13;
    static constexpr uint32_t generation_mask = (1U << 19) - 1;

    void start_workers();
    void worker_loop(uint32_t seen);
    [[nodiscard]] int64_t take(int64_t& begin); ///< \return its end; begin where nothing is left
    void work();

    const int m_num_threads;
    const std::function<void()> m_enter;
    std::mutex m_callers; ///< held by the one caller for a whole job, and while threads are started or joined
    std::vector<std::thread> m_workers;
    bool m_stopped = false;
    uint32_t m_generation = 0;

    // The job. Written by the caller while closed and empty; published by m_state.
    const RangeBody* m_body = nullptr;
    int64_t m_n = 0;
    int64_t m_grain = 1;
    std::exception_ptr m_error; ///< under m_error_mutex while the job is open
    std::mutex m_error_mutex;   ///< held for one assignment

    alignas(64) std::atomic<uint32_t> m_state{0}; // released by run(), acquired by worker_loop()
    alignas(64) std::atomic<int64_t> m_next{0};   // relaxed: m_state publishes the job around it
};

} // namespace refreshlab::kernels
