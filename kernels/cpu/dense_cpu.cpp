#include "kernels/cpu/dense_cpu.h"

#include "kernels/cpu/cpu_tensors.h"
#include "kernels/execution/execution_context.h"
#include "kernels/execution/thread_pool.h"

#include <ATen/ATen.h>

#include <algorithm>

/// Story: a task of linear() is a block of rows times a run of outputs. With few rows a run is short, and every weight is read once
/// for all of them. With many, activations of a block (512 KB) and weights of a run (as much) share the second cache, and
/// the inner loops keep what they use most in the first. The reduction over the inputs is never cut, so neither blocking nor
/// threads can change a bit (cpu_kernels.h states the order).
namespace refreshlab::kernels::cpu {
namespace {

constexpr int64_t cached_bytes = 512 * 1024;
constexpr int64_t many_rows = 12;
constexpr int64_t min_task_products =
    48 * 1024; // ~2 us of work: below that a second thread costs more than it gives
constexpr int64_t elementwise_grain = 8 * 1024;

int64_t divide_up(int64_t a, int64_t b) {
    return (a + b - 1) / b;
}

/// How a product is cut into tasks: row_blocks of block_rows rows, times runs of outputs.
struct Blocking {
    int64_t block_rows, row_blocks, run;
};

/// Few rows: runs that are worth a task.
Blocking blocking_of_few(int64_t rows, int64_t in) {
    const int64_t products = std::max<int64_t>(rows * in, 1);
    return {rows, 1, std::clamp<int64_t>(divide_up(min_task_products, products), 8, 64) / 8 * 8};
}

/// Many rows, in multiples of what the inner loops do at once: 6 rows, 8 outputs. A long run uses an activation most often. So
/// enough tasks for all threads come first from blocks of rows, then from shorter runs.
Blocking blocking_of_many(int64_t rows, int64_t in, int64_t out, int64_t weight_bytes) {
    constexpr int64_t least_rows = 48, least_run = 16, most_run = 64;
    const int64_t fit_rows = std::max<int64_t>(cached_bytes / (4 * in) / 6 * 6, many_rows);
    const int64_t fit_blocks = divide_up(rows, fit_rows);
    int64_t run = std::clamp(cached_bytes / (in * weight_bytes) / 8 * 8, least_run, most_run);
    const int64_t wanted = num_threads() == 1 ? 1 : 8 * int64_t{num_threads()};
    const int64_t blocks = std::clamp(divide_up(wanted, divide_up(out, run)), fit_blocks,
                                      std::max(fit_blocks, rows / least_rows));
    const int64_t block_rows = divide_up(divide_up(rows, blocks), 6) * 6;
    const int64_t row_blocks = divide_up(rows, block_rows);
    while (run > least_run && divide_up(out, run) * row_blocks < wanted)
        run = std::max(run / 16 * 8, least_run);
    return {block_rows, row_blocks, run};
}

} // namespace

at::Tensor linear(const at::Tensor& x_in, const at::Tensor& weight, const at::Tensor& bias_in) {
    RL_ASSERT(x_in.scalar_type() == at::kFloat && weight.is_cpu());
    const at::Tensor x = x_in.contiguous();
    const at::Tensor bias = bias_in.defined() ? bias_in.to(at::kFloat).contiguous() : at::Tensor();
    const int64_t rows = x.size(0);
    const int64_t in = x.size(1);
    const int64_t out = weight.size(0);
    at::Tensor y = at::empty({rows, out}, x.options());
    if (rows == 0 || out == 0) return y;

    const Blocking cut = rows < many_rows || in == 0
                             ? blocking_of_few(rows, in)
                             : blocking_of_many(rows, in, out, element_bytes(element_type(weight)));
    const int64_t block_rows = cut.block_rows, row_blocks = cut.row_blocks, run = cut.run;
    const int64_t runs = divide_up(out, run);

    Dots all;
    all.x = x.const_data_ptr<float>();
    all.x_stride = in;
    all.w = weight.const_data_ptr();
    all.w_type = element_type(weight);
    all.w_stride = in;
    all.in = in;
    all.y = y.mutable_data_ptr<float>();
    all.y_stride = out;
    const float* const bias_data = bias.defined() ? bias.const_data_ptr<float>() : nullptr;
    const CpuKernels& table = kernels();

    // Task t: run of outputs t / row_blocks (so that tasks in sequence share weights), row block t % row_blocks.
    const int64_t task_products = run * std::max<int64_t>(std::min(rows, block_rows) * in, 1);
    const int64_t grain = std::max<int64_t>(min_task_products / task_products, 1);
    parallel_for(runs * row_blocks, grain, [&](int64_t begin, int64_t end) {
        for (int64_t t = begin; t < end;) {
            const int64_t row = t % row_blocks * block_rows;
            const int64_t first = t / row_blocks * run;
            // Few rows: the whole chunk is one stretch of outputs.
            const int64_t count = rows < many_rows ? end - t : 1;
            t += count;
            if (row >= rows) continue;
            Dots d = all;
            d.x += row * in;
            d.rows = std::min(block_rows, rows - row);
            d.w = static_cast<const char*>(all.w) + first * in * element_bytes(all.w_type);
            d.outs = std::min(run * count, out - first);
            d.bias = bias_data != nullptr ? bias_data + first : nullptr;
            d.y += row * out + first;
            table.dots(d);
        }
    });
    return y;
}

at::Tensor rms_norm(const at::Tensor& x_in, const at::Tensor& weight_in, double eps, int64_t width) {
    RL_ASSERT(x_in.scalar_type() == at::kFloat);
    const at::Tensor x = x_in.contiguous();
    const at::Tensor weight = weight_in.to(at::kFloat).contiguous();
    const int64_t rows = x.size(0);
    const int64_t n = x.size(1);
    at::Tensor y = at::empty_like(x);
    const float* const xd = x.const_data_ptr<float>();
    const float* const wd = weight.const_data_ptr<float>();
    float* const yd = y.mutable_data_ptr<float>();
    const double row_width = static_cast<double>(width > 0 ? width : n);
    const CpuKernels& table = kernels();
    parallel_for(rows, std::max<int64_t>(elementwise_grain / std::max<int64_t>(n, 1), 1),
                 [&](int64_t begin, int64_t end) {
                     for (int64_t r = begin; r < end; ++r)
                         table.rms_norm(xd + r * n, wd, n, row_width, eps, yd + r * n);
                 });
    return y;
}

at::Tensor gated(Activation activation, const at::Tensor& gate_in, const at::Tensor& up_in) {
    RL_ASSERT(gate_in.scalar_type() == at::kFloat && up_in.scalar_type() == at::kFloat);
    const at::Tensor gate = gate_in.contiguous();
    const at::Tensor up = up_in.contiguous();
    at::Tensor y = at::empty_like(gate);
    const float* const gd = gate.const_data_ptr<float>();
    const float* const ud = up.const_data_ptr<float>();
    float* const yd = y.mutable_data_ptr<float>();
    const auto kernel = kernels().gated(activation);
    parallel_for(gate.numel(), elementwise_grain, [&](int64_t begin, int64_t end) {
        kernel(gd + begin, ud + begin, end - begin, yd + begin);
    });
    return y;
}

void soft_cap_(at::Tensor& x, double cap) {
    RL_ASSERT(x.scalar_type() == at::kFloat);
    float* const xd = x.mutable_data_ptr<float>();
    const CpuKernels& table = kernels();
    parallel_for(x.numel(), elementwise_grain, [&](int64_t begin, int64_t end) {
        table.soft_cap(xd + begin, end - begin, 1.0F, static_cast<float>(cap));
    });
}

void rope_(at::Tensor& x, const at::Tensor& cos_in, const at::Tensor& sin_in) {
    RL_ASSERT(x.scalar_type() == at::kFloat && (x.stride(2) == 1 || x.numel() == 0));
    const at::Tensor cos = cos_in.to(at::kFloat).contiguous();
    const at::Tensor sin = sin_in.to(at::kFloat).contiguous();
    const int64_t heads = x.size(1);
    const int64_t half = cos.size(1);
    const int64_t row_stride = x.stride(0);
    const int64_t head_stride = x.stride(1);
    float* const xd = x.mutable_data_ptr<float>();
    const float* const cd = cos.const_data_ptr<float>();
    const float* const sd = sin.const_data_ptr<float>();
    const CpuKernels& table = kernels();
    const int64_t row_size = std::max<int64_t>(heads * half * 2, 1);
    parallel_for(
        x.size(0), std::max<int64_t>(elementwise_grain / row_size, 1), [&](int64_t begin, int64_t end) {
            for (int64_t r = begin; r < end; ++r) {
                for (int64_t h = 0; h < heads; ++h) {
                    table.rope(xd + r * row_stride + h * head_stride, cd + r * half, sd + r * half, half);
                }
            }
        });
}

} // namespace refreshlab::kernels::cpu
