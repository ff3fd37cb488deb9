#pragma once

#include "kernels/cuda/decode/decode_kernels.h"

/// What the launchers of a step's products do where matrices stand in blocks; those of one launch have one form (asserted), and the rest is bf16
/// (asserted).
namespace refreshlab::kernels::RL_GPU {

[[nodiscard]] constexpr bool in_blocks(const Matrix& matrix) {
    return matrix.form != MatrixForm::numbers;
}
void launch_block_product(const NormProductInputs& in, void* stream);
void launch_block_product(const NormGateUpInputs& in, void* stream);
void launch_block_product(const ProductOntoInputs& in, void* stream);
void launch_block_product(const HeadInputs& in, void* stream);

} // namespace refreshlab::kernels::RL_GPU
