#pragma once

#include "engine/base/error.h"

#include <sys/stat.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>

namespace refreshlab {

/// A regular file that is open for reading; the destructor closes it. Every file that a person or a model folder names
/// is opened here. A pipe, a device, a socket or a folder in its place is refused at once: opening a pipe waits for a
/// writer, and reading a device may never end.
class RegularFile {
public:
    /// \param max_bytes  a larger file is refused, and so is one that grows beyond it while it is read
    /// Throws Error{bad_input}: "reading PATH: is a pipe, not a regular file", no such file, larger than max_bytes bytes;
    /// Error{failure} where the machine is at fault.
    explicit RegularFile(std::filesystem::path path, size_t max_bytes = SIZE_MAX);
    RegularFile(const RegularFile&) = delete;
    RegularFile& operator=(const RegularFile&) = delete;
    ~RegularFile();

    [[nodiscard]] int descriptor() const { return m_descriptor; }
    [[nodiscard]] uint64_t size() const { return m_size; } ///< when it was opened; files of /proc state 0
    /// The bytes [first, first + count), or fewer where the file ends before. Throws Error.
    [[nodiscard]] std::string read(uint64_t first, size_t count) const;
    /// The whole file, also where it states no size. Throws Error.
    [[nodiscard]] std::string read_all() const;

private:
    /// How many of the bytes there were.
    size_t read_into(char* bytes, uint64_t first, size_t count) const;

    std::filesystem::path m_path;
    size_t m_max_bytes;
    int m_descriptor = -1;
    uint64_t m_size = 0;
};

/// "pipe", "socket", "character device", "block device", "folder"; "special file" for anything else that is not regular.
[[nodiscard]] const char* file_kind_name(mode_t mode);

/// A path that cannot be used is the user's fault (bad_input). A full or broken disk, a limit of the process, or memory that is
/// gone is not (failure).
[[nodiscard]] ErrorKind kind_of_errno(int code);
/// Throws Error of that kind with the text of errno `code`.
[[noreturn]] void fail_with_errno(const char* doing, const std::filesystem::path& path, int code);

} // namespace refreshlab
