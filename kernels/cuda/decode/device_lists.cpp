#include "kernels/cuda/decode/device_lists.h"

#include "kernels/decode/launch_shapes.h"
#include "kernels/shared/check.h"

#include <algorithm>
#include <iterator>

namespace refreshlab::kernels::RL_GPU {

namespace {

template <typename T>
T* as(const PinnedMemory& memory) {
    return static_cast<T*>(memory.data());
}
template <typename T>
T* seen(const PinnedMemory& memory) {
    return static_cast<T*>(seen_by_device(memory));
}
size_t size(int64_t bytes) {
    return static_cast<size_t>(bytes);
}

} // namespace

bool DecoderLists::reserve(int64_t planes, int64_t row_bytes, int64_t capacity) {
    if (capacity == m_capacity) return false;
    if (m_planes == 0) {
        const int64_t most = decode::most_list_edits(planes);
        m_counts = DeviceMemory(size(planes) * sizeof(int32_t));
        m_offsets = PinnedMemory(size(planes + 1) * sizeof(int32_t));
        m_edits = PinnedMemory(size(most) * sizeof(ListEntry));
        m_num_leaving = PinnedMemory(sizeof(int32_t));
        m_leaving = PinnedMemory(size(most) * sizeof(LeavingRow));
        m_left = PinnedMemory(size(most * 2 * row_bytes));
        m_planes = planes;
        m_row_bytes = row_bytes;
    }
    m_entries = DeviceMemory(size(planes * capacity) * sizeof(ListEntry));
    m_capacity = capacity;
    m_cache = 0;
    return true;
}

void DecoderLists::upload(const DeviceLists& lists, cudaStream_t stream) {
    const size_t row = size(m_capacity) * sizeof(ListEntry);
    const PinnedMemory entries(size(m_planes) * row), counts(size(m_planes) * sizeof(int32_t));
    for (int64_t plane = 0; plane < m_planes; ++plane) {
        const int32_t first = lists.offsets[size(plane)], n = lists.offsets[size(plane + 1)] - first;
        RL_ASSERT(n >= 1 && n <= m_capacity);
        std::copy_n(lists.entries.begin() + first, n, as<ListEntry>(entries) + plane * m_capacity);
        as<int32_t>(counts)[plane] = n;
    }
    check(cudaMemcpyAsync(m_entries.data(), entries.data(), size(m_planes) * row, cudaMemcpyHostToDevice,
                          stream),
          "copying lists");
    check(cudaMemcpyAsync(m_counts.data(), counts.data(), size(m_planes) * sizeof(int32_t),
                          cudaMemcpyHostToDevice, stream),
          "copying the lengths of lists");
    check(cudaStreamSynchronize(stream), "copying lists");
}

void DecoderLists::change(const DeviceLists& lists, cudaStream_t stream) {
    const int64_t most = decode::most_list_edits(m_planes);
    RL_ASSERT(std::ssize(lists.offsets) == m_planes + 1 && std::ssize(lists.leaving) <= most);
    m_cache = 0; // until all is there
    auto* const offsets = as<int32_t>(m_offsets);
    if (lists.whole) {
        upload(lists, stream);
        std::fill_n(offsets, m_planes + 1, 0);
    } else {
        RL_ASSERT(std::ssize(lists.entries) <= most && lists.offsets.back() == std::ssize(lists.entries));
        std::ranges::copy(lists.offsets, offsets);
        std::ranges::copy(lists.entries, as<ListEntry>(m_edits));
    }
    *as<int32_t>(m_num_leaving) = static_cast<int32_t>(lists.leaving.size());
    std::ranges::copy(lists.leaving, as<LeavingRow>(m_leaving));
    m_cache = lists.cache;
    m_version = lists.version;
}

ListEditsInputs DecoderLists::edits() const {
    ListEditsInputs in;
    in.offsets = seen<const int32_t>(m_offsets);
    in.edits = seen<const ListEntry>(m_edits);
    in.num_leaving = seen<const int32_t>(m_num_leaving);
    in.leaving = seen<const LeavingRow>(m_leaving);
    in.rows = seen<void>(m_left);
    in.entries = static_cast<ListEntry*>(m_entries.data());
    in.counts = static_cast<int32_t*>(m_counts.data());
    in.planes = m_planes;
    in.capacity = m_capacity;
    in.row_bytes = m_row_bytes;
    return in;
}

const ListEntry* DecoderLists::entries(int64_t plane) const {
    return static_cast<const ListEntry*>(m_entries.data()) + plane * m_capacity;
}
const int32_t* DecoderLists::counts(int64_t plane) const {
    return static_cast<const int32_t*>(m_counts.data()) + plane;
}

} // namespace refreshlab::kernels::RL_GPU
