#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace refreshlab {

/// Memory for what is made once a step and kept by the hundred megabytes. Fresh pages are the cost of it, 0.4 to 0.6 ms a MB on a
/// virtual machine: so they can be fetched at once and ahead, by several threads, and the last 64 MB that were given back stay for the
/// next rows. What is older returns to the system, also from under rows that stay. Safe to use by several threads.
///
/// Large pages would cost a third where the machine has them at hand. A virtual machine hands back its free ones to its host, and then
/// each costs 4 to 6 ms.
class RowMemory {
public:
    /// 64-byte aligned, not set to anything. Throws std::bad_alloc.
    [[nodiscard]] static void* take(size_t bytes);
    /// What of it, and of 256 KB after it, has no pages yet; the caller fetches them before it gives the memory back. Empty: nothing.
    [[nodiscard]] static std::span<std::byte> claim_fresh(void* memory, size_t bytes);
    /// Pages of fresh memory at once. Several threads may share it: the work is the kernel's, and it goes side by side.
    static void fetch(std::span<std::byte> fresh);
    /// \param bytes  as taken
    static void give_back(void* memory, size_t bytes) noexcept;
};

/// For vectors of plain numbers in such memory. resize() leaves new elements unset: write them.
template <class T>
struct RowAllocator {
    using value_type = T;
    RowAllocator() = default;
    template <class U>
    RowAllocator(const RowAllocator<U>&) noexcept {
    } // NOLINT(google-explicit-constructor): allocators convert
    [[nodiscard]] T* allocate(size_t n) { return static_cast<T*>(RowMemory::take(n * sizeof(T))); }
    void deallocate(T* p, size_t n) noexcept { RowMemory::give_back(p, n * sizeof(T)); }
    template <class U>
    void construct(U* p) {
        ::new (static_cast<void*>(p)) U; // default-initialised: not set
    }
    template <class U, class... Args>
    void construct(U* p, Args&&... args) {
        ::new (static_cast<void*>(p)) U(static_cast<Args&&>(args)...);
    }
    friend bool operator==(RowAllocator, RowAllocator) { return true; }
};

template <class T>
using RowVector = std::vector<T, RowAllocator<T>>;

} // namespace refreshlab
