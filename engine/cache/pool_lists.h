#pragma once

#include "kernels/decode/device_decoder.h"

#include <cstdint>
#include <vector>

namespace refreshlab {

/// The pools of a cache as a decode step's kernels take them (kernels/decode/device_decoder.h), and what they are to change there first.
struct PoolLists {
    std::vector<kernels::DevicePool> pools; ///< [layers]
    int64_t list_capacity = 0;              ///< entries that a list may have; it never shrinks
    uint64_t cache = 0;                     ///< DeviceLists::cache
    uint64_t version = 0;         ///< of the lists that the kernels saw last; of these it is one more
    bool whole = true;            ///< entries are the lists themselves, not edits of them
    std::vector<int32_t> offsets; ///< [layers * kv_heads + 1]
    std::vector<kernels::ListEntry> entries;
    std::vector<kernels::LeavingRow> leaving;
};

} // namespace refreshlab
