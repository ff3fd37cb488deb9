#include "kernels/cuda/decode/attention_entries.cuh"

/// decode_attention.cu through a list of each KV head: entry i of the list, positions ascending, says in which row of the layer's pool
/// its key and value stand. The row's own entry is the list's last.
///
/// Grid    [splits of 256 entries that a list has room for, KV heads, rows], 8 warps. Blocks behind the list's end end at once.
/// Lists   a split's entries are read once into shared memory (2 KB beside what a dense cache needs), before the kernel waits for the one
///         in front: they were edited before the step's first kernel ended. So were the rows' addresses known, and rows are asked for.
/// Order   as over columns, with the entry's number in the place of the column: a dense cache through the list of its columns has
///         the same bits. Windows and dropout go by position, so where an entry stands, and what left between two, changes no bit of its own.
/// Bound   by reading rows of head_dim numbers one by one: 256 bytes at head_dim 128 in 16 bits.
/// Source  as decode_attention.cu.
namespace refreshlab::kernels::RL_GPU {
namespace {

using namespace attention;

template <WeightType type, int HEADS>
__global__ void __launch_bounds__(attention_threads, 2) list_attention_kernel(const Parameters p) {
    __shared__ Sums of_head[most_group];
    __shared__ bool last;
    __shared__ ListEntry of_split[columns];
    grid_allow_dependents();
    attend_split<ListSource<type>, type, HEADS>(p, of_head, last, of_split);
}

} // namespace

void launch_list_attention(const DecodeAttentionInputs& in, void* stream) {
    launch_attention(in, [&]<WeightType type, int HEADS>(const Parameters& p, const LaunchShape& shape) {
        launch_step(in.dependent, list_attention_kernel<type, HEADS>, shape, stream, p);
    });
}

} // namespace refreshlab::kernels::RL_GPU
