#pragma once

#include "engine/session/worker/session_worker.h"

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string_view>

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

    /// The command was carried out, or refused.
    std::shared_ptr<const EngineStatus> answered(uint64_t ticket) {
        return until([ticket](const EngineStatus& s) { return s.answered >= ticket; });
    }

private:
    SessionWorker& m_worker;
    std::mutex m_mutex;
    std::condition_variable m_changed;
    uint64_t m_news = 0;
    std::function<void(const EngineStatus&)> m_hook;
};

/// The bundled pair on a short prompt, in two threads.
inline RunConfig bundled_run(std::string_view policy, int32_t max_tokens) {
    RunConfig config;
    config.teacher_dir = RL_SOURCE_DIR "/assets/models/llama-tales-teacher";
    config.student_dir = RL_SOURCE_DIR "/assets/models/llama-tales-student";
    config.prompt = "Write a chronicle of 3 companies.";
    config.max_tokens = max_tokens;
    config.policy = preset_policy(policy);
    config.capture.attention = false;
    config.threads = 2;
    return config;
}

inline void run_to_end(SessionWorker& worker, Watcher& watch, const RunConfig& config) {
    const uint64_t ticket = worker.send(command::StartRun{config});
    watch.until(
        [&](const EngineStatus& s) { return s.answered >= ticket && s.state == EngineState::finished; });
}

} // namespace refreshlab::test
