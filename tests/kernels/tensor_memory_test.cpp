#include "kernels/execution/tensor_memory.h"
#include "tests/support/seed.h"

#include <catch2/catch_test_macros.hpp>

#include <cstdint>
#include <cstring>
#include <memory>
#include <random>
#include <vector>

#if defined(__GLIBC__)
#include <malloc.h>
#endif

/// libtorch's memory.
namespace refreshlab {

TEST_CASE("memory of tensors is aligned, and its own", "[tensor_memory]") {
    c10::Allocator& memory = kernels::tensor_memory();
    std::vector<c10::DataPtr> all;
    for (size_t bytes = 1; bytes < 100'000; bytes += bytes / 3 + 1) {
        all.push_back(memory.allocate(bytes));
        REQUIRE(reinterpret_cast<uintptr_t>(all.back().get()) % 64 == 0);
        std::memset(all.back().get(), static_cast<int>(all.size()), bytes);
    }
    size_t i = 0;
    for (size_t bytes = 1; bytes < 100'000; bytes += bytes / 3 + 1, ++i) {
        const auto* const first = static_cast<const unsigned char*>(all[i].get());
        CHECK(first[0] == i + 1);
        CHECK(first[bytes - 1] == i + 1);
    }
    CHECK(memory.allocate(0).get() == nullptr);
    CHECK_THROWS_AS(memory.allocate(SIZE_MAX - 8), std::bad_alloc);
    void* const raw = memory.raw_allocate(100);
    REQUIRE(raw != nullptr);
    memory.raw_deallocate(raw);
}

#if defined(__GLIBC__)
TEST_CASE("a tensor of each step is put where the one of the step before has been", "[tensor_memory]") {
    std::mt19937_64 random(test::seed(8802));
    const auto below = [&](size_t n) { return static_cast<size_t>(random() % n); };
    constexpr size_t steps = 600, warm = 100, bytes = 300'000, most_kept = 700;
    std::vector<std::unique_ptr<char[]>> kept; // a journal, events
    size_t before = 0;
    for (size_t step = 0; step < steps; ++step) {
        { const c10::DataPtr rows = kernels::tensor_memory().allocate(bytes); }
        for (int i = 0; i < 6; ++i)
            kept.push_back(std::make_unique<char[]>(20 + below(most_kept)));
        if (step == warm) before = mallinfo2().arena;
    }
    CHECK(mallinfo2().arena <= before + kept.size() * (most_kept + 50) + 4 * bytes); // not one for each
}
#endif

} // namespace refreshlab
