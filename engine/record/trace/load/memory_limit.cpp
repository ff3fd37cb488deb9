#include "engine/record/trace/load/memory_limit.h"

#include "engine/record/trace/trace_access.h"

namespace refreshlab::trace {

void MemoryLimit::add(size_t bytes) {
    m_used += bytes;
    check(0);
}

void MemoryLimit::check(size_t more) const {
    constexpr uint64_t base = uint64_t{64} << 20U, per_byte = 64;
    if (m_used + more > base + per_byte * m_file_bytes)
        throw Damage("its runs take more memory than a file of its size can need");
}

void MemoryLimit::check_text(uint64_t bytes) const {
    constexpr uint64_t base = uint64_t{1} << 20U, per_byte = 4;
    if (bytes > base + per_byte * m_file_bytes)
        throw Damage("its text is longer than a file of its size can hold");
}

} // namespace refreshlab::trace
