#include "engine/control/command.h"

#include "engine/base/error.h"
#include "engine/control/parameters.h"
#include "engine/refresh/json_fields.h"

#include <fmt/format.h>

#include <limits>
#include <type_traits>

namespace refreshlab {

namespace {

template <typename... Visitors>
struct Overloaded : Visitors... {
    using Visitors::operator()...;
};
template <typename... Visitors>
Overloaded(Visitors...) -> Overloaded<Visitors...>;

/// JSON names, in the order of the variant's alternatives.
const std::vector<std::string_view> command_names = {"start_run",
                                                     "pause",
                                                     "resume",
                                                     "step",
                                                     "stop",
                                                     "refresh_now",
                                                     "rewind",
                                                     "set_parameter",
                                                     "set_policy",
                                                     "request_attention",
                                                     "check_exactness",
                                                     "set_pace",
                                                     "give_tokens",
                                                     "compute_landscape",
                                                     "full_step_now",
                                                     "branch",
                                                     "compute_scope",
                                                     "save_prompt_cache"};
static_assert(std::variant_size_v<Command> == 18, "command_names lists them all");

constexpr int64_t most = std::numeric_limits<int32_t>::max();

void require(JsonFields& fields, std::string_view key) {
    if (fields.find(key) == nullptr) fields.fail(key, "missing");
}

/// A list of ids, where there is one.
void token_ids(JsonFields& fields, std::string_view key, std::vector<int32_t>& ids) {
    const nlohmann::json* list = fields.find(key);
    if (list == nullptr) return;
    if (!list->is_array()) fields.fail(key, "must be a list of token ids");
    for (const nlohmann::json& id : *list) {
        if (!id.is_number_integer() || id < 0 || id > most)
            fields.fail(key, "must be a list of token ids, not " + shown(id));
        ids.push_back(id.get<int32_t>());
    }
}

command::RecordedRun read_recorded(const nlohmann::json& json, const std::string& what) {
    JsonFields fields(json, what, "recorded");
    command::RecordedRun run;
    for (const char* key : {"run_id", "config", "prompt_ids", "tokens", "steps"})
        require(fields, key);
    fields.text("run_id", run.run_id);
    run.config = run_config_from_json(*fields.find("config"), what);
    fields.text("rendered_prompt", run.rendered_prompt);
    token_ids(fields, "prompt_ids", run.prompt_ids);
    fields.text("kernel_set", run.kernel_set);
    token_ids(fields, "tokens", run.tokens);
    fields.integer("steps", run.steps, 0, most);
    if (const nlohmann::json* log = fields.find("commands")) {
        if (!log->is_array()) fields.fail("commands", "must be a list of commands");
        for (const nlohmann::json& entry : *log) {
            JsonFields timed(entry, what + ", commands");
            for (const char* key : {"step", "command"})
                require(timed, key);
            TimedCommand& read = run.commands.emplace_back();
            timed.integer("step", read.step, 1, most);
            const nlohmann::json& inner = *timed.find("command");
            // One level: a log holds what acts on a run, and this begins one.
            if (inner.is_object() && inner.value("command", nlohmann::json()) == "branch")
                timed.fail("command", "branch does not act on a run in progress");
            read.command = command_from_json(inner, what + ", commands");
            timed.finish();
        }
    }
    fields.finish();
    return run;
}

command::Branch::Change read_change(const nlohmann::json& json, const std::string& what) {
    const Command read = command_from_json(json, what + ", changes");
    std::optional<command::Branch::Change> change;
    std::visit(
        [&](const auto& c) {
            if constexpr (std::is_constructible_v<command::Branch::Change, decltype(c)>) change = c;
        },
        read);
    if (!change)
        throw Error("reading", what,
                    fmt::format("changes: {} is no change of a branch", command_names[read.index()]),
                    "there are give_tokens, set_parameter, set_policy, refresh_now and full_step_now");
    return *change;
}

Command read_branch(JsonFields& fields, const std::string& what) {
    command::Branch branch;
    for (const char* key : {"run_id", "step"})
        require(fields, key);
    fields.text("run_id", branch.run_id);
    fields.integer("step", branch.step, 0, most);
    if (const nlohmann::json* recorded = fields.find("recorded"))
        branch.recorded = read_recorded(*recorded, what);
    if (const nlohmann::json* changes = fields.find("changes")) {
        if (!changes->is_array()) fields.fail("changes", "must be a list of commands");
        for (const nlohmann::json& change : *changes)
            branch.changes.push_back(read_change(change, what));
    }
    fields.boolean("goes_on", branch.goes_on);
    return branch;
}

/// Reads the fields of one alternative; finish() is the caller's.
Command read_fields(JsonFields& fields, size_t index, const std::string& what) {
    switch (index) {
    case 0: {
        require(fields, "config");
        command::StartRun start{run_config_from_json(*fields.find("config"), what)};
        fields.boolean("paused", start.paused);
        return start;
    }
    case 1:
        return command::Pause{};
    case 2:
        return command::Resume{};
    case 3: {
        command::Step step;
        fields.integer("steps", step.steps, 1, most);
        return step;
    }
    case 4:
        return command::Stop{};
    case 5:
        return command::RefreshNow{};
    case 6: {
        command::Rewind rewind;
        require(fields, "step");
        fields.integer("step", rewind.step, 0, std::numeric_limits<int64_t>::max());
        return rewind;
    }
    case 7: {
        command::SetParameter set;
        require(fields, "key");
        require(fields, "value");
        fields.text("key", set.key);
        fields.text("value", set.value);
        return set;
    }
    case 8: {
        require(fields, "policy");
        return command::SetPolicy{policy_from_json(*fields.find("policy"), what, Thresholds::any_finite)};
    }
    case 9: {
        command::RequestAttention request;
        require(fields, "position");
        fields.integer("position", request.position, 0, std::numeric_limits<int64_t>::max());
        fields.boolean("teacher", request.teacher);
        return request;
    }
    case 11: {
        command::SetPace pace;
        require(fields, "tokens_per_second");
        fields.real("tokens_per_second", pace.tokens_per_second, 0, 1e9);
        return pace;
    }
    case 12: {
        command::GiveTokens give;
        fields.text("text", give.text);
        token_ids(fields, "ids", give.ids);
        if (give.ids.empty() && give.text.empty()) fields.fail("text", "missing", "give \"text\" or \"ids\"");
        return give;
    }
    case 13: {
        command::ComputeLandscape compute;
        fields.text("values", compute.values);
        fields.integer("every", compute.every, 1, most);
        return compute;
    }
    case 14:
        return command::FullStepNow{};
    case 15:
        return read_branch(fields, what);
    case 16: {
        command::ComputeScope scope;
        fields.integer("every", scope.every, 0, most);
        fields.integer("horizon", scope.horizon, 1, 4096);
        fields.integer("blocks", scope.blocks, 1, 64);
        fields.real("keep", scope.keep, 0, 1);
        return scope;
    }
    case 17: {
        command::SavePromptCache save;
        require(fields, "path");
        fields.text("path", save.path);
        fields.boolean("exact", save.exact);
        return save;
    }
    default: {
        command::CheckExactness check;
        if (const nlohmann::json* options = fields.find("options"))
            check.options = exactness_options_from_json(*options, what + ", options");
        return check;
    }
    }
}

nlohmann::json recorded_to_json(const command::RecordedRun& run) {
    nlohmann::json json{{"run_id", run.run_id},
                        {"config", to_json(run.config)},
                        {"rendered_prompt", run.rendered_prompt},
                        {"prompt_ids", run.prompt_ids},
                        {"kernel_set", run.kernel_set},
                        {"tokens", run.tokens},
                        {"steps", run.steps},
                        {"commands", nlohmann::json::array()}};
    for (const TimedCommand& timed : run.commands)
        json["commands"].push_back({{"step", timed.step}, {"command", to_json(timed.command)}});
    return json;
}

} // namespace

nlohmann::json to_json(const Command& command) {
    nlohmann::json json = {{"command", command_names[command.index()]}};
    std::visit(Overloaded{
                   [&](const command::StartRun& c) {
                       json["config"] = to_json(c.config);
                       json["paused"] = c.paused;
                   },
                   [&](const command::Step& c) { json["steps"] = c.steps; },
                   [&](const command::Rewind& c) { json["step"] = c.step; },
                   [&](const command::SetParameter& c) {
                       json["key"] = c.key;
                       json["value"] = c.value;
                   },
                   [&](const command::SetPolicy& c) { json["policy"] = policy_to_json(c.policy); },
                   [&](const command::RequestAttention& c) {
                       json["position"] = c.position;
                       json["teacher"] = c.teacher;
                   },
                   [&](const command::CheckExactness& c) { json["options"] = to_json(c.options); },
                   [&](const command::SetPace& c) { json["tokens_per_second"] = c.tokens_per_second; },
                   [&](const command::GiveTokens& c) {
                       if (!c.ids.empty()) json["ids"] = c.ids;
                       if (!c.text.empty()) json["text"] = c.text;
                   },
                   [&](const command::ComputeLandscape& c) {
                       json["values"] = c.values;
                       json["every"] = c.every;
                   },
                   [&](const command::ComputeScope& c) {
                       json["every"] = c.every;
                       json["horizon"] = c.horizon;
                       json["blocks"] = c.blocks;
                       json["keep"] = c.keep;
                   },
                   [&](const command::SavePromptCache& c) {
                       json["path"] = c.path;
                       json["exact"] = c.exact;
                   },
                   [&](const command::Branch& c) {
                       json["run_id"] = c.run_id;
                       json["step"] = c.step;
                       if (c.recorded) json["recorded"] = recorded_to_json(*c.recorded);
                       json["changes"] = nlohmann::json::array();
                       for (const command::Branch::Change& change : c.changes)
                           json["changes"].push_back(
                               std::visit([](const auto& one) { return to_json(Command(one)); }, change));
                       json["goes_on"] = c.goes_on;
                   },
                   [](const command::Pause&) {},
                   [](const command::Resume&) {},
                   [](const command::Stop&) {},
                   [](const command::RefreshNow&) {},
                   [](const command::FullStepNow&) {},
               },
               command);
    return json;
}

Command command_from_json(const nlohmann::json& json, const std::string& what) {
    JsonFields fields(json, what);
    const std::optional<size_t> index = fields.choice("command", command_names);
    if (!index) fields.fail("command", "missing");
    Command command = read_fields(fields, *index, what);
    fields.finish();
    return command;
}

void apply_to(RunConfig& config, const Command& command) {
    if (const auto* set = std::get_if<command::SetParameter>(&command))
        set_parameter(config, set->key, set->value);
    if (const auto* whole = std::get_if<command::SetPolicy>(&command)) config.policy = whole->policy;
}

std::vector<Command> commands_between(RunConfig from, const RunConfig& to) {
    std::vector<Command> commands;
    for (const Parameter& parameter : parameters()) {
        if (parameter.of_policy || !fixed_reason(from, parameter.key).empty()) continue;
        const auto wanted = parameter_value(to, parameter.key),
                   present = parameter_value(from, parameter.key);
        if (!wanted || !present || present == wanted)
            continue; // parameters of a cache policy may be on one side alone
        set_parameter(from, parameter.key, *wanted);
        commands.emplace_back(command::SetParameter{std::string(parameter.key), *wanted});
    }
    // Last: a changed mc.every has changed the MC trigger's `every` as well.
    if (!(from.policy == to.policy)) commands.emplace_back(command::SetPolicy{to.policy});
    return commands;
}

std::string coalesce_key(const Command& command) {
    if (const auto* set = std::get_if<command::SetParameter>(&command)) {
        const Parameter* parameter = find_parameter(set->key);
        return fmt::format("set:{}", parameter != nullptr ? parameter->key : std::string_view(set->key));
    }
    if (std::holds_alternative<command::SetPolicy>(command)) return "policy";
    if (const auto* request = std::get_if<command::RequestAttention>(&command)) {
        return fmt::format("attention:{}:{}", request->teacher ? "teacher" : "student", request->position);
    }
    if (std::holds_alternative<command::CheckExactness>(command)) return "check";
    if (std::holds_alternative<command::SetPace>(command)) return "pace";
    if (std::holds_alternative<command::ComputeLandscape>(command)) return "landscape";
    if (std::holds_alternative<command::ComputeScope>(command)) return "scope";
    return {};
}

} // namespace refreshlab
