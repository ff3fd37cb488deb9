#include "kernels/cuda/decode/block_weights.cuh"
#include "kernels/cuda/decode/decode_kernels.h"

/// x[r, i] = scale * embedding[token, i], as fp32, for each live row r.
///
/// Grid    a block of 256 threads for each row.
/// Memory  a thread reads 16 bytes and writes the 4, 8, 16 or 32 numbers that they hold.
/// Bound   by the launch: a row is a few KB.
namespace refreshlab::kernels::RL_GPU {
namespace {

constexpr int embed_threads = static_cast<int>(decode::embed_threads);

template <WeightType type, MatrixForm form>
__global__ void __launch_bounds__(embed_threads)
    embed_kernel(const void* embedding, const StepState* state, float scale, float* x, int hidden) {
    grid_allow_dependents();
    grid_dependency_wait();
    const int row = static_cast<int>(blockIdx.x);
    if (row > state->passes) return;
    copy_row<type, form, embed_threads>(embedding, state->token, hidden, scale, x + int64_t{row} * hidden);
}

} // namespace

void launch_embed(const EmbedInputs& in, void* stream) {
    with_form(in.type, in.form, [&]<WeightType type, MatrixForm form>() {
        RL_ASSERT(in.hidden % (form == MatrixForm::numbers ? per_vector<type> : block_width) == 0);
        launch_step(in.dependent, embed_kernel<type, form>, decode::embed(in.rows), stream, in.embedding,
                    in.state, in.scale, in.x, static_cast<int>(in.hidden));
    });
}

} // namespace refreshlab::kernels::RL_GPU
