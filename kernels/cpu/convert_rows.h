#pragma once

#include "kernels/cpu/cpu_kernels.h"

#include <cstdint>

namespace refreshlab::kernels::cpu {

/// Numbers between the three dtypes, row after row; one thread.
struct Conversion {
    const void* from = nullptr;
    ElementType from_type = ElementType::f32;
    int64_t from_stride = 0; ///< elements between rows
    void* to = nullptr;
    ElementType to_type = ElementType::f32;
    int64_t to_stride = 0;
    int64_t rows = 0, width = 0;
};

/// Widening is exact. Narrowing rounds once, to the nearest and ties to even, as IEEE 754 says; NaN stays a NaN.
void convert_rows(const Conversion& c);

} // namespace refreshlab::kernels::cpu
