#include "kernels/ops/column_distance.h"
#include "kernels/shared/check.h"
#include "tests/kernels/kernel_fixture.h"

namespace refreshlab {
namespace {

using kernels::ColumnDistance;
using kernels::Isa;
using test::Random;
using test::relative_error;
using test::same_bits;
using test::Setting;

TEST_CASE("column distances agree with the reference over cache views", "[kernels][drift]") {
    Random random(61);
    for (const at::ScalarType type : {at::kFloat, at::kBFloat16, at::kHalf}) {
        for (int round = 0; round < 8; ++round) {
            const int64_t layers = random.between(1, 5);
            const int64_t kv_heads = random.between(1, 4);
            const int64_t n = random.between(1, 40);
            const int64_t head_dim = random.between(1, 80);
            const at::Tensor teacher = random.normal({layers, kv_heads, n + 9, head_dim}, 1.0, type);
            const at::Tensor student = (teacher + random.normal(teacher.sizes(), 0.1)).to(type);
            const at::Tensor a = student.narrow(2, 4, n);
            const at::Tensor b = teacher.narrow(2, 4, n);
            const ColumnDistance expected = kernels::reference::column_distance(a, b);
            for (const int threads : {1, 3}) {
                const Setting setting(Isa::portable, threads);
                const ColumnDistance ours = kernels::column_distance(a, b);
                REQUIRE(ours.relative.sizes() == at::IntArrayRef({layers, n}));
                REQUIRE(relative_error(ours.relative, expected.relative) < 1e-6);
                REQUIRE(relative_error(ours.max_abs, expected.max_abs) < 1e-6);
            }
        }
    }
}

TEST_CASE("equal columns are at distance exactly 0, scaled ones at their factor", "[kernels][drift]") {
    Random random(62);
    const at::Tensor b = random.normal({2, 3, 5, 64});
    const ColumnDistance none = kernels::column_distance(b.clone(), b);
    REQUIRE(none.relative.eq(0).all().item<bool>());
    REQUIRE(none.max_abs.eq(0).all().item<bool>());
    const ColumnDistance twice = kernels::column_distance(2 * b, b);
    REQUIRE(same_bits(twice.relative, at::ones({2, 5})));
    // Against a zero column the norm's floor keeps it finite; a NaN shows.
    at::Tensor zero = at::zeros({1, 1, 2, 4});
    at::Tensor far = at::ones({1, 1, 2, 4});
    for (int64_t place = 0; place < 4; ++place) { // what comes behind it does not hide it
        far[0][0][1] = at::ones({4});
        far[0][0][1][place] = test::nan;
        const ColumnDistance edge = kernels::column_distance(far, zero);
        REQUIRE(std::abs(edge.relative[0][0].item<double>() / 2e12 - 1.0) < 1e-6);
        REQUIRE(std::isnan(edge.relative[0][1].item<double>()));
        REQUIRE(std::isnan(edge.max_abs[0][1].item<double>()));
    }
    REQUIRE_THROWS_AS(kernels::column_distance(b, b.narrow(2, 0, 4)), InvariantError);
}

} // namespace
} // namespace refreshlab
