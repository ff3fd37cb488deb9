#include "engine/remote/own_server.h"

#include "engine/base/error.h"
#include "engine/remote/asio_headers.h"

#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <fstream>
#include <sstream>
#include <string>

namespace refreshlab::remote {

namespace {

/// Whether a process of this user listens on 127.0.0.1 there. Source: proc(5), /proc/net/tcp: local address in hexadecimal (of this
/// machine's byte order), state 0A = listening, user.
bool is_own_port(uint16_t port) {
    std::ifstream table("/proc/net/tcp");
    const std::string wanted = fmt::format("0100007F:{:04X}", port);
    std::string line;
    std::getline(table, line); // the heading
    while (std::getline(table, line)) {
        std::istringstream fields(line);
        std::string number, local, far, state, queues, timer, retransmits;
        uid_t user = 0;
        if (fields >> number >> local >> far >> state >> queues >> timer >> retransmits >> user &&
            local == wanted && state == "0A")
            return user == ::getuid();
    }
    return false;
}

std::atomic<bool> window_end = false; ///< set by a signal handler
static_assert(std::atomic<bool>::is_always_lock_free, "a signal handler may touch lock-free atomics only");

} // namespace

void note_window_end() {
    std::signal(SIGUSR1, [](int) { window_end = true; });
}

bool window_has_ended() {
    return window_end;
}

void tell_window_has_ended(const Endpoint& socket) {
    asio::io_context io;
    asio::error_code error;
    asio::local::stream_protocol::socket there(io);
    there.connect(asio::local::stream_protocol::endpoint(socket.path), error);
    if (error) return;
    // Who listens, as the kernel knows it. Source: unix(7), SO_PEERCRED.
    struct ucred who {};
    socklen_t size = sizeof who;
    if (::getsockopt(there.native_handle(), SOL_SOCKET, SO_PEERCRED, &who, &size) != 0) return;
    if (who.uid == ::getuid() && who.pid > 0) ::kill(who.pid, SIGUSR1);
}

Endpoint own_socket() {
    const std::string folder = fmt::format("/tmp/refreshlab-{}", ::getuid());
    const auto failed = [&](const std::string& why) {
        return Error("listening in", folder, why, "give --unix PATH", ErrorKind::failure);
    };
    if (::mkdir(folder.c_str(), S_IRWXU) != 0 && errno != EEXIST) throw failed(std::strerror(errno));
    struct stat about {};
    if (::lstat(folder.c_str(), &about) != 0) throw failed(std::strerror(errno));
    if (!S_ISDIR(about.st_mode) || about.st_uid != ::getuid() || (about.st_mode & (S_IRWXG | S_IRWXO)) != 0)
        throw failed("this is no folder of this user alone");
    Endpoint endpoint;
    endpoint.path = folder + "/engine";
    return endpoint;
}

bool answers(const Endpoint& endpoint) {
    asio::io_context io;
    asio::error_code error;
    if (endpoint.is_unix()) {
        asio::local::stream_protocol::socket probe(io);
        probe.connect(asio::local::stream_protocol::endpoint(endpoint.path), error);
        return !error;
    }
    asio::ip::tcp::socket probe(io);
    const auto address = asio::ip::make_address(endpoint.host, error);
    if (!error) probe.connect({address, endpoint.port}, error);
    return !error;
}

std::optional<Endpoint> own_server() {
    if (const Endpoint socket = own_socket(); answers(socket)) return socket;
    Endpoint usual;
    usual.host = "127.0.0.1";
    usual.port = default_port;
    if (is_own_port(default_port) && answers(usual)) return usual;
    return {};
}

} // namespace refreshlab::remote
