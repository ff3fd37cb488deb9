#include "kernels/cuda/rows/expert_rows.cuh"

/// sums[k, r, o] = share[r, k] * sum_i down[o, i] inner[r, k, i] of the expert routed[r, k]: parts of a product, which the norm behind it adds to the
/// residual in ascending order of k, so of experts (parts.cuh).
///
/// Grid    [experts, blocks of 128 outputs], 8 warps of 16 outputs.
/// Memory, order  expert_rows.cuh; then times the share.
/// Bound   by reading the matrices of the experts that rows are sent to. Source: Shazeer et al. 2017; Jiang et al. 2024 (Mixtral).
namespace refreshlab::kernels::RL_GPU {
namespace {

template <WeightType type, MatrixForm form>
__global__ void __launch_bounds__(expert_rows_threads, 2) expert_rows_down_kernel(const ExpertRows p) {
    __shared__ PlacesOfExpert places;
    grid_allow_dependents();
    const int expert = static_cast<int>(blockIdx.x), warp = static_cast<int>(threadIdx.x) / 32,
              lane = static_cast<int>(threadIdx.x) % 32;
    grid_dependency_wait();
    const int count = find_places(p, expert, places);
    const int first =
        (static_cast<int>(blockIdx.y) * static_cast<int>(decode::expert_rows_warps) + warp) * 16;
    if (count == 0 || first >= p.hidden) return;
    const void* const down = p.experts[expert].down; // hidden is a multiple of 16
    const ExpertRow matrix[2] = {expert_row<type, form>(down, p.expert_width, first + lane / 4),
                                 expert_row<type, form>(down, p.expert_width, first + 8 + lane / 4)};
    multiply_rows_of_expert<type, form, 2>(
        matrix, places, count, p.expert_width,
        [&](int place) { return matrix_row<type>(p.inner, p.expert_width, place); },
        [&](int place, const float(&sums)[2][2]) {
            const float share = __ldcg(&p.routed[place].share);
            float* const to = p.sums + (int64_t{place % p.used} * p.rows + place / p.used) * p.hidden + first;
#pragma unroll
            for (int n = 0; n < 2; ++n)
                *reinterpret_cast<float2*>(to + 8 * n + 2 * (lane % 4)) =
                    make_float2(__fmul_rn(sums[n][0], share), __fmul_rn(sums[n][1], share));
        });
}

} // namespace

void launch_expert_rows_down(const ExpertRowsInputs& in, void* stream) {
    const ExpertRows p = expert_rows_of(in);
    RL_ASSERT(in.down_form == MatrixForm::numbers || can_pack_blocks(in.hidden, in.expert_width));
    with_half_type(in.type, in.down_form, [&]<WeightType type, MatrixForm form>() {
        launch_step(in.dependent, expert_rows_down_kernel<type, form>,
                    decode::expert_rows(in.count, in.hidden, decode::expert_down_outputs), stream, p);
    });
}

} // namespace refreshlab::kernels::RL_GPU
