#include "engine/remote/offered_files.h"

#include "engine/base/error.h"
#include "engine/record/trace/sqlite.h"
#include "engine/remote/byte_digest.h"
#include "engine/text/utf8.h"

#include <fcntl.h>
#include <fmt/chrono.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <system_error>
#include <utility>

namespace refreshlab::remote {

namespace {

namespace fs = std::filesystem;

constexpr auto offering = "offering"; ///< Error::doing
constexpr const char* offered_extension = ".rlt";

bool may_be_offered(const std::string& name) {
    return name.ends_with(offered_extension) && name.find('/') == std::string::npos &&
           name.find('\0') == std::string::npos && !name.starts_with('.');
}

/// A regular file, and no link to one.
bool is_own_file(const fs::path& path, struct stat& about) {
    return ::lstat(path.c_str(), &about) == 0 && S_ISREG(about.st_mode);
}

} // namespace

OfferedFiles::OfferedFiles(fs::path folder)
    : m_folder(std::move(folder)) {}

std::vector<LinkOffers::File> OfferedFiles::list() const {
    std::vector<std::pair<timespec, LinkOffers::File>> found;
    if (m_folder.empty()) return {};
    std::error_code error;
    for (fs::directory_iterator it(m_folder, error), end; !error && it != end; it.increment(error)) {
        const std::string name = it->path().filename().string();
        struct stat about {};
        if (!may_be_offered(name) || !is_own_file(it->path(), about)) continue;
        int64_t bytes = about.st_size;
        timespec changed = about.st_mtim;
        // What a run has written of late stands in the log beside it.
        if (struct stat log{}; is_own_file(it->path().string() + "-wal", log)) {
            bytes += log.st_size;
            changed = log.st_mtim;
        }
        found.push_back({changed, {name, bytes, fmt::format("{:%F %H:%M}", fmt::localtime(changed.tv_sec))}});
    }
    std::ranges::sort(found, [](const auto& a, const auto& b) {
        return std::tuple(-a.first.tv_sec, -a.first.tv_nsec, a.second.name) <
               std::tuple(-b.first.tv_sec, -b.first.tv_nsec, b.second.name);
    });
    std::vector<LinkOffers::File> files;
    for (auto& [changed, file] : found)
        files.push_back(std::move(file));
    return files;
}

std::unique_ptr<OfferedFiles::Copy> OfferedFiles::copy(const std::string& name) const {
    const fs::path path = m_folder / name;
    const std::string shown = visible_text(name, 100);
    struct stat about {};
    if (m_folder.empty() || !may_be_offered(name) || !is_own_file(path, about))
        throw Error(offering, shown, "the server offers no file of that name");
    const auto failed = [&](const std::string& why) {
        return Error(offering, shown, why, {}, ErrorKind::failure);
    };
    std::string copied = (m_folder / ".sent-XXXXXX").string();
    const int made = ::mkstemp(copied.data()); // 0600
    if (made < 0) throw failed(fmt::format("no copy can be made: {}", std::strerror(errno)));
    ::close(made);
    int file = -1;
    try {
        sqlite::Database trace(path, sqlite::Open::read_only);
        constexpr int patience_ms = 10'000;
        trace.busy_timeout(patience_ms);
        sqlite::Statement into(trace, "VACUUM INTO ?");
        into.bind(0, std::string_view(copied));
        into.run();
        file = ::open(copied.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    } catch (const sqlite::SqlError& e) {
        ::unlink(copied.c_str());
        throw failed(fmt::format("no copy can be made: {}", e.what()));
    }
    const int problem = errno;
    ::unlink(copied.c_str());
    if (file < 0) throw failed(std::strerror(problem));
    return std::make_unique<Copy>(file);
}

OfferedFiles::Copy::Copy(int file)
    : m_file(file) {
    struct stat about {};
    if (::fstat(file, &about) == 0) m_bytes = about.st_size;
}

OfferedFiles::Copy::~Copy() {
    ::close(m_file);
}

bool OfferedFiles::Copy::begins_with(int64_t count, uint64_t digest) const {
    if (count < 0 || count > m_bytes) return false;
    constexpr int64_t piece = int64_t{1} << 20;
    ByteDigest here;
    for (int64_t at = 0; at < count; at += piece)
        here.add(read(at, std::min(piece, count - at)));
    return here.value() == digest;
}

std::vector<uint8_t> OfferedFiles::Copy::read(int64_t offset, int64_t most) const {
    std::vector<uint8_t> bytes(static_cast<size_t>(std::clamp<int64_t>(m_bytes - offset, 0, most)));
    size_t there = 0;
    while (there < bytes.size()) {
        const ssize_t got = ::pread(m_file, bytes.data() + there, bytes.size() - there,
                                    static_cast<off_t>(offset) + static_cast<off_t>(there));
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0)
            throw Error(offering, "a trace", got < 0 ? std::strerror(errno) : "it is shorter than it was", {},
                        ErrorKind::failure);
        there += static_cast<size_t>(got);
    }
    return bytes;
}

} // namespace refreshlab::remote
