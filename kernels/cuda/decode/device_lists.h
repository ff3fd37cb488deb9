#pragma once

#include "kernels/cuda/decode/list_edits.h"
#include "kernels/cuda/device/runtime.h"

#include <cstdint>

namespace refreshlab::kernels::RL_GPU {

/// The lists that a decoder keeps on the device, of one cache at a time, and the memory of the host through which they change.
class DecoderLists {
public:
    /// Room for lists of `capacity` entries, once per decoder for planes and row_bytes. \return true: addresses have changed, or the place of a
    /// list, so that graphs which hold them are of no use, and whole lists are to come
    bool reserve(int64_t planes, int64_t row_bytes, int64_t capacity);
    [[nodiscard]] bool hold(uint64_t cache, uint64_t version, int64_t capacity) const {
        return m_capacity == capacity && m_cache == cache && m_version == version;
    }
    /// Before the graph of a step: puts edits and leaving rows where it finds them, or uploads whole lists and waits for their copy. The graph before
    /// has ended (the host waited for its answers).
    void change(const DeviceLists& lists, cudaStream_t stream);

    [[nodiscard]] ListEditsInputs edits() const;
    [[nodiscard]] const ListEntry* entries(int64_t plane) const; ///< of this plane and those behind it
    [[nodiscard]] const int32_t* counts(int64_t plane) const;
    [[nodiscard]] const void* left_rows() const { return m_left.data(); }

private:
    void upload(const DeviceLists& lists, cudaStream_t stream);

    int64_t m_planes = 0, m_row_bytes = 0, m_capacity = 0;
    uint64_t m_cache = 0, m_version = 0; ///< of what the device holds; no cache has number 0
    DeviceMemory m_entries, m_counts;
    PinnedMemory m_offsets, m_edits, m_num_leaving, m_leaving, m_left;
};

} // namespace refreshlab::kernels::RL_GPU
