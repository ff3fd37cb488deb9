#include "kernels/execution/huge_pages.h"

#include <cstdint>

#if defined(__linux__)
#include <sys/mman.h>
#endif

namespace refreshlab::kernels {

void prefer_huge_pages([[maybe_unused]] void* data, [[maybe_unused]] size_t size_bytes) {
#if defined(__linux__) && defined(MADV_HUGEPAGE)
    constexpr uintptr_t small_page = 4096;
    const auto begin = (reinterpret_cast<uintptr_t>(data) + small_page - 1) / small_page * small_page;
    const auto end = (reinterpret_cast<uintptr_t>(data) + size_bytes) / small_page * small_page;
    // The system takes whole large pages inside the range by itself. A refusal is no fault.
    if (begin < end) (void)madvise(reinterpret_cast<void*>(begin), end - begin, MADV_HUGEPAGE);
#endif
}

} // namespace refreshlab::kernels
