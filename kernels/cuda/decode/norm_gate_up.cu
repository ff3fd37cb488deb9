#include "kernels/cuda/decode/block_products.h"
#include "kernels/cuda/decode/row_products.cuh"

/// inner[r, o] = silu(sum_i gate[o, i] h[i] + gate_bias[o]) * (sum_i up[o, i] h[i] + up_bias[o]), silu(g) = g / (1 + exp(-g)),
/// h[i] = x[r, i] * norm[i] / sqrt(sum_j x[r, j]^2 / width + eps): the first half of an MLP.
///
/// Grid    [groups of 8 rows, blocks of 16 outputs], 8 warps; a warp makes gate and up of two outputs at once, four rows of weights.
/// Memory  row_products.cuh. The warps' rows of the matrices are asked for before the kernel waits for the one in front.
/// Order   row_products.cuh; then times the row's factor, plus the bias.
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
};

template <WeightType type, int ROWS>
__global__ void __launch_bounds__(product_threads, 2) norm_gate_up_kernel(const Parameters p) {
    grid_allow_dependents();
    const int warp = static_cast<int>(threadIdx.x / 32);
    const int total = static_cast<int>(p.gate.outputs);
    const int output =
        (static_cast<int>(blockIdx.y) * static_cast<int>(decode::product_warps) + warp) * outputs;
    const uint4* matrix[2 * outputs]; // gate and up of an output, of the next
#pragma unroll
    for (int o = 0; o < 2 * outputs; ++o) {
        // What lies behind the last output is read as the last one and not written.
        const int row = output + o / 2 < total ? output + o / 2 : total - 1;
        matrix[o] = matrix_row<type>(o % 2 == 0 ? p.gate.data : p.up.data, p.in.inputs, row);
        prefetch_by_warp(matrix[o], int64_t{p.in.inputs} * static_cast<int>(sizeof(Stored<type>)));
    }
    grid_dependency_wait();
    const int first = static_cast<int>(blockIdx.x) * static_cast<int>(decode::rows_per_block);
    InputRows in = p.in;
    in.rows += int64_t{first} * in.inputs;
    with_live_rows<ROWS>(live_rows(p.state, p.rows, first, ROWS), [&]<int rows>(int live) {
        __shared__ SquareParts<rows> squares;
        const float sum = multiply<type, rows, 2 * outputs, true>(in, live, matrix, dynamic_shared<float>(),
                                                                  true, &squares);
        const Share<rows, 2 * outputs> share;
        // The sum of `up` stands so many lanes behind that of `gate`.
        const float next = __shfl_down_sync(0xFFFFFFFFU, sum, rows * share.lanes);
        const int o = share.output / 2, r = share.row;
        if (!share.writes || share.output % 2 != 0 || r >= live || output + o >= total) return;
        const float factor = inverse_rms(squares, r, p.width, p.eps);
        float gate = __fmul_rn(sum, factor), up = __fmul_rn(next, factor);
        if (p.gate.bias != nullptr) gate = __fadd_rn(gate, weight_at<type>(p.gate.bias, output + o));
        if (p.up.bias != nullptr) up = __fadd_rn(up, weight_at<type>(p.up.bias, output + o));
        p.inner[int64_t{first + r} * total + output + o] = __fmul_rn(gate / __fadd_rn(1.0F, expf(-gate)), up);
    });
}

} // namespace

void launch_norm_gate_up(const NormGateUpInputs& in, void* stream) {
    if (in_blocks(in.gate)) return launch_block_product(in, stream);
    RL_ASSERT(in.gate.inputs == in.hidden && in.up.inputs == in.hidden && in.gate.outputs == in.up.outputs);
    const Parameters p{in.state,
                       {in.x, static_cast<int>(in.hidden), in.norm},
                       static_cast<float>(in.width),
                       static_cast<float>(in.eps),
                       in.gate,
                       in.up,
                       in.inner,
                       static_cast<int>(in.rows)};
    const LaunchShape shape = decode::product(in.gate.outputs, in.hidden, in.rows);
    with_type_and_rows(in.type, in.rows, [&]<WeightType type, int rows>() {
        RL_ASSERT(in.hidden % per_vector<type> == 0);
        launch_step(in.dependent, norm_gate_up_kernel<type, rows>, shape, stream, p);
    });
}

} // namespace refreshlab::kernels::RL_GPU
