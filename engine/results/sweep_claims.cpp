#include "engine/results/sweep_claims.h"

#include "engine/base/error.h"
#include "engine/base/regular_file.h"
#include "engine/text/digest.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

namespace refreshlab {

namespace {

// Byte 0 is held shared by all users of the file, so that the last one can tell that it is the last.
constexpr int64_t users_byte = 0;

int64_t byte_of(std::string_view work) {
    Digest digest;
    digest.add(work);
    const uint64_t hash = std::strtoull(digest.hex().substr(16).c_str(), nullptr, 16);
    return static_cast<int64_t>(hash >> 2) + 1; // 62 bits: within off_t, never byte 0
}

/// 0, or errno.
int lock(int file, int64_t byte, short type, bool wait) {
    struct flock request {};
    request.l_type = type;
    request.l_whence = SEEK_SET;
    request.l_start = byte;
    request.l_len = 1;
    while (fcntl(file, wait ? F_OFD_SETLKW : F_OFD_SETLK, &request) != 0) {
        if (errno != EINTR) return errno;
    }
    return 0;
}

bool same_file(int file, const std::filesystem::path& path) {
    struct stat opened {
    }, named{};
    return fstat(file, &opened) == 0 && stat(path.c_str(), &named) == 0 && opened.st_ino == named.st_ino &&
           opened.st_dev == named.st_dev;
}

} // namespace

SweepClaims::SweepClaims(const std::filesystem::path& sweep_file)
    : m_path(sweep_file.string() + ".lock") {
    for (;;) {
        m_file = open(m_path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
        int error = m_file < 0 ? errno : lock(m_file, users_byte, F_RDLCK, true);
        if (error == 0 && same_file(m_file, m_path)) return;
        if (m_file >= 0) close(m_file);
        if (error != 0) {
            m_file = -1;
            throw Error("using the sweep file", m_path.string(), std::strerror(error),
                        "the folder must be writable and on a file system with locks", kind_of_errno(error));
        }
        // Another process removed the file between open and lock: take the new one.
    }
}

SweepClaims::~SweepClaims() {
    if (m_file < 0) return;
    if (lock(m_file, users_byte, F_WRLCK, false) == 0) unlink(m_path.c_str()); // nobody else uses it
    close(m_file);
}

std::optional<SweepClaims::Claim> SweepClaims::try_claim(std::string_view work) const {
    const int64_t byte = byte_of(work);
    const int error = lock(m_file, byte, F_WRLCK, false);
    if (error == 0) return Claim(m_file, byte);
    if (error == EACCES || error == EAGAIN) return std::nullopt;
    throw Error("using the sweep file", m_path.string(), std::strerror(error), {}, ErrorKind::failure);
}

SweepClaims::Claim SweepClaims::wait(std::string_view work) const {
    const int64_t byte = byte_of(work);
    if (const int error = lock(m_file, byte, F_WRLCK, true); error != 0)
        throw Error("using the sweep file", m_path.string(), std::strerror(error), {}, ErrorKind::failure);
    return {m_file, byte};
}

SweepClaims::Claim::Claim(Claim&& other) noexcept
    : m_file(other.m_file)
    , m_byte(other.m_byte) {
    other.m_file = -1;
}

SweepClaims::Claim::~Claim() {
    if (m_file >= 0) lock(m_file, m_byte, F_UNLCK, false);
}

} // namespace refreshlab
