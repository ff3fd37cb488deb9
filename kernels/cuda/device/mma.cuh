#pragma once

#include "kernels/cuda/device/launch.cuh"

/// Tensor-core products of a warp. Source: PTX ISA 9.0, sections 9.7.14.5 (mma) and 9.7.14.5.15 (ldmatrix); sm_80 and newer.
namespace refreshlab::kernels::RL_GPU {

/// d += a b, a [16, 16], b [16, 8], d [16, 8] in fp32. With lane = 4 g + t:
///   a[i], two elements in ascending order: row g + 8 (i % 2), columns 2t + 8 (i / 2) and the next
///   b[i]: rows 2t + 8 i and the next, column g
///   d[i]: row g + 8 (i / 2), column 2t + i % 2
/// \tparam bf16  a and b hold bf16; else IEEE halves
template <bool bf16>
__device__ inline void mma_m16n8k16(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
#ifdef REFRESHLAB_SIMT
    simt::mma_m16n8k16(d, a, b, bf16);
#else
    if constexpr (bf16) {
        asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, "
                     "{%8,%9}, {%0,%1,%2,%3};\n"
                     : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
    } else {
        asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, "
                     "{%8,%9}, {%0,%1,%2,%3};\n"
                     : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
    }
#endif
}

/// Four 8 x 8 matrices of 16-bit numbers. Lane 8 m + r gives the address of row r of matrix m (16 bytes, shared memory); lane
/// 4 r + c gets elements 2c and 2c + 1 of row r of matrix i in registers[i].
/// \tparam transposed  of column r instead
template <bool transposed = false>
__device__ inline void ldmatrix_x4(uint32_t (&registers)[4], const void* row) {
#ifdef REFRESHLAB_SIMT
    simt::ldmatrix(registers, 4, row, transposed);
#else
    const unsigned from = static_cast<unsigned>(__cvta_generic_to_shared(row));
    if constexpr (transposed) {
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];\n"
                     : "=r"(registers[0]), "=r"(registers[1]), "=r"(registers[2]), "=r"(registers[3])
                     : "r"(from)
                     : "memory");
    } else {
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];\n"
                     : "=r"(registers[0]), "=r"(registers[1]), "=r"(registers[2]), "=r"(registers[3])
                     : "r"(from)
                     : "memory");
    }
#endif
}

/// Two matrices: lanes 0 to 15 give addresses.
template <bool transposed = false>
__device__ inline void ldmatrix_x2(uint32_t (&registers)[2], const void* row) {
#ifdef REFRESHLAB_SIMT
    simt::ldmatrix(registers, 2, row, transposed);
#else
    const unsigned from = static_cast<unsigned>(__cvta_generic_to_shared(row));
    if constexpr (transposed) {
        asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0,%1}, [%2];\n"
                     : "=r"(registers[0]), "=r"(registers[1])
                     : "r"(from)
                     : "memory");
    } else {
        asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0,%1}, [%2];\n"
                     : "=r"(registers[0]), "=r"(registers[1])
                     : "r"(from)
                     : "memory");
    }
#endif
}

} // namespace refreshlab::kernels::RL_GPU
