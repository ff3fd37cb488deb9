#include "kernels/cuda/decode/block_products.h"
#include "kernels/cuda/decode/mc_products.cuh"

/// x[r, o] += dropout(sum_i matrix[o, i] * in[r, i] + bias[o]): the output of attention and of the MLP, onto the residual.
/// dropout(y) = y in row 0; in the others y / (1 - p) where dropout_keeps(seed, position, layer, pass r, site, element o), else 0.
/// Or, where the model has a norm of what is added, x[r, o] = the product, for norm_rows.cu.
///
/// Grid    the token alone: [1, blocks of 16 outputs], 8 warps, two outputs a warp. With MC rows: [groups of them, blocks of 32 outputs], 16
///         warps.
/// Memory  row_products.cuh, mc_products.cuh. The block's rows of the matrix are asked for before the kernel waits for the one in front.
/// Order   there; then plus the bias, times the mask, onto x. An element of x is read and written by one lane.
/// Bound   by reading the matrix.
namespace refreshlab::kernels::RL_GPU {
namespace {

constexpr int outputs = static_cast<int>(decode::outputs_per_warp);

struct Parameters {
    const StepState* state;
    InputRows in;
    Matrix matrix;
    float* x;
    Masks masks;
    int rows;
    bool adds;
};

[[nodiscard]] __device__ float* element_of(const Parameters& p, int row, int output) {
    return p.x + int64_t{row} * static_cast<int>(p.matrix.outputs) + output;
}
/// What stands where the output goes; 0 where it goes onto nothing.
[[nodiscard]] __device__ float before_of(const Parameters& p, int row, int output) {
    return p.adds ? __ldcg(element_of(p, row, output)) : 0.0F;
}
/// The end of row `row`'s output: onto x. \param before  before_of() it
template <WeightType type>
__device__ void finish(const Parameters& p, int row, int output, float y, float before) {
    if (p.matrix.bias != nullptr) y = __fadd_rn(y, weight_at<type>(p.matrix.bias, output));
    if (row > 0 && p.masks.threshold > 0) {
        const shared::MaskStream stream =
            masks_of(*p.state, p.masks.site, p.masks.layer, row, 0, p.masks.threshold);
        y = shared::mask_keeps(stream, static_cast<uint32_t>(output)) ? __fmul_rn(y, p.masks.scale) : 0.0F;
    }
    *element_of(p, row, output) = __fadd_rn(before, y);
}

/// What lies behind the last output is read as the last one and not written.
template <WeightType type>
__device__ const uint4* row_of(const Parameters& p, int output) {
    const int total = static_cast<int>(p.matrix.outputs);
    return matrix_row<type>(p.matrix.data, p.in.inputs, output < total ? output : total - 1);
}

template <WeightType type>
__device__ void multiply_token(const Parameters& p) {
    const int warp = static_cast<int>(threadIdx.x / 32);
    const int output =
        (static_cast<int>(blockIdx.y) * static_cast<int>(decode::product_warps) + warp) * outputs;
    const uint4* matrix[outputs];
#pragma unroll
    for (int o = 0; o < outputs; ++o) {
        matrix[o] = row_of<type>(p, output + o);
        prefetch_by_warp(matrix[o], int64_t{p.in.inputs} * static_cast<int>(sizeof(Stored<type>)));
    }
    grid_dependency_wait();
    // Asked for beside the inputs: nobody waits for it once the product is there.
    const Share<1, outputs> share;
    const int own = output + share.output;
    const bool writes = share.writes && own < static_cast<int>(p.matrix.outputs);
    const float before = writes ? before_of(p, 0, own) : 0.0F;
    const float y = multiply<type, 1, outputs, false>(p.in, 1, matrix, dynamic_shared<float>(), true,
                                                      static_cast<SquareParts<1>*>(nullptr));
    if (writes) finish<type>(p, 0, own, y, before);
}

template <WeightType type, int ROWS>
__device__ void multiply_rows(const Parameters& p) {
    constexpr int tiles = static_cast<int>(decode::mc_onto_outputs_per_block) / 16;
    multiply_with_mc<type, ROWS, tiles, 1, false>(
        p.state, p.in, p.rows, 0, 0, [&](int, int output) { return row_of<type>(p, output); },
        [&](int row, int output, const float(&y)[1], float) {
            if (output < static_cast<int>(p.matrix.outputs))
                finish<type>(p, row, output, y[0], before_of(p, row, output));
        });
}

template <WeightType type, int ROWS>
__global__ void __launch_bounds__(product_block<ROWS>, product_blocks<ROWS>)
    product_onto_kernel(const Parameters p) {
    grid_allow_dependents();
    if constexpr (ROWS == 1) {
        multiply_token<type>(p);
    } else {
        multiply_rows<type, ROWS>(p);
    }
}

} // namespace

void launch_product_onto(const ProductOntoInputs& in, void* stream) {
    if (in_blocks(in.matrix)) return launch_block_product(in, stream);
    RL_ASSERT(in.adds || in.dropout.probability == 0.0F);
    const Parameters p{in.state,
                       {in.in, static_cast<int>(in.matrix.inputs)},
                       in.matrix,
                       in.x,
                       masks(in.dropout),
                       static_cast<int>(in.rows),
                       in.adds};
    const LaunchShape shape = in.rows == 1 ? decode::product(in.matrix.outputs, in.matrix.inputs, 1)
                                           : decode::mc_product(in.type, in.matrix.outputs, in.matrix.inputs,
                                                                in.rows, decode::mc_onto_outputs_per_block);
    with_type_and_mc_rows(in.type, in.rows, [&]<WeightType type, int rows>() {
        RL_ASSERT(in.matrix.inputs % per_vector<type> == 0);
        launch_step(in.dependent, product_onto_kernel<type, rows>, shape, stream, p);
    });
}

} // namespace refreshlab::kernels::RL_GPU
