#include "kernels/cuda/decode/expert_products.cuh"
#include "kernels/cuda/decode/onto_residual.cuh"

/// x[r, o] += dropout(sum_k share[r, k] * sum_i down[o, i] inner[r, k, i]), down of the expert routed[r, k] (onto_residual.cuh).
/// Or, where the model has a norm of what is added, x[r, o] = the sum, for norm_rows.cu.
///
/// Grid    [rows, blocks of 16 outputs], 8 warps, two outputs a warp.
/// Memory  expert_products.cuh. The inputs of as many experts as fit stand in shared memory side by side, so a row of few narrow experts waits once. All of
///         a warp's rows of matrices are asked for first, as soon as the router's choice is known.
/// Order   of an expert's sum: there; then times its share, onto those of the experts before it. An element of x is read and written by one lane.
/// Bound   by reading the chosen experts' matrices. Source: Shazeer et al. 2017; Jiang et al. 2024 (Mixtral).
namespace refreshlab::kernels::RL_GPU {
namespace {

constexpr int outputs = static_cast<int>(decode::outputs_per_warp);

struct Parameters {
    const StepState* state;
    const ExpertMatrices* experts;
    const RoutedExpert* routed;
    int used, expert_width;
    int stride;  ///< of an expert in shared memory
    int at_once; ///< experts there side by side; 1: also where one comes in several turns
    const float* inner;
    OntoResidual onto;
};

/// The row's experts.
struct Chosen {
    const void* down[decode::most_experts];
    float share[decode::most_experts];
};

/// The inputs of `count` experts, from `begin` on `length` of each; 0 behind them. \param inner  of the first
template <WeightType type, MatrixForm form>
__device__ void fill(const Parameters& p, const float* inner, int count, int begin, int length, float* tile) {
    constexpr int strip = expert_strip_inputs<type, form>;
    const int padded = (length + strip - 1) / strip * strip;
    for (int i = static_cast<int>(threadIdx.x) * 4; i < count * padded; i += product_threads * 4) {
        const int expert = i / padded, at = i % padded;
        float4 four = make_float4(0, 0, 0, 0);
        if (at < length)
            four = __ldcg(
                reinterpret_cast<const float4*>(inner + int64_t{expert} * p.expert_width + begin + at));
        *reinterpret_cast<float4*>(tile + expert * p.stride + place_of_input<type, form>(at)) = four;
    }
}

template <WeightType type, MatrixForm form>
__global__ void __launch_bounds__(product_threads, 2) expert_down_kernel(const Parameters p) {
    constexpr int most = tile_inputs<1>;
    __shared__ Chosen chosen;
    grid_allow_dependents();
    const int warp = static_cast<int>(threadIdx.x / 32), row = static_cast<int>(blockIdx.x);
    const int first =
        (static_cast<int>(blockIdx.y) * static_cast<int>(decode::product_warps) + warp) * outputs;
    grid_dependency_wait();
    if (p.state != nullptr && row > p.state->passes) return;
    for (int k = static_cast<int>(threadIdx.x); k < p.used; k += product_threads) {
        const RoutedExpert* const routed = p.routed + int64_t{row} * p.used + k;
        chosen.down[k] = p.experts[__ldcg(&routed->expert)].down;
        chosen.share[k] = __ldcg(&routed->share);
    }
    __syncthreads();
    // What lies behind the last output is read as the last one and not written.
    const auto row_of = [&](int k, int o) {
        const int output = first + o < p.onto.outputs ? first + o : p.onto.outputs - 1;
        return expert_row<type, form>(chosen.down[k], p.expert_width, output);
    };
    for (int k = 0; k < p.used; ++k)
        for (int o = 0; o < outputs; ++o)
            prefetch_row<type, form>(row_of(k, o), p.expert_width);

    const Share<1, outputs> share;
    const int own = first + share.output;
    const bool writes = share.writes && own < p.onto.outputs;
    const float before = writes ? p.onto.before(row, own) : 0.0F;
    auto* const tile = dynamic_shared<float>();
    const float* const inner = p.inner + int64_t{row} * p.used * p.expert_width;
    float y = 0;
    for (int k = 0; k < p.used; k += p.at_once) {
        const int count = p.used - k < p.at_once ? p.used - k : p.at_once;
        float sums[outputs] = {};
        for (int begin = 0; begin < p.expert_width; begin += most) { // once, where experts fit
            const int length = p.expert_width - begin < most ? p.expert_width - begin : most;
            if (k + begin > 0) __syncthreads(); // all warps are through with what stood there
            fill<type, form>(p, inner + int64_t{k} * p.expert_width, count, begin, length, tile);
            __syncthreads();
            for (int i = 0; i < count; ++i) {
                ExpertRow rows[outputs];
#pragma unroll
                for (int o = 0; o < outputs; ++o)
                    rows[o] = from_input<type, form>(row_of(k + i, o), begin);
                add_expert_products<type, form, outputs>(rows, length, tile + i * p.stride, sums);
                if (begin + length < p.expert_width) continue; // the expert goes on
                y = __fadd_rn(y, __fmul_rn(warp_sums(sums), chosen.share[k + i]));
#pragma unroll
                for (float& sum : sums)
                    sum = 0;
            }
        }
    }
    if (writes) p.onto.put(p.state, row, own, y, before);
}

} // namespace

void launch_expert_down(const ExpertDownInputs& in, void* stream) {
    RL_ASSERT(in.rows > 0 && in.used > 0 && in.used <= decode::most_experts && in.expert_width > 0);
    RL_ASSERT(in.form == MatrixForm::numbers || can_pack_blocks(in.hidden, in.expert_width));
    RL_ASSERT(in.dropout.probability == 0.0F || (in.adds && in.state != nullptr));
    const decode::ExpertTile tile = decode::expert_tile(in.form, in.used, in.expert_width);
    const Parameters p{in.state,
                       in.experts,
                       in.routed,
                       static_cast<int>(in.used),
                       static_cast<int>(in.expert_width),
                       static_cast<int>(tile.stride),
                       static_cast<int>(tile.at_once),
                       in.inner,
                       {in.x, static_cast<int>(in.hidden), masks(in.dropout), in.adds}};
    const LaunchShape shape = decode::expert_down(in.form, in.used, in.expert_width, in.hidden, in.rows);
    with_form(in.type, in.form, [&]<WeightType type, MatrixForm form>() {
        RL_ASSERT(in.expert_width % per_vector<type> == 0);
        launch_step(in.dependent, expert_down_kernel<type, form>, shape, stream, p);
    });
}

} // namespace refreshlab::kernels::RL_GPU
