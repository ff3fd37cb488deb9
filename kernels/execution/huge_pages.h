#pragma once

#include <cstddef>

namespace refreshlab::kernels {

/// Asks for large pages (2 MB, Linux) under memory that was not written yet: reading weights then misses fewer address
/// translations (a fifth more speed on Zen 5). A wish: where the system has none, nothing changes.
void prefer_huge_pages(void* data, size_t size_bytes);

} // namespace refreshlab::kernels
