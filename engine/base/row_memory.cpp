#include "engine/base/row_memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <mutex>
#include <new>
#include <utility>

namespace refreshlab {

namespace {

constexpr size_t alignment = 64;
constexpr size_t smallest = 1024; // less is the allocator's business
constexpr size_t slab_bytes = 8 * 1024 * 1024;
constexpr size_t header_bytes = alignment;
constexpr size_t fetched_ahead = 256 * 1024;
constexpr size_t most_warm = 64 * 1024 * 1024; // kept for the next rows

#ifdef __SANITIZE_ADDRESS__
constexpr bool in_slabs = false; // AddressSanitizer watches what it has allocated itself
#else
constexpr bool in_slabs = true;
#endif

constexpr size_t rounded_up(size_t n, size_t step) {
    return (n + step - 1) / step * step;
}

/// What was given back and still has its pages, linked through that memory itself.
struct Warm {
    Warm* next;
    size_t bytes;
};

/// Stands at the beginning of its memory, which is aligned to slab_bytes. A part begins within the first slab_bytes, so its slab is
/// found by its address.
struct Slab {
    size_t bytes;   ///< a multiple of slab_bytes
    size_t used;    ///< parts follow each other up to here
    size_t fetched; ///< up to here all pages are there
    size_t parts;   ///< taken and not given back
    Warm* warm;
    size_t warm_bytes;
    Slab *older, *newer; ///< of those with something warm
};
static_assert(sizeof(Slab) <= header_bytes);

size_t page_bytes() {
    static const auto bytes = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
    return bytes;
}

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
    return ::new (begin + before) Slab{bytes, header_bytes, header_bytes, 0, nullptr, 0, nullptr, nullptr};
}

/// Pages that lie in the part alone.
void return_pages(void* part, size_t bytes) {
    const auto begin = rounded_up(reinterpret_cast<uintptr_t>(part), page_bytes());
    const auto end = (reinterpret_cast<uintptr_t>(part) + bytes) / page_bytes() * page_bytes();
    if (begin < end) ::madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED);
}

struct Slabs {
    std::mutex mutex;
    Slab* current = nullptr; ///< parts are taken from this one
    Slab *oldest = nullptr, *newest = nullptr;
    size_t warm_bytes = 0;

    /// Nothing of the slab is warm any more, or nothing of it counts as given back.
    void forget(Slab& slab) {
        if (slab.warm == nullptr) return;
        (slab.older != nullptr ? slab.older->newer : oldest) = slab.newer;
        (slab.newer != nullptr ? slab.newer->older : newest) = slab.older;
        slab.older = slab.newer = nullptr;
        warm_bytes -= slab.warm_bytes;
        slab.warm = nullptr;
        slab.warm_bytes = 0;
    }
    void keep_warm(Slab& slab, void* part, size_t bytes) {
        if (slab.warm == nullptr) {
            slab.older = newest;
            (newest != nullptr ? newest->newer : oldest) = &slab;
            newest = &slab;
        }
        slab.warm = ::new (part) Warm{slab.warm, bytes};
        slab.warm_bytes += bytes;
        warm_bytes += bytes;
    }
    void cool(Slab& slab) {
        Warm* part = slab.warm;
        forget(slab);
        if (slab.parts == 0 && &slab != current) {
            ::munmap(&slab, slab.bytes);
            return;
        }
        slab.fetched = header_bytes;
        while (part != nullptr) {
            const Warm here = *part;
            return_pages(part, here.bytes);
            part = here.next;
        }
    }
    /// An empty slab, warm if there is one.
    Slab* take_empty(size_t part) {
        for (Slab* slab = oldest; slab != nullptr; slab = slab->newer) {
            if (slab->parts > 0 || header_bytes + part > slab_bytes || slab->bytes > slab_bytes) continue;
            forget(*slab);
            slab->used = header_bytes;
            return slab;
        }
        return new_slab(part);
    }
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
        Slab* const before = std::exchange(all.current, all.take_empty(bytes));
        if (before != nullptr && before->parts == 0) ::munmap(before, before->bytes);
    }
    Slab& slab = *all.current;
    void* const part = reinterpret_cast<std::byte*>(&slab) + slab.used;
    slab.used += bytes;
    ++slab.parts;
    return part;
}

std::span<std::byte> RowMemory::claim_fresh(void* memory, size_t bytes) {
    if (!in_slabs || bytes < smallest) return {};
    Slabs& all = slabs();
    const std::lock_guard lock(all.mutex);
    Slab& slab = *slab_of(memory);
    auto* const begin = reinterpret_cast<std::byte*>(&slab);
    const auto end = static_cast<size_t>(static_cast<std::byte*>(memory) - begin) + bytes;
    if (end <= slab.fetched) return {};
    const size_t first =
        std::exchange(slab.fetched, std::min(std::max(end, slab.fetched + fetched_ahead), slab.bytes));
    return {begin + first, slab.fetched - first};
}

void RowMemory::fetch(std::span<std::byte> fresh) {
#ifdef MADV_POPULATE_WRITE
    // A kernel before 5.14 refuses; then each page comes with its first number.
    const auto begin = reinterpret_cast<uintptr_t>(fresh.data()) / page_bytes() * page_bytes();
    ::madvise(reinterpret_cast<void*>(begin),
              reinterpret_cast<uintptr_t>(fresh.data() + fresh.size()) - begin, MADV_POPULATE_WRITE);
#else
    static_cast<void>(fresh);
#endif
}

void RowMemory::give_back(void* memory, size_t bytes) noexcept {
    if (!in_slabs || bytes < smallest) return ::operator delete (memory, std::align_val_t{alignment});
    bytes = rounded_up(bytes, alignment);
    Slabs& all = slabs();
    const std::lock_guard lock(all.mutex);
    Slab& slab = *slab_of(memory);
    all.keep_warm(slab, memory, bytes);
    if (--slab.parts == 0 && &slab == all.current) {
        all.forget(slab);
        slab.used = header_bytes;
    }
    while (all.warm_bytes > most_warm)
        all.cool(*all.oldest);
}

} // namespace refreshlab
