#include "engine/base/regular_file.h"

#include "engine/base/error.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

namespace refreshlab {

namespace {

constexpr const char* doing = "reading";

void require_regular(const std::filesystem::path& path, mode_t mode) {
    if (S_ISREG(mode)) return;
    throw Error(doing, path.string(), fmt::format("is a {}, not a regular file", file_kind_name(mode)),
                S_ISFIFO(mode) ? "copy what it gives into a file first" : "");
}

} // namespace

const char* file_kind_name(mode_t mode) {
    if (S_ISFIFO(mode)) return "pipe";
    if (S_ISSOCK(mode)) return "socket";
    if (S_ISCHR(mode)) return "character device";
    if (S_ISBLK(mode)) return "block device";
    if (S_ISDIR(mode)) return "folder";
    return "special file";
}

ErrorKind kind_of_errno(int code) {
    switch (code) {
    case ENOSPC:
    case EDQUOT:
    case EFBIG: // ulimit -f
    case EIO:
    case ENOMEM:
    case EMFILE:
    case ENFILE:
        return ErrorKind::failure;
    default:
        return ErrorKind::bad_input;
    }
}

void fail_with_errno(const char* doing_what, const std::filesystem::path& path, int code) {
    const char* const hint = code == EFBIG ? "raise the limit on file sizes (ulimit -f)"
                             : code == EMFILE || code == ENFILE
                                 ? "close some files, or raise the limit (ulimit -n)"
                                 : "";
    throw Error(doing_what, path.string(), std::strerror(code), hint, kind_of_errno(code));
}

RegularFile::RegularFile(std::filesystem::path path, size_t max_bytes)
    : m_path(std::move(path))
    , m_max_bytes(max_bytes) {
    struct stat info {};
    // Before the file is opened: a socket cannot be, and opening a device may do something.
    if (::stat(m_path.c_str(), &info) == 0) require_regular(m_path, info.st_mode);
    // What took its place meanwhile must not make the program wait either.
    m_descriptor = ::open(m_path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    if (m_descriptor < 0) fail_with_errno(doing, m_path, errno);
    try {
        if (::fstat(m_descriptor, &info) != 0) fail_with_errno(doing, m_path, errno);
        require_regular(m_path, info.st_mode);
        m_size = static_cast<uint64_t>(std::max<off_t>(info.st_size, 0));
        if (m_size > m_max_bytes)
            throw Error(doing, m_path.string(), fmt::format("larger than {} bytes", m_max_bytes));
    } catch (...) {
        ::close(m_descriptor);
        throw;
    }
}

RegularFile::~RegularFile() {
    ::close(m_descriptor);
}

size_t RegularFile::read_into(char* bytes, uint64_t first, size_t count) const {
    size_t have = 0;
    while (have < count) {
        const ssize_t got =
            ::pread(m_descriptor, bytes + have, count - have, static_cast<off_t>(first + have));
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) fail_with_errno(doing, m_path, errno);
        if (got == 0) break;
        have += static_cast<size_t>(got);
    }
    return have;
}

std::string RegularFile::read(uint64_t first, size_t count) const {
    std::string bytes(count, '\0');
    bytes.resize(read_into(bytes.data(), first, count));
    return bytes;
}

std::string RegularFile::read_all() const {
    // Files of /proc state no size, and a file may grow while it is read: read until the end all the same.
    constexpr size_t block = size_t{1} << 16;
    std::string text(m_size, '\0');
    size_t have = read_into(text.data(), 0, text.size());
    while (have == text.size()) {
        if (have > m_max_bytes)
            throw Error(doing, m_path.string(), fmt::format("larger than {} bytes", m_max_bytes));
        text.resize(have + block);
        have += read_into(text.data() + have, have, block);
    }
    if (have > m_max_bytes)
        throw Error(doing, m_path.string(), fmt::format("larger than {} bytes", m_max_bytes));
    text.resize(have);
    return text;
}

} // namespace refreshlab
