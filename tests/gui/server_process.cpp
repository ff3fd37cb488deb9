#include "tests/gui/server_process.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <stdexcept>

namespace refreshlab::gui {

ServerProcess::ServerProcess(const std::filesystem::path& record) {
    const std::string program = RL_BUILD_DIR "/refreshlab", folder = record.string();
    std::array<int, 2> said{};
    if (pipe2(said.data(), O_CLOEXEC) != 0) throw std::runtime_error("no pipe for a server");
    m_child = fork();
    if (m_child == 0) {
        dup2(said[1], STDOUT_FILENO);
        execl(program.c_str(), program.c_str(), "serve", "--listen", "127.0.0.1:0", "--record",
              folder.c_str(), static_cast<char*>(nullptr));
        _exit(127);
    }
    close(said[1]);
    std::string line;
    char letter = 0;
    while (line.find('\n') == std::string::npos && read(said[0], &letter, 1) == 1)
        line += letter;
    close(said[0]); // it says nothing more there
    const std::string start = "listening on ";
    if (!line.starts_with(start) || !line.ends_with('\n'))
        throw std::runtime_error(program + " serve does not listen: '" + line + "'");
    m_address = line.substr(start.size(), line.size() - start.size() - 1);
}

ServerProcess::~ServerProcess() {
    if (m_child <= 0) return;
    kill(m_child, SIGTERM);
    waitpid(m_child, nullptr, 0);
}

} // namespace refreshlab::gui
