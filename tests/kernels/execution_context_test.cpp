#include "kernels/execution/cores.h"
#include "kernels/execution/execution_context.h"
#include "kernels/ops/attention.h"
#include "kernels/ops/dense.h"
#include "kernels/ops/row_statistics.h"
#include "tests/kernels/kernel_fixture.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <numeric>
#include <optional>
#include <thread>

namespace refreshlab {
namespace {

using kernels::ExecutionContext;
using kernels::ExecutionScope;
using kernels::Isa;
using test::Random;

/// What the calling thread's kernels would run with.
struct Seen {
    Isa isa = kernels::isa();
    int threads = kernels::num_threads();
    int libtorch = at::get_num_threads();
    friend bool operator==(const Seen&, const Seen&) = default;
};

/// A layer's worth of kernels: products, softmax, attention, statistics.
struct Work {
    at::Tensor x, w, k, v;
    explicit Work(uint32_t salt) {
        Random random(salt);
        x = random.normal({24, 64});
        w = random.normal({320, 64});
        k = random.normal({2, 24, 16});
        v = random.normal({2, 24, 16});
    }
    [[nodiscard]] at::Tensor compute() const {
        const at::Tensor y = kernels::linear(x, w);
        kernels::AttentionInputs in;
        in.q = y.narrow(1, 0, 64).contiguous().view({24, 4, 16});
        in.k_cache = k;
        in.v_cache = v;
        in.scale = 0.25;
        std::vector<int64_t> visible(24);
        std::iota(visible.begin(), visible.end(), 1);
        in.num_visible = visible;
        const at::Tensor attended = kernels::attention(in);
        at::Tensor sums = at::empty({24}, at::kDouble);
        const auto statistics = kernels::row_statistics(y);
        for (int64_t row = 0; row < 24; ++row)
            sums[row] = statistics[static_cast<size_t>(row)].log_z;
        return at::cat({y.flatten().to(at::kDouble), attended.flatten().to(at::kDouble), sums});
    }
};

size_t threads_of_process() {
    const std::filesystem::directory_iterator tasks("/proc/self/task");
    return static_cast<size_t>(std::distance(begin(tasks), end(tasks)));
}

TEST_CASE("scopes nest, and what stood before comes back", "[kernels][execution]") {
    const Seen outside;
    CHECK(outside.isa == kernels::widest_isa());
    CHECK(outside.threads == kernels::default_threads());
    const ExecutionContext portable(3, Isa::portable), reference(2, Isa::reference);
    {
        const ExecutionScope outer(portable);
        const Seen in_outer;
        CHECK(in_outer == Seen{Isa::portable, 3, 1});
        {
            const ExecutionScope inner(reference);
            CHECK(Seen{} == Seen{Isa::reference, 2, 2});
            const ExecutionScope again(portable);
            CHECK(Seen{} == Seen{Isa::portable, 3, 1});
        }
        CHECK(Seen{} == in_outer);
        CHECK(&ExecutionContext::current() == &portable);
    }
    CHECK(Seen{} == outside);
}

TEST_CASE("a scope ends with the exception that leaves it", "[kernels][execution]") {
    const Seen outside;
    const ExecutionContext context(2, Isa::portable);
    CHECK_THROWS_AS(
        [&] {
            const ExecutionScope scope(context);
            kernels::parallel_for(100, 1, [](int64_t, int64_t) { throw std::runtime_error("a body"); });
        }(),
        std::runtime_error);
    CHECK(Seen{} == outside);
}

TEST_CASE("a scope belongs to its thread", "[kernels][execution]") {
    const Seen outside;
    const ExecutionContext context(outside.threads + 1, Isa::portable);
    const ExecutionScope scope(context);
    std::optional<Seen> elsewhere;
    std::thread([&] { elsewhere.emplace(); }).join();
    CHECK(elsewhere->isa == outside.isa);
    CHECK(elsewhere->threads == outside.threads);
}

TEST_CASE("workers see the context of their caller", "[kernels][execution]") {
    for (const Isa isa : kernels::available_isas()) {
        const ExecutionContext context(3, isa);
        const ExecutionScope scope(context);
        // Three chunks that wait for each other: each is in a thread of its own.
        std::atomic<int> inside{0}, right{0};
        kernels::parallel_for(3, 1, [&](int64_t, int64_t) {
            ++inside;
            while (inside < 3)
                std::this_thread::yield();
            if (&ExecutionContext::current() == &context && kernels::isa() == isa) ++right;
        });
        CHECK(right == 3);
    }
}

TEST_CASE("contexts side by side give the bits that each gives alone", "[kernels][execution]") {
    const Work work(77);
    struct Side {
        Isa isa;
        int threads;
        at::Tensor alone;
    };
    std::vector<Side> sides;
    for (const Isa isa : kernels::available_isas()) {
        for (const int threads : {1, 3}) {
            const ExecutionContext context(threads, isa);
            const ExecutionScope scope(context);
            sides.push_back({isa, threads, work.compute()});
        }
    }
    // The kernel sets differ in some bit, so that one in the other's place would show.
    const auto result_of = [&](Isa isa) { return std::ranges::find(sides, isa, &Side::isa)->alone; };
    REQUIRE_FALSE(test::same_bits(result_of(Isa::portable), result_of(Isa::reference)));
    if (kernels::widest_isa() != Isa::portable)
        REQUIRE_FALSE(test::same_bits(result_of(Isa::portable), result_of(kernels::widest_isa())));

    std::atomic<int> wrong{0};
    std::atomic<size_t> ready{0};
    std::vector<std::thread> threads;
    for (const Side& side : sides) {
        threads.emplace_back([&] {
            const ExecutionContext context(side.threads, side.isa);
            ++ready;
            while (ready < sides.size()) // all at once
                std::this_thread::yield();
            for (int round = 0; round < 40; ++round) {
                const ExecutionScope scope(context);
                if (!test::same_bits(work.compute(), side.alone)) ++wrong;
                const Seen seen;
                if (seen.isa != side.isa || seen.threads != side.threads ||
                    seen.libtorch != (side.isa == Isa::reference ? side.threads : 1))
                    ++wrong;
            }
        });
    }
    for (std::thread& thread : threads)
        thread.join();
    CHECK(wrong == 0);
}

TEST_CASE("contexts do not wait for each other's work", "[kernels][execution]") {
    const ExecutionContext a(2), b(2);
    // A chunk of a waits for work of b: with one pool for both it would wait for ever.
    std::atomic<bool> b_is_done{false};
    std::thread other([&] {
        const ExecutionScope scope(b);
        std::atomic<int64_t> sum{0};
        kernels::parallel_for(100, 1, [&](int64_t begin, int64_t end) { sum += end - begin; });
        b_is_done = sum == 100;
    });
    const ExecutionScope scope(a);
    kernels::parallel_for(2, 1, [&](int64_t, int64_t) {
        while (!b_is_done)
            std::this_thread::yield();
    });
    other.join();
    CHECK(b_is_done);
}

TEST_CASE("a context's workers come with its first work and go with it", "[kernels][execution]") {
    const size_t before = threads_of_process();
    {
        const ExecutionContext context(4);
        const ExecutionScope scope(context);
        CHECK(threads_of_process() == before);
        kernels::parallel_for(64, 1, [](int64_t, int64_t) {});
        CHECK(threads_of_process() == before + 3);
    }
    CHECK(threads_of_process() == before);
}

TEST_CASE("a kernel set has a name that is read back", "[kernels][execution]") {
    for (const Isa isa : {Isa::reference, Isa::portable, Isa::avx2, Isa::avx512})
        CHECK(kernels::parse_isa(kernels::to_string(isa)) == isa);
    for (const char* name : {"", "auto", "AVX2", "avx", "avx512f"})
        CHECK_FALSE(kernels::parse_isa(name));
    CHECK(kernels::available_isas().back() == kernels::widest_isa());
    CHECK(kernels::bit_class(Isa::avx2) == kernels::bit_class(Isa::avx512));
    CHECK(kernels::bit_class(Isa::avx2) != kernels::bit_class(Isa::portable));
    CHECK(kernels::bit_class(Isa::portable) != kernels::bit_class(Isa::reference));
}

} // namespace
} // namespace refreshlab
