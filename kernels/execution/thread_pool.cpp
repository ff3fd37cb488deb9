#include "kernels/execution/thread_pool.h"

#include "kernels/execution/cores.h"
#include "kernels/execution/isa.h"
#include "kernels/shared/check.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace refreshlab::kernels {
namespace {

constexpr std::chrono::microseconds spin_time{20};
constexpr int yields_before_parking = 16;

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
    for (int i = 0; i < yields_before_parking && !ready(value); ++i) {
        std::this_thread::yield();
        value = word.load(std::memory_order_acquire);
    }
    while (!ready(value)) {
        word.wait(value, std::memory_order_acquire);
        value = word.load(std::memory_order_acquire);
    }
    return value;
}

/// Workers join an open job if they come in time and are not waited for if they do not: the caller takes chunks too, so
/// a parked or preempted worker costs its help, never the job. Never destroyed (static destructors may still compute);
/// stop() joins the workers at exit, after which everything runs inline.
class Pool {
public:
    static Pool& instance() {
        static Pool* pool = new Pool; // reachable for ever; its threads are joined by the guard below
        static const struct Guard {
            Pool* m_pool;
            ~Guard() { m_pool->stop(); }
        } guard{pool};
        return *pool;
    }

    void resize(int num_threads) {
        const std::lock_guard lock(m_callers);
        join_workers();
        m_num_threads.store(num_threads, std::memory_order_relaxed);
    }

    [[nodiscard]] int size() const { return m_num_threads.load(std::memory_order_relaxed); }

    void run(int64_t n, int64_t chunk, const std::function<void(int64_t, int64_t)>& body) {
        const std::lock_guard lock(m_callers);
        if (m_workers.empty()) start_workers();
        m_body = &body;
        m_n = n;
        m_chunk = chunk;
        m_error = nullptr;
        m_next.store(0, std::memory_order_relaxed);
        m_generation = (m_generation + 1) & generation_mask;
        m_state.store((m_generation << generation_shift) | open_bit,
                      std::memory_order_release); // acquired by enter()
        m_state.notify_all();
        t_inside = true;
        work();
        t_inside = false;
        // No chunk is left. Close the job, then wait for the workers inside it.
        m_state.fetch_and(~open_bit, std::memory_order_acq_rel);
        await(m_state, [](uint32_t state) { return (state & count_mask) == 0; });
        if (m_error) std::rethrow_exception(m_error);
    }

private:
    // One word holds everything that workers and caller race for: generation | open | workers inside.
    static constexpr uint32_t count_mask = (1U << 11) - 1;
    static constexpr uint32_t open_bit = 1U << 11;
    static constexpr uint32_t stop_bit = 1U << 12;
    static constexpr uint32_t generation_shift = 13;
    static constexpr uint32_t generation_mask = (1U << 19) - 1;

    Pool()
        : m_num_threads(default_threads()) {}

    void stop() {
        const std::lock_guard lock(m_callers);
        join_workers();
        m_num_threads.store(1, std::memory_order_relaxed);
        m_stopped = true;
    }

    void start_workers() {
        const int wanted = m_stopped ? 0 : size() - 1;
        // A worker starts from the generation before the coming job, so that it may join that job.
        for (int i = 0; i < wanted; ++i)
            m_workers.emplace_back([this, seen = m_generation] { worker_loop(seen); });
    }

    void join_workers() {
        m_state.fetch_or(stop_bit, std::memory_order_release);
        m_state.notify_all();
        for (std::thread& worker : m_workers)
            worker.join();
        m_workers.clear();
        m_state.store(m_generation << generation_shift, std::memory_order_release);
    }

    void worker_loop(uint32_t seen) {
        t_inside = true;
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

    void work() {
        while (true) {
            const int64_t begin = m_next.fetch_add(m_chunk, std::memory_order_relaxed);
            if (begin >= m_n) return;
            try {
                (*m_body)(begin, std::min(begin + m_chunk, m_n));
            } catch (...) {
                const std::lock_guard lock(m_error_mutex);
                if (!m_error) m_error = std::current_exception();
                m_next.store(m_n, std::memory_order_relaxed); // the rest is not started
                return;
            }
        }
    }

    std::mutex m_callers; // held by the one caller for a whole job, and while threads are started or joined
    std::vector<std::thread> m_workers;
    std::atomic<int> m_num_threads;
    bool m_stopped = false;
    uint32_t m_generation = 0;

    // The job. Written by the caller while closed and empty; published by m_state.
    const std::function<void(int64_t, int64_t)>* m_body = nullptr;
    int64_t m_n = 0;
    int64_t m_chunk = 1;
    std::exception_ptr m_error; // under m_error_mutex while the job is open
    std::mutex m_error_mutex;

    alignas(64) std::atomic<uint32_t> m_state{0};
    alignas(64) std::atomic<int64_t> m_next{0};
};

} // namespace

void set_num_threads(int num_threads) {
    RL_ASSERT(num_threads >= 0);
    RL_ASSERT(!t_inside);
    const int wanted = std::min(num_threads == 0 ? default_threads() : num_threads, 1024);
    if (Pool::instance().size() != wanted) Pool::instance().resize(wanted);
    at::set_num_threads(isa() == Isa::reference ? wanted : 1);
}

LibtorchThreads::LibtorchThreads()
    : m_before(at::get_num_threads()) {
    at::set_num_threads(num_threads());
}

LibtorchThreads::~LibtorchThreads() {
    at::set_num_threads(m_before);
}

int num_threads() {
    return Pool::instance().size();
}

void parallel_for(int64_t n, int64_t grain, const std::function<void(int64_t, int64_t)>& body) {
    if (n <= 0) return;
    grain = std::max<int64_t>(grain, 1);
    if (t_inside || n <= grain || num_threads() == 1) {
        body(0, n);
        return;
    }
    // About four chunks per thread: small enough that a preempted thread leaves little undone.
    const int64_t pieces = static_cast<int64_t>(num_threads()) * 4;
    Pool::instance().run(n, std::max(grain, (n + pieces - 1) / pieces), body);
}

} // namespace refreshlab::kernels
