#pragma once

#include "engine/control/command.h"

#include <nlohmann/json_fwd.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace refreshlab {

class DecodeSession;
class Recording;

/// Reads [{"step": 40, "command": {"command": "refresh_now"}}, ...], the form of "commands" in an exported meta.json; sorted
/// by step, those of one step stay in their order. Throws Error{bad_input} naming `what`, the entry and the field: also for
/// commands that do not act on a run that goes on (start_run, pause, resume, step, stop, rewind, check_exactness).
[[nodiscard]] std::vector<TimedCommand> commands_from_json(const nlohmann::json& json,
                                                           const std::string& what);
/// The command log of a recording. Throws Error as commands_from_json.
[[nodiscard]] std::vector<TimedCommand> commands_of(const Recording& recording);

/// Throws Error{bad_input} for the first command that a run with this configuration would refuse: an unknown or fixed
/// parameter, a value out of range, a refresh where no teacher's cache is. Positions of attention are not checked: what the
/// caches will hold is not known yet.
void check_commands(const std::vector<TimedCommand>& commands, RunConfig config, const std::string& what);

/// Applies one command that acts on a run that goes on: refresh_now, set_parameter, set_policy, request_attention. Throws what
/// DecodeSession::apply() throws, and InvariantError for other commands.
void apply_command(DecodeSession& session, const Command& command);

/// Gives a session its commands, each at its step: for replays and scripts.
class Steering {
public:
    explicit Steering(std::vector<TimedCommand> commands)
        : m_commands(std::move(commands)) {}

    /// Applies the commands that are due before the session's next step. Throws what DecodeSession::apply() throws; the
    /// next call passes over the command that was refused.
    void apply_due(DecodeSession& session);
    /// Commands whose step has not come.
    [[nodiscard]] size_t left() const { return m_commands.size() - m_next; }

private:
    std::vector<TimedCommand> m_commands;
    size_t m_next = 0;
};

} // namespace refreshlab
