#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <memory>
#include <utility>

namespace refreshlab {

/// An append-only sequence that one thread writes while others read without locks. Elements live in chunks that never
/// move once published.
/// Threads  append(): the owner only. size(), operator[]: any thread, for indices below a size() it has read.
template <class T, size_t ChunkSize = 256, size_t MaxChunks = 4096>
class ChunkedLog {
public:
    ChunkedLog() = default;
    ChunkedLog(const ChunkedLog&) = delete;
    ChunkedLog& operator=(const ChunkedLog&) = delete;

    [[nodiscard]] static constexpr size_t max_size() { return ChunkSize * MaxChunks; }

    /// Cost: one move; an allocation every ChunkSize elements.
    T& append(T value) {
        const size_t n = m_size.load(std::memory_order_relaxed); // only this thread writes it
        auto& chunk = m_chunks.at(n / ChunkSize);                // at(): a full log is an error, not a crash
        if (!chunk) chunk = std::make_unique<std::array<T, ChunkSize>>();
        T& slot = (*chunk)[n % ChunkSize];
        slot = std::move(value);
        m_size.store(n + 1, std::memory_order_release); // acquired by size() of the readers
        return slot;
    }

    [[nodiscard]] size_t size() const { return m_size.load(std::memory_order_acquire); }
    [[nodiscard]] bool empty() const { return size() == 0; }
    [[nodiscard]] const T& operator[](size_t i) const { return (*m_chunks[i / ChunkSize])[i % ChunkSize]; }
    [[nodiscard]] T& writable(size_t i) { return (*m_chunks[i / ChunkSize])[i % ChunkSize]; } ///< owner only

private:
    std::array<std::unique_ptr<std::array<T, ChunkSize>>, MaxChunks> m_chunks{};
    std::atomic<size_t> m_size{0};
};

} // namespace refreshlab
