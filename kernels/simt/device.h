#pragma once

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>

/// The part of CUDA C++ that the project's kernels use, for a C++ compiler: a kernel's source is compiled against this header by the
/// suites and by nvcc for the device. Each thread of a block is a fiber of one thread of the host (machine.h).
/// Source: CUDA C++ Programming Guide 13.0, chapters 5 and 10.

// NOLINTBEGIN(bugprone-reserved-identifier): the names are CUDA's.
#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __grid_constant__
#define __align__(n) __attribute__((aligned(n)))
/// One thread of the host runs one block at a time, so what belongs to that thread belongs to the block. What the compiler makes of
/// initial values is poisoned when a block starts.
#define __shared__ constinit thread_local

struct uint3 {
    unsigned x, y, z;
};
struct dim3 {
    unsigned x, y, z;
    constexpr dim3(unsigned x_ = 1, unsigned y_ = 1, unsigned z_ = 1) // NOLINT(google-explicit-constructor)
        : x(x_)
        , y(y_)
        , z(z_) {}
    [[nodiscard]] constexpr uint64_t count() const { return uint64_t{x} * y * z; }
};

namespace refreshlab::simt {

[[nodiscard]] uint3 thread_index();
[[nodiscard]] uint3 block_index();
[[nodiscard]] dim3 block_extent();
[[nodiscard]] dim3 grid_extent();

enum class Vote : uint8_t { none, any, all, count };
/// \return what the vote of all threads' `value` comes to
int block_barrier(Vote vote, int value);
void warp_barrier(uint32_t mask);

enum class Shuffle : uint8_t { index, up, down, exclusive_or };
[[nodiscard]] uint64_t shuffle(Shuffle kind, uint32_t mask, uint64_t bits, int argument, int width);
/// \return a bit for each lane of the mask whose predicate holds
[[nodiscard]] uint32_t ballot(uint32_t mask, bool predicate);
enum class Reduce : uint8_t {
    add,
    min_signed,
    max_signed,
    min_unsigned,
    max_unsigned,
    bits_and,
    bits_or,
    bits_xor
};
[[nodiscard]] uint32_t reduce(Reduce kind, uint32_t mask, uint32_t value);

enum class Atomic : uint8_t {
    add,
    min_signed,
    max_signed,
    min_unsigned,
    max_unsigned,
    bits_and,
    bits_or,
    bits_xor,
    exchange,
    compare,
    add_float
};
/// \return what stood there. `other` is the value to be put in by Atomic::compare.
uint32_t atomic32(void* at, Atomic kind, uint32_t operand, uint32_t other = 0);
uint64_t atomic64(void* at, Atomic kind, uint64_t operand, uint64_t other = 0);
/// What was written before it is seen by whoever reads an atomic variable that this thread changes after it.
void fence();

/// cp.async: `bytes` (4, 8 or 16) go from global to shared memory; beyond `source_bytes` of them zeros. They arrive when the thread
/// waits for their group and not before.
void async_copy(void* shared, const void* global, unsigned bytes, unsigned source_bytes);
void async_commit();
/// Until no more than `groups` of the thread's latest groups are under way.
void async_wait(unsigned groups);

/// mma.sync.aligned.m16n8k16: d = a b + c for a warp, fragments as PTX ISA 9.0, section 9.7.14.5, lays them out.
/// \param bf16  of a and b; else IEEE halves
void mma_m16n8k16(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2], bool bf16);
/// ldmatrix.sync.aligned.m8n8.xN[.trans].b16: lane i names row i % 8 of matrix i / 8, 16 bytes each, in shared memory.
void ldmatrix(uint32_t* registers, int count, const void* row, bool transposed);

/// barrier.cluster: what the cluster's threads did before they arrived is done for those that have waited.
void cluster_arrive();
void cluster_wait();
/// Where `mine`, of the block's dynamic shared memory, stands in that of block `rank` of the cluster.
[[nodiscard]] void* in_cluster_block(const void* mine, unsigned rank);

/// cudaGridDependencySynchronize and cudaTriggerProgrammaticLaunchCompletion.
void wait_for_dependency();
void allow_dependents();

