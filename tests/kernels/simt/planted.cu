#include "kernels/cuda/device/async_copy.cuh"
#include "kernels/cuda/device/cluster.cuh"
#include "kernels/cuda/device/mma.cuh"
#include "tests/kernels/simt/planted.h"

namespace refreshlab::test::planted {

namespace {

using namespace kernels::RL_GPU;

__global__ void reverse_kernel(const float* in, float* out, int n, bool barrier) {
    __shared__ float tile[256];
    const int i = static_cast<int>(threadIdx.x);
    tile[i] = in[i];
    if (barrier) __syncthreads();
    out[i] = tile[n - 1 - i];
}

__global__ void copy_kernel(const float* in, float* out, int n, bool one_too_many) {
    const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
    if (i < n || (one_too_many && i == n)) out[i] = in[i < n ? i : 0];
}

__global__ void row_sums_kernel(const float* in, float* out, int stride) {
    float* const tile = dynamic_shared<float>();
    const int i = static_cast<int>(threadIdx.x);
    for (int row = 0; row < 8; ++row)
        tile[row * stride + i] = in[row * 32 + i];
    __syncthreads();
    if (i >= 8) return;
    float sum = 0;
    for (int j = 0; j < 32; ++j)
        sum += tile[i * stride + j];
    out[i] = sum;
}

__global__ void copy_async_kernel(const float* in, float* out, bool wait) {
    __shared__ __align__(16) float tile[64];
    const int i = static_cast<int>(threadIdx.x) * 4;
    async_copy_16(tile + i, in + i);
    async_commit();
    if (wait) async_wait<0>();
    for (int j = 0; j < 4; ++j)
        out[i + j] = tile[i + j];
}

__global__ void copy_async_of_others_kernel(const float* in, float* out, bool barrier) {
    __shared__ __align__(16) float tile[64];
    const int i = static_cast<int>(threadIdx.x);
    if (i < 16) async_copy_16(tile + i * 4, in + i * 4);
    async_commit();
    async_wait<0>();
    if (barrier) __syncthreads();
    out[i] = tile[i];
}

__global__ void copy_vectors_kernel(const float* in, float* out, int n, int first) {
    const int i = static_cast<int>(threadIdx.x) * 4;
    if (i + 4 > n) return;
    const float4 v = *reinterpret_cast<const float4*>(in + first + i);
    out[i] = v.x;
    out[i + 1] = v.y;
    out[i + 2] = v.z;
    out[i + 3] = v.w;
}

__global__ void add_one_kernel(const float* in, float* out, int n, bool wait) {
    if (wait) grid_dependency_wait();
    const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
    if (i < n) out[i] = in[i] + 1;
}

__global__ void histogram_kernel(const int* in, unsigned* bins, int n, bool atomic) {
    const int i = static_cast<int>(threadIdx.x);
    if (i >= n) return;
    if (atomic) {
        atomicAdd(bins + in[i], 1U);
    } else {
        bins[in[i]] += 1;
    }
}

__global__ void sum_by_last_block_kernel(const float* in, float* parts, unsigned* arrived, float* out,
                                         bool fence) {
    __shared__ bool last;
    const unsigned lane = threadIdx.x;
    float sum = in[blockIdx.x * 32 + lane];
    for (int step = 16; step > 0; step /= 2)
        sum += __shfl_down_sync(0xFFFFFFFFU, sum, static_cast<unsigned>(step));
    if (lane == 0) {
        parts[blockIdx.x] = sum;
        if (fence) __threadfence();
        last = atomicAdd(arrived, 1U) == gridDim.x - 1;
    }
    __syncthreads();
    if (!last || lane != 0) return;
    float total = 0;
    for (unsigned b = 0; b < gridDim.x; ++b)
        total += parts[b];
    *out = total;
}

__global__ void barrier_in_branch_kernel(float* out, bool all) {
    if (all || threadIdx.x < 32) __syncthreads();
    out[threadIdx.x] = 1;
    if (!all && threadIdx.x >= 32) __syncwarp(0x0000FFFFU << (threadIdx.x % 32 < 16 ? 0U : 16U));
}

__global__ void barrier_after_return_kernel(float* out, int n) {
    if (static_cast<int>(threadIdx.x) >= n) return;
    __syncthreads();
    out[threadIdx.x] = 1;
}

__global__ void shuffle_kernel(const float* in, float* out, bool all) {
    const float mine = in[threadIdx.x];
    float other = 0;
    if (all || threadIdx.x % 2 == 0) other = __shfl_xor_sync(all ? 0xFFFFFFFFU : 0x55555555U, mine, 1);
    out[threadIdx.x] = other;
}

__global__ void exchange_in_warp_kernel(const float* in, float* out, bool barrier) {
    __shared__ float tile[32];
    tile[threadIdx.x] = in[threadIdx.x];
    if (barrier) __syncwarp();
    out[threadIdx.x] = tile[threadIdx.x ^ 1U];
    if (barrier) __syncwarp();
    tile[threadIdx.x] = 0; // after the others have read
}

__global__ void unwritten_shared_kernel(float* out, int written) {
    __shared__ float tile[64];
    if (static_cast<int>(threadIdx.x) < written) tile[threadIdx.x] = 2;
    __syncthreads();
    out[threadIdx.x] = tile[threadIdx.x];
}

__global__ void add_onto_kernel(float* out, int n) {
    if (static_cast<int>(threadIdx.x) < n) out[threadIdx.x] += 1;
}

__global__ void static_index_kernel(const int* index, float* out) {
    __shared__ float first[32], second[32];
    first[threadIdx.x] = 1;
    second[threadIdx.x] = 2;
    __syncthreads();
    out[threadIdx.x] = first[index[threadIdx.x]] + second[threadIdx.x];
}

__global__ void nothing_kernel() {}

__global__ void blocks_write_one_kernel(float* out, bool apart) {
    out[apart ? blockIdx.x : 0] = 1;
}

__device__ void cluster_barrier(bool there) {
    if (!there) return;
    cluster_arrive();
    cluster_wait();
}

/// out[block] = in[block before it in the cluster]. Each block brings its numbers to the next one.
__global__ void bring_in_cluster_kernel(const float* in, float* out, int cluster, ClusterMistake mistake) {
    float* const tile = dynamic_shared<float>();
    const int rank = static_cast<int>(blockIdx.x) % cluster, lane = static_cast<int>(threadIdx.x);
    const int i = static_cast<int>(blockIdx.x) * 32 + lane;
    const int next = mistake == ClusterMistake::rank_outside       ? cluster
                     : mistake == ClusterMistake::block_stays_away ? rank
                                                                   : (rank + 1) % cluster;
    cluster_barrier(mistake != ClusterMistake::not_begun);
    in_cluster_block(tile, next)[lane] = in[i];
    if (mistake == ClusterMistake::block_stays_away && rank == 1) return;
    cluster_barrier(mistake != ClusterMistake::no_barrier);
    out[i] = tile[lane];
    if (mistake == ClusterMistake::no_wait) cluster_arrive();
    if (mistake == ClusterMistake::arrives_twice) {
        cluster_arrive();
        cluster_arrive();
    }
    if (mistake == ClusterMistake::no_arrival) cluster_wait();
}

/// out[block] = in[next block of the cluster], read from its shared memory.
__global__ void read_in_cluster_kernel(const float* in, float* out, int cluster, ClusterMistake mistake) {
    float* const tile = dynamic_shared<float>();
    __shared__ float own[32];
    const int rank = static_cast<int>(blockIdx.x) % cluster, lane = static_cast<int>(threadIdx.x);
    const int i = static_cast<int>(blockIdx.x) * 32 + lane;
    tile[lane] = own[lane] = in[i];
    cluster_arrive();
    if (mistake == ClusterMistake::after_arrival) tile[lane] = 0; // the others may have read it already
    cluster_wait();
    const float other =
        in_cluster_block(mistake == ClusterMistake::static_memory ? own : tile, (rank + 1) % cluster)[lane];
    if (mistake == ClusterMistake::read_late) tile[lane] = 0;
    out[i] = other;
    if (mistake == ClusterMistake::leaves_early) return;
    cluster_barrier(true);
    tile[lane] = 0; // all have read
}

/// The cluster's first block counts what the others have written to global memory.
__global__ void sum_in_cluster_kernel(float* parts, float* out, int cluster, bool barrier) {
    const int rank = static_cast<int>(blockIdx.x) % cluster;
    if (threadIdx.x == 0) parts[blockIdx.x] = 1;
    cluster_barrier(barrier);
    if (rank > 0 || threadIdx.x > 0) return;
    float sum = 0;
    for (int b = 0; b < cluster; ++b)
        sum += parts[static_cast<int>(blockIdx.x) + b];
    out[static_cast<int>(blockIdx.x) / cluster] = sum;
}

__device__ uint32_t pair_of(uint16_t low, uint16_t high) {
    return low | static_cast<uint32_t>(high) << 16U;
}

template <bool bf16>
__global__ void multiply_kernel(const uint16_t* a, const uint16_t* b, float* d, bool by_ldmatrix) {
    __shared__ __align__(16) uint16_t shared_a[16][16], shared_b[16][8];
    const unsigned lane = threadIdx.x, g = lane / 4, t = lane % 4;
    for (unsigned i = lane; i < 256; i += 32)
        shared_a[i / 16][i % 16] = a[i];
    for (unsigned i = lane; i < 128; i += 32)
        shared_b[i / 8][i % 8] = b[i];
    __syncwarp();
    uint32_t fa[4], fb[2];
    float fd[4];
    if (by_ldmatrix) {
        ldmatrix_x4(fa, &shared_a[lane % 16][lane / 16 * 8]);
        ldmatrix_x2<true>(fb, &shared_b[lane % 16][0]);
    } else {
        for (unsigned i = 0; i < 4; ++i) {
            const unsigned row = g + 8 * (i % 2), column = 2 * t + 8 * (i / 2);
            fa[i] = pair_of(shared_a[row][column], shared_a[row][column + 1]);
        }
        for (unsigned i = 0; i < 2; ++i)
            fb[i] = pair_of(shared_b[2 * t + 8 * i][g], shared_b[2 * t + 8 * i + 1][g]);
    }
    for (unsigned i = 0; i < 4; ++i)
        fd[i] = d[(g + 8 * (i / 2)) * 8 + 2 * t + i % 2];
    mma_m16n8k16<bf16>(fd, fa, fb);
    for (unsigned i = 0; i < 4; ++i)
        d[(g + 8 * (i / 2)) * 8 + 2 * t + i % 2] = fd[i];
}

__global__ void votes_kernel(const int* in, unsigned* out) {
    const int mine = in[threadIdx.x];
    const unsigned all = 0xFFFFFFFFU;
    const unsigned results[7] = {__ballot_sync(all, mine > 0),
                                 static_cast<unsigned>(__any_sync(all, mine > 100)),
                                 static_cast<unsigned>(__all_sync(all, mine < 100)),
                                 __reduce_add_sync(all, static_cast<unsigned>(mine)),
                                 static_cast<unsigned>(__reduce_max_sync(all, mine)),
                                 static_cast<unsigned>(__reduce_min_sync(all, mine)),
                                 __reduce_or_sync(all, static_cast<unsigned>(mine))};
    for (int i = 0; i < 7; ++i)
        out[threadIdx.x * 7 + static_cast<unsigned>(i)] = results[i];
}

__global__ void shuffles_kernel(const int* in, int* out, int argument, int width) {
    const unsigned all = 0xFFFFFFFFU, lane = threadIdx.x;
    out[lane] = __shfl_sync(all, in[lane], argument, width);
    out[32 + lane] = __shfl_up_sync(all, in[lane], static_cast<unsigned>(argument), width);
    out[64 + lane] = __shfl_down_sync(all, in[lane], static_cast<unsigned>(argument), width);
    out[96 + lane] = __shfl_xor_sync(all, in[lane], argument, width);
}

unsigned blocks_of(int n) {
    return static_cast<unsigned>((n + 63) / 64);
}

} // namespace

void reverse(const float* in, float* out, int n, bool barrier) {
    launch(reverse_kernel, 1, static_cast<unsigned>(n), 0, nullptr, in, out, n, barrier);
}
void copy(const float* in, float* out, int n, bool one_too_many) {
    launch(copy_kernel, blocks_of(n + 1), 64, 0, nullptr, in, out, n, one_too_many);
}
void row_sums(const float* in, float* out, int stride) {
    launch(row_sums_kernel, 1, 32, 8 * 33 * sizeof(float), nullptr, in, out, stride);
}
void copy_async(const float* in, float* out, bool wait) {
    launch(copy_async_kernel, 1, 16, 0, nullptr, in, out, wait);
}
void copy_async_of_others(const float* in, float* out, bool barrier) {
    launch(copy_async_of_others_kernel, 1, 64, 0, nullptr, in, out, barrier);
}
void copy_vectors(const float* in, float* out, int n, int first) {
    launch(copy_vectors_kernel, 1, 32, 0, nullptr, in, out, n, first);
}
void two_launches(const float* in, float* middle, float* out, int n, bool wait) {
    launch(add_one_kernel, blocks_of(n), 64, 0, nullptr, in, middle, n, true);
    launch_dependent(add_one_kernel, blocks_of(n), 64, 0, nullptr, middle, out, n, wait);
}
void three_launches(const float* in, float* middle, float* other, float* out, int n, bool second_waits) {
    launch(add_one_kernel, blocks_of(n), 64, 0, nullptr, in, middle, n, true);
    launch_dependent(add_one_kernel, blocks_of(n), 64, 0, nullptr, in, other, n, second_waits);
    launch_dependent(add_one_kernel, blocks_of(n), 64, 0, nullptr, middle, out, n, true);
}
void histogram(const int* in, unsigned* bins, int n, bool atomic) {
    launch(histogram_kernel, 1, 64, 0, nullptr, in, bins, n, atomic);
}
void sum_by_last_block(const float* in, float* parts, unsigned* arrived, float* out, int blocks, bool fence) {
    launch(sum_by_last_block_kernel, static_cast<unsigned>(blocks), 32, 0, nullptr, in, parts, arrived, out,
           fence);
}
void barrier_in_branch(float* out, bool all) {
    launch(barrier_in_branch_kernel, 1, 64, 0, nullptr, out, all);
}
void barrier_after_return(float* out, int n) {
    launch(barrier_after_return_kernel, 1, 64, 0, nullptr, out, n);
}
void shuffle(const float* in, float* out, bool all) {
    launch(shuffle_kernel, 1, 32, 0, nullptr, in, out, all);
}
void exchange_in_warp(const float* in, float* out, bool barrier) {
    launch(exchange_in_warp_kernel, 1, 32, 0, nullptr, in, out, barrier);
}
void unwritten_shared(float* out, int written) {
    launch(unwritten_shared_kernel, 1, 64, 0, nullptr, out, written);
}
void add_onto(float* out, int n) {
    launch(add_onto_kernel, 1, 32, 0, nullptr, out, n);
}
void static_index(const int* index, float* out) {
    launch(static_index_kernel, 1, 32, 0, nullptr, index, out);
}
void launch_with(int threads, size_t shared_bytes) {
    launch(nothing_kernel, 1, static_cast<unsigned>(threads), shared_bytes, nullptr);
}
void blocks_write_one(float* out, bool apart) {
    launch(blocks_write_one_kernel, 2, 1, 0, nullptr, out, apart);
}
LaunchConfig in_clusters(int blocks, int cluster) {
    return {static_cast<unsigned>(blocks), 32, 32 * sizeof(float), false, static_cast<unsigned>(cluster)};
}
void bring_in_cluster(const float* in, float* out, int blocks, int cluster, ClusterMistake mistake) {
    launch_as(in_clusters(blocks, cluster), bring_in_cluster_kernel, nullptr, in, out, cluster, mistake);
}
void read_in_cluster(const float* in, float* out, int blocks, int cluster, ClusterMistake mistake) {
    launch_as(in_clusters(blocks, cluster), read_in_cluster_kernel, nullptr, in, out, cluster, mistake);
}
void sum_in_cluster(float* parts, float* out, int blocks, int cluster, bool barrier) {
    launch_as(in_clusters(blocks, cluster), sum_in_cluster_kernel, nullptr, parts, out, cluster, barrier);
}
void cluster_without_asking(int cluster) {
    detail::launch({static_cast<unsigned>(cluster), 32, 0, false, static_cast<unsigned>(cluster)},
                   nothing_kernel, nullptr);
}
bool cluster_runs(int cluster) {
    return clusters_run({static_cast<unsigned>(cluster), 32, 0, false, static_cast<unsigned>(cluster)},
                        bring_in_cluster_kernel);
}
void multiply(const uint16_t* a, const uint16_t* b, float* d, bool bf16, bool by_ldmatrix) {
    launch(bf16 ? multiply_kernel<true> : multiply_kernel<false>, 1, 32, 0, nullptr, a, b, d, by_ldmatrix);
}
void votes(const int* in, unsigned* out) {
    launch(votes_kernel, 1, 32, 0, nullptr, in, out);
}
void shuffles(const int* in, int* out, int argument, int width) {
    launch(shuffles_kernel, 1, 32, 0, nullptr, in, out, argument, width);
}

} // namespace refreshlab::test::planted
