#include "engine/base/row_memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <mutex>
#include <new>

namespace refreshlab {

namespace {

constexpr size_t alignment = 64;
constexpr size_t smallest = 16 * 1024;         // less is the allocator's business
constexpr size_t slab_bytes = 8 * 1024 * 1024; // some large pages of 2 MB
constexpr size_t header_bytes = alignment;

#ifdef __SANITIZE_ADDRESS__
constexpr bool in_slabs = false; // AddressSanitizer watches what it has allocated itself
#else
constexpr bool in_slabs = true;
#endif

constexpr size_t rounded_up(size_t n, size_t step) {
    return (n + step - 1) / step * step;
}

/// Stands at the beginning of its memory, which is aligned to slab_bytes. A part begins within the first slab_bytes, so its slab is
/// found by its address.
struct Slab {
    size_t bytes; ///< a multiple of slab_bytes
    size_t used;  ///< parts follow each other up to here
    size_t parts; ///< taken and not given back
};
static_assert(sizeof(Slab) <= header_bytes);

Slab* slab_of(void* part) {
    return reinterpret_cast<Slab*>(reinterpret_cast<uintptr_t>(part) & ~(uintptr_t{slab_bytes} - 1));
}

Slab* new_slab(size_t part) {
    const size_t bytes = rounded_up(header_bytes + part, slab_bytes);
    // More than is needed, to cut an aligned piece from.
    void* const mapped = ::mmap(nullptr, bytes + slab_bytes, PROT_READ | PROT_WRITE,
                                MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (mapped == MAP_FAILED) throw std::bad_alloc();
    auto* const begin = static_cast<std::byte*>(mapped);
    const size_t before =
        rounded_up(reinterpret_cast<uintptr_t>(begin), slab_bytes) - reinterpret_cast<uintptr_t>(begin);
    if (before > 0) ::munmap(begin, before);
    if (before < slab_bytes) ::munmap(begin + before + bytes, slab_bytes - before);
    ::madvise(begin + before, bytes,
              MADV_HUGEPAGE); // a kernel without large pages refuses, and small ones do
    return ::new (begin + before) Slab{bytes, header_bytes, 0};
}

/// Pages that lie in the part alone.
void return_pages(void* part, size_t bytes) {
    static const auto page = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
    const auto begin = rounded_up(reinterpret_cast<uintptr_t>(part), page);
    const auto end = (reinterpret_cast<uintptr_t>(part) + bytes) / page * page;
    if (begin < end) ::madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED);
}

struct Slabs {
    std::mutex mutex;
    Slab* current = nullptr; ///< parts are taken from this one
};

/// Never destroyed: rows may live until the program ends.
Slabs& slabs() {
    static auto* const all = new Slabs;
    return *all;
}

} // namespace

void* RowMemory::take(size_t bytes) {
    if (!in_slabs || bytes < smallest) return ::operator new (bytes, std::align_val_t{alignment});
    bytes = rounded_up(bytes, alignment);
    Slabs& all = slabs();
    const std::lock_guard lock(all.mutex);
    if (all.current == nullptr || slab_bytes < all.current->used + bytes) {
        Slab* const fresh = new_slab(bytes);
        if (all.current != nullptr && all.current->parts == 0) ::munmap(all.current, all.current->bytes);
        all.current = fresh;
    }
    Slab& slab = *all.current;
    void* const part = reinterpret_cast<std::byte*>(&slab) + slab.used;
    slab.used += bytes;
    ++slab.parts;
    return part;
}

void RowMemory::give_back(void* memory, size_t bytes) noexcept {
    if (!in_slabs || bytes < smallest) return ::operator delete (memory, std::align_val_t{alignment});
    Slabs& all = slabs();
    const std::lock_guard lock(all.mutex);
    Slab* const slab = slab_of(memory);
    --slab->parts;
    if (slab == all.current) {
        if (slab->parts == 0) {
            slab->used = header_bytes; // the next part finds warm pages
        } else {
            return_pages(memory, bytes);
        }
    } else if (slab->parts == 0) {
        ::munmap(slab, slab->bytes);
    } else {
        return_pages(memory, bytes);
    }
}

} // namespace refreshlab
