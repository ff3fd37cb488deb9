#include "kernels/simt/machine.h"
#include "kernels/simt/place.h"

#include <cstring>

/// What a kernel calls, and what the compiler calls for it at each access to memory. The kernels are compiled with -fsanitize=thread
/// and linked without that sanitizer's library: its entry points stand here.
/// Source: the names that GCC's gcc/sanitizer.def gives them.
#define RL_PLACE __builtin_return_address(0)

namespace refreshlab::simt {

namespace {

Machine& the_machine = Machine::of_process();
inline Machine& machine() {
    return the_machine;
}

/// The machine's grid runs on this thread of the host.
thread_local bool t_runs = false;

} // namespace

void set_running(bool runs) {
    t_runs = runs;
}

uint3 thread_index() {
    return machine().thread().index;
}
uint3 block_index() {
    return machine().block();
}
dim3 block_extent() {
    return machine().launch().block;
}
dim3 grid_extent() {
    return machine().launch().grid;
}
void* dynamic_shared() {
    return machine().dynamic_shared();
}

int block_barrier(Vote vote, int value) {
    return machine().wait_for_block(vote, value, RL_PLACE);
}
void warp_barrier(uint32_t mask) {
    WarpCall call;
    call.mask = mask;
    machine().wait_for_warp(call, RL_PLACE);
}
uint64_t shuffle(Shuffle kind, uint32_t mask, uint64_t bits, int argument, int width) {
    WarpCall call;
    call.kind = WarpCall::Kind::shuffle;
    call.mask = mask;
    call.shuffle = kind;
    call.value = bits;
    call.argument = argument;
    call.width = width;
    machine().wait_for_warp(call, RL_PLACE);
    return call.result;
}
uint32_t ballot(uint32_t mask, bool predicate) {
    WarpCall call;
    call.kind = WarpCall::Kind::ballot;
    call.mask = mask;
    call.value = predicate ? 1 : 0;
    machine().wait_for_warp(call, RL_PLACE);
    return static_cast<uint32_t>(call.result);
}
uint32_t reduce(Reduce kind, uint32_t mask, uint32_t value) {
    WarpCall call;
    call.kind = WarpCall::Kind::reduce;
    call.mask = mask;
    call.reduce = kind;
    call.value = value;
    machine().wait_for_warp(call, RL_PLACE);
    return static_cast<uint32_t>(call.result);
}
void mma_m16n8k16(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2], bool bf16) {
    WarpCall call;
    call.kind = WarpCall::Kind::multiply;
    call.mask = 0xFFFFFFFFU;
    call.a = a;
    call.b = b;
    call.d = d;
    call.bf16 = bf16;
    machine().wait_for_warp(call, RL_PLACE);
}
void ldmatrix(uint32_t* registers, int count, const void* row, bool transposed) {
    const auto lane = machine().thread().lane();
    if (lane < static_cast<unsigned>(8 * count)) {
        if (reinterpret_cast<uintptr_t>(row) % 16 != 0)
            machine().fault(RL_PLACE, "ldmatrix of a row that does not begin at a multiple of 16 bytes");
        machine().access(row, 16, Machine::Access::read, RL_PLACE);
    }
    WarpCall call;
    call.kind = WarpCall::Kind::load_matrix;
    call.mask = 0xFFFFFFFFU;
    call.argument = count;
    call.width = transposed ? 1 : 0;
    call.row = row;
    call.registers = registers;
    machine().wait_for_warp(call, RL_PLACE);
}

namespace {

template <typename U, typename S, typename F>
U atomic(void* at, Atomic kind, U operand, U other, const void* place) {
    if (reinterpret_cast<uintptr_t>(at) % sizeof(U) != 0)
        machine().fault(place, "an atomic variable at no multiple of its size");
    machine().access(at, sizeof(U), Machine::Access::atomic, place);
    machine().synchronise(at);
    U old{}, result{};
    std::memcpy(&old, at, sizeof old);
    const auto s = static_cast<S>(old), so = static_cast<S>(operand);
    switch (kind) {
    case Atomic::add:
        result = old + operand;
        break;
    case Atomic::min_signed:
        result = so < s ? operand : old;
        break;
    case Atomic::max_signed:
        result = so > s ? operand : old;
        break;
    case Atomic::min_unsigned:
        result = operand < old ? operand : old;
        break;
    case Atomic::max_unsigned:
        result = operand > old ? operand : old;
        break;
    case Atomic::bits_and:
        result = old & operand;
        break;
    case Atomic::bits_or:
        result = old | operand;
        break;
    case Atomic::bits_xor:
        result = old ^ operand;
        break;
    case Atomic::exchange:
        result = operand;
        break;
    case Atomic::compare:
        result = old == operand ? other : old;
        break;
    case Atomic::add_float:
        result = std::bit_cast<U>(std::bit_cast<F>(old) + std::bit_cast<F>(operand));
        break;
    }
    std::memcpy(at, &result, sizeof result);
    return old;
}

} // namespace

uint32_t atomic32(void* at, Atomic kind, uint32_t operand, uint32_t other) {
    return atomic<uint32_t, int32_t, float>(at, kind, operand, other, RL_PLACE);
}
uint64_t atomic64(void* at, Atomic kind, uint64_t operand, uint64_t other) {
    return atomic<uint64_t, int64_t, double>(at, kind, operand, other, RL_PLACE);
}
void fence() {
    machine().fence();
}

