#include "engine/cache/row_store.h"

#include "engine/base/check.h"
#include "engine/cache/slot_index.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <limits>
#include <utility>

namespace refreshlab {

RowStore::RowStore(int64_t width, const at::TensorOptions& options)
    : m_rows(at::empty({0, width}, options)) {}

std::vector<int64_t> RowStore::take(int64_t n) {
    if (const int64_t missing = n - std::ssize(m_free); missing > 0) {
        const int64_t before = m_rows.size(0), after = before + std::max(missing, before / 8 + 64);
        at::Tensor larger =
            at::full({after, m_rows.size(1)}, std::numeric_limits<double>::quiet_NaN(), m_rows.options());
        larger.narrow(0, 0, before).copy_(m_rows);
        m_rows = std::move(larger);
        std::vector<int64_t> more(static_cast<size_t>(after - before));
        for (int64_t i = 0; i < after - before; ++i) // the lowest slot last: it is the next one
            more[static_cast<size_t>(i)] = after - 1 - i;
        more.insert(more.end(), m_free.begin(), m_free.end());
        m_free = std::move(more);
    }
    std::vector<int64_t> slots(m_free.rbegin(), m_free.rbegin() + n);
    m_free.resize(m_free.size() - static_cast<size_t>(n));
    return slots;
}
void RowStore::give_back(std::span<const int64_t> slots) {
    if (slots.empty()) return;
    poison_slots(m_rows, slots);
    m_free.insert(m_free.end(), slots.rbegin(), slots.rend());
}
at::Tensor RowStore::read(std::span<const int64_t> slots) const {
    if (!m_rows.is_cpu()) return m_rows.index_select(0, index_of(slots, m_rows.device())).cpu();
    at::Tensor rows = at::empty({std::ssize(slots), m_rows.size(1)}, m_rows.options());
    const auto* const from = static_cast<const std::byte*>(m_rows.const_data_ptr());
    auto* to = static_cast<std::byte*>(rows.mutable_data_ptr());
    for (const int64_t slot : slots)
        to = std::copy_n(from + slot * row_bytes(), row_bytes(), to);
    return rows;
}
void RowStore::read(int64_t slot, int64_t first, int64_t channels, float* to) const {
    const auto copy = [&](const auto* rows) {
        const auto* const row = rows + slot * m_rows.size(1) + first;
        for (int64_t c = 0; c < channels; ++c)
            to[c] = static_cast<float>(row[c]);
    };
    if (dtype() == at::kFloat) {
        std::copy_n(m_rows.const_data_ptr<float>() + slot * m_rows.size(1) + first, channels, to);
        return;
    }
    if (dtype() == at::kBFloat16) return copy(m_rows.const_data_ptr<c10::BFloat16>());
    copy(m_rows.const_data_ptr<c10::Half>());
}
void RowStore::write(std::span<const int64_t> slots, const at::Tensor& from) {
    if (slots.empty()) return;
    const at::Tensor rows = from.to(m_rows.options()).contiguous();
    if (!m_rows.is_cpu()) {
        m_rows.index_copy_(0, index_of(slots, m_rows.device()), rows);
        return;
    }
    RL_ASSERT(rows.numel() == std::ssize(slots) * m_rows.size(1));
    auto* const to = static_cast<std::byte*>(m_rows.mutable_data_ptr());
    const auto* next = static_cast<const std::byte*>(rows.const_data_ptr());
    for (const int64_t slot : slots) {
        std::copy_n(next, row_bytes(), to + slot * row_bytes());
        next += row_bytes();
    }
}

bool RowStore::is_roomy() const {
    return std::ssize(m_free) > m_rows.size(0) / 4 + spare_slots;
}

void RowStore::keep(std::span<const int64_t> slots) {
    m_rows = m_rows.index_select(0, index_of(slots, m_rows.device()));
    m_free.clear();
}

RowStore RowStore::clone() const {
    RowStore copy;
    copy.m_rows = m_rows.clone();
    copy.m_free = m_free;
    return copy;
}

} // namespace refreshlab