/// Throws the fault when an address that a vector is read from or written to is no multiple of its size.
void check_vector(const void* address, size_t bytes);

} // namespace refreshlab::simt

#define threadIdx (::refreshlab::simt::thread_index())
#define blockIdx (::refreshlab::simt::block_index())
#define blockDim (::refreshlab::simt::block_extent())
#define gridDim (::refreshlab::simt::grid_extent())
inline constexpr int warpSize = 32;

// --- vectors: read and written as a whole, at addresses that are multiples of their size ---------------------------------
namespace refreshlab::simt {
/// \tparam bytes  alignment
template <typename T, size_t bytes>
struct alignas(bytes) Vector2 {
    T x, y;
    Vector2() = default;
    constexpr Vector2(T x_, T y_)
        : x(x_)
        , y(y_) {}
    Vector2(const Vector2& other) { *this = other; }
    Vector2& operator=(const Vector2& other) {
        check_vector(this, bytes);
        check_vector(&other, bytes);
        x = other.x;
        y = other.y;
        return *this;
    }
};
template <typename T, size_t bytes>
struct alignas(bytes) Vector4 {
    T x, y, z, w;
    Vector4() = default;
    constexpr Vector4(T x_, T y_, T z_, T w_)
        : x(x_)
        , y(y_)
        , z(z_)
        , w(w_) {}
    Vector4(const Vector4& other) { *this = other; }
    Vector4& operator=(const Vector4& other) {
        check_vector(this, bytes);
        check_vector(&other, bytes);
        x = other.x;
        y = other.y;
        z = other.z;
        w = other.w;
        return *this;
    }
};
} // namespace refreshlab::simt
using float2 = refreshlab::simt::Vector2<float, 8>;
using int2 = refreshlab::simt::Vector2<int, 8>;
using uint2 = refreshlab::simt::Vector2<unsigned, 8>;
using double2 = refreshlab::simt::Vector2<double, 16>;
using ushort2 = refreshlab::simt::Vector2<unsigned short, 4>;
using float4 = refreshlab::simt::Vector4<float, 16>;
using int4 = refreshlab::simt::Vector4<int, 16>;
using uint4 = refreshlab::simt::Vector4<unsigned, 16>;
using ushort4 = refreshlab::simt::Vector4<unsigned short, 8>;
inline float2 make_float2(float x, float y) {
    return {x, y};
}
inline uint2 make_uint2(unsigned x, unsigned y) {
    return {x, y};
}
inline float4 make_float4(float x, float y, float z, float w) {
    return {x, y, z, w};
}
inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) {
    return {x, y, z, w};
}

/// Byte i of the result is byte (s >> 4 i) % 8 of the eight of a and b; no sign is copied.
inline unsigned __byte_perm(unsigned a, unsigned b, unsigned s) {
    const uint64_t bytes = uint64_t{b} << 32 | a;
    unsigned result = 0;
    for (unsigned i = 0; i < 4; ++i)
        result |= static_cast<unsigned>(bytes >> (8 * (s >> (4 * i) & 7U)) & 0xFFU) << (8 * i);
    return result;
}

// --- synchronisation ---------------------------------------------------------------------------------------------------
inline void __syncthreads() {
    (void)::refreshlab::simt::block_barrier(::refreshlab::simt::Vote::none, 0);
}
inline int __syncthreads_or(int predicate) {
    return ::refreshlab::simt::block_barrier(::refreshlab::simt::Vote::any, predicate);
}
inline int __syncthreads_and(int predicate) {
    return ::refreshlab::simt::block_barrier(::refreshlab::simt::Vote::all, predicate);
}
inline int __syncthreads_count(int predicate) {
    return ::refreshlab::simt::block_barrier(::refreshlab::simt::Vote::count, predicate);
}
inline void __syncwarp(unsigned mask = 0xFFFFFFFFU) {
    ::refreshlab::simt::warp_barrier(mask);
}
inline void __threadfence() {
    ::refreshlab::simt::fence();
}
inline void __threadfence_block() {}
inline void __threadfence_system() {
    ::refreshlab::simt::fence();
}
inline void cudaGridDependencySynchronize() {
    ::refreshlab::simt::wait_for_dependency();
}
inline void cudaTriggerProgrammaticLaunchCompletion() {
    ::refreshlab::simt::allow_dependents();
}

