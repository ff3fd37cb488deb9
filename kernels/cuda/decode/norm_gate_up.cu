#include "kernels/cuda/decode/block_products.h"
#include "kernels/cuda/decode/elementwise.cuh"
#include "kernels/cuda/decode/mc_products.cuh"

/// inner[r, o] = activation(sum_i gate[o, i] h[i] + gate_bias[o]) * (sum_i up[o, i] h[i] + up_bias[o]) (kernels/shared/activation.h),
/// h[i] = x[r, i] * norm[i] / sqrt(sum_j x[r, j]^2 / width + eps), or without a norm x[r, i]: the first half of an MLP.
///
/// Grid    the token alone: [1, blocks of 16 outputs], 8 warps; a warp makes gate and up of two outputs at once, four rows of weights. With
///         MC rows: [groups of them, blocks of 32 outputs], 16 warps.
/// Memory  row_products.cuh, mc_products.cuh. The block's rows of the matrices are asked for before the kernel waits for the one in front.
/// Order   there; then times the row's factor, plus the bias.
/// Bound   by reading the matrices. Source: Shazeer 2020 (SwiGLU).
namespace refreshlab::kernels::RL_GPU {
namespace {

constexpr int outputs = static_cast<int>(decode::outputs_per_warp);

struct Parameters {
    const StepState* state;
    InputRows in;
    float width, eps;
    Matrix gate, up;
    float* inner;
    int rows;
    Activation activation;
};

/// The end of row `row`'s output: of the sums of gate and up.
template <WeightType type>
__device__ void finish(const Parameters& p, int row, int output, float gate, float up, float factor) {
    const int total = static_cast<int>(p.gate.outputs);
    if (output >= total) return;
    gate = __fmul_rn(gate, factor);
    up = __fmul_rn(up, factor);
    if (p.gate.bias != nullptr) gate = __fadd_rn(gate, weight_at<type>(p.gate.bias, output));
    if (p.up.bias != nullptr) up = __fadd_rn(up, weight_at<type>(p.up.bias, output));
    p.inner[int64_t{row} * total + output] = __fmul_rn(activated(p.activation, gate), up);
}

/// What lies behind the last output is read as the last one and not written.
template <WeightType type>
__device__ const uint4* row_of(const Parameters& p, bool up, int output) {
    const int total = static_cast<int>(p.gate.outputs);
    return matrix_row<type>(up ? p.up.data : p.gate.data, p.in.inputs, output < total ? output : total - 1);
}

template <WeightType type>
__device__ void multiply_token(const Parameters& p) {
    const int warp = static_cast<int>(threadIdx.x / 32);
    const int output =
        (static_cast<int>(blockIdx.y) * static_cast<int>(decode::product_warps) + warp) * outputs;
    const uint4* matrix[2 * outputs]; // gate and up of an output, of the next
#pragma unroll
    for (int o = 0; o < 2 * outputs; ++o) {
        matrix[o] = row_of<type>(p, o % 2 != 0, output + o / 2);
        prefetch_by_warp(matrix[o], int64_t{p.in.inputs} * static_cast<int>(sizeof(Stored<type>)));
    }
    grid_dependency_wait();
    __shared__ SquareParts<1> squares;
    const float sum =
        multiply<type, 1, 2 * outputs, true>(p.in, 1, matrix, dynamic_shared<float>(), true, &squares);
    const Share<1, 2 * outputs> share;
    // The sum of `up` stands so many lanes behind that of `gate`.
    const float next = __shfl_down_sync(0xFFFFFFFFU, sum, share.lanes);
    if (share.writes && share.output % 2 == 0)
        finish<type>(p, 0, output + share.output / 2, sum, next,
                     inverse_rms(p.in.norm, squares, 0, p.width, p.eps));
}

template <WeightType type, int ROWS>
__device__ void multiply_rows(const Parameters& p) {
    constexpr int tiles = static_cast<int>(decode::mc_gate_up_per_block) / 8; // gate, up, gate, up
    multiply_with_mc<type, ROWS, tiles, 2, true>(
        p.state, p.in, p.rows, p.width, p.eps,
        [&](int matrix, int output) { return row_of<type>(p, matrix != 0, output); },
        [&](int row, int output, const float(&sum)[2], float factor) {
            finish<type>(p, row, output, sum[0], sum[1], factor);
        });
}

template <WeightType type, int ROWS>
__global__ void __launch_bounds__(product_block<ROWS>, product_blocks<ROWS>)
    norm_gate_up_kernel(const Parameters p) {
    grid_allow_dependents();
    if constexpr (ROWS == 1) {
        multiply_token<type>(p);
    } else {
        multiply_rows<type, ROWS>(p);
    }
}

} // namespace

void launch_norm_gate_up(const NormGateUpInputs& in, void* stream) {
    if (in_blocks(in.gate)) return launch_block_product(in, stream);
    RL_ASSERT(in.gate.inputs == in.hidden && in.up.inputs == in.hidden && in.gate.outputs == in.up.outputs);
    const Parameters p{in.state,
                       {in.x, static_cast<int>(in.hidden), norm_weights(in.norm, in.norm_offset)},
                       static_cast<float>(in.width),
                       static_cast<float>(in.eps),
                       in.gate,
                       in.up,
                       in.inner,
                       static_cast<int>(in.rows),
                       in.activation};
    const LaunchShape shape = in.rows == 1 ? decode::product(in.gate.outputs, in.hidden, 1)
                                           : decode::mc_product(in.type, 2 * in.gate.outputs, in.hidden,
                                                                in.rows, 2 * decode::mc_gate_up_per_block);
    with_type_and_mc_rows(in.type, in.rows, [&]<WeightType type, int rows>() {
        RL_ASSERT(in.hidden % per_vector<type> == 0);
        launch_step(in.dependent, norm_gate_up_kernel<type, rows>, shape, stream, p);
    });
}

} // namespace refreshlab::kernels::RL_GPU
