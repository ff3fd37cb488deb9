#include "kernels/cuda/decode/block_products.h"
#include "kernels/cuda/decode/row_products.cuh"

/// x[r, o] += dropout(sum_i matrix[o, i] * in[r, i] + bias[o]): the output of attention and of the MLP, onto the residual.
/// dropout(y) = y in row 0; in the others y / (1 - p) where dropout_keeps(seed, position, layer, pass r, site, element o), else 0.
///
/// Grid    [groups of 8 rows, blocks of 16 outputs], 8 warps, two outputs a warp.
/// Memory  row_products.cuh. The warps' rows of the matrix are asked for before the kernel waits for the one in front.
/// Order   row_products.cuh; then plus the bias, times the mask, onto x. An element of x is read and written by one lane.
/// Bound   by reading the matrix.
namespace refreshlab::kernels::RL_GPU {
namespace {

constexpr int outputs = static_cast<int>(decode::outputs_per_warp);

struct Parameters {
    const StepState* state;
    InputRows in;
    Matrix matrix;
    float* x;
    Masks masks;
    int rows;
};

template <WeightType type, int ROWS>
__global__ void __launch_bounds__(product_threads, 2) product_onto_kernel(const Parameters p) {
    grid_allow_dependents();
    const int warp = static_cast<int>(threadIdx.x / 32);
    const int total = static_cast<int>(p.matrix.outputs);
    const int output =
        (static_cast<int>(blockIdx.y) * static_cast<int>(decode::product_warps) + warp) * outputs;
    const uint4* matrix[outputs];
#pragma unroll
    for (int o = 0; o < outputs; ++o) {
        // What lies behind the last output is read as the last one and not written.
        matrix[o] = matrix_row<type>(p.matrix.data, p.in.inputs, output + o < total ? output + o : total - 1);
        prefetch_by_warp(matrix[o], int64_t{p.in.inputs} * static_cast<int>(sizeof(Stored<type>)));
    }
    grid_dependency_wait();
    const int first = static_cast<int>(blockIdx.x) * static_cast<int>(decode::rows_per_block);
    InputRows in = p.in;
    in.rows += int64_t{first} * in.inputs;
    with_live_rows<ROWS>(live_rows(p.state, p.rows, first, ROWS), [&]<int rows>(int live) {
        float y = multiply<type, rows, outputs, false>(in, live, matrix, dynamic_shared<float>(), true,
                                                       static_cast<SquareParts<rows>*>(nullptr));
        const Share<rows, outputs> share;
        const int o = share.output, r = share.row;
        if (!share.writes || r >= live || output + o >= total) return;
        if (p.matrix.bias != nullptr) y = __fadd_rn(y, weight_at<type>(p.matrix.bias, output + o));
        const int pass = first + r;
        if (pass > 0 && p.masks.threshold > 0) {
            const shared::MaskStream stream =
                masks_of(*p.state, p.masks.site, p.masks.layer, pass, 0, p.masks.threshold);
            const bool kept = shared::mask_keeps(stream, static_cast<uint32_t>(output + o));
            y = kept ? __fmul_rn(y, p.masks.scale) : 0.0F;
        }
        float* const x = p.x + int64_t{pass} * total + output + o;
        *x = __fadd_rn(__ldcg(x), y);
    });
}

} // namespace

void launch_product_onto(const ProductOntoInputs& in, void* stream) {
    if (in_blocks(in.matrix)) return launch_block_product(in, stream);
    const Parameters p{in.state,          {in.in, static_cast<int>(in.matrix.inputs), nullptr},
                       in.matrix,         in.x,
                       masks(in.dropout), static_cast<int>(in.rows)};
    const LaunchShape shape = decode::product(in.matrix.outputs, in.matrix.inputs, in.rows);
    with_type_and_rows(in.type, in.rows, [&]<WeightType type, int rows>() {
        RL_ASSERT(in.matrix.inputs % per_vector<type> == 0);
        launch_step(in.dependent, product_onto_kernel<type, rows>, shape, stream, p);
    });
}

} // namespace refreshlab::kernels::RL_GPU
