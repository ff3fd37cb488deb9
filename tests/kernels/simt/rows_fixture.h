#pragma once

#include "tests/kernels/simt/decode_fixture.h"

/// What the suites of the kernels of many rows share.
namespace refreshlab::test::rows_simt {

using namespace decode_simt;

/// `got`, rounded to its type from numbers that differ from `expected` by `tolerance` (relative norm): every number is that of `expected`
/// rounded or a neighbour of it, and few are neighbours. fp32: the relative norm.
[[nodiscard]] inline bool equal_but_rounding(const at::Tensor& got, const at::Tensor& expected,
                                             double tolerance) {
    if (got.scalar_type() == at::kFloat) return relative_error(got, expected) <= tolerance;
    const double ulp =
        got.scalar_type() == at::kBFloat16 ? 0x1p-7 : 0x1p-10; // of 1; of other numbers no more, relatively
    const at::Tensor rounded = expected.to(got.scalar_type()).to(at::kFloat), values = got.to(at::kFloat);
    const double slack = tolerance * expected.norm().item<double>();
    const bool near = (values - rounded).abs().le(ulp * rounded.abs() + slack).all().item<bool>();
    const auto differing = (values != rounded).sum().item<int64_t>();
    return near && differing <= std::max<int64_t>(3, expected.numel() / 10);
}

/// The machine has that compute capability, times 10, while this lives.
class Architecture {
public:
    explicit Architecture(int architecture)
        : m_before(simt::set_settings({.order = 0, .architecture = architecture})) {}
    ~Architecture() { (void)simt::set_settings(m_before); }
    Architecture(const Architecture&) = delete;
    Architecture& operator=(const Architecture&) = delete;

private:
    simt::Settings m_before;
};

} // namespace refreshlab::test::rows_simt
