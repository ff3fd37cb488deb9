#include "kernels/cuda/decode/block_products.h"
#include "kernels/cuda/decode/mc_products.cuh"
#include "kernels/cuda/decode/onto_residual.cuh"

/// x[r, o] += dropout(sum_i matrix[o, i] * in[r, i] + bias[o]): the output of attention and of the MLP, onto the residual (onto_residual.cuh).
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
    OntoResidual onto;
    int rows;
};

/// The end of row `row`'s output: onto x. \param before  what stands there
template <WeightType type>
__device__ void finish(const Parameters& p, int row, int output, float y, float before) {
    if (p.matrix.bias != nullptr) y = __fadd_rn(y, weight_at<type>(p.matrix.bias, output));
    p.onto.put(p.state, row, output, y, before);
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
    const float before = writes ? p.onto.before(0, own) : 0.0F;
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
                finish<type>(p, row, output, y[0], p.onto.before(row, output));
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
                       {in.x, static_cast<int>(in.matrix.outputs), masks(in.dropout), in.adds},
                       static_cast<int>(in.rows)};
    const LaunchShape shape = in.rows == 1 ? decode::product(in.matrix.outputs, in.matrix.inputs, 1)
                                           : decode::mc_product(in.type, in.matrix.outputs, in.matrix.inputs,
                                                                in.rows, decode::mc_onto_outputs_per_block);
    with_type_and_mc_rows(in.type, in.rows, [&]<WeightType type, int rows>() {
        RL_ASSERT(in.matrix.inputs % per_vector<type> == 0);
        launch_step(in.dependent, product_onto_kernel<type, rows>, shape, stream, p);
    });
}

} // namespace refreshlab::kernels::RL_GPU
