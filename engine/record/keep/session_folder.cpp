#include "engine/record/keep/session_folder.h"

#include "engine/base/error.h"
#include "engine/base/regular_file.h"
#include "engine/base/utc_now.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <charconv>
#include <system_error>
#include <utility>

namespace refreshlab {
namespace {

namespace fs = std::filesystem;

fs::path lock_file(const fs::path& folder) {
    return folder / "lock";
}

/// \return a descriptor; -1: another process has the lock, or the file cannot be opened (errno)
int take_lock(const fs::path& folder, int flags) {
    const int lock = open(lock_file(folder).c_str(), O_RDWR | O_CLOEXEC | flags, 0600);
    if (lock < 0) return -1;
    if (flock(lock, LOCK_EX | LOCK_NB) == 0) return lock;
    const int why = errno;
    close(lock);
    errno = why;
    return -1;
}

/// "20261126T190412", which sorts by time.
std::string time_name() {
    std::string name;
    for (const char c : utc_now())
        if (std::isalnum(static_cast<unsigned char>(c)) != 0 && c != 'Z') name += c;
    return name;
}

/// The number in "runs-12.rlt"; -1: it is no such name.
int64_t number_of(const fs::path& file) {
    const std::string stem = file.stem().string();
    if (file.extension() != ".rlt" || !stem.starts_with("runs-")) return -1;
    int64_t number = -1;
    const char* const end = stem.data() + stem.size();
    const auto parsed = std::from_chars(stem.data() + 5, end, number);
    return parsed.ec == std::errc() && parsed.ptr == end ? number : -1;
}

} // namespace

std::unique_ptr<SessionFolder> SessionFolder::create(const fs::path& state) {
    const fs::path sessions = state / "sessions";
    std::error_code error;
    fs::create_directories(sessions, error);
    if (error) throw Error("keeping the session", sessions.string(), error.message(), {}, ErrorKind::failure);
    for (int number = 0;; ++number) {
        const std::string name =
            fmt::format("{}-{}{}", time_name(), getpid(), number == 0 ? "" : fmt::format("-{}", number));
        const fs::path path = sessions / name, unnamed = sessions / ("." + name);
        if (fs::exists(path, error)) continue; // two windows of one process, in one second
        fs::create_directory(unnamed, error);
        const int lock = take_lock(unnamed, O_CREAT);
        if (lock < 0) fail_with_errno("keeping the session", unnamed, errno);
        fs::rename(unnamed, path, error);
        if (error) {
            close(lock);
            throw Error("keeping the session", path.string(), error.message(), {}, ErrorKind::failure);
        }
        return std::unique_ptr<SessionFolder>(new SessionFolder(path, lock));
    }
}

std::unique_ptr<SessionFolder> SessionFolder::adopt(const fs::path& folder) {
    const int lock = take_lock(folder, 0);
    if (lock < 0) return nullptr;
    std::error_code error;
    if (!fs::exists(lock_file(folder), error)) { // its owner was just removing it
        close(lock);
        return nullptr;
    }
    return std::unique_ptr<SessionFolder>(new SessionFolder(folder, lock));
}

SessionFolder::~SessionFolder() {
    if (m_lock >= 0) close(m_lock);
}

std::vector<fs::path> SessionFolder::traces() const {
    std::vector<fs::path> found;
    std::error_code error;
    for (const auto& entry : fs::directory_iterator(m_path, error))
        if (number_of(entry.path()) >= 0) found.push_back(entry.path());
    std::ranges::sort(found, {}, number_of);
    return found;
}

int64_t SessionFolder::bytes() const {
    int64_t sum = 0;
    std::error_code error;
    for (const auto& entry : fs::directory_iterator(m_path, error)) {
        const auto size = entry.file_size(error);
        if (!error) sum += static_cast<int64_t>(size);
    }
    return sum;
}

void SessionFolder::remove() {
    std::error_code ignored; // what stays behind is offered again
    fs::remove_all(m_path, ignored);
    close(std::exchange(m_lock, -1));
}

std::vector<std::unique_ptr<SessionFolder>> take_left_sessions(const fs::path& state) {
    std::vector<std::unique_ptr<SessionFolder>> left;
    std::error_code error;
    std::vector<fs::path> folders;
    for (const auto& entry : fs::directory_iterator(state / "sessions", error))
        if (entry.is_directory(error) && !entry.path().filename().string().starts_with("."))
            folders.push_back(entry.path());
    std::ranges::sort(folders, std::greater());
    for (const fs::path& path : folders) {
        auto folder = SessionFolder::adopt(path);
        if (!folder) continue;
        if (fs::exists(folder->workspace(), error) || !folder->traces().empty())
            left.push_back(std::move(folder));
        else
            folder->remove();
    }
    return left;
}

} // namespace refreshlab
