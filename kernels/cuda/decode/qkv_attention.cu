#include "kernels/cuda/decode/qkv_attention.cuh"

/// launch_norm_product and launch_decode_attention in one launch, for the token's row: h = norm of x; q, k, v = matrices * h + biases; then
/// attended, as decode_attention.cu says.
///
/// Grid    [blocks of a cluster, KV heads], 8 warps: a cluster for each KV head, of up to 16 blocks. Its blocks make the KV head's rows of
///         q | k | v, nobody else's, so that no barrier of the grid is needed between product and attention. sm_90 and newer.
/// Steps   (1) a block makes its pairs of outputs and brings each to the shared memory of all blocks of the cluster; (2) each block goes
///         over its splits (every 16th), and brings what a split leaves to the blocks that merge it; (3) each block merges its places of
///         four channels. A barrier of the cluster stands between steps: what is brought is there after one wait. Another one at the
///         beginning, which nobody waits for long, says that all blocks have begun. Nobody reads another block's memory, so a block may end.
/// Memory  the block's rows of the matrices and its first split are asked for before the kernel waits for the one in front, the next split
///         while one is worked on. Dynamic: decode::joined_shared.
/// Order   row_products.cuh, decode_attention.cu: the same functions, so the same bits as of the two launches.
/// Bound   by reading the matrices and the cache. Against the two launches it saves a gap, the way of q, k and v through L2, and the count of
///         finished splits.
/// Source  clusters for the same purpose: ClusterFusion, Luo et al. 2025 (arXiv 2508.18850), which adds o as well, by atomic sums.
namespace refreshlab::kernels::RL_GPU {
namespace {

using namespace joined;

template <WeightType type, int HEADS>
__global__ void __launch_bounds__(attention_threads, blocks_of_sm<HEADS>)
    qkv_attention_kernel(const joined::Parameters p) {
    if constexpr (has_clusters) {
        __shared__ Sums of_head[most_group];
        __shared__ SquareParts<1> squares;
        grid_allow_dependents();
        attend_joined<DenseSource<type>, type, HEADS>(p, of_head, squares, nullptr);
    }
}

} // namespace

bool runs_qkv_attention(const QkvAttentionInputs& in) {
    if (!joins(in)) return false;
    if (in.attention.entries != nullptr) return runs_qkv_list_attention(in);
    return with_type_and_heads(in.attention, [&]<WeightType type, int HEADS>() {
        return clusters_run(config_of(joined::shape_of(in), false), qkv_attention_kernel<type, HEADS>);
    });
}

void launch_qkv_attention(const QkvAttentionInputs& in, void* stream) {
    if (in.attention.entries != nullptr) return launch_qkv_list_attention(in, stream);
    const joined::Parameters p = joined::parameters_of(in);
    with_type_and_heads(in.attention, [&]<WeightType type, int HEADS>() {
        launch_step(in.attention.dependent, qkv_attention_kernel<type, HEADS>, joined::shape_of(in), stream,
                    p);
    });
}

} // namespace refreshlab::kernels::RL_GPU
