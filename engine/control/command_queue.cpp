#include "engine/control/command_queue.h"

#include "engine/control/parameters.h"

#include <algorithm>
#include <utility>

namespace refreshlab {

namespace {

/// A setting of the policy that a whole new policy replaces.
bool is_policy_setting(const Command& command) {
    const auto* set = std::get_if<command::SetParameter>(&command);
    const Parameter* parameter = set != nullptr ? find_parameter(set->key) : nullptr;
    return parameter != nullptr && parameter->of_policy;
}

} // namespace

uint64_t CommandQueue::push(Command command) {
    const std::string key = coalesce_key(command);
    uint64_t ticket = 0;
    {
        const std::lock_guard lock(m_mutex);
        if (m_closed) return 0;
        if (!key.empty()) {
            const auto earlier = std::find_if(m_commands.begin(), m_commands.end(),
                                              [&](const Waiting& waiting) { return waiting.key == key; });
            if (earlier != m_commands.end()) {
                const auto next = m_commands.erase(earlier);
                // What was set between two whole policies was meant for the first of them, and may not exist in the
                // policy that is running now.
                if (std::holds_alternative<command::SetPolicy>(command)) {
                    m_commands.erase(std::remove_if(next, m_commands.end(),
                                                    [](const Waiting& waiting) {
                                                        return is_policy_setting(waiting.taken.command);
                                                    }),
                                     m_commands.end());
                }
            }
        }
        ticket = ++m_last_ticket;
        m_commands.push_back({{std::move(command), ticket}, key});
    }
    m_changed.notify_one();
    return ticket;
}

std::optional<CommandQueue::Taken> CommandQueue::pop_front() {
    if (m_commands.empty()) return std::nullopt;
    Taken taken = std::move(m_commands.front().taken);
    m_commands.pop_front();
    return taken;
}

std::optional<CommandQueue::Taken> CommandQueue::try_pop() {
    const std::lock_guard lock(m_mutex);
    return pop_front();
}

std::optional<CommandQueue::Taken> CommandQueue::wait_pop() {
    std::unique_lock lock(m_mutex);
    m_changed.wait(lock, [this] { return m_closed || !m_commands.empty(); });
    return pop_front();
}

std::optional<CommandQueue::Taken>
CommandQueue::wait_pop_until(std::chrono::steady_clock::time_point moment) {
    std::unique_lock lock(m_mutex);
    m_changed.wait_until(lock, moment, [this] { return m_closed || !m_commands.empty(); });
    return pop_front();
}

void CommandQueue::close() {
    {
        const std::lock_guard lock(m_mutex);
        m_closed = true;
    }
    m_changed.notify_all();
}

size_t CommandQueue::size() const {
    const std::lock_guard lock(m_mutex);
    return m_commands.size();
}

} // namespace refreshlab
