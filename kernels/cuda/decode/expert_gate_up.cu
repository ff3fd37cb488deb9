#include "kernels/cuda/decode/elementwise.cuh"
#include "kernels/cuda/decode/expert_products.cuh"

/// inner[r, k, o] = activation(sum_i gate[o, i] h[i]) * sum_i up[o, i] h[i] of the expert routed[r, k], h = x[r] / rms(x[r]) * norm or x[r].
/// kernels/shared/activation.h.
///
/// Grid    [rows * used, blocks of 16 outputs], 8 warps; a warp makes gate and up of two outputs at once.
/// Memory  expert_products.cuh. Whose matrices are read is known only behind the router, so nothing is asked for before; rows that have the same
///         expert read it again, from the second cache.
/// Order   there; then times the row's factor.
/// Bound   by reading the chosen experts' matrices. Source: Shazeer et al. 2017; Jiang et al. 2024 (Mixtral).
namespace refreshlab::kernels::RL_GPU {
namespace {

constexpr int outputs = static_cast<int>(decode::outputs_per_warp);

struct Parameters {
    const StepState* state;
    const float* x;
    NormWeights norm;
    int hidden;
    float width, eps;
    const ExpertMatrices* experts;
    const RoutedExpert* routed;
    int used, expert_width;
    float* inner;
    Activation activation;
};

/// The tile's inputs [begin, begin + length) of the row; squares of what was read are added.
template <WeightType type, MatrixForm form>
__device__ void fill(const Parameters& p, const float* x, int begin, int length, float* tile,
                     float& squares) {
    constexpr int strip = expert_strip_inputs<type, form>;
    const int padded = (length + strip - 1) / strip * strip;
    for (int i = static_cast<int>(threadIdx.x) * 4; i < padded; i += product_threads * 4) {
        float4 four = make_float4(0, 0, 0, 0);
        if (i < length) {
            four = __ldcg(reinterpret_cast<const float4*>(x + begin + i));
            squares = fmaf(four.x, four.x, squares);
            squares = fmaf(four.y, four.y, squares);
            squares = fmaf(four.z, four.z, squares);
            squares = fmaf(four.w, four.w, squares);
            if (p.norm) {
                const float4 norm = four_weights_at<type>(p.norm, begin + i);
                four = make_float4(four.x * norm.x, four.y * norm.y, four.z * norm.z, four.w * norm.w);
            }
        }
        *reinterpret_cast<float4*>(tile + place_of_input<type, form>(i)) = four;
    }
}

template <WeightType type, MatrixForm form>
__global__ void __launch_bounds__(product_threads, 2) expert_gate_up_kernel(const Parameters p) {
    constexpr int most = tile_inputs<1>;
    __shared__ SquareParts<1> squares;
    grid_allow_dependents();
    const int warp = static_cast<int>(threadIdx.x / 32), place = static_cast<int>(blockIdx.x);
    const int row = place / p.used;
    const int output =
        (static_cast<int>(blockIdx.y) * static_cast<int>(decode::product_warps) + warp) * outputs;
    grid_dependency_wait();
    if (p.state != nullptr && row > p.state->passes) return;
    const ExpertMatrices& expert = p.experts[__ldcg(&p.routed[place].expert)];
    ExpertRow rows[2 * outputs]; // gate and up of an output, of the next
#pragma unroll
    for (int o = 0; o < 2 * outputs; ++o) {
        const int own = output + o / 2;
        rows[o] = expert_row<type, form>(o % 2 != 0 ? expert.up : expert.gate, p.hidden,
                                         own < p.expert_width ? own : p.expert_width - 1);
        prefetch_row<type, form>(rows[o], p.hidden);
    }
    auto* const tile = dynamic_shared<float>();
    float square = 0, sums[2 * outputs] = {};
    for (int begin = 0; begin < p.hidden; begin += most) {
        const int length = p.hidden - begin < most ? p.hidden - begin : most;
        if (begin > 0) __syncthreads(); // all warps are through with what stood there
        fill<type, form>(p, p.x + int64_t{row} * p.hidden, begin, length, tile, square);
        if (begin + length == p.hidden) {
            const float sum = warp_sum(square);
            if (threadIdx.x % 32 == 0) squares.of[0][warp] = sum;
        }
        __syncthreads();
        ExpertRow piece[2 * outputs];
#pragma unroll
        for (int o = 0; o < 2 * outputs; ++o)
            piece[o] = from_input<type, form>(rows[o], begin);
        add_expert_products<type, form, 2 * outputs>(piece, length, tile, sums);
    }
    const float sum = warp_sums(sums);
    const Share<1, 2 * outputs> share;
    // The sum of `up` stands so many lanes behind that of `gate`.
    float up = __shfl_down_sync(0xFFFFFFFFU, sum, share.lanes);
    const int own = output + share.output / 2;
    if (!share.writes || share.output % 2 != 0 || own >= p.expert_width) return;
    const float factor = inverse_rms(p.norm, squares, 0, p.width, p.eps);
    const float gate = __fmul_rn(sum, factor);
    up = __fmul_rn(up, factor);
    p.inner[int64_t{place} * p.expert_width + own] = __fmul_rn(activated(p.activation, gate), up);
}

} // namespace

void launch_expert_gate_up(const ExpertGateUpInputs& in, void* stream) {
    RL_ASSERT(in.rows > 0 && in.used > 0 && in.expert_width > 0);
    RL_ASSERT(in.form == MatrixForm::numbers || can_pack_blocks(in.expert_width, in.hidden));
    const Parameters p{in.state,
                       in.x,
                       norm_weights(in.norm, in.norm_offset),
                       static_cast<int>(in.hidden),
                       static_cast<float>(in.width),
                       static_cast<float>(in.eps),
                       in.experts,
                       in.routed,
                       static_cast<int>(in.used),
                       static_cast<int>(in.expert_width),
                       in.inner,
                       in.activation};
    const LaunchShape shape = decode::expert_gate_up(in.form, in.used, in.expert_width, in.hidden, in.rows);
    with_form(in.type, in.form, [&]<WeightType type, MatrixForm form>() {
        RL_ASSERT(in.hidden % per_vector<type> == 0);
        launch_step(in.dependent, expert_gate_up_kernel<type, form>, shape, stream, p);
    });
}

} // namespace refreshlab::kernels::RL_GPU
