#include "kernels/execution/thread_pool.h"

#include "kernels/shared/check.h"

#include <algorithm>
#include <chrono>
#include <utility>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace refreshlab::kernels {
namespace {

// A worker that is woken from sleep comes tens of microseconds late, on a virtual machine more. So between the steps of a small model
// it keeps offering its core to others instead.
constexpr std::chrono::microseconds spin_time{20}, yield_time{120};

// True in a worker, and in a caller while it runs chunks: a nested parallel_for runs inline.
thread_local bool t_inside = false;

void pause_cpu() {
#if defined(__x86_64__)
    _mm_pause();
#else
    std::this_thread::yield();
#endif
}

/// Spins, then yields, then sleeps on `word` until ready(word's value). The writer of `word` calls notify_all().
template <typename Ready>
uint32_t await(std::atomic<uint32_t>& word, const Ready& ready) {
    const auto start = std::chrono::steady_clock::now();
    uint32_t value = word.load(std::memory_order_acquire);
    while (!ready(value)) {
        for (int i = 0; i < 32 && !ready(value); ++i) {
            pause_cpu();
            value = word.load(std::memory_order_acquire);
        }
        if (std::chrono::steady_clock::now() - start > spin_time) break;
    }
    while (!ready(value) && std::chrono::steady_clock::now() - start < yield_time) {
        std::this_thread::yield();
        value = word.load(std::memory_order_acquire);
    }
    while (!ready(value)) {
        word.wait(value, std::memory_order_acquire);
        value = word.load(std::memory_order_acquire);
    }
    return value;
}

} // namespace

ThreadPool::ThreadPool(int num_threads, std::function<void()> enter)
    : m_num_threads(num_threads)
    , m_enter(std::move(enter)) {
    RL_ASSERT(num_threads >= 1 && num_threads <= 1024);
}

ThreadPool::~ThreadPool() {
    stop();
}

bool ThreadPool::inside() {
    return t_inside;
}

void ThreadPool::run(int64_t n, int64_t grain, RangeBody body) {
    RL_ASSERT(!t_inside);
    const std::lock_guard lock(m_callers);
    if (m_workers.empty()) start_workers();
    m_body = &body;
    m_n = n;
    m_grain = grain;
    m_error = nullptr;
    m_next.store(0, std::memory_order_relaxed);
    m_generation = (m_generation + 1) & generation_mask;
    m_state.store((m_generation << generation_shift) | open_bit,
                  std::memory_order_release); // acquired by worker_loop()
    m_state.notify_all();
    t_inside = true;
    work();
    t_inside = false;
    // No chunk is left. Close the job, then wait for the workers inside it.
    m_state.fetch_and(~open_bit, std::memory_order_acq_rel);
    await(m_state, [](uint32_t state) { return (state & count_mask) == 0; });
    if (m_error) std::rethrow_exception(m_error);
}

void ThreadPool::stop() {
    const std::lock_guard lock(m_callers);
    m_stopped = true;
    m_state.fetch_or(stop_bit, std::memory_order_release);
    m_state.notify_all();
    for (std::thread& worker : m_workers)
        worker.join();
    m_workers.clear();
}

void ThreadPool::start_workers() {
    const int wanted = m_stopped ? 0 : m_num_threads - 1;
    // A worker starts from the generation before the coming job, so that it may join that job.
    for (int i = 0; i < wanted; ++i)
        m_workers.emplace_back([this, seen = m_generation] { worker_loop(seen); });
}

void ThreadPool::worker_loop(uint32_t seen) {
    t_inside = true;
    m_enter();
    while (true) {
        uint32_t state = await(m_state, [seen](uint32_t value) {
            return (value & stop_bit) != 0 ||
                   ((value & open_bit) != 0 && (value >> generation_shift) != seen);
        });
        if ((state & stop_bit) != 0) return;
        // Enter: only while the job is still open, else it belongs to somebody who may have returned.
        if (!m_state.compare_exchange_weak(state, state + 1, std::memory_order_acq_rel)) continue;
        seen = state >> generation_shift;
        work();
        const uint32_t before = m_state.fetch_sub(1, std::memory_order_acq_rel);
        if ((before & count_mask) == 1 && (before & open_bit) == 0) m_state.notify_all();
    }
}

int64_t ThreadPool::take(int64_t& begin) {
    // A sixth of what is left for two threads, and so on down to the grain.
    const int64_t share = 3 * int64_t{m_num_threads};
    begin = m_next.load(std::memory_order_relaxed);
    while (begin < m_n) {
        const int64_t end = std::min(begin + std::max(m_grain, (m_n - begin) / share), m_n);
        if (m_next.compare_exchange_weak(begin, end, std::memory_order_relaxed)) return end;
    }
    return begin;
}

void ThreadPool::work() {
    while (true) {
        int64_t begin = 0;
        const int64_t end = take(begin);
        if (begin >= end) return;
        try {
            (*m_body)(begin, end);
        } catch (...) {
            const std::lock_guard lock(m_error_mutex);
            if (!m_error) m_error = std::current_exception();
            m_next.store(m_n, std::memory_order_relaxed); // the rest is not started
            return;
        }
    }
}

} // namespace refreshlab::kernels
