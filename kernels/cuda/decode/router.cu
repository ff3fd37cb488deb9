#include "kernels/cuda/decode/experts.h"
#include "kernels/cuda/decode/row_products.cuh"

#include <cmath>

/// logits[r, e] = sum_i router[e, i] h[i], h = x[r] / rms(x[r]) * norm or x[r]; then the row's experts: the `used` largest logits, ascending by number,
/// each with e^(logit - max) over the sum of those of all experts, or of the chosen ones.
///
/// Grid    [rows, blocks of 16 experts], 8 warps, two experts a warp. The last block of a row to end chooses, so the order of arrival changes no bit.
/// Memory  row_products.cuh. The block's rows of the router are asked for before the kernel waits for the one in front.
/// Order   of a logit: there. A thread counts for its expert how many others are larger: that is its place. Weights are summed by places: a lane
///         those of every 32nd, lanes as a tree.
/// Bound   by the launch: a router is some hundred KB. Source: Shazeer et al. 2017; Jiang et al. 2024 (Mixtral).
namespace refreshlab::kernels::RL_GPU {
namespace {

constexpr int outputs = static_cast<int>(decode::outputs_per_warp);
constexpr int most = static_cast<int>(decode::most_experts);

struct Parameters {
    const StepState* state;
    const float* x;
    NormWeights norm;
    int hidden;
    float width, eps;
    Matrix router;
    int used;
    bool normalised;
    float* logits;
    uint32_t* arrived;
    RoutedExpert* to;
};

/// What the last block of a row chooses in.
struct Choice {
    float keys[most];    ///< logits; NaN as -infinity
    float weights[most]; ///< e^(logit - max), by place
    bool chosen[most];
    bool last;
};

/// Of places [0, n), the same in every thread.
__device__ float sum_of_places(const Choice& choice, int n) {
    float sum = 0;
    for (int place = static_cast<int>(threadIdx.x) % 32; place < n; place += 32)
        sum = __fadd_rn(sum, choice.weights[place]);
    return warp_sum(sum);
}

/// All threads of the block come here.
__device__ void choose(const Parameters& p, int row, Choice& choice) {
    const int count = static_cast<int>(p.router.outputs);
    const float* const logits = p.logits + int64_t{row} * count;
    for (int e = static_cast<int>(threadIdx.x); e < count; e += product_threads) {
        const float logit = __ldcg(logits + e);
        choice.keys[e] = logit == logit ? logit : -INFINITY;
    }
    __syncthreads();
    constexpr int own = most / product_threads;
    int places[own];
    float weights[own];
#pragma unroll
    for (int i = 0; i < own; ++i) {
        const int e = static_cast<int>(threadIdx.x) + i * product_threads;
        places[i] = most;
        weights[i] = 0;
        if (e >= count) continue;
        const float key = choice.keys[e];
        int place = 0, largest = 0;
        for (int other = 0; other < count; ++other) {
            const float there = choice.keys[other];
            place += there > key || (there == key && other < e) ? 1 : 0;
            largest = there > choice.keys[largest] ? other : largest;
        }
        places[i] = place;
        weights[i] = expf(__ldcg(logits + e) - __ldcg(logits + largest));
        choice.weights[place] = weights[i];
        choice.chosen[e] = place < p.used;
    }
    __syncthreads();
    const float sum = sum_of_places(choice, p.normalised ? p.used : count);
#pragma unroll
    for (int i = 0; i < own; ++i) {
        if (places[i] >= p.used) continue;
        const int e = static_cast<int>(threadIdx.x) + i * product_threads;
        int before = 0; // of the chosen ones
        for (int other = 0; other < e; ++other)
            before += choice.chosen[other] ? 1 : 0;
        p.to[int64_t{row} * p.used + before] = {e, weights[i] / sum};
    }
}

template <WeightType type>
__global__ void __launch_bounds__(product_threads, 2) router_kernel(const Parameters p) {
    grid_allow_dependents();
    const int warp = static_cast<int>(threadIdx.x / 32), row = static_cast<int>(blockIdx.x);
    const int output =
        (static_cast<int>(blockIdx.y) * static_cast<int>(decode::product_warps) + warp) * outputs;
    const int total = static_cast<int>(p.router.outputs);
    const uint4* matrix[outputs];
#pragma unroll
    for (int o = 0; o < outputs; ++o) {
        matrix[o] = matrix_row<type>(p.router.data, p.hidden, output + o < total ? output + o : total - 1);
        prefetch_by_warp(matrix[o], int64_t{p.hidden} * static_cast<int>(sizeof(Stored<type>)));
    }
    grid_dependency_wait();
    if (p.state != nullptr && row > p.state->passes) return;
    __shared__ SquareParts<1> squares;
    __shared__ Choice choice;
    const InputRows in{p.x + int64_t{row} * p.hidden, p.hidden, p.norm};
    const float sum =
        multiply<type, 1, outputs, true>(in, 1, matrix, dynamic_shared<float>(), true, &squares);
    const Share<1, outputs> share;
    const int own = output + share.output;
    if (share.writes && own < total)
        p.logits[int64_t{row} * total + own] =
            __fmul_rn(sum, inverse_rms(p.norm, squares, 0, p.width, p.eps));
    __syncthreads();
    if (threadIdx.x == 0) {
        __threadfence();
        choice.last = atomicAdd(p.arrived + row, 1U) == gridDim.y - 1;
        if (choice.last) atomicExch(p.arrived + row, 0U); // for the next launch
        __threadfence();
    }
    __syncthreads();
    if (choice.last) choose(p, row, choice);
}

} // namespace

void launch_router(const RouterInputs& in, void* stream) {
    RL_ASSERT(in.rows > 0 && in.used > 0 && in.used <= in.router.outputs && in.router.inputs == in.hidden);
    RL_ASSERT(in.router.outputs <= decode::most_experts && in.router.bias == nullptr &&
              in.router.form == MatrixForm::numbers);
    const Parameters p{in.state,
                       in.x,
                       norm_weights(in.norm, in.norm_offset),
                       static_cast<int>(in.hidden),
                       static_cast<float>(in.width),
                       static_cast<float>(in.eps),
                       in.router,
                       static_cast<int>(in.used),
                       in.normalised,
                       in.logits,
                       in.arrived,
                       in.to};
    with_type(in.type, [&]<WeightType type>() {
        RL_ASSERT(in.hidden % per_vector<type> == 0);
        launch_step(in.dependent, router_kernel<type>, decode::router(in.router.outputs, in.hidden, in.rows),
                    stream, p);
    });
}

} // namespace refreshlab::kernels::RL_GPU
