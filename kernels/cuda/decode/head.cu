#include "kernels/cuda/decode/block_products.h"
#include "kernels/cuda/decode/row_products.cuh"

/// logits[r, o] = sum_i head[o, i] h[i] (+ bias[o]), h[i] = x[r, i] * norm[i] / sqrt(sum_j x[r, j]^2 / width + eps).
///
/// Grid    [groups of 8 rows, blocks of 64 outputs], 8 warps; a warp makes its eight outputs four at a time.
/// Memory  row_products.cuh. The warps' rows of the matrix are asked for before the kernel waits for the one in front. Inputs are
///         brought into shared memory once for both halves of the outputs, where they fit.
/// Order   row_products.cuh; then times the row's factor, plus the bias.
/// Bound   by reading the matrix, which is the largest of a step.
namespace refreshlab::kernels::RL_GPU {
namespace {

constexpr int outputs = 4; // at a time
constexpr int per_warp = static_cast<int>(decode::head_outputs_per_warp);

struct Parameters {
    const StepState* state;
    InputRows in;
    float width, eps;
    Matrix head;
    float* logits;
    int rows;
};

template <WeightType type, int ROWS>
__global__ void __launch_bounds__(product_threads, 2) head_kernel(const Parameters p) {
    grid_allow_dependents();
    const int warp = static_cast<int>(threadIdx.x / 32);
    const int total = static_cast<int>(p.head.outputs);
    const int output =
        (static_cast<int>(blockIdx.y) * static_cast<int>(decode::product_warps) + warp) * per_warp;
    // The rows of a warp lie one after the other.
    const int here = total - output < per_warp ? total - output : per_warp;
    if (here > 0)
        prefetch_by_warp(matrix_row<type>(p.head.data, p.in.inputs, output),
                         int64_t{here} * p.in.inputs * static_cast<int>(sizeof(Stored<type>)));
    grid_dependency_wait();
    const int first = static_cast<int>(blockIdx.x) * static_cast<int>(decode::rows_per_block);
    InputRows in = p.in;
    in.rows += int64_t{first} * in.inputs;
    with_live_rows<ROWS>(live_rows(p.state, p.rows, first, ROWS), [&]<int rows>(int live) {
        __shared__ SquareParts<rows> squares;
        for (int begin = 0; begin < per_warp; begin += outputs) {
            const uint4* matrix[outputs];
#pragma unroll
            for (int o = 0; o < outputs; ++o) {
                // What lies behind the last output is read as the last one and not written.
                const int row = output + begin + o < total ? output + begin + o : total - 1;
                matrix[o] = matrix_row<type>(p.head.data, p.in.inputs, row);
            }
            const float sum = multiply<type, rows, outputs, true>(in, live, matrix, dynamic_shared<float>(),
                                                                  begin == 0, &squares);
            const Share<rows, outputs> share;
            const int o = share.output, r = share.row;
            if (!share.writes || r >= live || output + begin + o >= total) continue;
            float y = __fmul_rn(sum, inverse_rms(squares, r, p.width, p.eps));
            if (p.head.bias != nullptr) y = __fadd_rn(y, weight_at<type>(p.head.bias, output + begin + o));
            p.logits[int64_t{first + r} * total + output + begin + o] = y;
        }
    });
}

} // namespace

void launch_head(const HeadInputs& in, void* stream) {
    if (in_blocks(in.head)) return launch_block_product(in, stream);
    RL_ASSERT(in.head.inputs == in.hidden);
    const Parameters p{in.state,
                       {in.x, static_cast<int>(in.hidden), in.norm},
                       static_cast<float>(in.width),
                       static_cast<float>(in.eps),
                       in.head,
                       in.logits,
                       static_cast<int>(in.rows)};
    const LaunchShape shape =
        decode::product(in.head.outputs, in.hidden, in.rows, decode::head_outputs_per_block);
    with_type_and_rows(in.type, in.rows, [&]<WeightType type, int rows>() {
        RL_ASSERT(in.hidden % per_vector<type> == 0);
        launch_step(in.dependent, head_kernel<type, rows>, shape, stream, p);
    });
}

} // namespace refreshlab::kernels::RL_GPU
