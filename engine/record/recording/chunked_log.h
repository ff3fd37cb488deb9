#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <memory>
#include <span>
#include <stdexcept>
#include <utility>
#include <vector>

namespace refreshlab {

/// The caller sees what other owners of `chunk` did before they let go of it. use_count() alone does not promise that.
template <typename Chunk>
void acquire_from_former_owners(const std::shared_ptr<Chunk>& chunk) {
#ifdef __SANITIZE_THREAD__ // ThreadSanitizer knows no fences; a copy acquires by the count that they released
    static_cast<void>(std::shared_ptr<Chunk>(chunk));
#else
    static_cast<void>(chunk);
    std::atomic_thread_fence(std::memory_order_acquire);
#endif
}

/// Chunks by number. One thread puts them; others find them without locks. A chunk may belong to several directories:
/// forks of a recording share what they have in common.
/// Threads  find(): any thread. All else: the owner.
template <class Chunk>
class ChunkDirectory {
public:
    ChunkDirectory() = default;
    ChunkDirectory(const ChunkDirectory&) = delete;
    ChunkDirectory& operator=(const ChunkDirectory&) = delete;

    /// Null if there is none.
    [[nodiscard]] Chunk* find(size_t number) const {
        const Table* table = m_table.load(std::memory_order_acquire);
        if (table == nullptr || number >= table->size()) return nullptr;
        return (*table)[number].load(std::memory_order_acquire); // released by put()
    }

    /// In place of the one that was there, which stays alive for those who are reading it.
    /// \param own  false: others may read it as well, so it must not be written
    void put(size_t number, std::shared_ptr<Chunk> chunk, bool own) {
        reserve(number + 1);
        if (m_entries.size() <= number) m_entries.resize(number + 1);
        Entry& entry = m_entries[number];
        if (entry.chunk) m_replaced.push_back(std::move(entry.chunk));
        entry = {std::move(chunk), own};
        (*m_tables.back())[number].store(entry.chunk.get(), std::memory_order_release); // acquired by find()
    }

    [[nodiscard]] std::shared_ptr<Chunk> shared(size_t number) const {
        return number < m_entries.size() ? m_entries[number].chunk : nullptr;
    }
    /// This directory made the chunk, so it may append to it.
    [[nodiscard]] bool owns(size_t number) const { return m_entries[number].own; }
    /// And nobody else reads it, so what is there may be changed too.
    [[nodiscard]] bool owns_alone(size_t number) const {
        if (!m_entries[number].own || m_entries[number].chunk.use_count() > 1) return false;
        acquire_from_former_owners(m_entries[number].chunk);
        return true;
    }
    [[nodiscard]] size_t num_chunks() const { return m_entries.size(); }
    /// Of the chunks that this directory made and of its tables.
    [[nodiscard]] size_t own_bytes() const {
        size_t bytes = m_replaced.size() * sizeof(Chunk) + m_entries.capacity() * sizeof(Entry);
        for (const Entry& entry : m_entries)
            bytes += entry.chunk && entry.own ? sizeof(Chunk) : 0;
        for (const auto& table : m_tables)
            bytes += table->size() * sizeof(std::atomic<Chunk*>);
        return bytes;
    }

private:
    using Table = std::vector<std::atomic<Chunk*>>;
    struct Entry {
        std::shared_ptr<Chunk> chunk;
        bool own = false;
    };

    /// Tables double, and the old ones stay for those who are reading them.
    void reserve(size_t count) {
        const size_t old = m_tables.empty() ? 0 : m_tables.back()->size();
        if (count <= old) return;
        auto table = std::make_unique<Table>(std::max<size_t>({count, 2 * old, 4}));
        for (size_t i = 0; i < old; ++i)
            (*table)[i].store((*m_tables.back())[i].load(std::memory_order_relaxed),
                              std::memory_order_relaxed);
        m_tables.push_back(std::move(table));
        m_table.store(m_tables.back().get(), std::memory_order_release); // acquired by find()
    }

