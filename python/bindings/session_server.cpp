#include "python/bindings/session_server.h"

#include "engine/base/error.h"
#include "python/bindings/without_lock.h"

#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <unistd.h>

#include <utility>
#include <vector>

namespace refreshlab::python {

SessionServer::SessionServer(std::shared_ptr<LiveSession> session, const std::string& address,
                             const std::string& token, bool drives)
    : m_session(std::move(session))
    , m_process(::getpid()) {
    without_lock([&] {
        auto link = std::make_unique<SessionLink>(m_session, drives);
        remote::EngineServer::Options options;
        options.listen = remote::parse_endpoint(address, "the address");
        options.token = token;
        options.first_run = m_session->config();
        m_server = std::make_unique<remote::EngineServer>(*link, std::move(options));
        link->ask_for_somebody([server = m_server.get()] { return server->viewers() > 0; });
        m_link = std::move(link);
        m_address = remote::to_string(m_server->endpoint());
    });
}

SessionServer::~SessionServer() {
    if (::getpid() != m_process || m_session->in_own_turn()) {
        static_cast<void>(m_server.release()); // whoever waited for their threads here would wait for ever
        static_cast<void>(m_link.release());
        return;
    }
    close();
}

void SessionServer::close() {
    if (m_session->in_own_turn())
        throw Error("closing a window's session", {}, "code of its own is at work in a step");
    if (::getpid() != m_process) return;
    const nb::gil_scoped_release
        others; // also at the end of the interpreter, when without_lock() begins nothing
    const std::lock_guard lock(m_mutex);
    if (m_link) m_link->ask_for_somebody({});
    m_server.reset();
    m_link.reset();
}

int SessionServer::viewers() const {
    const nb::gil_scoped_release others;
    const std::lock_guard lock(m_mutex);
    return m_server ? m_server->viewers() : 0;
}

namespace {

/// Those that stand, for the end of the interpreter. With its lock.
std::vector<std::weak_ptr<SessionServer>>& all_servers() {
    static auto* const all = new std::vector<std::weak_ptr<SessionServer>>; // never destroyed
    return *all;
}

void close_all() {
    for (const auto& one : std::exchange(all_servers(), {}))
        if (const auto server = one.lock()) server->close();
}

} // namespace

void bind_server(nb::module_& module) {
    nb::class_<SessionServer>(module, "Server", "A session that windows may connect to.")
        .def_prop_ro("address", &SessionServer::address)
        .def_prop_ro("viewers", &SessionServer::viewers)
        .def("close", &SessionServer::close);
    module.def("serve", [](const std::shared_ptr<LiveSession>& session, const std::string& address,
                           const std::string& token, bool drives) {
        auto server = std::make_shared<SessionServer>(session, address, token, drives);
        std::erase_if(all_servers(), [](const auto& one) { return one.expired(); });
        all_servers().push_back(server);
        return server;
    });
    nb::module_::import_("atexit").attr("register")(nb::cpp_function(&close_all));
}

} // namespace refreshlab::python
