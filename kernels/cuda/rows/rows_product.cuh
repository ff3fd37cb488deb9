#pragma once

#include "kernels/cuda/decode/elementwise.cuh"
#include "kernels/cuda/decode/steps.cuh"
#include "kernels/cuda/decode/weights.cuh"
#include "kernels/cuda/device/async_copy.cuh"
#include "kernels/cuda/rows/row_kernels.h"

/// What the two kernels of a product have in common: tensor cores (rows_product.cu) and fp32 units (rows_product_f32.cu).
namespace refreshlab::kernels::RL_GPU {

struct RowsProduct {
    const void* in;
    /// One below the other, or gate and up.
    const void *matrix[3], *bias[3];
    int first
        [3]; ///< first output of each matrix; of those that are not there, and of up, no output is as large
    int rows, inputs, outputs;
    void* out;
    int64_t out_stride;
    RowsProductInputs::Then then;
    bool gated;
    int part_stages; ///< of rows::stage_inputs inputs, that a part has at most
    Activation activation;
    float cap;
};

/// An output's matrix, bias and row there.
struct MatrixRow {
    const void *matrix, *bias;
    int row;
};
/// \param up  of the second of two matrices with the same outputs
__device__ inline MatrixRow matrix_row_of(const RowsProduct& p, int output, bool up = false) {
    if (up || output >= p.first[1])
        return up || output < p.first[2]
                   ? MatrixRow{p.matrix[1], p.bias[1], up ? output : output - p.first[1]}
                   : MatrixRow{p.matrix[2], p.bias[2], output - p.first[2]};
    return {p.matrix[0], p.bias[0], output};
}

template <WeightType type>
__device__ inline float with_bias(const MatrixRow& place, float sum) {
    return place.bias == nullptr ? sum : __fadd_rn(sum, weight_at<type>(place.bias, place.row));
}

/// A finished sum goes where it belongs. \param row  of out, which has the rows of all parts; \param up  of the second matrix
template <WeightType type>
__device__ inline void finish_product(const RowsProduct& p, int row, int output, float sum, float up) {
    sum = with_bias<type>(matrix_row_of(p, output), sum);
    const int64_t at = row * p.out_stride + output;
    if (p.then == RowsProductInputs::Then::store) {
        static_cast<float*>(p.out)[at] = soft_capped(sum, p.cap);
    } else if (p.then == RowsProductInputs::Then::onto) {
        float* const to = static_cast<float*>(p.out) + at;
        *to = __fadd_rn(*to, sum);
    } else {
        up = with_bias<type>(matrix_row_of(p, output, true), up);
        static_cast<Stored<type>*>(p.out)[at] = to_stored<type>(__fmul_rn(activated(p.activation, sum), up));
    }
}

/// rows_product_f32.cu.
void launch_rows_product_f32(const RowsProduct& product, bool dependent, void* stream);

} // namespace refreshlab::kernels::RL_GPU