void async_copy(void* shared, const void* global, unsigned bytes, unsigned source_bytes) {
    const void* const place = RL_PLACE;
    if (bytes != 4 && bytes != 8 && bytes != 16)
        machine().fault(place, "cp.async of " + std::to_string(bytes) + " bytes; 4, 8 and 16 are possible");
    if (source_bytes > bytes) machine().fault(place, "cp.async with more bytes of the source than in all");
    if (reinterpret_cast<uintptr_t>(shared) % bytes != 0 || reinterpret_cast<uintptr_t>(global) % bytes != 0)
        machine().fault(place, "cp.async of " + std::to_string(bytes) +
                                   " bytes at an address that is no multiple of them");
    machine().copy_async(
        {static_cast<std::byte*>(shared), static_cast<const std::byte*>(global), bytes, source_bytes, place});
}
void async_commit() {
    machine().commit_async();
}
void async_wait(unsigned groups) {
    machine().finish_async(groups);
}
void cluster_arrive() {
    machine().arrive_at_cluster(RL_PLACE);
}
void cluster_wait() {
    machine().wait_for_cluster(RL_PLACE);
}
void* in_cluster_block(const void* mine, unsigned rank) {
    return machine().in_cluster_block(mine, rank, RL_PLACE);
}
void wait_for_dependency() {
    machine().wait_for_dependency();
}
void allow_dependents() {}

void check_vector(const void* address, size_t bytes) {
    if (!t_runs) return;
    // The compiler would take the type's alignment for granted.
    const void* hidden = address;
    asm volatile("" : "+r"(hidden));
    if (reinterpret_cast<uintptr_t>(hidden) % bytes != 0)
        machine().fault(RL_PLACE, "a vector of " + std::to_string(bytes) +
                                      " bytes at an address that is no multiple of them");
}

} // namespace refreshlab::simt

#ifndef __SANITIZE_ADDRESS__
namespace refreshlab::simt {
namespace {

[[gnu::noinline, gnu::cold]] void misaligned(size_t bytes, Machine::Access access, const void* place) {
    machine().fault(place, "an address that is no multiple of the " + std::to_string(bytes) +
                               " bytes that are " + (access == Machine::Access::read ? "read" : "written"));
}

void look(const void* at, size_t bytes, Machine::Access access, const void* place) {
    if (!t_runs) return;
    const auto address = reinterpret_cast<uintptr_t>(at);
    // The compiler speaks of 16 bytes where two numbers of 8 are copied, too. Vectors are looked at by check_vector().
    const size_t natural = bytes < 8 ? bytes : 8;
    if ((bytes & (bytes - 1)) == 0 && (address & (natural - 1)) != 0) [[unlikely]]
        misaligned(bytes, access, place);
    Machine& here = machine();
    if (!here.is_local(at)) here.access(at, bytes, access, place);
}

} // namespace
} // namespace refreshlab::simt

extern "C" {
void __tsan_init() {}
void __tsan_func_entry(void*) {}
void __tsan_func_exit() {}
#define RL_LOOK(BYTES)                                                                                       \
    void __tsan_read##BYTES(void* at) {                                                                      \
        ::refreshlab::simt::look(at, BYTES, ::refreshlab::simt::Machine::Access::read, RL_PLACE);            \
    }                                                                                                        \
    void __tsan_write##BYTES(void* at) {                                                                     \
        ::refreshlab::simt::look(at, BYTES, ::refreshlab::simt::Machine::Access::write, RL_PLACE);           \
    }
RL_LOOK(1)
RL_LOOK(2)
RL_LOOK(4)
RL_LOOK(8)
RL_LOOK(16)
void __tsan_read_range(void* at, size_t bytes) {
    if (::refreshlab::simt::t_runs && bytes > 0)
        ::refreshlab::simt::machine().access(at, bytes, ::refreshlab::simt::Machine::Access::read, RL_PLACE);
}
void __tsan_write_range(void* at, size_t bytes) {
    if (::refreshlab::simt::t_runs && bytes > 0)
        ::refreshlab::simt::machine().access(at, bytes, ::refreshlab::simt::Machine::Access::write, RL_PLACE);
}
void __tsan_vptr_update(void**, void*) {}
void __tsan_vptr_read(void**) {}

// Of the launchers' own host code: counts of shared pointers, guards of static variables.
#define RL_HOST_ATOMICS(BITS)                                                                                \
    uint##BITS##_t __tsan_atomic##BITS##_load(const volatile uint##BITS##_t* at, int) {                      \
        return __atomic_load_n(at, __ATOMIC_SEQ_CST);                                                        \
    }                                                                                                        \
    void __tsan_atomic##BITS##_store(volatile uint##BITS##_t* at, uint##BITS##_t value, int) {               \
        __atomic_store_n(at, value, __ATOMIC_SEQ_CST);                                                       \
    }                                                                                                        \
    uint##BITS##_t __tsan_atomic##BITS##_fetch_add(volatile uint##BITS##_t* at, uint##BITS##_t value, int) { \
        return __atomic_fetch_add(at, value, __ATOMIC_SEQ_CST);                                              \
    }                                                                                                        \
    uint##BITS##_t __tsan_atomic##BITS##_fetch_sub(volatile uint##BITS##_t* at, uint##BITS##_t value, int) { \
        return __atomic_fetch_sub(at, value, __ATOMIC_SEQ_CST);                                              \
    }
RL_HOST_ATOMICS(8)
RL_HOST_ATOMICS(32)
RL_HOST_ATOMICS(64)

// -fsanitize=bounds: the index of an array whose length the compiler knows.
void __ubsan_handle_out_of_bounds(void*, void* index) {
    if (!::refreshlab::simt::t_runs) return;
    ::refreshlab::simt::machine().fault(
        RL_PLACE, "index " + std::to_string(reinterpret_cast<intptr_t>(index)) + " is outside of its array");
}
}
#endif
