#pragma once

#include "engine/base/origin.h"

#include <algorithm>
#include <cstdint>
#include <vector>

namespace refreshlab {

/// Keys, values, or both, of entries.
struct EntryHalves {
    bool keys = true, values = true;
    [[nodiscard]] int64_t count() const { return (keys ? 1 : 0) + (values ? 1 : 0); }
    friend bool operator==(const EntryHalves&, const EntryHalves&) = default;
};

/// Entries of a cache: those of some positions in some KV heads, keys, values or both.
struct EntrySelection {
    std::vector<int64_t> positions; ///< ascending
    std::vector<uint8_t> heads;     ///< [layers * kv_heads], 1 = selected
    EntryHalves halves;

    [[nodiscard]] bool all_heads() const {
        return std::ranges::all_of(heads, [](uint8_t one) { return one != 0; });
    }
    /// layer * kv_heads + head of those that are selected, ascending.
    [[nodiscard]] std::vector<int64_t> head_numbers() const {
        std::vector<int64_t> numbers;
        for (size_t i = 0; i < heads.size(); ++i)
            if (heads[i] != 0) numbers.push_back(static_cast<int64_t>(i));
        return numbers;
    }
    /// Of a selected entry once the teacher's stands in its place.
    [[nodiscard]] Origin entry_origin() const {
        return halves.keys && halves.values ? Origin::teacher_refresh
               : halves.keys                ? Origin::teacher_keys
                                            : Origin::teacher_values;
    }
    /// The same of a position in all layers and KV heads.
    [[nodiscard]] Origin position_origin() const {
        return all_heads() ? entry_origin() : Origin::teacher_partly;
    }
};

} // namespace refreshlab
