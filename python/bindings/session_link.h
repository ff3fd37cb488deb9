#pragma once

#include "engine/control/command_queue.h"
#include "engine/control/engine_link.h"
#include "python/bindings/live_session.h"

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

namespace refreshlab::python {

/// A session of Python as the engine of a window: the window sees the steps as they are made, and its commands act between two of them.
///
///   LiveSession::step() --watcher--> status, recording --on_news()--> EngineServer ~~~~> window
///   window ~~~~> EngineServer --send()--> CommandQueue --thread--> LiveSession::apply(), rewind(), stop(), and its Hold
///
/// Steps     are made by Python, and Pause holds them back (LiveSession::hold()); or, where the link drives, by the link's thread.
/// Refused   what needs another run or the models for themselves: starting a run, exactness, landscapes, scope maps, branches of other runs.
/// Threads   one of its own. It takes the interpreter's lock where code of Python belongs to a step, so whoever destroys the link has let it go.
class SessionLink final : public EngineLink {
public:
    /// \param drives  the link makes the steps, while nobody pauses it. It begins paused
    /// Throws Error where the session is closed.
    SessionLink(std::shared_ptr<LiveSession> session, bool drives);
    /// Takes what the window holds back away. The session goes on.
    ~SessionLink() override;

    uint64_t send(Command command) override;
    [[nodiscard]] std::shared_ptr<const EngineStatus> status() const override;
    [[nodiscard]] std::shared_ptr<const Recording> recording() const override;
    void on_news(std::function<void()> wake) override;
    [[nodiscard]] RunOutlook outlook(const RunConfig& config) const override;

    /// Asked now and then while a window holds the session: where nobody is there any more, the session goes on.
    void ask_for_somebody(std::function<bool()> somebody);

private:
    void loop();
    void make_step();
    void handle(const Command& command);
    void branch(const command::Branch& asked);
    void require_open() const;
    void see(const RunDriver* run, const TraceStore* trace); ///< the watcher
    void refuse(const std::string& why);
    void publish(); ///< under m_mutex
    void wake();
    [[nodiscard]] bool ended() const; ///< finished or closed

    const std::shared_ptr<LiveSession> m_session;
    const bool m_drives;
    CommandQueue m_queue;
    std::atomic<bool> m_closing{false}; ///< set by the destructor, read by the thread
    mutable std::mutex m_mutex;         ///< protects what follows; held for a copy
    EngineStatus m_now;
    std::shared_ptr<const EngineStatus> m_published;
    std::shared_ptr<const Recording> m_recording;
    bool m_session_open = true;
    std::function<bool()> m_somebody;
    std::mutex m_wake_mutex; ///< held while m_wake is called
    std::function<void()> m_wake;
    std::thread m_thread;
};

} // namespace refreshlab::python
