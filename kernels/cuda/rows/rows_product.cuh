#pragma once

#include "kernels/cuda/decode/steps.cuh"
#include "kernels/cuda/decode/weights.cuh"
#include "kernels/cuda/device/async_copy.cuh"
#include "kernels/cuda/rows/row_kernels.h"

/// What the two kernels of a product have in common: tensor cores (rows_product.cu) and fp32 units (rows_product_f32.cu).
namespace refreshlab::kernels::RL_GPU {

struct RowsProduct {
    const void* in;
    const void* matrix[2]; ///< [1] is null where there is one matrix
    const void* bias[2];
    int rows, inputs, outputs;
    void* out;
    int64_t out_stride;
    RowsProductInputs::Then then;
};

/// A finished sum goes where it belongs. \param up  of the second matrix
template <WeightType type>
__device__ inline void finish_product(const RowsProduct& p, int row, int output, float sum, float up) {
    if (p.bias[0] != nullptr) sum = __fadd_rn(sum, weight_at<type>(p.bias[0], output));
    const int64_t at = row * p.out_stride + output;
    if (p.then == RowsProductInputs::Then::store) {
        static_cast<float*>(p.out)[at] = sum;
    } else if (p.then == RowsProductInputs::Then::onto) {
        float* const to = static_cast<float*>(p.out) + at;
        *to = __fadd_rn(*to, sum);
    } else {
        if (p.bias[1] != nullptr) up = __fadd_rn(up, weight_at<type>(p.bias[1], output));
        static_cast<Stored<type>*>(p.out)[at] =
            to_stored<type>(__fmul_rn(sum / __fadd_rn(1.0F, expf(-sum)), up));
    }
}

/// rows_product_f32.cu.
void launch_rows_product_f32(const RowsProduct& product, bool dependent, void* stream);

} // namespace refreshlab::kernels::RL_GPU
