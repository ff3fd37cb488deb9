#include "engine/cache/pool_changes.h"

#include "engine/base/check.h"
#include "kernels/decode/launch_shapes.h"

#include <algorithm>
#include <cstring>
#include <iterator>

namespace refreshlab {

void PoolChanges::begin() {
    for (auto& edits : m_edits)
        edits.clear();
    m_whole = false;
}

void PoolChanges::note(int64_t kv_head, int64_t position, int64_t slot) {
    if (m_whole) return;
    std::vector<kernels::ListEntry>& edits = m_edits[static_cast<size_t>(kv_head)];
    const kernels::ListEntry edit{static_cast<int32_t>(position), static_cast<int32_t>(slot)};
    const auto at = std::ranges::lower_bound(edits, edit.position, {}, &kernels::ListEntry::position);
    if (at != edits.end() && at->position == edit.position) {
        *at = edit;
    } else if (std::ssize(edits) < kernels::decode::most_plane_edits) {
        edits.insert(at, edit);
    } else {
        m_whole = true;
    }
}

void PoolChanges::have_left(const std::byte* rows, int64_t row_bytes) {
    const auto bytes = static_cast<size_t>(row_bytes);
    for (const Leaving& leaving : m_leaving) {
        for (int64_t half = 0; half < 2 && leaving.rows.defined(); ++half) {
            RL_ASSERT(leaving.rows.is_cpu() && leaving.rows.is_contiguous());
            auto* const to = static_cast<std::byte*>(leaving.rows.mutable_data_ptr());
            std::memcpy(to + static_cast<size_t>(half * leaving.rows.size(1) + leaving.row) * bytes,
                        rows + static_cast<size_t>(half) * bytes, bytes);
        }
        rows += 2 * bytes;
    }
    m_leaving.clear();
}

} // namespace refreshlab
