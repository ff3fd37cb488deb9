#include "kernels/cuda/rows/rows_product.cuh"

/// The product of rows_product.cu with fp32 weights, which no tensor core multiplies unrounded: by fp32 units.
///
/// Grid    [groups of 16 R rows, blocks of 64 outputs], 256 threads: thread 16 b + a makes the outputs a, a + 16, a + 32, a + 48 of M
///         matrices for the rows b, b + 16, ...
/// Memory  stages of 32 inputs in shared memory, two of them, filled by cp.async: [outputs][36] and [rows][36]. With 4 numbers between
///         rows neighbouring lanes read neighbouring 16 bytes; the lanes of one row read the same.
/// Order   of a sum: one fused multiply-add after the other in ascending order of inputs.
/// Bound   from some rows on by arithmetic. f32 is for comparisons; speed is not its point.
namespace refreshlab::kernels::RL_GPU {
namespace {

constexpr int f32_threads = static_cast<int>(rows::f32_threads),
              f32_outputs = static_cast<int>(rows::f32_outputs),
              f32_inputs = static_cast<int>(rows::f32_inputs),
              f32_stride = static_cast<int>(rows::f32_stride);
template <int M, int R>
constexpr int f32_stage_floats = static_cast<int>(rows::f32_stage_floats(M, R));

/// 32 inputs of `count` rows; row(i) is the i-th, null where there is none.
template <typename Row>
__device__ void fetch_rows(const Row& row, const float* anything, int inputs, int begin, int count,
                           float* to) {
    const int chunk = static_cast<int>(threadIdx.x) % 8, input = begin + chunk * 4;
    for (int i = static_cast<int>(threadIdx.x) / 8; i < count; i += f32_threads / 8) {
        const float* const from = row(i);
        const bool inside = from != nullptr && input < inputs;
        async_copy_16(to + i * f32_stride + chunk * 4, inside ? from + input : anything, inside ? 16 : 0);
    }
}

template <int M, int R>
__global__ void __launch_bounds__(f32_threads, 2) rows_product_f32_kernel(const RowsProduct p) {
    auto* const shared = dynamic_shared<float>();
    constexpr int weight_floats = f32_outputs * f32_stride;
    grid_allow_dependents();
    const int first_row = static_cast<int>(blockIdx.x) * 16 * R;
    const int first_output = static_cast<int>(blockIdx.y) * f32_outputs;
    const int a = static_cast<int>(threadIdx.x) % 16, b = static_cast<int>(threadIdx.x) / 16;
    const auto* const in = static_cast<const float*>(p.in);
    const auto fetch = [&](int begin, float* stage) {
#pragma unroll
        for (int m = 0; m < M; ++m) {
            const auto weights = [&](int i) -> const float* {
                if (first_output + i >= p.outputs) return nullptr;
                const MatrixRow of = matrix_row_of(p, first_output + i, m == 1);
                return static_cast<const float*>(of.matrix) + int64_t{of.row} * p.inputs;
            };
            fetch_rows(weights, in, p.inputs, begin, f32_outputs, stage + m * weight_floats);
        }
        const auto activations = [&](int i) {
            return first_row + i < p.rows ? in + int64_t{first_row + i} * p.inputs : nullptr;
        };
        fetch_rows(activations, in, p.inputs, begin, 16 * R, stage + M * weight_floats);
        async_commit();
    };
    grid_dependency_wait();
    float sums[M][4][R] = {};
    fetch(0, shared);
    int which = 0;
    for (int begin = 0; begin < p.inputs; begin += f32_inputs, which ^= 1) {
        async_wait<0>();
        __syncthreads(); // this stage has come, and all are through with the other
        if (begin + f32_inputs < p.inputs)
            fetch(begin + f32_inputs, shared + (which ^ 1) * f32_stage_floats<M, R>);
        const float* const stage = shared + which * f32_stage_floats<M, R>;
        const float* const rows = stage + M * weight_floats + b * f32_stride;
        for (int i = 0; i < f32_inputs; i += 4) {
            float4 x[R];
#pragma unroll
            for (int r = 0; r < R; ++r)
                x[r] = *reinterpret_cast<const float4*>(rows + 16 * r * f32_stride + i);
#pragma unroll
            for (int m = 0; m < M; ++m) {
#pragma unroll
                for (int o = 0; o < 4; ++o) {
                    const float4 w = *reinterpret_cast<const float4*>(stage + m * weight_floats +
                                                                      (a + 16 * o) * f32_stride + i);
#pragma unroll
                    for (int r = 0; r < R; ++r) {
                        float& sum = sums[m][o][r];
                        sum = fmaf(w.x, x[r].x, sum);
                        sum = fmaf(w.y, x[r].y, sum);
                        sum = fmaf(w.z, x[r].z, sum);
                        sum = fmaf(w.w, x[r].w, sum);
                    }
                }
            }
        }
    }
#pragma unroll
    for (int o = 0; o < 4; ++o) {
#pragma unroll
        for (int r = 0; r < R; ++r) {
            const int row = first_row + b + 16 * r, output = first_output + a + 16 * o;
            if (row < p.rows && output < p.outputs)
                finish_product<WeightType::f32>(p, row, output, sums[0][o][r], sums[M - 1][o][r]);
        }
    }
}

} // namespace

void launch_rows_product_f32(const RowsProduct& p, bool dependent, void* stream) {
    const LaunchShape shape = rows::product_f32(p.rows, p.outputs, p.gated ? 2 : 1);
    const auto start = [&](auto* kernel) { launch_step(dependent, kernel, shape, stream, p); };
    const bool few = rows::f32_rows(p.rows) == 1;
    if (p.gated) return few ? start(rows_product_f32_kernel<2, 1>) : start(rows_product_f32_kernel<2, 4>);
    return few ? start(rows_product_f32_kernel<1, 1>) : start(rows_product_f32_kernel<1, 4>);
}

} // namespace refreshlab::kernels::RL_GPU
