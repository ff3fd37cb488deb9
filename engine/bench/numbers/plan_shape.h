#pragma once

#include "kernels/decode/decode_plan.h"

#include <cstdint>
#include <string>

namespace refreshlab {
struct ModelConfig;
}

namespace refreshlab::bench {

/// Whose step is planned: widths as the model has them, and the shape with the widths that are held. Rows, context and capacity are
/// left to whoever asks.
struct PlannedModel {
    std::string name;
    int64_t hidden = 0, ffn = 0; ///< true widths
    kernels::decode::DecodeShape shape;
};

/// "1696x4512x28x24x8x128x128256": HIDDENxFFNxLAYERSxHEADSxKV_HEADSxHEAD_DIMxVOCAB, without biases, q/k norm and windows.
/// Throws Error{bad_input} that says the form, or what of it cannot be.
[[nodiscard]] PlannedModel planned_model(const std::string& text);
/// Throws Error{bad_input}: its step has no such kernels.
[[nodiscard]] PlannedModel planned_model(const ModelConfig& config, const std::string& name);

/// Of all but matrices in blocks. \param dtype  bf16, f16, f32; q8_0, q4_0, q4_1 (bf16). Throws Error{bad_input} for any other
[[nodiscard]] kernels::WeightType planned_type(const std::string& dtype);
/// With dtype q8_0, q4_0 or q4_1 every matrix stands in such blocks, as a file's do with --dtype native; embedding and head where the vocabulary is
/// a multiple of 16. Throws Error{bad_input} where the layers' matrices cannot.
void set_forms(PlannedModel& model, const std::string& dtype);

} // namespace refreshlab::bench
