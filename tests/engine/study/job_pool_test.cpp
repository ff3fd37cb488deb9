// Jobs that share the cores.
#include "engine/base/error.h"
#include "engine/study/jobs/job_pool.h"

#include <catch2/catch_test_macros.hpp>

#include <atomic>
#include <mutex>
#include <set>
#include <stdexcept>
#include <thread>

namespace job_pool_test {

using namespace refreshlab;

namespace {

/// Threads of each worker, as the jobs see them.
std::vector<int> shares(size_t workers, int threads) {
    JobPool pool(workers, threads);
    std::vector<int> seen(pool.workers(), 0);
    std::atomic<size_t> waiting{0};
    pool.run(pool.workers(), [&](size_t, JobSlot& slot) { // each waits for all: every worker has one
        seen[slot.worker()] = slot.num_threads();
        ++waiting;
        while (waiting < pool.workers())
            std::this_thread::yield();
    });
    return seen;
}

} // namespace

TEST_CASE("every job is done once, whatever the number of workers", "[study]") {
    for (const size_t workers : {size_t{0}, size_t{1}, size_t{3}, size_t{50}}) {
        for (const size_t jobs : {size_t{0}, size_t{1}, size_t{2}, size_t{100}}) {
            JobPool pool(workers, 2);
            std::vector<std::atomic<int>> done(jobs);
            pool.run(jobs, [&](size_t job, JobSlot&) { ++done[job]; });
            CHECK(std::ranges::all_of(done, [](const auto& count) { return count == 1; }));
        }
    }
}

TEST_CASE("workers share the threads evenly and have one each at least", "[study]") {
    CHECK(shares(1, 8) == std::vector<int>{8});
    CHECK(shares(3, 8) == std::vector<int>{3, 3, 2});
    CHECK(shares(4, 4) == std::vector<int>{1, 1, 1, 1});
    CHECK(shares(3, 1) == std::vector<int>{1, 1, 1});
    CHECK(shares(0, 0) == std::vector<int>{1});
}

TEST_CASE("a job's execution has the worker's threads and the wanted kernels, and is kept", "[study]") {
    JobPool pool(1, 3);
    std::set<const kernels::ExecutionContext*> plain, portable;
    pool.run(4, [&](size_t, JobSlot& slot) {
        const Execution a = slot.execution(KernelSet::automatic), b = slot.execution(KernelSet::portable);
        CHECK(a->num_threads() == 3);
        CHECK(a->isa() == kernels::widest_isa());
        CHECK(b->isa() == kernels::Isa::portable);
        plain.insert(a.get());
        portable.insert(b.get());
    });
    CHECK(plain.size() == 1);
    CHECK(portable.size() == 1);
    if (kernels::widest_isa() != kernels::Isa::portable) CHECK(plain != portable);
}

TEST_CASE("what a job throws ends the pool's work and comes back", "[study]") {
    for (const size_t workers : {size_t{1}, size_t{4}}) {
        JobPool pool(workers, 4);
        std::atomic<int> begun{0};
        CHECK_THROWS_AS(pool.run(1000,
                                 [&](size_t job, JobSlot&) {
                                     ++begun;
                                     if (job == 5) throw std::runtime_error("job 5");
                                 }),
                        std::runtime_error);
        if (workers == 1) CHECK(begun == 6);
        int again = 0;
        std::mutex mutex;
        pool.run(10, [&](size_t, JobSlot&) {
            const std::lock_guard lock(mutex);
            ++again;
        });
        CHECK(again == 10);
    }
}

TEST_CASE("a stopped pool takes no more jobs", "[study]") {
    JobPool pool(2, 2);
    std::atomic<int> done{0};
    pool.run(
        100, [&](size_t, JobSlot&) { ++done; }, [&] { return done >= 7; });
    CHECK(done >= 7);
    CHECK(done <= 8); // the other worker may have one in hand
}

} // namespace job_pool_test
