#pragma once

#include <cstdint>
#include <string>

namespace refreshlab::remote {

/// Where a server listens: a TCP port or a Unix socket.
struct Endpoint {
    std::string host;  ///< of a TCP port: a name or an address
    uint16_t port = 0; ///< 0: the system chooses one (a server alone)
    std::string path;  ///< of a Unix socket; then host is empty

    [[nodiscard]] bool is_unix() const { return !path.empty(); }
    /// Programs of this machine alone reach it: a Unix socket, 127.0.0.0/8, ::1, localhost.
    [[nodiscard]] bool is_local() const;
    friend bool operator==(const Endpoint&, const Endpoint&) = default;
};

inline constexpr uint16_t default_port = 7457;

/// "HOST:PORT", "HOST" (default_port), "[::1]:PORT", "unix:PATH". Throws Error{bad_input} naming `what`.
[[nodiscard]] Endpoint parse_endpoint(const std::string& text, const std::string& what);
/// What parse_endpoint() reads.
[[nodiscard]] std::string to_string(const Endpoint& endpoint);

} // namespace refreshlab::remote
