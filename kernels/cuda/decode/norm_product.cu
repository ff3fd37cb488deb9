#include "kernels/cuda/decode/block_products.h"
#include "kernels/cuda/decode/mc_products.cuh"

/// out[r, :] = [matrices 0, 1 and 2 one below the other] * h + biases, h[i] = x[r, i] * norm[i] / sqrt(sum_j x[r, j]^2 / width + eps):
/// q | k | v of a layer. Without a norm h = x.
///
/// Grid    the token alone: [1, blocks of 16 outputs], 8 warps, two outputs a warp; they may be of two matrices. With MC rows: [groups of
///         them, blocks of 64 outputs], 16 warps.
/// Memory  row_products.cuh, mc_products.cuh. The block's rows of the matrices are asked for before the kernel waits for the one in front.
/// Order   there; then times the row's factor, plus the bias.
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

/// The end of row `row`'s output.
template <WeightType type>
__device__ void finish(const Parameters& p, int row, int output, float sum, float factor) {
    if (output >= p.total) return;
    float y = __fmul_rn(sum, factor);
    const Place place = place_of(p.matrices, output);
    if (place.bias != nullptr) y = __fadd_rn(y, weight_at<type>(place.bias, place.output));
    p.out[int64_t{row} * p.total + output] = y;
}

/// What lies behind the last output is read as the last one and not written.
template <WeightType type>
__device__ const uint4* row_of(const Parameters& p, int output) {
    const Place place = place_of(p.matrices, output < p.total ? output : p.total - 1);
    return matrix_row<type>(place.data, p.in.inputs, place.output);
}

template <WeightType type>
__device__ void multiply_token(const Parameters& p) {
    const int warp = static_cast<int>(threadIdx.x / 32);
    const int output =
        (static_cast<int>(blockIdx.y) * static_cast<int>(decode::product_warps) + warp) * outputs;
    const uint4* matrix[outputs];
#pragma unroll
    for (int o = 0; o < outputs; ++o) {
        matrix[o] = row_of<type>(p, output + o);
        prefetch_by_warp(matrix[o], int64_t{p.in.inputs} * static_cast<int>(sizeof(Stored<type>)));
    }
    grid_dependency_wait();
    __shared__ SquareParts<1> squares;
    const float sum =
        multiply<type, 1, outputs, true>(p.in, 1, matrix, dynamic_shared<float>(), true, &squares);
    const Share<1, outputs> share;
    if (share.writes)
        finish<type>(p, 0, output + share.output, sum, inverse_rms(p.in.norm, squares, 0, p.width, p.eps));
}

template <WeightType type, int ROWS>
__device__ void multiply_rows(const Parameters& p) {
    constexpr int tiles = static_cast<int>(decode::mc_outputs_per_block) / 16;
    multiply_with_mc<type, ROWS, tiles, 1, true>(
        p.state, p.in, p.rows, p.width, p.eps, [&](int, int output) { return row_of<type>(p, output); },
        [&](int row, int output, const float(&sum)[1], float factor) {
            finish<type>(p, row, output, sum[0], factor);
        });
}

template <WeightType type, int ROWS>
__global__ void __launch_bounds__(product_block<ROWS>, product_blocks<ROWS>)
    norm_product_kernel(const Parameters p) {
    grid_allow_dependents();
    if constexpr (ROWS == 1) {
        multiply_token<type>(p);
    } else {
        multiply_rows<type, ROWS>(p);
    }
}

} // namespace

void launch_norm_product(const NormProductInputs& in, void* stream) {
    for (const Matrix& matrix : in.matrices) {
        if (in_blocks(matrix)) return launch_block_product(in, stream);
    }
    Parameters p{in.state,
                 {in.x, static_cast<int>(in.hidden), norm_weights(in.norm, in.norm_offset)},
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
    const LaunchShape shape =
        in.rows == 1 ? decode::product(p.total, in.hidden, 1)
                     : decode::mc_product(in.type, p.total, in.hidden, in.rows, decode::mc_outputs_per_block);
    with_type_and_mc_rows(in.type, in.rows, [&]<WeightType type, int rows>() {
        RL_ASSERT(in.hidden % per_vector<type> == 0);
        launch_step(in.dependent, norm_product_kernel<type, rows>, shape, stream, p);
    });
}

} // namespace refreshlab::kernels::RL_GPU
