#include "kernels/cuda/decode/block_products.h"
#include "kernels/cuda/decode/row_products.cuh"

/// out[r, :] = [matrices 0, 1 and 2 one below the other] * h + biases, h[i] = x[r, i] * norm[i] / sqrt(sum_j x[r, j]^2 / width + eps):
/// q | k | v of a layer.
///
/// Grid    [groups of 8 rows, blocks of 16 outputs], 8 warps, two outputs a warp; they may be of two matrices.
/// Memory  row_products.cuh. The warps' rows of the matrices are asked for before the kernel waits for the one in front.
/// Order   row_products.cuh; then times the row's factor, plus the bias.
/// Bound   by reading the matrices.
namespace refreshlab::kernels::RL_GPU {
namespace {

constexpr int outputs = static_cast<int>(decode::outputs_per_warp);

struct Parameters {
    const StepState* state;
    InputRows in;
    float width, eps;
    Matrix matrices[3];
    float* out;
    int rows, total;
};

/// An output of the three together: its matrix and its row there.
struct Place {
    const void *data = nullptr, *bias = nullptr;
    int64_t output = 0;
};
__device__ Place place_of(const Matrix (&matrices)[3], int64_t output) {
    Place place;
    int64_t first = 0;
#pragma unroll
    for (int m = 0; m < 3; ++m) {
        const int64_t own = output - first;
        if (own >= 0 && own < matrices[m].outputs) place = {matrices[m].data, matrices[m].bias, own};
        first += matrices[m].outputs;
    }
    return place;
}

template <WeightType type, int ROWS>
__global__ void __launch_bounds__(product_threads, 2) norm_product_kernel(const Parameters p) {
    grid_allow_dependents();
    const int warp = static_cast<int>(threadIdx.x / 32);
    const int output =
        (static_cast<int>(blockIdx.y) * static_cast<int>(decode::product_warps) + warp) * outputs;
    const uint4* matrix[outputs];
#pragma unroll
    for (int o = 0; o < outputs; ++o) {
        // What lies behind the last output is read as the last one and not written.
        const Place place = place_of(p.matrices, output + o < p.total ? output + o : p.total - 1);
        matrix[o] = matrix_row<type>(place.data, p.in.inputs, place.output);
        prefetch_by_warp(matrix[o], int64_t{p.in.inputs} * static_cast<int>(sizeof(Stored<type>)));
    }
    grid_dependency_wait();
    const int first = static_cast<int>(blockIdx.x) * static_cast<int>(decode::rows_per_block);
    InputRows in = p.in;
    in.rows += int64_t{first} * in.inputs;
    with_live_rows<ROWS>(live_rows(p.state, p.rows, first, ROWS), [&]<int rows>(int live) {
        __shared__ SquareParts<rows> squares;
        const float sum =
            multiply<type, rows, outputs, true>(in, live, matrix, dynamic_shared<float>(), true, &squares);
        const Share<rows, outputs> share;
        const int o = share.output, r = share.row;
        if (!share.writes || r >= live || output + o >= p.total) return;
        float y = __fmul_rn(sum, inverse_rms(squares, r, p.width, p.eps));
        const Place place = place_of(p.matrices, output + o);
        if (place.bias != nullptr) y = __fadd_rn(y, weight_at<type>(place.bias, place.output));
        p.out[int64_t{first + r} * p.total + output + o] = y;
    });
}

} // namespace

void launch_norm_product(const NormProductInputs& in, void* stream) {
    for (const Matrix& matrix : in.matrices) {
        if (in_blocks(matrix)) return launch_block_product(in, stream);
    }
    Parameters p{in.state,
                 {in.x, static_cast<int>(in.hidden), in.norm},
                 static_cast<float>(in.width),
                 static_cast<float>(in.eps),
                 {in.matrices[0], in.matrices[1], in.matrices[2]},
                 in.out,
                 static_cast<int>(in.rows),
                 0};
    for (const Matrix& matrix : p.matrices) {
        RL_ASSERT(matrix.outputs == 0 || matrix.inputs == in.hidden);
        p.total += static_cast<int>(matrix.outputs);
    }
    const LaunchShape shape = decode::product(p.total, in.hidden, in.rows);
    with_type_and_rows(in.type, in.rows, [&]<WeightType type, int rows>() {
        RL_ASSERT(in.hidden % per_vector<type> == 0);
        launch_step(in.dependent, norm_product_kernel<type, rows>, shape, stream, p);
    });
}

} // namespace refreshlab::kernels::RL_GPU
