#pragma once

#include "kernels/simt/harness.h"

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace refreshlab::simt {

/// A moment of the machine: it goes on with every block, barrier and fence. 0: never; 1: before any kernel.
using Epoch = uint32_t;

/// Every byte of shared memory that nobody has written: of floats a NaN, of indices far outside.
inline constexpr int poison = 0xFF;

/// What is known of one byte of shared or global memory. A thread stands here as its number in the cluster with marks beside it.
struct Cell {
    static constexpr uint16_t number = 0x3FFF;
    static constexpr uint16_t atomic = 0x8000, under_way = 0x4000; ///< of a write; under_way: by cp.async
    static constexpr uint16_t several_warps = 0x8000,
                              several_lanes = 0x4000;                  ///< of reads in one interval: by these
    static constexpr uint16_t phase = 0x7FFF, several_blocks = 0x8000; ///< of read_phase

    Epoch written = 0, read = 0;
    uint32_t write_place = 0, read_place = 0; ///< low halves of instruction addresses
    uint16_t writer = 0, reader = 0;
    uint16_t write_clock = 0, read_clock = 0; ///< of the thread's warp (machine.h)
    uint16_t write_phase = 0, read_phase = 0; ///< barriers of the cluster at which the thread had arrived
    uint32_t unused = 0;

    bool operator==(const Cell& other) const { // member by member takes a tenth of a suite's time
        using Words = std::array<uint64_t, 4>;
        const auto a = std::bit_cast<Words>(*this), b = std::bit_cast<Words>(other);
        return ((a[0] ^ b[0]) | (a[1] ^ b[1]) | (a[2] ^ b[2]) | (a[3] ^ b[3])) == 0;
    }
};

/// Global memory that kernels may see.
struct Region {
    const std::byte* first = nullptr;
    size_t bytes = 0;
    bool read_only = false;
    std::string name;
    std::vector<Cell> cells; ///< [bytes]; empty where read only

    [[nodiscard]] bool holds(const void* at) const {
        const auto* const byte = static_cast<const std::byte*>(at);
        return byte >= first && byte < first + bytes;
    }
};

/// All regions, by address.
class Regions {
public:
    void add(const void* at, size_t bytes, Contents contents, const std::string& name);
    void remove(const void* at);
    /// The region of a byte; null: none.
    [[nodiscard]] Region* find(const void* at);
    /// The region whose end is nearest below or above `at`, for messages; null where there is none.
    [[nodiscard]] const Region* nearest(const void* at) const;
    void note(const void* at, size_t bytes, bool written);

private:
    std::vector<std::unique_ptr<Region>> m_regions; ///< ascending
    Region* m_last = nullptr;                       ///< found last
};

} // namespace refreshlab::simt
