#pragma once

#include "kernels/execution/execution_context.h"
#include "tests/support/seed.h"

#include <ATen/ATen.h>
#include <catch2/catch_test_macros.hpp>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

/// Random inputs with a printed seed, and the comparisons that the kernel suites share.
namespace refreshlab::test {

inline constexpr double nan = std::numeric_limits<double>::quiet_NaN();

/// One stream of random shapes and values per test case; Catch prints the seed (--rng-seed repeats it).
class Random {
public:
    explicit Random(uint32_t salt)
        : m_engine(seed(salt)) {}

    int64_t between(int64_t low, int64_t high) {
        return std::uniform_int_distribution<int64_t>(low, high)(m_engine);
    }
    double uniform(double low, double high) {
        return std::uniform_real_distribution<double>(low, high)(m_engine);
    }
    template <typename T>
    T pick(const std::vector<T>& from) {
        return from[static_cast<size_t>(between(0, static_cast<int64_t>(from.size()) - 1))];
    }
    at::Tensor normal(at::IntArrayRef shape, double sd = 1.0, at::ScalarType dtype = at::kFloat) {
        at::Tensor t = at::empty(shape, at::kFloat);
        std::normal_distribution<float> draw; // scaled afterwards: a distribution of width 0 is undefined
        float* const data = t.mutable_data_ptr<float>();
        for (int64_t i = 0; i < t.numel(); ++i)
            data[i] = static_cast<float>(sd) * draw(m_engine);
        return t.to(dtype);
    }

private:
    std::mt19937 m_engine;
};

/// ||a - b|| / max(||b||, tiny).
inline double relative_error(const at::Tensor& a, const at::Tensor& b) {
    const at::Tensor x = a.to(at::kDouble);
    const at::Tensor y = b.to(at::kDouble);
    return (x - y).norm().item<double>() / std::max(y.norm().item<double>(), 1e-30);
}

/// Every bit, NaN payloads and signs of zero included.
inline bool same_bits(const at::Tensor& a_in, const at::Tensor& b_in) {
    const at::Tensor a = a_in.contiguous();
    const at::Tensor b = b_in.contiguous();
    return a.sizes() == b.sizes() && a.scalar_type() == b.scalar_type() &&
           (a.nbytes() == 0 || std::memcmp(a.const_data_ptr(), b.const_data_ptr(), a.nbytes()) == 0);
}

/// Own CPU code of this machine: all but the reference.
inline std::vector<kernels::Isa> own_isas() {
    std::vector<kernels::Isa> isas = kernels::available_isas();
    std::erase(isas, kernels::Isa::reference);
    return isas;
}

/// A kernel set and a number of threads (0: as they are) for the calling thread.
class Setting {
public:
    explicit Setting(kernels::Isa isa, int threads = 0)
        : m_context(threads > 0 ? threads : kernels::num_threads(), isa)
        , m_scope(m_context) {}

private:
    kernels::ExecutionContext m_context;
    kernels::ExecutionScope m_scope;
};

} // namespace refreshlab::test
