#include "engine/study/jobs/job_pool.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <thread>

namespace refreshlab {

Execution JobSlot::execution(KernelSet kernels) {
    const kernels::Isa isa = resolve_kernels(kernels);
    Execution& known = m_executions[isa];
    if (!known) known = std::make_shared<const kernels::ExecutionContext>(m_num_threads, isa);
    return known;
}

JobPool::JobPool(size_t workers, int num_threads) {
    workers = std::max<size_t>(workers, 1);
    const auto share = static_cast<size_t>(std::max(num_threads, 1)) / workers;
    const auto rest = static_cast<size_t>(std::max(num_threads, 1)) % workers;
    for (size_t worker = 0; worker < workers; ++worker) {
        const size_t threads = std::max<size_t>(share + (worker < rest ? 1 : 0), 1);
        m_slots.push_back(std::make_unique<JobSlot>(worker, static_cast<int>(threads)));
    }
}

void JobPool::run(size_t jobs, const std::function<void(size_t, JobSlot&)>& work,
                  const std::function<bool()>& stop) {
    std::atomic<size_t> next{0};
    std::atomic<bool> failed{false}; // `error` is set, or will be
    std::mutex mutex;                // protects `error`, held for one assignment
    std::exception_ptr error;
    const auto take_jobs = [&](JobSlot& slot) {
        try {
            while (!failed && !(stop && stop())) {
                const size_t job = next.fetch_add(1);
                if (job >= jobs) return;
                work(job, slot);
            }
        } catch (...) {
            const std::lock_guard lock(mutex);
            if (!error) error = std::current_exception();
            failed = true;
        }
    };
    std::vector<std::jthread> others;
    for (size_t worker = 1; worker < std::min(m_slots.size(), jobs); ++worker)
        others.emplace_back([&, worker] { take_jobs(*m_slots[worker]); });
    take_jobs(*m_slots[0]);
    others.clear(); // joins
    if (error) std::rethrow_exception(error);
}

} // namespace refreshlab