    std::atomic<Table*> m_table{nullptr};
    std::vector<std::unique_ptr<Table>> m_tables;
    std::vector<Entry> m_entries;
    std::vector<std::shared_ptr<Chunk>> m_replaced;
};

/// An append-only sequence that one thread writes while others read without locks. Elements live in chunks that never
/// move once published; a log may begin with elements of another one, whose chunks it shares.
/// Threads  size(), operator[]: any thread, for indices below a size() it has read. All else: the owner only.
/// Memory   nothing before the first element, then a chunk for every ChunkSize elements.
template <class T, size_t ChunkSize = 32, size_t MaxSize = size_t{1} << 20>
class ChunkedLog {
public:
    ChunkedLog() = default;
    ChunkedLog(const ChunkedLog&) = delete;
    ChunkedLog& operator=(const ChunkedLog&) = delete;

    [[nodiscard]] static constexpr size_t max_size() { return MaxSize; }

    /// Cost: one move; an allocation every ChunkSize elements. Throws std::out_of_range when the log is full.
    T& append(T value) {
        const size_t n = m_size.load(std::memory_order_relaxed); // only this thread writes it
        if (n >= MaxSize) throw std::out_of_range("a log of a recording is full");
        const size_t number = n / ChunkSize;
        if (n % ChunkSize == 0) {
            m_chunks.put(number, std::make_shared<Chunk>(), true);
        } else if (!m_chunks.owns(number)) {
            make_own(number, n % ChunkSize);
        }
        T& slot = (*m_chunks.find(number))[n % ChunkSize];
        slot = std::move(value);
        m_size.store(n + 1, std::memory_order_release); // acquired by size() of the readers
        return slot;
    }

    [[nodiscard]] size_t size() const { return m_size.load(std::memory_order_acquire); }
    [[nodiscard]] bool empty() const { return size() == 0; }
    [[nodiscard]] const T& operator[](size_t i) const {
        return (*m_chunks.find(i / ChunkSize))[i % ChunkSize];
    }
    /// An element to change. Where other logs share it, this one gets a copy of its chunk first.
    [[nodiscard]] T& writable(size_t i) {
        const size_t number = i / ChunkSize;
        if (!m_chunks.owns_alone(number)) make_own(number, std::min(ChunkSize, size() - number * ChunkSize));
        return (*m_chunks.find(number))[i % ChunkSize];
    }
    /// Begins this log, which is empty, with the first n elements of another one, without copying them.
    /// \param copied  elements, below n, whose chunks are copied all the same: the other log will change them
    void begin_with(const ChunkedLog& other, size_t n, std::span<const size_t> copied = {}) {
        for (size_t number = 0; number * ChunkSize < n; ++number) {
            const bool copies = std::any_of(copied.begin(), copied.end(),
                                            [number](size_t i) { return i / ChunkSize == number; });
            if (copies) {
                auto copy = std::make_shared<Chunk>();
                std::copy_n(other.m_chunks.find(number)->begin(), std::min(ChunkSize, n - number * ChunkSize),
                            copy->begin());
                m_chunks.put(number, std::move(copy), true);
            } else {
                m_chunks.put(number, other.m_chunks.shared(number), false);
            }
        }
        m_size.store(n, std::memory_order_release);
    }
    /// What this log holds for itself.
    [[nodiscard]] size_t own_bytes() const { return m_chunks.own_bytes(); }

private:
    using Chunk = std::array<T, ChunkSize>;

    void make_own(size_t number, size_t elements) {
        auto copy = std::make_shared<Chunk>();
        std::copy_n(m_chunks.find(number)->begin(), elements, copy->begin());
        m_chunks.put(number, std::move(copy), true);
    }

    ChunkDirectory<Chunk> m_chunks;
    std::atomic<size_t> m_size{0};
};

/// The first index of a log whose element is beyond, by bisection: `beyond` is false for some elements and true for all after.
template <class Log, class Beyond>
[[nodiscard]] size_t first_beyond(const Log& log, Beyond beyond) {
    size_t low = 0, high = log.size();
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (beyond(log[middle])) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    return low;
}

} // namespace refreshlab
