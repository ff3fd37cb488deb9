#pragma once

#include <sys/types.h>

#include <filesystem>
#include <string>

namespace refreshlab::gui {

/// `refreshlab serve` as a process of its own, until the object goes.
class ServerProcess {
public:
    /// Waits until it listens. Throws std::runtime_error: it cannot be started.
    /// \param record  folder of its traces
    explicit ServerProcess(const std::filesystem::path& record);
    ~ServerProcess(); ///< SIGTERM: it ends in good order
    ServerProcess(const ServerProcess&) = delete;
    ServerProcess& operator=(const ServerProcess&) = delete;

    [[nodiscard]] const std::string& address() const { return m_address; }

private:
    pid_t m_child = -1;
    std::string m_address;
};

} // namespace refreshlab::gui
