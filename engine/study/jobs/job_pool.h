#pragma once

#include "engine/session/pair/run_execution.h"

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <vector>

namespace refreshlab {

/// What a job works with: one of the pool's workers, and this worker's share of the cores.
class JobSlot {
public:
    JobSlot(size_t worker, int num_threads)
        : m_worker(worker)
        , m_num_threads(num_threads) {}
    [[nodiscard]] size_t worker() const { return m_worker; } ///< from 0
    [[nodiscard]] int num_threads() const { return m_num_threads; }
    /// For a session of this job: the worker's threads with a kernel set. The same object for every job of the worker that
    /// wants this set. Throws as resolve_kernels().
    [[nodiscard]] Execution execution(KernelSet kernels);

private:
    size_t m_worker;
    int m_num_threads;
    std::map<kernels::Isa, Execution> m_executions;
};

/// Jobs of a list, several at a time, that share the cores: studies and sweeps. Which worker takes which job is chance, so a
/// job's result must not depend on it (sessions' do not: kernels/execution/execution_context.h).
class JobPool {
public:
    /// \param workers      jobs at a time; 0 counts as 1
    /// \param num_threads  CPU threads of all workers together; each has its share, at least one
    JobPool(size_t workers, int num_threads);

    [[nodiscard]] size_t workers() const { return m_slots.size(); }

    /// Calls work(job, slot) for every job in [0, jobs), taken in this order, and returns when all of it is done. The calling
    /// thread is one of the workers. What a job throws ends all workers after their jobs and is thrown again here.
    /// \param stop  asked before every job is taken, by any thread; true: no more jobs
    void run(size_t jobs, const std::function<void(size_t job, JobSlot& slot)>& work,
             const std::function<bool()>& stop = {});

private:
    std::vector<std::unique_ptr<JobSlot>> m_slots;
};

} // namespace refreshlab
