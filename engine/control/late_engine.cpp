#include "engine/control/late_engine.h"

#include "engine/base/check.h"
#include "engine/base/error.h"

#include <exception>
#include <variant>

namespace refreshlab {

namespace {

/// The command sets something that needs no run: settings of the next one, the pace.
bool sets_only(const Command& command) {
    return std::holds_alternative<command::SetParameter>(command) ||
           std::holds_alternative<command::SetPolicy>(command) ||
           std::holds_alternative<command::SetPace>(command);
}

} // namespace

LateEngine::LateEngine(Make make, When when)
    : m_make(std::move(make)) {
    const std::lock_guard lock(m_mutex);
    if (when == When::now) begin();
}

LateEngine::~LateEngine() {
    if (m_thread.joinable()) m_thread.join();
}

void LateEngine::begin() {
    if (std::exchange(m_begun, true)) return;
    m_status.state = EngineState::loading;
    m_status.message = "loading the engine";
    m_thread = std::thread([this] { load(); });
}

void LateEngine::load() {
    std::unique_ptr<EngineLink> engine;
    std::string problem;
    try {
        engine = m_make();
    } catch (const std::exception& e) {
        problem = e.what();
    }
    {
        const std::lock_guard lock(m_mutex);
        if (engine) {
            {
                const std::lock_guard wake_lock(m_wake_mutex);
                engine->on_news(m_wake);
            }
            for (auto& [command, ticket] : m_waiting) {
                const uint64_t given = engine->send(std::move(command));
                RL_ASSERT(given == ticket);
            }
            m_engine = std::move(engine);
        } else {
            m_problem = problem;
            m_status.state = EngineState::idle;
            m_status.queued_commands = 0;
            m_status.message = "no engine: traces only";
            for (const auto& [command, ticket] : m_waiting) {
                if (!sets_only(command)) refuse(m_problem);
            }
            m_status.answered = m_last_ticket;
        }
        m_waiting.clear();
    }
    m_settled.notify_all();
    tell();
}

void LateEngine::tell() const {
    const std::lock_guard lock(m_wake_mutex);
    if (m_wake) m_wake();
}

void LateEngine::refuse(const std::string& why) {
    m_status.error = why;
    ++m_status.errors;
    m_status.refusals.push_back(why);
    if (m_status.refusals.size() > EngineStatus::kept_refusals)
        m_status.refusals.erase(m_status.refusals.begin());
}

void LateEngine::take(const Command& command) {
    if (const auto* pace = std::get_if<command::SetPace>(&command)) m_status.pace = pace->tokens_per_second;
    try {
        apply_to(m_status.applied, command);
    } catch (const Error& e) {
        if (!m_problem.empty() || !m_begun) refuse(e.what()); // else the engine says it
    }
}

uint64_t LateEngine::send(Command command) {
    uint64_t ticket = 0;
    bool waits = false;
    {
        const std::lock_guard lock(m_mutex);
        if (m_engine) return m_engine->send(std::move(command));
        ticket = ++m_last_ticket;
        const bool sets = sets_only(command);
        if (sets) take(command);
        if (!m_problem.empty()) {
            if (!sets) refuse(m_problem);
            m_status.answered = ticket;
        } else {
            if (!sets) begin();
            m_waiting.emplace_back(std::move(command), ticket);
            m_status.queued_commands = m_waiting.size();
            waits = m_begun;
        }
    }
    if (!waits) tell();
    return ticket;
}

std::shared_ptr<const EngineStatus> LateEngine::status() const {
    const std::lock_guard lock(m_mutex);
    if (m_engine) return m_engine->status();
    return std::make_shared<EngineStatus>(m_status);
}

std::shared_ptr<const Recording> LateEngine::recording() const {
    const std::lock_guard lock(m_mutex);
    return m_engine ? m_engine->recording() : nullptr;
}

void LateEngine::on_news(std::function<void()> wake) {
    const std::lock_guard lock(m_mutex);
    {
        const std::lock_guard wake_lock(m_wake_mutex);
        m_wake = wake;
    }
    if (m_engine) m_engine->on_news(std::move(wake));
}

void LateEngine::take_wheel() {
    const std::lock_guard lock(m_mutex);
    if (m_engine) m_engine->take_wheel();
}

void LateEngine::look_at(const Recording& run, int64_t position) {
    const std::lock_guard lock(m_mutex);
    if (m_engine) m_engine->look_at(run, position);
}

LinkOffers LateEngine::offers() const {
    const EngineLink* engine = nullptr;
    {
        const std::lock_guard lock(m_mutex);
        engine = m_engine.get();
    }
    return engine != nullptr ? engine->offers() : LinkOffers{};
}

void LateEngine::fetch_file(const std::string& name, const std::filesystem::path& to,
                            const std::function<bool(double share)>& go_on) const {
    const EngineLink* engine = nullptr;
    {
        const std::lock_guard lock(m_mutex);
        engine = m_engine.get();
    }
    engine != nullptr ? engine->fetch_file(name, to, go_on) : EngineLink::fetch_file(name, to, go_on);
}

RunOutlook LateEngine::outlook(const RunConfig& config) const {
    const EngineLink* engine = nullptr;
    {
        std::unique_lock lock(m_mutex);
        m_settled.wait(lock, [&] { return m_engine || !m_problem.empty() || !m_begun; });
        engine = m_engine.get();
        if (engine == nullptr) {
            RunOutlook outlook;
            outlook.part = RunOutlook::Part::other;
            outlook.problem = m_problem.empty() ? "the engine is not loaded" : m_problem;
            return outlook;
        }
    }
    return engine->outlook(config);
}

} // namespace refreshlab
