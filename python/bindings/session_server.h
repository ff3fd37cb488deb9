#pragma once

#include "engine/remote/engine_server.h"
#include "python/bindings/session_link.h"

#include <memory>
#include <mutex>
#include <string>

namespace refreshlab::python {

/// A session that windows may connect to, as to `refreshlab serve`. Ends with this object, with close(), or with the interpreter; then the
/// windows keep what has come.
///
/// Threads  any, with the interpreter's lock
class SessionServer {
public:
    /// \param address  as parse_endpoint() takes it
    /// \param token    that a client must give; empty: none
    SessionServer(std::shared_ptr<LiveSession> session, const std::string& address, const std::string& token,
                  bool drives);
    ~SessionServer();
    SessionServer(const SessionServer&) = delete;
    SessionServer& operator=(const SessionServer&) = delete;

    [[nodiscard]] const std::string& address() const { return m_address; } ///< with the port that was chosen
    [[nodiscard]] int viewers() const; ///< windows and programs that are connected
    /// Throws Error in code of a step of the session: it would wait for itself.
    void close();

private:
    const std::shared_ptr<LiveSession> m_session;
    const int m_process; ///< a forked child has the object, and none of its threads
    std::string m_address;
    mutable std::mutex m_mutex; ///< protects the two; taken without the interpreter's lock
    std::unique_ptr<SessionLink> m_link;
    std::unique_ptr<remote::EngineServer> m_server; ///< goes first
};

void bind_server(nanobind::module_& module);

} // namespace refreshlab::python
