#include "kernels/cuda/decode/attention.cuh"
#include "kernels/cuda/decode/list_search.cuh"

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

/// Entries of a split of a list.
struct Listed {
    const ListEntry* of_split; ///< [columns], shared memory; those that the row sees
    int64_t own;
    [[nodiscard]] __device__ int row(int number) const { return of_split[number].column; }
    [[nodiscard]] __device__ int64_t own_row() const { return own; }
    __device__ void kept(const shared::MaskStream& stream, const Place& at, int block, int within,
                         bool (&keeps)[of_lane]) const {
#pragma unroll
        for (int i = 0; i < of_lane; ++i) {
            const int number = block + i * 16 + within;
            keeps[i] = at.sees(number) &&
                       shared::mask_keeps(stream, static_cast<uint32_t>(of_split[number].position));
        }
    }
};

template <WeightType type, int HEADS>
__global__ void __launch_bounds__(attention_threads, 2) list_attention_kernel(const Parameters p) {
    __shared__ Sums of_head[most_group];
    __shared__ bool last;
    __shared__ ListEntry of_split[columns];
    grid_allow_dependents();
    Place at;
    if (!find_row(p, at)) return;
    const ListEntry* const list = p.in.entries + at.kv_head * p.in.capacity;
    const int length = __ldcg(p.in.counts + at.kv_head) - 1, window = static_cast<int>(p.in.window);
    const int first = window > 0 ? first_from(list, length, at.position - window + 1) : 0;
    if (!find_split(at, first, length)) return;
    const int dim = p.head_dim, thread = static_cast<int>(threadIdx.x);
    const auto* const keys = static_cast<const Stored<type>*>(p.in.k_cache);
    const auto* const values = static_cast<const Stored<type>*>(p.in.v_cache);
    if (at.sees(thread)) {
        const ListEntry entry = {__ldcg(&list[at.begin + thread].position),
                                 __ldcg(&list[at.begin + thread].column)};
        of_split[thread] = entry;
        constexpr int line = 128 / static_cast<int>(sizeof(Stored<type>));
        for (int i = 0; i < dim && at.reads(thread); i += line) {
            prefetch_l2(keys + int64_t{entry.column} * dim + i);
            prefetch_l2(values + int64_t{entry.column} * dim + i);
        }
    }
    __syncthreads();
    const Listed entries{of_split, at.own >= 0 ? of_split[at.own].column : 0};
    attend<type, HEADS>(p, at, entries, keys, values, of_head, last);
}

} // namespace

void launch_list_attention(const DecodeAttentionInputs& in, void* stream) {
    launch_attention(in, [&]<WeightType type, int HEADS>(const Parameters& p, const LaunchShape& shape) {
        launch_step(in.dependent, list_attention_kernel<type, HEADS>, shape, stream, p);
    });
}

} // namespace refreshlab::kernels::RL_GPU
