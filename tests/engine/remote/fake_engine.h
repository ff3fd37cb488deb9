#pragma once

#include "engine/control/engine_link.h"
#include "engine/record/recording/recording.h"

#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

namespace refreshlab::test {

/// An engine that does what a test says, and keeps what it is told.
class FakeEngine final : public EngineLink {
public:
    uint64_t send(Command command) override {
        const std::lock_guard lock(m_mutex);
        m_commands.push_back(std::move(command));
        m_changed.notify_all();
        return m_commands.size();
    }
    [[nodiscard]] std::shared_ptr<const EngineStatus> status() const override {
        const std::lock_guard lock(m_mutex);
        return m_status;
    }
    [[nodiscard]] std::shared_ptr<const Recording> recording() const override {
        const std::lock_guard lock(m_mutex);
        return m_recording;
    }
    void on_news(std::function<void()> wake) override {
        const std::lock_guard lock(m_wake_mutex);
        m_wake = std::move(wake);
    }
    [[nodiscard]] RunOutlook outlook(const RunConfig& config) const override {
        RunOutlook outlook;
        outlook.note = "of " + config.prompt;
        return outlook;
    }

    void publish(const std::function<void(EngineStatus&)>& change) {
        {
            const std::lock_guard lock(m_mutex);
            auto status = std::make_shared<EngineStatus>(*m_status);
            change(*status);
            m_status = std::move(status);
        }
        tell();
    }
    void show(std::shared_ptr<const Recording> recording) {
        {
            const std::lock_guard lock(m_mutex);
            m_recording = std::move(recording);
        }
        tell();
    }
    void tell() {
        const std::lock_guard lock(m_wake_mutex);
        if (m_wake) m_wake();
    }
    /// The commands, once there are so many.
    [[nodiscard]] std::vector<Command> commands(size_t count) {
        std::unique_lock lock(m_mutex);
        m_changed.wait_for(lock, std::chrono::seconds(60), [&] { return m_commands.size() >= count; });
        return m_commands;
    }

private:
    mutable std::mutex m_mutex;
    std::condition_variable m_changed;
    std::vector<Command> m_commands;
    std::shared_ptr<const EngineStatus> m_status = std::make_shared<EngineStatus>();
    std::shared_ptr<const Recording> m_recording;
    std::mutex m_wake_mutex;
    std::function<void()> m_wake;
};

/// Waits for news of a link until a condition holds, a minute at most.
class LinkWatcher {
public:
    explicit LinkWatcher(EngineLink& link)
        : m_link(link) {
        link.on_news([this] {
            const std::lock_guard lock(m_mutex);
            ++m_news;
            m_changed.notify_all();
        });
    }
    ~LinkWatcher() { m_link.on_news({}); }
    LinkWatcher(const LinkWatcher&) = delete;
    LinkWatcher& operator=(const LinkWatcher&) = delete;

    [[nodiscard]] bool until(const std::function<bool(const EngineStatus&)>& condition) {
        std::unique_lock lock(m_mutex);
        const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
        while (true) {
            const uint64_t seen = m_news;
            lock.unlock();
            if (condition(*m_link.status())) return true;
            lock.lock();
            if (!m_changed.wait_until(lock, end, [&] { return m_news != seen; })) return false;
        }
    }
    /// The link has so many steps of the recording, and all attention rows.
    [[nodiscard]] bool until_has(const Recording& there) {
        return until([&](const EngineStatus&) {
            const auto here = m_link.recording();
            return here && here->info().id == there.info().id && !first_difference(there, *here);
        });
    }

private:
    EngineLink& m_link;
    std::mutex m_mutex;
    std::condition_variable m_changed;
    uint64_t m_news = 0;
};

} // namespace refreshlab::test
