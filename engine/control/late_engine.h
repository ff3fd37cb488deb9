#pragma once

#include "engine/control/engine_link.h"

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace refreshlab {

/// An engine that comes while the window stands already, on a thread of its own. Commands wait for it in their order, and have the
/// tickets that it will give them. What only sets something is seen at once. Where no engine comes, what needs one is refused in one
/// line, and the rest of the window goes on.
class LateEngine final : public EngineLink {
public:
    using Make = std::function<std::unique_ptr<EngineLink>()>; ///< throws Error where there is no engine
    enum class When : uint8_t {
        now,
        needed ///< with the first command that it must answer
    };
    LateEngine(Make make, When when);
    /// Waits for an engine on its way.
    ~LateEngine() override;

    uint64_t send(Command command) override;
    [[nodiscard]] std::shared_ptr<const EngineStatus> status() const override;
    [[nodiscard]] std::shared_ptr<const Recording> recording() const override;
    void on_news(std::function<void()> wake) override;
    /// Waits for an engine on its way.
    [[nodiscard]] RunOutlook outlook(const RunConfig& config) const override;
    [[nodiscard]] LinkOffers offers() const override;
    void fetch_file(const std::string& name, const std::filesystem::path& to,
                    const std::function<bool(double share)>& go_on) const override;
    void take_wheel() override;
    void look_at(const Recording& run, int64_t position) override;

private:
    void begin();                        ///< under the mutex
    void load();                         ///< on its own thread
    void take(const Command& command);   ///< under the mutex: what it sets
    void refuse(const std::string& why); ///< under the mutex
    void tell() const;

    const Make m_make;
    mutable std::mutex m_mutex; ///< all but m_wake
    mutable std::condition_variable m_settled;
    std::unique_ptr<EngineLink> m_engine; ///< set once
    std::vector<std::pair<Command, uint64_t>> m_waiting;
    EngineStatus m_status; ///< until there is an engine
    std::string m_problem; ///< why none comes
    uint64_t m_last_ticket = 0;
    bool m_begun = false;
    mutable std::mutex m_wake_mutex;
    std::function<void()> m_wake;
    std::thread m_thread;
};

} // namespace refreshlab
