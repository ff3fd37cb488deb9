#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

namespace refreshlab {

/// The folder in which one window keeps its session while it is open: STATE/sessions/TIME-PID with the workspace "session.rlw", the
/// traces "runs-1.rlt" and so on, and the file "lock", which the process has locked (flock) for as long as it lives. However the
/// process ends, the lock is free then: a folder with a free lock was left by a program that did not come to its end.
class SessionFolder {
public:
    /// A new one. It gets its name when it is locked, so nobody takes it for one that was left. Throws Error.
    /// \param state  made if needed
    [[nodiscard]] static std::unique_ptr<SessionFolder> create(const std::filesystem::path& state);
    /// One that was left. Null: another process has it, or it is gone.
    [[nodiscard]] static std::unique_ptr<SessionFolder> adopt(const std::filesystem::path& folder);
    ~SessionFolder(); ///< unlocks; the folder stays
    SessionFolder(const SessionFolder&) = delete;
    SessionFolder& operator=(const SessionFolder&) = delete;

    [[nodiscard]] const std::filesystem::path& path() const { return m_path; }
    [[nodiscard]] std::filesystem::path workspace() const { return m_path / "session.rlw"; }
    /// The traces in it, the oldest first.
    [[nodiscard]] std::vector<std::filesystem::path> traces() const;
    /// Of all its files.
    [[nodiscard]] int64_t bytes() const;
    /// Removes it with all that is in it. Nothing may be done with it any more.
    void remove();

private:
    SessionFolder(std::filesystem::path path, int lock)
        : m_path(std::move(path))
        , m_lock(lock) {}

    std::filesystem::path m_path;
    int m_lock = -1;
};

/// The sessions that programs left which did not come to their end, each locked from now on: another window does not find them. The
/// newest first. A folder with nothing in it is removed. A folder that cannot be read counts as none.
[[nodiscard]] std::vector<std::unique_ptr<SessionFolder>>
take_left_sessions(const std::filesystem::path& state);

} // namespace refreshlab