// --- lanes of a warp ---------------------------------------------------------------------------------------------------
namespace refreshlab::simt {
template <typename T>
T shuffle_value(Shuffle kind, uint32_t mask, T value, int argument, int width) {
    static_assert(sizeof(T) <= sizeof(uint64_t));
    uint64_t bits = 0;
    __builtin_memcpy(&bits, &value, sizeof value);
    bits = shuffle(kind, mask, bits, argument, width);
    __builtin_memcpy(&value, &bits, sizeof value);
    return value;
}
} // namespace refreshlab::simt
template <typename T>
T __shfl_sync(unsigned mask, T value, int lane, int width = 32) {
    return ::refreshlab::simt::shuffle_value(::refreshlab::simt::Shuffle::index, mask, value, lane, width);
}
template <typename T>
T __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = 32) {
    return ::refreshlab::simt::shuffle_value(::refreshlab::simt::Shuffle::up, mask, value,
                                             static_cast<int>(delta), width);
}
template <typename T>
T __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = 32) {
    return ::refreshlab::simt::shuffle_value(::refreshlab::simt::Shuffle::down, mask, value,
                                             static_cast<int>(delta), width);
}
template <typename T>
T __shfl_xor_sync(unsigned mask, T value, int lanes, int width = 32) {
    return ::refreshlab::simt::shuffle_value(::refreshlab::simt::Shuffle::exclusive_or, mask, value, lanes,
                                             width);
}
inline unsigned __ballot_sync(unsigned mask, int predicate) {
    return ::refreshlab::simt::ballot(mask, predicate != 0);
}
inline int __any_sync(unsigned mask, int predicate) {
    return ::refreshlab::simt::ballot(mask, predicate != 0) != 0;
}
inline int __all_sync(unsigned mask, int predicate) {
    return ::refreshlab::simt::ballot(mask, predicate == 0) == 0;
}
inline unsigned __reduce_add_sync(unsigned mask, unsigned value) {
    return ::refreshlab::simt::reduce(::refreshlab::simt::Reduce::add, mask, value);
}
inline unsigned __reduce_max_sync(unsigned mask, unsigned value) {
    return ::refreshlab::simt::reduce(::refreshlab::simt::Reduce::max_unsigned, mask, value);
}
inline int __reduce_max_sync(unsigned mask, int value) {
    return static_cast<int>(::refreshlab::simt::reduce(::refreshlab::simt::Reduce::max_signed, mask,
                                                       static_cast<uint32_t>(value)));
}
inline unsigned __reduce_min_sync(unsigned mask, unsigned value) {
    return ::refreshlab::simt::reduce(::refreshlab::simt::Reduce::min_unsigned, mask, value);
}
inline int __reduce_min_sync(unsigned mask, int value) {
    return static_cast<int>(::refreshlab::simt::reduce(::refreshlab::simt::Reduce::min_signed, mask,
                                                       static_cast<uint32_t>(value)));
}
inline unsigned __reduce_or_sync(unsigned mask, unsigned value) {
    return ::refreshlab::simt::reduce(::refreshlab::simt::Reduce::bits_or, mask, value);
}
inline unsigned __reduce_and_sync(unsigned mask, unsigned value) {
    return ::refreshlab::simt::reduce(::refreshlab::simt::Reduce::bits_and, mask, value);
}
inline unsigned __reduce_xor_sync(unsigned mask, unsigned value) {
    return ::refreshlab::simt::reduce(::refreshlab::simt::Reduce::bits_xor, mask, value);
}

