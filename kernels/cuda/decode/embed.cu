#include "kernels/cuda/decode/decode_kernels.h"
#include "kernels/cuda/decode/steps.cuh"
#include "kernels/cuda/decode/weights.cuh"

/// x[r, i] = embedding[token, i], as fp32, for each live row r.
///
/// Grid    a block of 256 threads for each row.
/// Memory  a thread reads 16 bytes and writes the 4 or 8 numbers that they hold.
/// Bound   by the launch: a row is a few KB.
namespace refreshlab::kernels::RL_GPU {
namespace {

constexpr int embed_threads = static_cast<int>(decode::embed_threads);

template <WeightType type>
__global__ void __launch_bounds__(embed_threads)
    embed_kernel(const void* embedding, const StepState* state, float* x, int hidden) {
    grid_allow_dependents();
    grid_dependency_wait();
    const int row = static_cast<int>(blockIdx.x);
    if (row > state->passes) return;
    copy_as_floats<type, embed_threads>(static_cast<const Stored<type>*>(embedding) +
                                            int64_t{state->token} * hidden,
                                        x + int64_t{row} * hidden, hidden);
}

} // namespace

void launch_embed(const EmbedInputs& in, void* stream) {
    with_type(in.type, [&]<WeightType type>() {
        RL_ASSERT(in.hidden % per_vector<type> == 0);
        launch_step(in.dependent, embed_kernel<type>, decode::embed(in.rows), stream, in.embedding, in.state,
                    in.x, static_cast<int>(in.hidden));
    });
}

} // namespace refreshlab::kernels::RL_GPU
