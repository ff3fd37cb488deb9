#include "kernels/cuda/decode/list_edits.h"
#include "kernels/cuda/decode/steps.cuh"

/// The lists that attention reads, edited in place by position; and rows that leave, to the host's memory.
///
/// Grid    a block for each plane (KV head of a layer), and decode::leaving_blocks behind them whose warps take the leaving rows in turn;
///         256 threads. A plane without edits costs the reading of two numbers.
/// Edit    each edit is looked up in the list. First the entries at their positions go: from the first of them on, 1,024 entries at a time
///         are read, and written further left once all threads have read. Then, from the list's end on and to the right, room is made for the
///         edits that have a column. The usual step takes one entry away and puts its own at the end: one move, no second one.
/// Order   an entry's new number is its old one, less what went before it, plus what came before it: counts of edits, so nothing hangs on
///         who comes first.
/// Bound   by the way to the host's memory: edits are read from there, and rows written there.
namespace refreshlab::kernels::RL_GPU {
namespace {

constexpr int threads = static_cast<int>(decode::list_threads), warps = threads / 32;
constexpr int most_edits = static_cast<int>(decode::most_plane_edits);
constexpr int of_thread = 4; ///< entries that a thread moves at a time
static_assert(most_edits == threads, "a thread looks after one edit");

/// Edits with a position below `position`; they ascend.
__device__ int edits_below(const ListEntry* edits, int n, int position) {
    int low = 0;
    while (n > 0) {
        const int half = n / 2;
        const bool below = edits[low + half].position < position;
        low = below ? low + half + 1 : low;
        n = below ? n - half - 1 : half;
    }
    return low;
}

/// How many threads in front of this one say yes. before[i]: of those in front of thread i; before[threads]: of all. Every thread comes.
__device__ int count_before(bool yes, int* before, int* of_warps) {
    const int thread = static_cast<int>(threadIdx.x), lane = thread % 32, warp = thread / 32;
    const unsigned votes = __ballot_sync(0xFFFFFFFFU, yes);
    if (lane == 0) of_warps[warp] = __popc(votes);
    __syncthreads();
    int sum = __popc(votes & ((1U << lane) - 1));
    for (int w = 0; w < warp; ++w)
        sum += of_warps[w];
    before[thread] = sum;
    if (thread == threads - 1) before[threads] = sum + (yes ? 1 : 0);
    __syncthreads();
    return sum;
}

__device__ void edit_list(const ListEditsInputs& in, int plane) {
    __shared__ ListEntry edits[most_edits];
    __shared__ int gone_before[threads + 1], new_before[threads + 1], of_warps[warps];
    __shared__ int first_gone, first_new; // numbers of the first entries that move
    const int thread = static_cast<int>(threadIdx.x);
    const int begin = in.offsets[plane], n = in.offsets[plane + 1] - begin;
    if (n == 0) return;
    ListEntry* const list = in.entries + plane * in.capacity;
    int count = in.counts[plane];
    if (thread < n) edits[thread] = in.edits[begin + thread];
    __syncthreads();

    const bool mine = thread < n, is_new = mine && edits[thread].column >= 0;
    const int place = mine ? edits_below(list, count, edits[thread].position) : count;
    const bool there = place < count && list[place].position == edits[thread].position;
    const int gone_here = count_before(there, gone_before, of_warps);
    const int new_here = count_before(is_new, new_before, of_warps);
    const int gone = gone_before[threads], fresh = new_before[threads];
    // Edits ascend, so the first of a kind stands before all others of it. `place` counts entries that stay from here on.
    if (there && gone_here == 0) first_gone = place;
    if (is_new && new_here == 0) first_new = place - gone_here;
    __syncthreads();

    for (int base = gone > 0 ? first_gone : count; base < count; base += threads * of_thread) {
        ListEntry entries[of_thread];
        int to[of_thread];
#pragma unroll
        for (int k = 0; k < of_thread; ++k) {
            const int i = base + thread + k * threads;
            to[k] = -1;
            if (i >= count) continue;
            entries[k] = list[i];
            const int below = edits_below(edits, n, entries[k].position);
            if (below == n || edits[below].position != entries[k].position) to[k] = i - gone_before[below];
        }
        __syncthreads();
#pragma unroll
        for (int k = 0; k < of_thread; ++k)
            if (to[k] >= 0) list[to[k]] = entries[k];
        __syncthreads();
    }
    count -= gone;
    const int first_moved = fresh > 0 ? first_new : count;
    for (int end = count; end > first_moved; end -= threads * of_thread) {
        ListEntry entries[of_thread];
        int to[of_thread];
#pragma unroll
        for (int k = 0; k < of_thread; ++k) {
            const int i = end - 1 - thread - k * threads;
            to[k] = -1;
            if (i < first_moved) continue;
            entries[k] = list[i];
            to[k] = i + new_before[edits_below(edits, n, entries[k].position)];
        }
        __syncthreads();
#pragma unroll
        for (int k = 0; k < of_thread; ++k)
            if (to[k] >= 0) list[to[k]] = entries[k];
        __syncthreads();
    }
    if (is_new) list[place - gone_here + new_here] = edits[thread];
    if (thread == 0) in.counts[plane] = count + fresh;
}

/// A warp a row.
__device__ void take_out(const ListEditsInputs& in, int block) {
    const int lane = static_cast<int>(threadIdx.x % 32), vectors = static_cast<int>(in.row_bytes / 16);
    const int n = *in.num_leaving;
    for (int i = block * warps + static_cast<int>(threadIdx.x / 32); i < n;
         i += static_cast<int>(decode::leaving_blocks) * warps) {
        const LeavingRow row = in.leaving[i];
        for (int half = 0; half < 2; ++half) {
            auto* const from = static_cast<uint4*>(half == 0 ? row.key : row.value);
            auto* const to = static_cast<uint4*>(in.rows) + (int64_t{i} * 2 + half) * vectors;
            for (int v = lane; v < vectors; v += 32) {
                to[v] = from[v];
                from[v] = make_uint4(0xFFFFFFFFU, 0xFFFFFFFFU, 0xFFFFFFFFU, 0xFFFFFFFFU);
            }
        }
    }
    __threadfence_system(); // before the answers' sequence number, which a later kernel writes
}

__global__ void __launch_bounds__(threads) list_edits_kernel(const ListEditsInputs in) {
    const int block = static_cast<int>(blockIdx.x), planes = static_cast<int>(in.planes);
    if (block < planes) {
        edit_list(in, block);
    } else {
        take_out(in, block - planes);
    }
}

} // namespace

void launch_list_edits(const ListEditsInputs& in, void* stream) {
    RL_ASSERT(in.planes > 0 && in.row_bytes % 16 == 0);
    launch_step(false, list_edits_kernel, decode::list_edits(in.planes), stream, in);
}

} // namespace refreshlab::kernels::RL_GPU
