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

constexpr int embed_threads = 256;

template <WeightType type>
__global__ void __launch_bounds__(embed_threads)
    embed_kernel(const void* embedding, const StepState* state, float* x, int hidden) {
    grid_allow_dependents();
    grid_dependency_wait();
    const int row = static_cast<int>(blockIdx.x);
    if (row > state->passes) return;
    const auto* const from = reinterpret_cast<const uint4*>(static_cast<const Stored<type>*>(embedding) +
                                                            int64_t{state->token} * hidden);
    auto* const to = reinterpret_cast<float4*>(x + int64_t{row} * hidden);
    constexpr int parts = per_vector<type> / 4;
    for (int v = static_cast<int>(threadIdx.x); v < hidden / per_vector<type>; v += embed_threads) {
        const uint4 raw = __ldg(from + v);
#pragma unroll
        for (int part = 0; part < parts; ++part) {
            float four[4];
            unpack<type>(raw, part, four);
            to[v * parts + part] = make_float4(four[0], four[1], four[2], four[3]);
        }
    }
}

} // namespace

void launch_embed(const EmbedInputs& in, void* stream) {
    with_type(in.type, [&]<WeightType type>() {
        RL_ASSERT(in.hidden % per_vector<type> == 0);
        const LaunchShape shape{{static_cast<uint32_t>(in.rows), 1, 1}, {embed_threads, 1, 1}, 0};
        launch_step(in.dependent, embed_kernel<type>, shape, stream, in.embedding, in.state, in.x,
                    static_cast<int>(in.hidden));
    });
}

} // namespace refreshlab::kernels::RL_GPU
