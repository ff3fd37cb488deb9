#pragma once

#include "kernels/cuda/build.h"
#include "kernels/decode/device_decoder.h"

#include <cstdint>

namespace refreshlab::kernels::RL_GPU {

/// Edits of the lists of all layers and KV heads, and the rows that leave their pools, by one launch before a step's first kernel.
///
/// Lists    a list becomes what it was without the edits' positions, and then with those edits that have a column: so an edit puts an
///          entry in, moves one, or (column -1) takes one away that may be there or not.
/// Leaving  the key and value of a row are copied to `rows`, and become NaN where they stood: all bits set. No row twice.
/// Nothing of a plane without edits, or of a row that is not named, is touched.
struct ListEditsInputs {
    // --- mapped pinned memory, as the device sees it ---
    const int32_t* offsets = nullptr; ///< [planes + 1]: plane i has edits [offsets[i], offsets[i + 1])
    const ListEntry* edits =
        nullptr; ///< of a plane at most decode::most_plane_edits, positions ascending, none twice
    const int32_t* num_leaving = nullptr;
    const LeavingRow* leaving = nullptr; ///< [num_leaving]
    void* rows = nullptr;                ///< [num_leaving, 2, row_bytes]: key, value
    // --- device memory ---
    ListEntry* entries = nullptr; ///< [planes, capacity]; a plane is a KV head of a layer
    int32_t* counts = nullptr;    ///< [planes]; at most `capacity` afterwards too
    int64_t planes = 0, capacity = 0;
    int64_t row_bytes = 0; ///< of a key, a multiple of 16; rows are 16 bytes aligned
};
RL_LAUNCHER void launch_list_edits(const ListEditsInputs& in, void* stream);

} // namespace refreshlab::kernels::RL_GPU
