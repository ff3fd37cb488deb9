#pragma once

#include "engine/cache/pool_lists.h"

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace refreshlab {

/// What has changed in a pool since a decode step's kernels saw it: its lists, by position, and rows that are held no more and still
/// stand there. Nothing is kept of a pool that no kernel has seen.
class PoolChanges {
public:
    explicit PoolChanges(int64_t kv_heads = 0)
        : m_edits(static_cast<size_t>(kv_heads)) {}

    /// The kernels see the pool as it is now.
    void begin();
    /// The position of a head is in this slot from now on; -1: it is held no more.
    void note(int64_t kv_head, int64_t position, int64_t slot);
    void forget_lists() { m_whole = true; } ///< they have changed as a whole
    /// The edits of a head cannot be told: more than a launch takes, or unknown.
    [[nodiscard]] bool whole() const { return m_whole; }
    [[nodiscard]] std::span<const kernels::ListEntry> edits(int64_t kv_head) const {
        return m_edits[static_cast<size_t>(kv_head)];
    }

    struct Leaving {
        int64_t slot = 0;
        at::Tensor
            rows; ///< [2, n, head_dim] on the host, where row `row` is to be kept; undefined: it is not
        int64_t row = 0;
    };
    void leave(int64_t slot, const at::Tensor& rows, int64_t row) { m_leaving.push_back({slot, rows, row}); }
    [[nodiscard]] std::span<const Leaving> leaving() const { return m_leaving; }
    /// They have left. \param rows  [leaving, 2, row_bytes]: what stood there
    void have_left(const std::byte* rows, int64_t row_bytes);

private:
    bool m_whole = true;
    std::vector<std::vector<kernels::ListEntry>> m_edits; ///< [kv_heads], each ascending by position
    std::vector<Leaving> m_leaving;
};

} // namespace refreshlab
