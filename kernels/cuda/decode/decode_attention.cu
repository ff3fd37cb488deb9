#include "kernels/cuda/decode/attention_entries.cuh"

/// attended[r, h] = sum_j m_j p_j v_j, p = softmax_j(q k_j / sqrt(head_dim)), over the columns (position - window, position) of the cache
/// and, as the last key, row r's own at `position`; m is the dropout mask of row r > 0, scaled, else 1. Before it q and k get their norm
/// over the head and RoPE, k and v are rounded to the cache's type, and row 0 writes them at column `position`.
///
/// Grid    [splits of 256 columns that `capacity` has, KV heads, rows], 8 warps. Blocks whose split has no visible column end at once.
/// Memory  keys and values of a split are read once for all query heads of the KV head, 16 bytes at a time, and asked for before the
///         kernel waits for the one in front. Dynamic: queries [group, head_dim], own key and value as stored, scores [group, 256], sums of
///         values [attention_sums, group, head_dim]. Everything below 67,584 bytes.
/// Scores  four lanes a key, lane l vectors l, l + 4, ...; eight times four keys a warp, so that the block has all 256 at once. A
///         vector of the queries is read from shared memory once for four keys.
/// Values  a lane holds one vector of the head's channels for (up to eight) query heads and goes over columns, four at a time; lanes that
///         are left over go over other columns. Sixteen query heads are two sets of four warps.
/// Order   of a score: lane by lane over its vectors, then the four lanes as a tree. Of a softmax: eight columns of a lane ascending, then
///         warp_sum. Of a value: a lane's columns ascending, lanes ascending, warps as (w, w + half), then ascending. Columns are those
///         of the split, so nothing hangs on the length, the row, or what is beside it. The block that comes last merges the splits: a team
///         of its threads takes every second or third run of eight in index order, then teams ascending. A split's bits and that order are all
///         that the result is made of.
/// Merge   a run's maxima, sums and values are read side by side, so the last block waits once for up to 8, 16 or 24 splits.
/// Entropy of row 0's attention, where somebody asks: ln Z - sum e^(s - max) (s - max) / Z; a split leaves that weighted sum beside its own.
/// Bound   by reading the cache; below 2,000 positions by the latency of its chain of steps.
/// Source  Vaswani et al. 2017; GQA: Ainslie et al. 2023; RoPE: Su et al. 2021; splits: flash-decoding, Dao et al. 2023; merging by
///         rescaling: Milakov and Gimelshein 2018.
namespace refreshlab::kernels::RL_GPU {
namespace {

using namespace attention;

template <WeightType type, int HEADS>
__global__ void __launch_bounds__(attention_threads, 2) decode_attention_kernel(const Parameters p) {
    __shared__ Sums of_head[most_group];
    __shared__ bool last;
    grid_allow_dependents();
    attend_split<DenseSource<type>, type, HEADS>(p, of_head, last, nullptr);
}

} // namespace

void launch_decode_attention(const DecodeAttentionInputs& in, void* stream) {
    if (in.entries != nullptr) return launch_list_attention(in, stream);
    launch_attention(in, [&]<WeightType type, int HEADS>(const Parameters& p, const LaunchShape& shape) {
        launch_step(in.dependent, decode_attention_kernel<type, HEADS>, shape, stream, p);
    });
}

} // namespace refreshlab::kernels::RL_GPU
