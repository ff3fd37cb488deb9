#include "engine/session/decode/steering.h"

#include "engine/base/check.h"
#include "engine/base/error.h"
#include "engine/control/parameters.h"
#include "engine/record/recording/recording.h"
#include "engine/refresh/json_fields.h"
#include "engine/session/decode/decode_session.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <limits>
#include <type_traits>
#include <variant>

namespace refreshlab {

namespace {

template <class C>
constexpr bool steers =
    std::is_same_v<C, command::RefreshNow> || std::is_same_v<C, command::SetParameter> ||
    std::is_same_v<C, command::SetPolicy> || std::is_same_v<C, command::GiveTokens> ||
    std::is_same_v<C, command::RequestAttention> || std::is_same_v<C, command::FullStepNow>;

/// One command of a list; `what` names the list and the entry.
Command steering_command(const nlohmann::json& json, const std::string& what) {
    Command command = command_from_json(json, what);
    std::visit(
        [&]<class C>(const C&) {
            if constexpr (!steers<C>)
                throw Error("reading", what, shown(json) + " does not act on a run in progress",
                            "refresh_now, full_step_now, set_parameter, set_policy, give_tokens and "
                            "request_attention do");
        },
        command);
    return command;
}

void sort_by_step(std::vector<TimedCommand>& commands) {
    std::ranges::stable_sort(commands, {}, &TimedCommand::step);
}

} // namespace

std::vector<TimedCommand> commands_from_json(const nlohmann::json& json, const std::string& what) {
    if (!json.is_array())
        throw Error("reading", what, fmt::format("must be a list [...] of commands, not {}", shown(json)));
    std::vector<TimedCommand> commands;
    for (size_t i = 0; i < json.size(); ++i) {
        const std::string entry = fmt::format("{}, entry {}", what, i + 1);
        JsonFields fields(json[i], entry);
        TimedCommand timed;
        for (const char* key : {"step", "command"}) {
            if (fields.find(key) == nullptr) fields.fail(key, "missing");
        }
        fields.integer("step", timed.step, 1, std::numeric_limits<int32_t>::max());
        timed.command = steering_command(*fields.find("command"), entry);
        fields.finish();
        commands.push_back(std::move(timed));
    }
    sort_by_step(commands);
    return commands;
}

std::vector<TimedCommand> commands_of(const Recording& recording) {
    std::vector<TimedCommand> commands;
    const auto& log = recording.commands();
    for (size_t i = 0; i < log.size(); ++i)
        commands.push_back(
            {log[i].step, steering_command(nlohmann::json::parse(log[i].json), "a recorded command")});
    sort_by_step(commands);
    return commands;
}

void check_commands(const std::vector<TimedCommand>& commands, RunConfig config, const std::string& what) {
    for (const TimedCommand& timed : commands) {
        try {
            if (const auto* set = std::get_if<command::SetParameter>(&timed.command)) {
                set_live_parameter(config, set->key, set->value);
            } else if (const auto* whole = std::get_if<command::SetPolicy>(&timed.command)) {
                config.policy = whole->policy;
            } else if (std::holds_alternative<command::RefreshNow>(timed.command)) {
                require_refreshable(config.mode);
            } else if (std::holds_alternative<command::FullStepNow>(timed.command)) {
                const CachePolicyConfig& policy =
                    config.mode == Mode::teacher ? config.teacher_cache : config.student_cache;
                if (!has_full_steps(policy))
                    throw Error("asking for a full step of", fmt::format("cache policy {}", policy.policy),
                                "it has none", "refreshkv has them");
            }
        } catch (const Error& e) {
            throw Error("reading", what, fmt::format("command at step {}: {}", timed.step, e.what()));
        }
    }
}

void apply_command(DecodeSession& session, const Command& command) {
    std::visit(
        [&]<class C>(const C& c) {
            RL_ASSERT(steers<C>);
            if constexpr (std::is_same_v<C, command::RequestAttention>) {
                session.capture_attention(c.position, c.teacher);
            } else if constexpr (steers<C>) {
                session.apply(c);
            }
        },
        command);
}

void Steering::apply_due(DecodeSession& session) {
    while (m_next < m_commands.size() && m_commands[m_next].step <= session.recording()->steps() + 1)
        apply_command(session, m_commands[m_next++].command);
}

} // namespace refreshlab
