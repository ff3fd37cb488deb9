#include "kernels/ops/attention.h"
#include "tests/kernels/kernel_fixture.h"

#include <catch2/catch_test_macros.hpp>
#include <malloc.h>

#include <memory>
#include <vector>

/// What attention leaves in the C library's memory.
#if defined(__GLIBC__)
namespace refreshlab {

TEST_CASE("attention rows that grow step by step are put where those of earlier steps have been",
          "[attention]") {
    test::Random random(8801);
    constexpr int64_t heads = 32, head_dim = 16, first = 2800, steps = 500, warm = 100, most_kept = 700;
    const at::Tensor q = random.normal({1, heads, head_dim}), k = random.normal({2, first + steps, head_dim}),
                     v = random.normal({2, first + steps, head_dim});
    std::vector<std::unique_ptr<char[]>> kept; // what a step leaves behind: a journal, events
    size_t before = 0;
    for (int64_t step = 0; step < steps; ++step) {
        const int64_t visible = first + step;
        kernels::AttentionInputs in;
        in.q = q;
        in.k_cache = k;
        in.v_cache = v;
        in.num_visible = {&visible, 1};
        in.scale = 0.25;
        {
            at::Tensor rows;
            const at::Tensor out = kernels::attention(in, &rows);
            REQUIRE(rows.numel() == heads * visible);
        }
        for (int i = 0; i < 6; ++i) // some of it where the rows have been
            kept.push_back(std::make_unique<char[]>(static_cast<size_t>(random.between(20, most_kept))));
        if (step == warm) before = mallinfo2().arena;
    }
    const size_t row_bytes = heads * (first + steps) * sizeof(float), small = kept.size() * (most_kept + 32);
    CHECK(mallinfo2().arena <= before + small + 4 * row_bytes); // without that, one for every step
}

} // namespace refreshlab
#endif
