#pragma once

#include "engine/control/engine_link.h"
#include "engine/fetch/known_models.h"
#include "engine/remote/endpoint.h"

#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace refreshlab::remote {

/// Lets windows and programs on other machines see and steer an engine (docs/reference/protocol.md). Several may look; one drives.
///
/// Threads   one of its own, which reads the engine's status and recording and sends commands; outlooks have another.
/// Safety    whoever is let in may do what the engine can: read and write files of this user. Bad bytes end their connection alone.
/// Shutdown  ~EngineServer(): the engine's on_news() is taken back, connections end, threads are joined. The engine goes on.
class EngineServer {
public:
    struct Options {
        Endpoint listen;
        std::string token;  ///< that a client must give; empty: none
        std::string record; ///< trace that the engine records into, to be told; empty: none
        /// Models that a window may choose, asked on a thread of the server each time. Empty: none.
        std::function<std::vector<KnownModel>()> models = {};
        /// Almanacs, gates and prompt caches that a window may choose, asked as the models are. Empty: none.
        std::function<std::vector<LinkOffers::Part>()> parts = {};
        /// Folder whose traces a window may see and fetch (offered_files.h). Empty: none.
        std::filesystem::path files = {};
        RunConfig first_run; ///< its models are those of an engine that has had no run: what a window offers
        /// A line for a log, on the server's thread: who comes and goes. May be empty.
        std::function<void(const std::string& line)> log;
    };
    /// Listens. Throws Error{bad_input}: the address cannot be listened on; not a local one without a token.
    /// \param engine  outlives the server
    EngineServer(EngineLink& engine, Options options);
    ~EngineServer();
    EngineServer(const EngineServer&) = delete;
    EngineServer& operator=(const EngineServer&) = delete;

    [[nodiscard]] Endpoint endpoint() const; ///< with the port that the system has chosen
    /// Windows and clients that are connected and have said who they are. Any thread.
    [[nodiscard]] int viewers() const;
    static constexpr size_t most_clients = 32;

private:
    struct Impl;
    std::unique_ptr<Impl> m_impl;
};

} // namespace refreshlab::remote
