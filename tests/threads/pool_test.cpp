// Pools side by side, each called from several threads, made and ended again and again.
#include "kernels/execution/thread_pool.h"

#include <catch2/catch_test_macros.hpp>

#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

using refreshlab::kernels::ThreadPool;

namespace {

thread_local const ThreadPool* t_pool = nullptr; // whose worker this thread is, or whose job it runs

/// Twenty jobs over the numbers below n, each of which adds every number once.
int64_t sum_of_jobs(ThreadPool& pool, int64_t n, std::atomic<int>& strayed) {
    t_pool = &pool;
    std::vector<int64_t> added(static_cast<size_t>(n));
    for (int job = 0; job < 20; ++job) {
        pool.run(n, 7, [&](int64_t begin, int64_t end) {
            if (t_pool != &pool) ++strayed;
            for (int64_t i = begin; i < end; ++i)
                added[static_cast<size_t>(i)] += i;
        });
    }
    int64_t sum = 0;
    for (const int64_t value : added)
        sum += value;
    return sum;
}

} // namespace

TEST_CASE("pools side by side do each other's work never and their own once", "[threads]") {
    constexpr int64_t n = 257;
    for (int round = 0; round < 40; ++round) {
        ThreadPool three(3, [&] { t_pool = &three; }), two(2, [&] { t_pool = &two; });
        std::atomic<int64_t> sum{0};
        std::atomic<int> strayed{0};
        std::vector<std::thread> callers;
        for (ThreadPool* pool : {&three, &two, &three, &two})
            callers.emplace_back([&, pool] { sum += sum_of_jobs(*pool, n, strayed); });
        for (std::thread& caller : callers)
            caller.join();
        REQUIRE(sum == 4 * 20 * n * (n - 1) / 2);
        REQUIRE(strayed == 0);
    }
}
