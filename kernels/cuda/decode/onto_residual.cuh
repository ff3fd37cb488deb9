#pragma once

#include "kernels/cuda/decode/steps.cuh"

/// Where the outputs of attention and of the MLP go: onto the residual, under a step's dropout.
namespace refreshlab::kernels::RL_GPU {

/// x[r, o] += dropout(y), or x[r, o] = y. dropout(y) = y in row 0; in the others y / (1 - p) where dropout_keeps(seed, position, layer, pass r,
/// site, element o), else 0.
struct OntoResidual {
    float* x;
    int outputs; ///< numbers from row to row
    Masks masks;
    bool adds;

    [[nodiscard]] __device__ float* at(int row, int output) const {
        return x + int64_t{row} * outputs + output;
    }
    /// What stands where the output goes; 0 where it goes onto nothing.
    [[nodiscard]] __device__ float before(int row, int output) const {
        return adds ? __ldcg(at(row, output)) : 0.0F;
    }
    /// \param before  of it. \param state  not looked at where nothing is dropped
    __device__ void put(const StepState* state, int row, int output, float y, float before) const {
        if (row > 0 && masks.threshold > 0) {
            const shared::MaskStream stream =
                masks_of(*state, masks.site, masks.layer, row, 0, masks.threshold);
            y = shared::mask_keeps(stream, static_cast<uint32_t>(output)) ? __fmul_rn(y, masks.scale) : 0.0F;
        }
        *at(row, output) = __fadd_rn(before, y);
    }
};

} // namespace refreshlab::kernels::RL_GPU
