#include "kernels/cuda/decode/block_products.h"
#include "kernels/cuda/decode/elementwise.cuh"
#include "kernels/cuda/decode/head_answers.cuh"
#include "kernels/cuda/decode/mc_products.cuh"

/// logits[r, o] = cap(sum_i head[o, i] h[i] (+ bias[o])), h[i] = x[r, i] * norm[i] / sqrt(sum_j x[r, j]^2 / width + eps).
///
/// Grid    the token alone: [1, blocks of 64 outputs], 8 warps; a warp makes its eight outputs four at a time. With MC rows: [groups of them,
///         blocks of 64 outputs], 16 warps.
/// Memory  row_products.cuh, mc_products.cuh. The block's rows of the matrix are asked for before the kernel waits for the one in front. The
///         token's inputs are brought into shared memory once for both halves of a warp's outputs, where they fit.
/// Order   there; then times the row's factor, plus the bias.
/// Answers head_answers.cuh, of the token's row, where somebody asks.
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
    HeadAnswers answers;
    float cap;
};

/// The end of row `row`'s output. \param of_block  the token's logits of the block
template <WeightType type>
__device__ void finish(const Parameters& p, int row, int output, float sum, float factor, float* of_block) {
    const int total = static_cast<int>(p.head.outputs);
    if (output >= total) return;
    float y = __fmul_rn(sum, factor);
    if (p.head.bias != nullptr) y = __fadd_rn(y, weight_at<type>(p.head.bias, output));
    y = soft_capped(y, p.cap);
    p.logits[int64_t{row} * total + output] = y;
    if (row == 0) of_block[output % head_answers::of_block] = y;
}

/// What lies behind the last output is read as the last one and not written.
template <WeightType type>
__device__ const uint4* row_of(const Parameters& p, int output) {
    const int total = static_cast<int>(p.head.outputs);
    return matrix_row<type>(p.head.data, p.in.inputs, output < total ? output : total - 1);
}

template <WeightType type>
__device__ void multiply_token(const Parameters& p, float* of_block) {
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
    __shared__ SquareParts<1> squares;
    for (int begin = 0; begin < per_warp; begin += outputs) {
        const uint4* matrix[outputs];
#pragma unroll
        for (int o = 0; o < outputs; ++o)
            matrix[o] = row_of<type>(p, output + begin + o);
        const float sum =
            multiply<type, 1, outputs, true>(p.in, 1, matrix, dynamic_shared<float>(), begin == 0, &squares);
        const Share<1, outputs> share;
        if (share.writes)
            finish<type>(p, 0, output + begin + share.output, sum,
                         inverse_rms(p.in.norm, squares, 0, p.width, p.eps), of_block);
    }
}

template <WeightType type, int ROWS>
__device__ void multiply_rows(const Parameters& p, float* of_block) {
    constexpr int tiles = static_cast<int>(decode::mc_outputs_per_block) / 16;
    multiply_with_mc<type, ROWS, tiles, 1, true>(
        p.state, p.in, p.rows, p.width, p.eps, [&](int, int output) { return row_of<type>(p, output); },
        [&](int row, int output, const float(&sum)[1], float factor) {
            finish<type>(p, row, output, sum[0], factor, of_block);
        });
}

template <WeightType type, int ROWS>
__global__ void __launch_bounds__(product_block<ROWS>, product_blocks<ROWS>) head_kernel(const Parameters p) {
    __shared__ head_answers::Memory memory;
    grid_allow_dependents();
    head_answers::prepare(memory);
    if constexpr (ROWS == 1) {
        multiply_token<type>(p, memory.logits);
    } else {
        multiply_rows<type, ROWS>(p, memory.logits);
    }
    // Blocks of further MC rows have no token.
    if (p.answers.to == nullptr || blockIdx.x > 0) return;
    head_answers::answer<product_block<ROWS>>(p.answers, p.state, p.logits, static_cast<int>(p.head.outputs),
                                              memory);
}

} // namespace

void launch_head(const HeadInputs& in, void* stream) {
    if (in_blocks(in.head)) return launch_block_product(in, stream);
    RL_ASSERT(in.head.inputs == in.hidden);
    const Parameters p{in.state,
                       {in.x, static_cast<int>(in.hidden), norm_weights(in.norm, in.norm_offset)},
                       static_cast<float>(in.width),
                       static_cast<float>(in.eps),
                       in.head,
                       in.logits,
                       static_cast<int>(in.rows),
                       in.answers,
                       static_cast<float>(in.cap)};
    RL_ASSERT(in.answers.to == nullptr || (in.answers.top_k >= 0 && in.answers.top_k <= most_answer_keys &&
                                           in.answers.top_k <= in.head.outputs));
    const LaunchShape shape =
        in.rows == 1
            ? decode::product(in.head.outputs, in.hidden, 1, decode::head_outputs_per_block)
            : decode::mc_product(in.type, in.head.outputs, in.hidden, in.rows, decode::mc_outputs_per_block);
    with_type_and_mc_rows(in.type, in.rows, [&]<WeightType type, int rows>() {
        RL_ASSERT(in.hidden % per_vector<type> == 0);
        launch_step(in.dependent, head_kernel<type, rows>, shape, stream, p);
    });
}

} // namespace refreshlab::kernels::RL_GPU
