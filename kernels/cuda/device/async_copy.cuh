#pragma once

#include "kernels/cuda/device/launch.cuh"

/// cp.async: global to shared memory without a register between. Source: PTX ISA 9.0, section 9.7.9.25 (sm_80 and newer).
namespace refreshlab::kernels::RL_GPU {

/// 16 bytes, past the first cache; both addresses multiples of 16. Of them `source_bytes` are read, the rest become zeros.
__device__ inline void async_copy_16(void* shared, const void* global, unsigned source_bytes = 16) {
#ifdef REFRESHLAB_SIMT
    simt::async_copy(shared, global, 16, source_bytes);
#else
    const unsigned to = static_cast<unsigned>(__cvta_generic_to_shared(shared));
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;\n" ::"r"(to), "l"(global), "r"(source_bytes)
                 : "memory");
#endif
}

/// Closes the group of the thread's copies since the last call.
__device__ inline void async_commit() {
#ifdef REFRESHLAB_SIMT
    simt::async_commit();
#else
    asm volatile("cp.async.commit_group;\n" ::: "memory");
#endif
}

/// Until at most the newest `groups` groups of this thread are under way. What other threads fetched needs a barrier as well.
template <int groups>
__device__ inline void async_wait() {
#ifdef REFRESHLAB_SIMT
    simt::async_wait(groups);
#else
    asm volatile("cp.async.wait_group %0;\n" ::"n"(groups) : "memory");
#endif
}

} // namespace refreshlab::kernels::RL_GPU