// --- atomics ---------------------------------------------------------------------------------------------------------------
#define RL_SIMT_ATOMIC(NAME, TYPE, BITS, KIND)                                                               \
    inline TYPE NAME(TYPE* at, TYPE value) {                                                                 \
        return std::bit_cast<TYPE>(::refreshlab::simt::atomic##BITS(at, ::refreshlab::simt::Atomic::KIND,    \
                                                                    std::bit_cast<uint##BITS##_t>(value)));  \
    }
RL_SIMT_ATOMIC(atomicAdd, int, 32, add)
RL_SIMT_ATOMIC(atomicAdd, unsigned, 32, add)
RL_SIMT_ATOMIC(atomicAdd, unsigned long long, 64, add)
RL_SIMT_ATOMIC(atomicAdd, float, 32, add_float)
RL_SIMT_ATOMIC(atomicAdd, double, 64, add_float)
RL_SIMT_ATOMIC(atomicMax, int, 32, max_signed)
RL_SIMT_ATOMIC(atomicMax, unsigned, 32, max_unsigned)
RL_SIMT_ATOMIC(atomicMax, unsigned long long, 64, max_unsigned)
RL_SIMT_ATOMIC(atomicMin, int, 32, min_signed)
RL_SIMT_ATOMIC(atomicMin, unsigned, 32, min_unsigned)
RL_SIMT_ATOMIC(atomicMin, unsigned long long, 64, min_unsigned)
RL_SIMT_ATOMIC(atomicAnd, unsigned, 32, bits_and)
RL_SIMT_ATOMIC(atomicOr, unsigned, 32, bits_or)
RL_SIMT_ATOMIC(atomicXor, unsigned, 32, bits_xor)
RL_SIMT_ATOMIC(atomicExch, int, 32, exchange)
RL_SIMT_ATOMIC(atomicExch, unsigned, 32, exchange)
RL_SIMT_ATOMIC(atomicExch, unsigned long long, 64, exchange)
RL_SIMT_ATOMIC(atomicExch, float, 32, exchange)
#undef RL_SIMT_ATOMIC
inline unsigned atomicCAS(unsigned* at, unsigned compare, unsigned value) {
    return ::refreshlab::simt::atomic32(at, ::refreshlab::simt::Atomic::compare, compare, value);
}
inline int atomicCAS(int* at, int compare, int value) {
    return static_cast<int>(::refreshlab::simt::atomic32(at, ::refreshlab::simt::Atomic::compare,
                                                         static_cast<uint32_t>(compare),
                                                         static_cast<uint32_t>(value)));
}
inline unsigned long long atomicCAS(unsigned long long* at, unsigned long long compare,
                                    unsigned long long value) {
    return ::refreshlab::simt::atomic64(at, ::refreshlab::simt::Atomic::compare, compare, value);
}

// --- reads and numbers -------------------------------------------------------------------------------------------------
template <typename T>
inline T __ldg(const T* at) {
    return *at;
}
template <typename T>
inline T __ldcg(const T* at) {
    return *at;
}
template <typename T>
inline T __ldcs(const T* at) {
    return *at;
}
inline float __expf(float x) {
    return std::exp(x);
}
inline float __logf(float x) {
    return std::log(x);
}
inline float rsqrtf(float x) {
    return 1.0F / std::sqrt(x);
}
inline float __fdividef(float a, float b) {
    return a / b;
}
inline float __fmaf_rn(float a, float b, float c) {
    return std::fma(a, b, c);
}
inline float __fmul_rn(float a, float b) {
    return a * b;
}
inline float __fadd_rn(float a, float b) {
    return a + b;
}
inline float __uint_as_float(unsigned bits) {
    return std::bit_cast<float>(bits);
}
inline unsigned __float_as_uint(float value) {
    return std::bit_cast<unsigned>(value);
}
inline int __float_as_int(float value) {
    return std::bit_cast<int>(value);
}
inline float __int_as_float(int bits) {
    return std::bit_cast<float>(bits);
}
inline int __popc(unsigned bits) {
    return std::popcount(bits);
}
inline int __ffs(int bits) {
    return __builtin_ffs(bits);
}
inline int __clz(int bits) {
    return bits == 0 ? 32 : __builtin_clz(static_cast<unsigned>(bits));
}
inline unsigned __umulhi(unsigned a, unsigned b) {
    return static_cast<unsigned>((uint64_t{a} * b) >> 32U);
}
// NOLINTEND(bugprone-reserved-identifier)
