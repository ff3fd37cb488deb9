#pragma once

#include "kernels/decode/launch_shapes.h"

#include <c10/core/ScalarType.h>

#include <optional>

namespace refreshlab::kernels {

/// How the device's kernels name a dtype; nothing for those that they do not have.
[[nodiscard]] inline std::optional<WeightType> weight_type(c10::ScalarType dtype) {
    switch (dtype) {
    case c10::ScalarType::Float:
        return WeightType::f32;
    case c10::ScalarType::BFloat16:
        return WeightType::bf16;
    case c10::ScalarType::Half:
        return WeightType::f16;
    default:
        return std::nullopt;
    }
}

} // namespace refreshlab::kernels
