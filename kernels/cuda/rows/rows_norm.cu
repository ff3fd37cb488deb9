#include "kernels/cuda/decode/steps.cuh"
#include "kernels/cuda/rows/parts.cuh"
#include "kernels/cuda/rows/rounded.cuh"

/// out[r, i] = x[r, i] / sqrt(sum_j x[r, j]^2 / width + eps) * norm[i], rounded to the weights' type; x[r] += the parts of a product before.
///
/// Grid    a block of 256 threads for each row, which reads it twice: the second time it comes from the first cache. A thread reads again what
///         it has read, or made of parts, itself.
/// Memory  vectors of 4 numbers, neighbours side by side.
/// Order   of the sum: a thread adds its squares in ascending order, 4 of every 1024 numbers; lanes add up as a tree, and warps in
///         ascending order.
/// Bound   by the launch, and by memory from some hundred rows on; with parts by the second cache.
/// Source: Zhang and Sennrich 2019.
namespace refreshlab::kernels::RL_GPU {
namespace {

constexpr int norm_threads = static_cast<int>(rows::norm_threads), norm_warps = norm_threads / 32;

template <WeightType type>
__global__ void __launch_bounds__(norm_threads)
    rows_norm_kernel(float* x, const void* norm, float width, float eps, void* out, int hidden,
                     const PartSums onto, const void* onto_bias) {
    __shared__ float parts[norm_warps];
    grid_allow_dependents();
    // The norm is there before the kernel in front has ended: lines of 128 bytes.
    constexpr int line = 128 / static_cast<int>(sizeof(Stored<type>));
    for (int i = static_cast<int>(threadIdx.x) * line; i < hidden; i += norm_threads * line)
        prefetch_l2(static_cast<const Stored<type>*>(norm) + i);
    grid_dependency_wait();
    const int64_t first = static_cast<int64_t>(blockIdx.x) * hidden;
    auto* const from = reinterpret_cast<float4*>(x + first);
    auto* const to = static_cast<Stored<type>*>(out) + first;
    float sum = 0;
    for (int v = static_cast<int>(threadIdx.x); v < hidden / 4; v += norm_threads) {
        if (onto.count > 1)
            from[v] = add_fours(from[v], merged_parts<type>(onto, first + v * 4, onto_bias, v * 4));
        const float4 four = from[v];
        sum = fmaf(four.x, four.x, sum);
        sum = fmaf(four.y, four.y, sum);
        sum = fmaf(four.z, four.z, sum);
        sum = fmaf(four.w, four.w, sum);
    }
    sum = warp_sum(sum);
    if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = sum;
    __syncthreads();
    sum = 0;
#pragma unroll
    for (int w = 0; w < norm_warps; ++w)
        sum = __fadd_rn(sum, parts[w]);
    const float factor = 1.0F / sqrtf(__fadd_rn(sum / width, eps));
    for (int v = static_cast<int>(threadIdx.x); v < hidden / 4; v += norm_threads) {
        const float4 four = from[v], weights = four_weights_at<type>(norm, int64_t{v} * 4);
        store_four<type>(to + v * 4, four.x * factor * weights.x, four.y * factor * weights.y,
                         four.z * factor * weights.z, four.w * factor * weights.w);
    }
}

} // namespace

void launch_rows_norm(const RowsNormInputs& in, void* stream) {
    with_type(in.type, [&]<WeightType type>() {
        RL_ASSERT(in.rows > 0 && in.hidden % per_vector<type> == 0 && in.width > 0);
        launch_step(in.dependent, rows_norm_kernel<type>, rows::norm(in.rows), stream, in.x, in.norm,
                    static_cast<float>(in.width), static_cast<float>(in.eps), in.out,
                    static_cast<int>(in.hidden), part_sums(in.parts, in.rows, in.hidden), in.parts_bias);
    });
}

} // namespace refreshlab::kernels::RL_GPU
