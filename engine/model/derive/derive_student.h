#pragma once

#include "engine/control/derive/derive_spec.h"
#include "engine/model/llama_model.h"

#include <cstdint>
#include <memory>
#include <span>

namespace refreshlab {

/// A student made of a teacher's loaded weights, and what came of it.
struct DerivedStudent {
    std::unique_ptr<LlamaModel> model;
    DerivedFacts facts;
};

[[nodiscard]] ModelShape shape_of(const ModelConfig& config);
/// The student's configuration: the teacher's, with the channels that are kept. Throws as check_derive().
[[nodiscard]] ModelConfig derived_config(const ModelConfig& teacher, const DeriveSpec& spec);
/// Elements that the student holds beside the teacher's, at most, padding included: tensors that come out equal are shared too.
[[nodiscard]] int64_t derived_elements(const ModelConfig& teacher, const DeriveSpec& spec);

/// The same in bytes, of a teacher that keeps blocks (LlamaModel::keeps_blocks): matrices that `bits` rounds stay in them where
/// a block type holds their numbers.
[[nodiscard]] int64_t derived_bytes_in_blocks(const ModelConfig& teacher, const DeriveSpec& spec);

/// Makes the student in the teacher's dtype. Tensors that the derivation leaves alone, or that come out equal bit for bit, are
/// the teacher's own storage where `device` is the teacher's. The teacher's weights are those it holds: those of a quantised
/// file as they were unpacked.
/// \param text      ids on which `ffn` and `skip_auto` measure; may be empty if spec.measures() is false     (asserted)
/// \param progress  told now and then, can cancel. Throws Error{bad_input} as check_derive(), Error "cancelled".
[[nodiscard]] DerivedStudent derive_student(const LlamaModel& teacher, const DeriveSpec& spec,
                                            at::Device device, std::span<const int32_t> text = {},
                                            const LoadProgress& progress = {});

} // namespace refreshlab
