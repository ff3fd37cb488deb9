#include "tests/kernels/kernel_fixture.h"

#include <ATen/Parallel.h>

#include <atomic>
#include <stdexcept>
#include <thread>

namespace refreshlab {
namespace {

using kernels::parallel_for;
using test::Random;
using test::Setting;

TEST_CASE("parallel_for runs every index once, in chunks of at least the grain", "[kernels][threads]") {
    Random random(51);
    for (const int threads : {1, 2, 3, 8}) {
        const Setting setting(kernels::isa(), threads);
        for (int round = 0; round < 200; ++round) {
            const int64_t n = random.between(0, 300);
            const int64_t grain = random.between(1, 60);
            std::vector<std::atomic<int>> seen(static_cast<size_t>(n));
            std::atomic<int64_t> short_chunks{0};
            parallel_for(n, grain, [&](int64_t begin, int64_t end) {
                if (end - begin < grain && end != n) ++short_chunks;
                for (int64_t i = begin; i < end; ++i)
                    ++seen[static_cast<size_t>(i)];
            });
            REQUIRE(short_chunks == 0);
            REQUIRE(std::ranges::all_of(seen, [](const std::atomic<int>& count) { return count == 1; }));
        }
    }
}

TEST_CASE("more than one thread really works", "[kernels][threads]") {
    const Setting setting(kernels::isa(), 2);
    // Each of two chunks waits for the other: one thread alone could never finish.
    std::atomic<int> inside{0};
    parallel_for(2, 1, [&](int64_t begin, int64_t end) {
        inside += static_cast<int>(end - begin);
        while (inside < 2)
            std::this_thread::yield();
    });
    REQUIRE(inside == 2);
}

TEST_CASE("an exception comes back to the caller and the pool goes on", "[kernels][threads]") {
    for (const int threads : {1, 4}) {
        const Setting setting(kernels::isa(), threads);
        for (int round = 0; round < 50; ++round) {
            const auto throwing = [](int64_t begin, int64_t end) {
                if (begin <= 57 && 57 < end) throw std::runtime_error("index 57");
            };
            REQUIRE_THROWS_AS(parallel_for(100, 1, throwing), std::runtime_error);
            std::atomic<int64_t> sum{0};
            parallel_for(100, 1, [&](int64_t begin, int64_t end) { sum += end - begin; });
            REQUIRE(sum == 100);
        }
    }
}

TEST_CASE("a nested call runs in the thread that makes it", "[kernels][threads]") {
    const Setting setting(kernels::isa(), 4);
    std::atomic<int64_t> inner{0};
    std::atomic<int> strayed{0};
    parallel_for(16, 1, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) {
            const std::thread::id here = std::this_thread::get_id();
            parallel_for(10, 1, [&](int64_t b, int64_t e) {
                inner += e - b;
                if (std::this_thread::get_id() != here) ++strayed;
            });
        }
    });
    REQUIRE(inner == 160);
    REQUIRE(strayed == 0);
}

TEST_CASE("callers of one context from several threads queue", "[kernels][threads]") {
    const Setting setting(kernels::isa(), 3);
    const kernels::ExecutionContext& shared = kernels::ExecutionContext::current();
    std::atomic<int64_t> sum{0};
    std::vector<std::thread> callers;
    for (int c = 0; c < 4; ++c) {
        callers.emplace_back([&] {
            const kernels::ExecutionScope scope(shared);
            for (int i = 0; i < 200; ++i) {
                parallel_for(37, 1, [&](int64_t begin, int64_t end) { sum += end - begin; });
            }
        });
    }
    for (std::thread& caller : callers)
        caller.join();
    REQUIRE(sum == 4 * 200 * 37);
}

TEST_CASE("libtorch has one thread beside kernels of our own, and its own number after them",
          "[kernels][threads]") {
    const int outside = at::get_num_threads();
    for (const kernels::Isa isa : kernels::available_isas()) {
        const Setting setting(isa, 3);
        REQUIRE(kernels::num_threads() == 3);
        const int beside = isa == kernels::Isa::reference ? 3 : 1;
        REQUIRE(at::get_num_threads() == beside);
        {
            const kernels::LibtorchThreads bulk;
            REQUIRE(at::get_num_threads() == 3);
        }
        REQUIRE(at::get_num_threads() == beside);
    }
    REQUIRE(at::get_num_threads() == outside);
}

} // namespace
} // namespace refreshlab
