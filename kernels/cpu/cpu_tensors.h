#pragma once

#include "kernels/cpu/cpu_kernels.h"
#include "kernels/shared/check.h"

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace refreshlab::kernels::cpu {

/// On the CPU, of a dtype that the kernels read.
[[nodiscard]] inline bool has_element_type(const at::Tensor& t) {
    const at::ScalarType type = t.scalar_type();
    return t.is_cpu() && (type == at::kFloat || type == at::kBFloat16 || type == at::kHalf);
}

/// f32, bf16 or f16; anything else is a bug of the caller.
[[nodiscard]] inline ElementType element_type(const at::Tensor& t) {
    switch (t.scalar_type()) {
    case at::kFloat:
        return ElementType::f32;
    case at::kBFloat16:
        return ElementType::bf16;
    case at::kHalf:
        return ElementType::f16;
    default:
        RL_ASSERT(!"a tensor of dtype f32, bf16 or f16");
    }
    return ElementType::f32;
}

[[nodiscard]] inline int64_t element_bytes(ElementType type) {
    return type == ElementType::f32 ? 4 : 2;
}

/// Address of an element, counted in elements from the tensor's first.
[[nodiscard]] inline const void* element(const at::Tensor& t, int64_t offset) {
    return static_cast<const char*>(t.const_data_ptr()) + offset * element_bytes(element_type(t));
}

} // namespace refreshlab::kernels::cpu
