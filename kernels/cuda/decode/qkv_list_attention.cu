#include "kernels/cuda/decode/qkv_attention.cuh"

/// qkv_attention.cu through a list of each KV head, as list_attention.cu is decode_attention.cu.
///
/// Lists   of a split's entries in shared memory, 2 KB; twice, as the next split's are read while one is worked on.
namespace refreshlab::kernels::RL_GPU {
namespace {

using namespace joined;

template <WeightType type, int HEADS>
__global__ void __launch_bounds__(attention_threads, blocks_of_sm<HEADS>)
    qkv_list_attention_kernel(const joined::Parameters p) {
    if constexpr (has_clusters) {
        __shared__ Sums of_head[most_group];
        __shared__ SquareParts<1> squares;
        __shared__ ListEntry listed[2 * columns];
        grid_allow_dependents();
        attend_joined<ListSource<type>, type, HEADS>(p, of_head, squares, listed);
    }
}

} // namespace

bool runs_qkv_list_attention(const QkvAttentionInputs& in) {
    return with_type_and_heads(in.attention, [&]<WeightType type, int HEADS>() {
        return clusters_run(config_of(joined::shape_of(in), false), qkv_list_attention_kernel<type, HEADS>);
    });
}

void launch_qkv_list_attention(const QkvAttentionInputs& in, void* stream) {
    const joined::Parameters p = joined::parameters_of(in);
    with_type_and_heads(in.attention, [&]<WeightType type, int HEADS>() {
        launch_step(in.attention.dependent, qkv_list_attention_kernel<type, HEADS>, joined::shape_of(in),
                    stream, p);
    });
}

} // namespace refreshlab::kernels::RL_GPU
