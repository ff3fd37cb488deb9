#pragma once

#include "engine/base/check.h"
#include "engine/cache/entry_pool.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>
#include <vector>

namespace refreshlab {

/// Where one half of an entry stands: in a row of a block, or without one in a slot of its half's RowStore.
struct CodedPlace {
    static constexpr int32_t nobody = -1; ///< no block
    int32_t block = nobody;               ///< of CodedHalf::blocks
    int32_t row = 0;
    [[nodiscard]] bool is_row() const { return block == nobody; }
};

/// One half, keys or values, of one head's entries.
struct CodedHalf {
    std::vector<CodedPlace> places; ///< of each entry, as CodedHead::positions
    CodedBlocks blocks;
    int64_t rows = 0; ///< entries that are in slots
    /// The codec of some of the blocks whose rows can be read turned; null: of none. Blocks of another one are read as they are.
    const EntryCodec* turning = nullptr;
};

/// The entries that one KV head of a layer holds.
struct CodedHead {
    std::vector<int64_t> positions; ///< ascending
    std::array<CodedHalf, 2> halves;
};

/// Where the ascending `all` has a position, or -1.
[[nodiscard]] inline int64_t place_of(std::span<const int64_t> all, int64_t position) {
    const auto found = std::ranges::lower_bound(all, position);
    return found != all.end() && *found == position ? found - all.begin() : -1;
}

/// Throws InvariantError: another type than those a cache may have.
[[nodiscard]] inline StoredAs stored_type(at::ScalarType type) {
    RL_ASSERT(type == at::kFloat || type == at::kBFloat16 || type == at::kHalf);
    return type == at::kFloat      ? StoredAs::float32
           : type == at::kBFloat16 ? StoredAs::bfloat16
                                   : StoredAs::float16;
}

} // namespace refreshlab
