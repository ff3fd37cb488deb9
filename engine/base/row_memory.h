#pragma once

#include <cstddef>
#include <vector>

namespace refreshlab {

/// Memory for what is made once a step and kept by the hundred megabytes: it lies in slabs with large pages, where a step's row of a
/// megabyte costs one page fault instead of hundreds. Parts that were given back return their pages to the system, and a slab with
/// nothing in it goes as a whole. Safe to use by several threads.
class RowMemory {
public:
    /// 64-byte aligned, not set to anything. Throws std::bad_alloc.
    [[nodiscard]] static void* take(size_t bytes);
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
