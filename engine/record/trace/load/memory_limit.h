#pragma once

#include <cstddef>
#include <cstdint>

namespace refreshlab::trace {

/// What the runs of one file may hold is bounded by what the file has: forks multiply little rows, and a long token may be chosen at
/// every step. Written by a recorder, a file is larger than its runs are in memory, within a factor of ten.
/// Errors  Damage where there is more
class MemoryLimit {
public:
    /// \param file_bytes  that the file really has on the disk
    explicit MemoryLimit(uint64_t file_bytes)
        : m_file_bytes(file_bytes) {}

    void add(size_t bytes); ///< a run holds so many bytes more
    /// As if so many bytes were added.
    void check(size_t more) const;
    /// \param bytes  all text of one run
    void check_text(uint64_t bytes) const;

private:
    uint64_t m_file_bytes;
    uint64_t m_used = 0; ///< by the runs read so far
};

} // namespace refreshlab::trace
