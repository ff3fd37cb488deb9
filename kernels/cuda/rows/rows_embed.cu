#include "kernels/cuda/decode/block_weights.cuh"
#include "kernels/cuda/rows/row_kernels.h"

/// x[r, i] = scale * embedding[tokens[r], i], as fp32.
///
/// Grid    a block of 128 threads for each row.
/// Memory  a thread reads 16 bytes and writes the 4 to 32 numbers that they hold; neighbours read and write side by side.
/// Bound   by the launch, and by memory from some hundred rows on.
namespace refreshlab::kernels::RL_GPU {
namespace {

constexpr int embed_threads = static_cast<int>(rows::embed_threads);

template <WeightType type, MatrixForm form>
__global__ void __launch_bounds__(embed_threads)
    rows_embed_kernel(const void* embedding, const int32_t* tokens, float scale, float* x, int hidden) {
    grid_allow_dependents();
    grid_dependency_wait(); // the tokens, and x, which the kernel in front may still read
    const auto row = static_cast<int64_t>(blockIdx.x);
    copy_row<type, form, embed_threads>(embedding, tokens[row], hidden, scale, x + row * hidden);
}

} // namespace

void launch_rows_embed(const RowsEmbedInputs& in, void* stream) {
    with_form(in.type, in.form, [&]<WeightType type, MatrixForm form>() {
        RL_ASSERT(in.rows > 0 &&
                  in.hidden % (form == MatrixForm::numbers ? per_vector<type> : block_width) == 0);
        launch_step(in.dependent, rows_embed_kernel<type, form>, rows::embed(in.rows), stream, in.embedding,
                    in.tokens, in.scale, in.x, static_cast<int>(in.hidden));
    });
}

} // namespace refreshlab::kernels::RL_GPU
