#pragma once

#include "kernels/cuda/decode/attention.cuh"
#include "kernels/cuda/decode/list_search.cuh"

/// Where the entries of a split stand: columns of a dense cache beside each other, or rows of a pool that a list names. A kernel is made for
/// one of them, `Source`:
///   range()  what the row sees
///   Split    a split's entries, as make_split() takes them. ask() asks for keys and values (into L2) and, of a list, reads it into shared
///            memory: a barrier of the block comes before anybody uses those entries
/// Entries of a list were edited, and columns written, before the step's first kernel ended: nothing here waits for the launch in front.
namespace refreshlab::kernels::RL_GPU::attention {

template <WeightType type>
struct DenseSource {
    static constexpr int listed_entries = 0; ///< that a split has in shared memory

    static __device__ Range range(const Parameters& p, const Place& at) {
        const int window = static_cast<int>(p.in.window);
        return {window > 0 && at.position >= window ? at.position - window + 1 : 0, at.position};
    }

    struct Split {
        const Stored<type>*keys, *values;
        int64_t own;
        __device__ Split(const Parameters& p, const Place& at, ListEntry*) {
            const int dim = p.head_dim;
            const int64_t begin = int64_t{at.kv_head} * p.in.capacity + at.begin;
            keys = static_cast<const Stored<type>*>(p.in.k_cache) + begin * dim;
            values = static_cast<const Stored<type>*>(p.in.v_cache) + begin * dim;
            own = int64_t{at.kv_head} * p.in.capacity + at.position;
        }
        __device__ void ask(const Parameters& p, const Place& at) const {
            const int dim = p.head_dim;
            // 128 bytes at a time, from the first visible column on.
            constexpr int line = 128 / static_cast<int>(sizeof(Stored<type>));
            for (int i = at.low * dim + static_cast<int>(threadIdx.x) * line; i < at.cached * dim;
                 i += attention_threads * line) {
                prefetch_l2(keys + i);
                prefetch_l2(values + i);
            }
        }
        [[nodiscard]] __device__ int row(int number) const { return number; }
        [[nodiscard]] __device__ int64_t own_row() const { return own; }
        __device__ void kept(const shared::MaskStream& stream, const Place& at, int block, int within,
                             bool (&keeps)[of_lane]) const {
            const shared::Philox4 draws =
                shared::mask_draws(stream, static_cast<uint32_t>(at.begin + block) / shared::mask_block,
                                   static_cast<uint32_t>(within));
#pragma unroll
            for (int i = 0; i < of_lane; ++i)
                keeps[i] = shared::mask_draw_keeps(stream, draws, static_cast<uint32_t>(i));
        }
    };
};

template <WeightType type>
struct ListSource {
    static constexpr int listed_entries = columns;

    static __device__ Range range(const Parameters& p, const Place& at) {
        const ListEntry* const list = p.in.entries + at.kv_head * p.in.capacity;
        const int length = __ldcg(p.in.counts + at.kv_head) - 1, window = static_cast<int>(p.in.window);
        return {window > 0 ? first_from(list, length, at.position - window + 1) : 0, length};
    }

    struct Split {
        const Stored<type>*keys, *values;
        ListEntry* of_split; ///< [columns], shared memory; those that the row sees
        int own;             ///< number of the row's own; -1: in another split
        __device__ Split(const Parameters& p, const Place& at, ListEntry* memory)
            : keys(static_cast<const Stored<type>*>(p.in.k_cache))
            , values(static_cast<const Stored<type>*>(p.in.v_cache))
            , of_split(memory)
            , own(at.own) {}
        __device__ void ask(const Parameters& p, const Place& at) const {
            const ListEntry* const list = p.in.entries + at.kv_head * p.in.capacity;
            const int dim = p.head_dim, thread = static_cast<int>(threadIdx.x);
            if (!at.sees(thread)) return;
            const ListEntry entry = {__ldcg(&list[at.begin + thread].position),
                                     __ldcg(&list[at.begin + thread].column)};
            of_split[thread] = entry;
            constexpr int line = 128 / static_cast<int>(sizeof(Stored<type>));
            for (int i = 0; i < dim && at.reads(thread); i += line) {
                prefetch_l2(keys + int64_t{entry.column} * dim + i);
                prefetch_l2(values + int64_t{entry.column} * dim + i);
            }
        }
        [[nodiscard]] __device__ int row(int number) const { return of_split[number].column; }
        [[nodiscard]] __device__ int64_t own_row() const { return own >= 0 ? of_split[own].column : 0; }
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
};

/// What a block of single blocks does: one split of one row.
template <typename Source, WeightType type, int HEADS>
__device__ void attend_split(const Parameters& p, Sums* of_head, bool& last, ListEntry* listed) {
    // The state stands there since before the step, and the columns that are read since earlier steps.
    Place at;
    if (!find_row(p, at) || !find_split(at, Source::range(p, at))) return;
    const typename Source::Split entries(p, at, listed);
    entries.ask(p, at);
    if constexpr (Source::listed_entries > 0) __syncthreads();
    attend<type, HEADS>(p, at, entries, of_head, last);
}

} // namespace refreshlab::kernels::RL_GPU::attention
