#pragma once

#include "kernels/simt/harness.h"

#include <cstdint>

/// Small kernels, each right and with one mistake planted, for the suite that checks the checker. The numbers are the case's own.
namespace refreshlab::test::planted {

#define RL_EXPORT __attribute__((visibility("default")))

/// out[i] = in[n - 1 - i] through shared memory, one block of n threads; without the barrier between.
RL_EXPORT void reverse(const float* in, float* out, int n, bool barrier);
/// out[i] = in[i], blocks of 64; `last` threads of the grid too many write.
RL_EXPORT void copy(const float* in, float* out, int n, bool one_too_many);
/// Sums of rows of a tile whose rows have `stride` numbers in dynamic shared memory of 8 x 33.
RL_EXPORT void row_sums(const float* in, float* out, int stride);
/// 64 numbers through cp.async; without the wait.
RL_EXPORT void copy_async(const float* in, float* out, bool wait);
/// A wait for its own group alone, and none of the block: others read what one thread has fetched.
RL_EXPORT void copy_async_of_others(const float* in, float* out, bool barrier);
/// out[4 i ..] = in[first + 4 i ..] in vectors of four.
RL_EXPORT void copy_vectors(const float* in, float* out, int n, int first);
/// The second launch reads what the first writes, beside it.
RL_EXPORT void two_launches(const float* in, float* middle, float* out, int n, bool wait);
/// Three launches: the second does not wait, so the third must not believe that the first has ended.
RL_EXPORT void three_launches(const float* in, float* middle, float* other, float* out, int n,
                              bool second_waits);
/// Counts values below 8 into bins.
RL_EXPORT void histogram(const int* in, unsigned* bins, int n, bool atomic);
/// Sum of n numbers, 32 lanes a block; the last block to come adds the parts in index order.
RL_EXPORT void sum_by_last_block(const float* in, float* parts, unsigned* arrived, float* out, int blocks,
                                 bool fence);
/// A barrier in a branch that half of the threads take.
RL_EXPORT void barrier_in_branch(float* out, bool all);
/// A barrier that threads which have returned do not reach.
RL_EXPORT void barrier_after_return(float* out, int n);
/// Each lane takes its neighbour's value; half of the lanes are somewhere else.
RL_EXPORT void shuffle(const float* in, float* out, bool all);
/// Lanes exchange values in shared memory, with a barrier of the warp or without.
RL_EXPORT void exchange_in_warp(const float* in, float* out, bool barrier);
/// Reads shared memory that only half of the threads have written.
RL_EXPORT void unwritten_shared(float* out, int written);
/// Adds onto an array that nobody has set to zero.
RL_EXPORT void add_onto(float* out, int n);
/// An index of a static array, known only when it runs.
RL_EXPORT void static_index(const int* index, float* out);
/// A launch with this many threads and this much shared memory.
RL_EXPORT void launch_with(int threads, size_t shared_bytes);
/// Two blocks write one number.
RL_EXPORT void blocks_write_one(float* out, bool apart);
enum class ClusterMistake : uint8_t {
    none,
    not_begun,        ///< no barrier before another block's memory is written
    no_barrier,       ///< between what is brought and its reader
    block_stays_away, ///< from a barrier
    no_wait,          ///< behind an arrival
    arrives_twice,
    no_arrival, ///< in front of a wait
    rank_outside,
    after_arrival, ///< a write between arrival and wait
    read_late,     ///< a write while others still read
    leaves_early,
    static_memory, ///< of another block
};
/// Each block of a cluster brings its 32 numbers to the next one: out[block] = in[the block before it]. First half of the mistakes.
RL_EXPORT void bring_in_cluster(const float* in, float* out, int blocks, int cluster, ClusterMistake mistake);
/// Each block reads the next one's: out[block] = in[the block behind it]. Second half.
RL_EXPORT void read_in_cluster(const float* in, float* out, int blocks, int cluster, ClusterMistake mistake);
/// Blocks of a cluster leave 1 in global memory, and its first one adds that up.
RL_EXPORT void sum_in_cluster(float* parts, float* out, int blocks, int cluster, bool barrier);
/// A cluster of so many blocks of a kernel that has not asked for more than 8; and whether it may run.
RL_EXPORT void cluster_without_asking(int cluster);
RL_EXPORT bool cluster_runs(int cluster);
/// d = a b + c of one warp by mma_m16n8k16; a [16, 16], b [16, 8] row-major halves or bf16, d [16, 8]. Fragments by ldmatrix or by hand.
RL_EXPORT void multiply(const uint16_t* a, const uint16_t* b, float* d, bool bf16, bool by_ldmatrix);
/// Votes and sums of a warp of 32: ballot, any, all, add, max, min, or.
RL_EXPORT void votes(const int* in, unsigned* out);
/// Numbers of lanes by all four shuffles, within parts of `width` lanes.
RL_EXPORT void shuffles(const int* in, int* out, int argument, int width);

} // namespace refreshlab::test::planted
