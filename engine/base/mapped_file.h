#pragma once

#include <cstddef>
#include <filesystem>
#include <span>

namespace refreshlab {

/// A whole regular file, mapped read-only for as long as the object lives. The file must not shrink meanwhile.
/// Threads  reads may run concurrently.
class MappedFile {
public:
    /// Throws Error{bad_input} as RegularFile does (no such file, a pipe, a device), and for what cannot be mapped.
    explicit MappedFile(const std::filesystem::path& path);
    MappedFile(const MappedFile&) = delete;
    MappedFile& operator=(const MappedFile&) = delete;
    ~MappedFile();

    [[nodiscard]] std::span<const std::byte> bytes() const {
        return {m_data, m_size};
    } ///< empty: an empty file

private:
    const std::byte* m_data = nullptr;
    size_t m_size = 0;
};

} // namespace refreshlab
