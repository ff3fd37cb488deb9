#include "kernels/cpu/cpu_lanes.h"
#include "tests/kernels/kernel_fixture.h"

namespace refreshlab {
namespace {

using test::Random;

/// How far `value` is from `exact`, in steps between neighbouring floats there.
double ulps(float value, double exact) {
    const float near = static_cast<float>(exact);
    const double step = static_cast<double>(std::nextafter(near, std::numeric_limits<float>::infinity())) -
                        static_cast<double>(near);
    return std::abs(static_cast<double>(value) - exact) / step;
}

TEST_CASE("the exponential of the kernels is within 3.1 steps between floats of the exact one",
          "[kernels][exp]") {
    Random random(1);
    double worst = 0;
    float at = 0;
    const auto look = [&](float x) {
        const double error = ulps(kernels::cpu::lanes::exp_one(x), std::exp(static_cast<double>(x)));
        if (error > worst) worst = error, at = x;
    };
    for (int i = 0; i < 400'000; ++i)
        look(static_cast<float>(random.uniform(-87.3, 0.0)));
    for (int i = 0; i < 100'000; ++i)
        look(static_cast<float>(random.uniform(0.0, 88.0)));
    for (int i = 0; i < 100'000; ++i) // near zero, both signs
        look(static_cast<float>(
            std::ldexp(random.uniform(-1.0, 1.0), static_cast<int>(random.between(-40, 0)))));
    for (int n = -125; n <= 126; ++n) { // where the reduction changes its integer
        const float middle = static_cast<float>((n + 0.5) * 0.69314718055994530942);
        for (const float x : {middle, std::nextafter(middle, 100.0F), std::nextafter(middle, -100.0F)})
            look(x);
    }
    CAPTURE(worst, at);
    CHECK(worst < 3.1); // cpu_lanes.h says how it was found
}

TEST_CASE("the exponential of the kernels at its ends", "[kernels][exp]") {
    using kernels::cpu::lanes::exp_one;
    CHECK(exp_one(0.0F) == 1.0F);
    CHECK(exp_one(-0.0F) == 1.0F);
    CHECK(exp_one(-87.4F) == 0.0F);
    CHECK(exp_one(-std::numeric_limits<float>::infinity()) == 0.0F);
    CHECK(std::isnan(exp_one(std::numeric_limits<float>::quiet_NaN())));
    CHECK(exp_one(-87.29F) > 0.0F);
}

} // namespace
} // namespace refreshlab
