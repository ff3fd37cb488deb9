#include "kernels/cuda/decode/block_norms.cuh"
#include "kernels/cuda/decode/decode_kernels.h"
#include "kernels/cuda/decode/steps.cuh"
#include "kernels/cuda/decode/weights.cuh"

/// y[i] = in[r, i] / sqrt(sum_j in[r, j]^2 / width + eps) * norm[i]; out[r, i] = y[i], or out[r, i] += dropout(y[i]) as product_onto.cu has it.
/// No block of a product sees the whole of what it makes, so norms of products are a launch of their own.
///
/// Grid    [runs, rows], a block of 512 threads for each.
/// Memory  vectors of 4 numbers, neighbours side by side, which a thread reads twice. Norms are asked for before the kernel waits for the one in
///         front.
/// Order   of the sum: a thread adds its squares in ascending order, 4 of every 2048 numbers; lanes add up as a tree, and warps in ascending
///         order.
/// Bound   by the launch: a row is a few KB. Source: Zhang and Sennrich 2019.
namespace refreshlab::kernels::RL_GPU {
namespace {

constexpr int run_threads = static_cast<int>(decode::norm_rows_threads), run_warps = run_threads / 32;

struct Run {
    const float* in;
    float* out;
    NormWeights norm;
    int numbers;
    float width;
};

struct Parameters {
    const StepState* state;
    Run runs[2];
    int64_t in_stride, out_stride;
    float eps;
    Masks masks;
    bool adds;
};

__device__ float masked(const Masks& masks, const shared::MaskStream& stream, int i, float y) {
    return shared::mask_keeps(stream, static_cast<uint32_t>(i)) ? __fmul_rn(y, masks.scale) : 0.0F;
}

template <WeightType type>
__global__ void __launch_bounds__(run_threads) norm_rows_kernel(const Parameters p) {
    __shared__ float squares[run_warps];
    grid_allow_dependents();
    const Run& run = p.runs[blockIdx.x];
    const int row = static_cast<int>(blockIdx.y), thread = static_cast<int>(threadIdx.x);
    constexpr int line = 128 / static_cast<int>(sizeof(Stored<type>));
    for (int i = thread * line; i < run.numbers; i += run_threads * line)
        prefetch_l2(static_cast<const Stored<type>*>(run.norm.data) + i);
    grid_dependency_wait();
    if (p.state != nullptr && row > p.state->passes) return;
    const auto* const from = reinterpret_cast<const float4*>(run.in + row * p.in_stride);
    auto* const to = reinterpret_cast<float4*>(run.out + row * p.out_stride);
    float sum = 0;
    for (int v = thread; v < run.numbers / 4; v += run_threads)
        add_squares(__ldcg(from + v), sum);
    const float factor = inverse_rms_of_block(sum, squares, run.width, p.eps);
    const bool drops = row > 0 && p.masks.threshold > 0;
    shared::MaskStream stream;
    if (drops) stream = masks_of(*p.state, p.masks.site, p.masks.layer, row, 0, p.masks.threshold);
    for (int v = thread; v < run.numbers / 4; v += run_threads) {
        float4 y = normed<type>(__ldcg(from + v), factor, run.norm, int64_t{v} * 4);
        if (drops)
            y = make_float4(masked(p.masks, stream, 4 * v, y.x), masked(p.masks, stream, 4 * v + 1, y.y),
                            masked(p.masks, stream, 4 * v + 2, y.z), masked(p.masks, stream, 4 * v + 3, y.w));
        if (p.adds) y = add_fours(__ldcg(to + v), y);
        to[v] = y;
    }
}

} // namespace

void launch_norm_rows(const NormRowsInputs& in, void* stream) {
    RL_ASSERT(in.rows > 0 && in.runs[0].numbers > 0);
    RL_ASSERT(in.dropout.probability == 0.0F || (in.adds && in.state != nullptr));
    Parameters p{in.state,          {},     in.in_stride, in.out_stride, static_cast<float>(in.eps),
                 masks(in.dropout), in.adds};
    int64_t runs = 0;
    for (const NormRowsInputs::Run& run : in.runs) {
        if (run.numbers == 0) continue;
        RL_ASSERT(run.norm != nullptr && run.numbers % 8 == 0 && run.width > 0);
        p.runs[runs++] = {run.in, run.out, norm_weights(run.norm, in.norm_offset),
                          static_cast<int>(run.numbers), static_cast<float>(run.width)};
    }
    with_type(in.type, [&]<WeightType type>() {
        launch_step(in.dependent, norm_rows_kernel<type>, decode::norm_rows(runs, in.rows), stream, p);
    });
}

} // namespace refreshlab::kernels::RL_GPU
