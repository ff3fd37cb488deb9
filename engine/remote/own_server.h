#pragma once

#include "engine/remote/endpoint.h"

#include <optional>

/// A server of this user on this machine, for a window that comes through ssh.
namespace refreshlab::remote {

/// Where such a server listens: a socket in /tmp/refreshlab-UID, which is made. Throws Error{failure}: that folder is not this user's alone.
/// (Not in $XDG_RUNTIME_DIR: that folder goes with the last login, and a run goes on after it.)
[[nodiscard]] Endpoint own_socket();

/// Somebody listens there. Waits as long as connect() does; of this machine that is not at all.
[[nodiscard]] bool answers(const Endpoint& endpoint);

/// Tells a server on a Unix socket, of this user, that the window that has started it has ended (SIGUSR1, window_has_ended).
void tell_window_has_ended(const Endpoint& socket);
/// Notes that signal from now on; before, it would end the process.
void note_window_end();
[[nodiscard]] bool window_has_ended();

/// A server that is there: on own_socket(), else on 127.0.0.1 at default_port, if a process of this user has that port (anybody may
/// listen on a port of this machine, and would be told everything).
[[nodiscard]] std::optional<Endpoint> own_server();

} // namespace refreshlab::remote
