#include "engine/cache/undo_journal.h"

#include "engine/base/check.h"

#include <algorithm>
#include <utility>

namespace refreshlab {

namespace {

/// The first n of `dim`, in memory of their own: a view would keep all of it alive.
at::Tensor first_of(const at::Tensor& tensor, int64_t dim, int64_t n) {
    return tensor.narrow(dim, 0, n).clone(at::MemoryFormat::Contiguous);
}

int64_t size_of(const ReplacedColumns& columns) {
    return std::ssize(columns.origins);
}
int64_t size_of(const ReplacedEntries& entries) {
    return std::ssize(entries.positions);
}
int64_t size_of(const ReplacedSelection& selection) {
    return std::ssize(selection.positions);
}

/// Leaves what concerns positions < new_length; its tensors stay where that is nothing.
void keep_below(ReplacedColumns& columns, int64_t new_length) {
    const int64_t n = std::clamp<int64_t>(new_length - columns.first_pos, 0, size_of(columns));
    if (n == size_of(columns)) return;
    columns.origins.resize(static_cast<size_t>(n));
    columns.refresh_ids.resize(static_cast<size_t>(n));
    KeptColumns& kept = columns.kept; // what a device wrote may still be on its way, and stays whole
    if (n == 0 || !kept.k.defined()) return;
    kept.k = first_of(kept.k, 2, n);
    kept.v = first_of(kept.v, 2, n);
}

void keep_below(ReplacedEntries& entries, int64_t new_length) {
    const int64_t n = std::ranges::lower_bound(entries.positions, new_length) - entries.positions.begin();
    if (n == size_of(entries)) return;
    entries.positions.resize(static_cast<size_t>(n));
    if (n > 0 && entries.saved.rows.defined()) entries.saved.rows = first_of(entries.saved.rows, 1, n);
}

void keep_below(ReplacedSelection& selection, int64_t new_length) {
    const int64_t n = std::ranges::lower_bound(selection.positions, new_length) - selection.positions.begin();
    if (n == size_of(selection)) return;
    selection.positions.resize(static_cast<size_t>(n));
    selection.origins.resize(static_cast<size_t>(n));
    selection.refresh_ids.resize(static_cast<size_t>(n));
    for (at::Tensor* half : {&selection.kept.k, &selection.kept.v})
        if (n > 0 && half->defined()) *half = first_of(*half, 1, n);
}

int64_t host_bytes(const ReplacedColumns& columns) {
    return size_of(columns) * static_cast<int64_t>(sizeof(Origin) + sizeof(int32_t)) + columns.kept.bytes();
}

int64_t host_bytes(const ReplacedSelection& selection) {
    return size_of(selection) * static_cast<int64_t>(sizeof(int64_t) + sizeof(Origin) + sizeof(int32_t)) +
           selection.kept.bytes();
}

int64_t host_bytes(const ReplacedEntries& entries) {
    int64_t bytes = size_of(entries) * static_cast<int64_t>(sizeof(int64_t));
    if (entries.saved.rows.defined()) bytes += static_cast<int64_t>(entries.saved.rows.nbytes());
    for (const CodedBlocks& blocks : entries.saved.blocks)
        for (const auto& block : blocks)
            bytes += std::ssize(block->bytes->payload) + std::ssize(block->bytes->metadata);
    return bytes;
}

} // namespace

void UndoJournal::add(int64_t step, Replaced replaced) {
    RL_ASSERT(m_entries.empty() || step >= m_entries.back().step);
    m_entries.push_back({step, std::move(replaced)});
}

const JournalEntry* UndoJournal::newest_after(int64_t step) const {
    return !m_entries.empty() && m_entries.back().step > step ? &m_entries.back() : nullptr;
}

void UndoJournal::drop_newest() {
    RL_ASSERT(!m_entries.empty());
    m_entries.pop_back();
}

void UndoJournal::cut(int64_t new_length) {
    for (JournalEntry& entry : m_entries)
        std::visit([&](auto& replaced) { keep_below(replaced, new_length); }, entry.replaced);
    std::erase_if(m_entries, [](const JournalEntry& entry) {
        return std::visit([](const auto& replaced) { return size_of(replaced) == 0; }, entry.replaced);
    });
}

int64_t UndoJournal::bytes() const {
    int64_t bytes = 0;
    for (const JournalEntry& entry : m_entries)
        bytes += std::visit([](const auto& replaced) { return host_bytes(replaced); }, entry.replaced);
    return bytes;
}

} // namespace refreshlab
