#include "kernels/cuda/decode/block_norms.cuh"
#include "kernels/cuda/decode/steps.cuh"
#include "kernels/cuda/rows/parts.cuh"
#include "kernels/cuda/rows/rounded.cuh"

/// out[r, i] = x[r, i] / sqrt(sum_j x[r, j]^2 / width + eps) * norm[i], or x[r, i] without a norm, rounded to the weights' type. Before it x[r]
/// += the parts of a product, or the same norm of their sum by weights of its own.
///
/// Grid    a block of 256 threads for each row, which reads it twice: the second time it comes from the first cache. A thread reads again what
///         it has read, or made of parts, itself. Parts that get a norm are merged twice.
/// Memory  vectors of 4 numbers, neighbours side by side.
/// Order   of the sum: a thread adds its squares in ascending order, 4 of every 1024 numbers; lanes add up as a tree, and warps in
///         ascending order.
/// Bound   by the launch, and by memory from some hundred rows on; with parts by the second cache.
/// Source: Zhang and Sennrich 2019.
namespace refreshlab::kernels::RL_GPU {
namespace {

constexpr int norm_threads = static_cast<int>(rows::norm_threads), norm_warps = norm_threads / 32;

struct Parameters {
    float* x;
    NormWeights norm, onto_norm;
    float width, eps;
    void* out;
    int hidden;
    PartSums onto;
    const void* onto_bias;
};

template <WeightType type>
__global__ void __launch_bounds__(norm_threads) rows_norm_kernel(const Parameters p) {
    __shared__ float of_branch[norm_warps], of_row[norm_warps];
    grid_allow_dependents();
    // The norms are there before the kernel in front has ended: lines of 128 bytes.
    constexpr int line = 128 / static_cast<int>(sizeof(Stored<type>));
    for (int i = static_cast<int>(threadIdx.x) * line; i < p.hidden; i += norm_threads * line) {
        if (p.norm) prefetch_l2(static_cast<const Stored<type>*>(p.norm.data) + i);
        if (p.onto_norm) prefetch_l2(static_cast<const Stored<type>*>(p.onto_norm.data) + i);
    }
    grid_dependency_wait();
    const int64_t first = static_cast<int64_t>(blockIdx.x) * p.hidden;
    auto* const from = reinterpret_cast<float4*>(p.x + first);
    auto* const to = static_cast<Stored<type>*>(p.out) + first;
    const auto branch = [&](int v) { return merged_parts<type>(p.onto, first + v * 4, p.onto_bias, v * 4); };
    float branch_factor = 1;
    if (p.onto_norm) {
        float sum = 0;
        for (int v = static_cast<int>(threadIdx.x); v < p.hidden / 4; v += norm_threads)
            add_squares(branch(v), sum);
        branch_factor = inverse_rms_of_block(sum, of_branch, p.width, p.eps);
    }
    float sum = 0;
    for (int v = static_cast<int>(threadIdx.x); v < p.hidden / 4; v += norm_threads) {
        if (p.onto.sums != nullptr) {
            float4 four = branch(v);
            if (p.onto_norm) four = normed<type>(four, branch_factor, p.onto_norm, v * 4);
            from[v] = add_fours(from[v], four);
        }
        add_squares(from[v], sum);
    }
    const float factor = p.norm ? inverse_rms_of_block(sum, of_row, p.width, p.eps) : 1.0F;
    for (int v = static_cast<int>(threadIdx.x); v < p.hidden / 4; v += norm_threads) {
        const float4 four = p.norm ? normed<type>(from[v], factor, p.norm, v * 4) : from[v];
        store_four<type>(to + v * 4, four.x, four.y, four.z, four.w);
    }
}

} // namespace

void launch_rows_norm(const RowsNormInputs& in, void* stream) {
    with_type(in.type, [&]<WeightType type>() {
        RL_ASSERT(in.rows > 0 && in.hidden % per_vector<type> == 0 && in.width > 0);
        RL_ASSERT(in.onto_norm == nullptr || in.parts.sums != nullptr);
        const Parameters p{in.x,
                           norm_weights(in.norm, in.norm_offset),
                           norm_weights(in.onto_norm, in.norm_offset),
                           static_cast<float>(in.width),
                           static_cast<float>(in.eps),
                           in.out,
                           static_cast<int>(in.hidden),
                           part_sums(in.parts, in.rows, in.hidden),
                           in.parts_bias};
        launch_step(in.dependent, rows_norm_kernel<type>, rows::norm(in.rows), stream, p);
    });
}

} // namespace refreshlab::kernels::RL_GPU
