#pragma once

#include "engine/session/worker/session_worker.h"

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>

namespace refreshlab::test {

/// Waits for news of the worker, never for time.
class Watcher {
public:
    explicit Watcher(SessionWorker& worker)
        : m_worker(worker) {
        worker.on_news([this] {
            const std::lock_guard lock(m_mutex);
            ++m_news;
            m_changed.notify_all();
            if (m_hook) m_hook(*m_worker.status());
        });
    }
    ~Watcher() { m_worker.on_news({}); }
    template <class Condition>
    std::shared_ptr<const EngineStatus> until(Condition condition) {
        std::unique_lock lock(m_mutex);
        while (true) {
            const uint64_t seen = m_news;
            lock.unlock();
            auto status = m_worker.status();
            if (condition(*status)) return status;
            lock.lock();
            m_changed.wait(lock, [&] { return m_news != seen; });
        }
    }
    /// \param hook  called on the decode thread with every news; may send commands
    void each(std::function<void(const EngineStatus&)> hook) {
        const std::lock_guard lock(m_mutex);
        m_hook = std::move(hook);
    }
    std::shared_ptr<const EngineStatus> until_state(EngineState state) {
        return until([state](const EngineStatus& s) { return s.state == state; });
    }

private:
    SessionWorker& m_worker;
    std::mutex m_mutex;
    std::condition_variable m_changed;
    uint64_t m_news = 0;
    std::function<void(const EngineStatus&)> m_hook;
};

} // namespace refreshlab::test
