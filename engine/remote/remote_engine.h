#pragma once

#include "engine/control/engine_link.h"
#include "engine/remote/endpoint.h"
#include "engine/remote/road.h"

#include <chrono>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>

namespace refreshlab::remote {

/// An engine at the other end of a connection, of an EngineServer. Its recordings are kept here as well, step by step, and are the same
/// bit for bit; a branch shares with its parent as it does there.
///
/// Lost      A connection that ends takes nothing away: status and recordings stay, EngineStatus::link says what is wrong, and the thread
///           tries again after pauses from 0.25 to 10 s. Then only what is missing is asked for. A server that was started anew has other
///           runs; those of the former one stay as they are.
/// Commands  go to the server in their order, a later one in place of an earlier one of its kind while the link is busy. Without a
///           connection, and while another window drives, they are refused in one line.
/// Threads   one of its own. All methods: any thread. on_news() is called by that thread.
class RemoteEngine final : public EngineLink {
public:
    struct Options {
        Endpoint server;
        std::string token; ///< empty: none
        std::string name;  ///< how the server calls this side to others: "ada@laptop"
        std::chrono::milliseconds patience{10'000}; ///< for the first connection
        /// Opened before each try to connect, and says where then; `server` counts for nothing. Null: none.
        std::shared_ptr<Road> road = {};
    };
    /// Connects. Throws Error{failure}: nobody answers, or no RefreshLab, or one of another version; Error{bad_input}: the server refuses.
    explicit RemoteEngine(Options options);
    ~RemoteEngine() override;

    uint64_t send(Command command) override;
    [[nodiscard]] std::shared_ptr<const EngineStatus> status() const override;
    [[nodiscard]] std::shared_ptr<const Recording> recording() const override;
    void on_news(std::function<void()> wake) override;
    /// Asks the server; without an answer within 60 s, or without a connection, it says so.
    [[nodiscard]] RunOutlook outlook(const RunConfig& config) const override;
    /// As outlook().
    [[nodiscard]] LinkOffers offers() const override;
    void fetch_file(const std::string& name, const std::filesystem::path& to,
                    const std::function<bool(double share)>& go_on) const override;
    void take_wheel() override;
    void look_at(const Recording& run, int64_t position) override;

private:
    struct Impl;
    std::unique_ptr<Impl> m_impl;
};

} // namespace refreshlab::remote
