#include "kernels/cuda/decode/elementwise.cuh"
#include "kernels/cuda/rows/expert_rows.cuh"

/// inner[r, k, o] = activation(sum_i gate[o, i] h[r, i]) * sum_i up[o, i] h[r, i] of the expert routed[r, k], rounded to the weights' type.
///
/// Grid    [experts, blocks of 64 outputs], 8 warps; a warp has 8 outputs of gate and the same of up.
/// Memory, order  expert_rows.cuh.
/// Bound   by reading the matrices of the experts that rows are sent to. Source: Shazeer et al. 2017; Jiang et al. 2024 (Mixtral).
namespace refreshlab::kernels::RL_GPU {
namespace {

template <WeightType type, MatrixForm form>
__global__ void __launch_bounds__(expert_rows_threads, 2) expert_rows_gate_up_kernel(const ExpertRows p) {
    __shared__ PlacesOfExpert places;
    grid_allow_dependents();
    const int expert = static_cast<int>(blockIdx.x), warp = static_cast<int>(threadIdx.x) / 32,
              lane = static_cast<int>(threadIdx.x) % 32;
    grid_dependency_wait();
    const int count = find_places(p, expert, places);
    const int first = (static_cast<int>(blockIdx.y) * static_cast<int>(decode::expert_rows_warps) + warp) * 8;
    if (count == 0 || first >= p.expert_width) return;
    const int row = first + lane / 4; // the width is a multiple of 16
    const ExpertRow matrix[2] = {expert_row<type, form>(p.experts[expert].gate, p.hidden, row),
                                 expert_row<type, form>(p.experts[expert].up, p.hidden, row)};
    multiply_rows_of_expert<type, form, 2>(
        matrix, places, count, p.hidden,
        [&](int place) { return matrix_row<type>(p.h, p.hidden, place / p.used); },
        [&](int place, const float(&sums)[2][2]) {
            store_two<type>(static_cast<Stored<type>*>(p.inner) + int64_t{place} * p.expert_width + first +
                                2 * (lane % 4),
                            __fmul_rn(activated(p.activation, sums[0][0]), sums[1][0]),
                            __fmul_rn(activated(p.activation, sums[0][1]), sums[1][1]));
        });
}

} // namespace

void launch_expert_rows_gate_up(const ExpertRowsInputs& in, void* stream) {
    const ExpertRows p = expert_rows_of(in);
    RL_ASSERT(in.gate_up_form == MatrixForm::numbers || can_pack_blocks(in.expert_width, in.hidden));
    with_half_type(in.type, in.gate_up_form, [&]<WeightType type, MatrixForm form>() {
        launch_step(in.dependent, expert_rows_gate_up_kernel<type, form>,
                    decode::expert_rows(in.count, in.expert_width, decode::expert_gate_up_outputs), stream,
                    p);
    });
}

} // namespace refreshlab::kernels::RL_GPU
