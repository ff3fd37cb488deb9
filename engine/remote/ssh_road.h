#pragma once

#include "engine/remote/road.h"

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace refreshlab::remote {

/// "ssh://[USER@]HOST[:PORT]".
struct SshAddress {
    std::string user = {}; ///< empty: what ssh takes
    std::string host;      ///< a name, an address, or a Host of the person's ssh configuration
    uint16_t port = 0;     ///< 0: what ssh takes
    friend bool operator==(const SshAddress&, const SshAddress&) = default;
};
[[nodiscard]] bool is_ssh_address(const std::string& text);
/// Throws Error{bad_input} naming `what`.
[[nodiscard]] SshAddress parse_ssh_address(const std::string& text, const std::string& what);
[[nodiscard]] std::string to_string(const SshAddress& address);

/// How `refreshlab serve --for-window` and the one who has started it speak.
namespace for_window {
/// A line of the server: it listens there, or another one of this user did already. The address follows.
inline constexpr auto listening = "listening on ", already_listening = "already listening on ";
/// A line on its stdin: the window has ended. Without it an end of stdin is a connection that was lost.
inline constexpr auto end = "end";
} // namespace for_window

/// A server behind ssh: the person's OpenSSH client starts `refreshlab serve --for-window` there, which uses the server that is there
/// where there is one, and carries a Unix socket of this machine to it. One login serves both (ControlMaster), and ssh asks for passwords
/// on the terminal as it always does.
///
/// Ends      ~SshRoad() ends what open() has started: the server there (never one that was there before), ssh, and the folder with the
///           socket. A process that is killed has the same done by a shell, which waits for its end.
/// Lost      When ssh has ended, open() starts it anew. The server there has gone on meanwhile.
/// Security  the socket is in a folder of this user alone; what stands in ssh's configuration holds.
class SshRoad final : public Road {
public:
    struct Options {
        SshAddress to;
        std::string ssh = "ssh";             ///< the client
        std::string program = "refreshlab";  ///< there
        std::vector<std::string> serve = {}; ///< options of `serve`, for a server that has to be started
        std::chrono::seconds patience{
            120}; ///< for a login and the start of the server: a person may have to type
        /// Every command before it runs; on the thread of open(). May be empty.
        std::function<void(const std::string& command)> say = {};
    };
    /// Starts nothing yet.
    explicit SshRoad(Options options);
    ~SshRoad() override;
    SshRoad(const SshRoad&) = delete;
    SshRoad& operator=(const SshRoad&) = delete;

    [[nodiscard]] std::string name() const override;
    /// Throws Error{failure}: no ssh here; what ssh says (refused, unknown, not let in); no RefreshLab there, or one that knows no
    /// `serve --for-window`; nothing within Options::patience.
    [[nodiscard]] Endpoint open() override;
    void give_up() override;

private:
    struct Impl;
    std::unique_ptr<Impl> m_impl;
};

} // namespace refreshlab::remote
