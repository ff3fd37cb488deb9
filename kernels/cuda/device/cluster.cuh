#pragma once

#include "kernels/cuda/device/launch.cuh"

/// Blocks of a cluster: they run beside each other on neighbouring multiprocessors, wait for each other, and reach each other's shared
/// memory. sm_90 and newer; a launch says how many blocks of a grid, beside each other along x, make a cluster.
/// Source: PTX ISA 9.0, sections 9.7.13.4 (barrier.cluster) and 9.7.9.22 (mapa); CUDA C++ Programming Guide, "Distributed Shared Memory".
namespace refreshlab::kernels::RL_GPU {

/// Kernels of clusters are compiled where there are some, and empty elsewhere.
#if defined(REFRESHLAB_SIMT) || (defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900)
inline constexpr bool has_clusters = true;
#else
inline constexpr bool has_clusters = false;
#endif

/// All threads of the cluster arrive; what one did before is done for each that has waited. Each waits before it arrives again.
__device__ inline void cluster_arrive() {
#ifdef REFRESHLAB_SIMT
    simt::cluster_arrive();
#elif defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    asm volatile("barrier.cluster.arrive.release;\n" ::: "memory");
#endif
}
__device__ inline void cluster_wait() {
#ifdef REFRESHLAB_SIMT
    simt::cluster_wait();
#elif defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    asm volatile("barrier.cluster.wait.acquire;\n" ::: "memory");
#endif
}

/// Where `mine`, of the block's dynamic shared memory, stands in that of block `rank` of its cluster. That block must have begun (a barrier of
/// the cluster before the access) and not have ended (another one after it).
template <typename T>
__device__ inline T* in_cluster_block(T* mine, int rank) {
#ifdef REFRESHLAB_SIMT
    return static_cast<T*>(simt::in_cluster_block(mine, static_cast<unsigned>(rank)));
#elif defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    return static_cast<T*>(__cluster_map_shared_rank(mine, static_cast<unsigned>(rank)));
#else
    return mine + 0 * rank;
#endif
}

} // namespace refreshlab::kernels::RL_GPU
