#pragma once

#include "engine/control/exactness.h"
#include "engine/control/run_config.h"

#include <nlohmann/json_fwd.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace refreshlab {

struct TimedCommand;

/// What the decode thread is told. Plain data that serialises: a trace logs it, a socket could carry it. Commands are
/// applied between steps. Those marked * change the recording, and are logged with the step at which they act.
namespace command {
/// Loads models if they changed, prefills, then decodes, or waits paused after the prefill.
struct StartRun {
    RunConfig config;
    bool paused = false;
};
struct Pause {};
struct Resume {};
/// Makes exactly this many records, then pauses again.
struct Step {
    int32_t steps = 1;
};
/// Ends the run; what it recorded stays.
struct Stop {};
/// * At the next boundary.
struct RefreshNow {};
/// Continues, paused, from the state of step k as a new branch.
struct Rewind {
    int64_t step = 0;
};
/// * From the next step on; a later value of the same key replaces.
struct SetParameter {
    std::string key, value;
};
/// * The whole policy at once (presets, cards added and removed).
struct SetPolicy {
    RefreshPolicy policy;
};
/// Fills the recording's attention store.
struct RequestAttention {
    int64_t position = 0;
    bool teacher = false;
};
/// Pauses the run and compares the caches of its models with recomputation. The report grows in EngineStatus; Stop ends
/// the check.
struct CheckExactness {
    ExactnessOptions options;
};
/// Computes the refresh landscape of the run's text so far (engine/landscape), beside other commands; a run that goes on is paused
/// first. It grows in EngineStatus. Whatever moves the run, Stop and CheckExactness end it; its rows stay, and the same command
/// goes on with them.
struct ComputeLandscape {
    std::string values; ///< names with commas, as landscape_values() takes them; empty: the usual ones
    int64_t every = 1;  ///< rows 0, every, 2 * every, ...
};
/// Measures where in the cache the refreshes of the run's text pay (ScopeMap, engine/results), with the run paused. The map comes up in
/// EngineStatus when it is whole; Stop ends it, and nothing of it stays then.
struct ComputeScope {
    int64_t every = 0;    ///< refreshes every so many tokens; 0: the run's own, or every 16 where it had none
    int64_t horizon = 16; ///< tokens behind each whose loss counts
    int64_t blocks = 4;   ///< of positions of a delta
    /// The greedy order of KV heads goes on until it keeps this share of the gain; 0: none.
    double keep = 0.95;
};
/// The highest pace of a running decode: each token waits until its time has come. It is no part of a run: only the
/// recorded times of arrival depend on it. Step does not wait.
struct SetPace {
    double tokens_per_second = 0; ///< 0 = as fast as it goes; below slowest_pace: that
};
inline constexpr double slowest_pace = 0.1;
/// * From the next choice on these tokens are chosen instead of drawn, one a step; then the run draws again. As a change of a Branch after
/// step k - 1, a branch in which step k chooses another token. A refresh that draws again, or takes the teacher's token, leaves them.
struct GiveTokens {
    std::vector<int32_t> ids; ///< empty: those of the text
    std::string text;         ///< UTF-8, without special tokens; beside ids it says what they are
};
inline constexpr size_t most_given_tokens = 4096;
/// * At the next step every layer reads all that it holds, where the cache policy has such steps (RefreshKV).
struct FullStepNow {};
/// A recorded run up to `steps`: what makes it the engine's again, by decoding its prompt under its configuration and its log. Bit for
/// bit the state of that step where kernels round alike; refused where another token is chosen.
struct RecordedRun {
    std::string run_id; ///< of the recorded run, the parent of what is made
    RunConfig config;   ///< as the run started
    std::string rendered_prompt;
    std::vector<int32_t> prompt_ids;    ///< fed as they are
    std::string kernel_set;             ///< that it was recorded with, taken where the processor has it
    std::vector<TimedCommand> commands; ///< its log
    std::vector<int32_t> tokens;        ///< y_1 .. y_{steps + 1} as recorded
    int64_t steps = 0;
};
/// Leaves a run after step `step` (0: just prefilled) and goes another way from there, as a branch of it. Its state comes back bit for
/// bit. What cannot be had (no such step, models that are not there, a token that comes out otherwise) is refused, and the run that
/// stands goes on; a change that is refused leaves the branch waiting, paused, with those before it.
struct Branch {
    std::string run_id; ///< of the run that is left
    int64_t step = 0;
    std::optional<RecordedRun> recorded = {}; ///< the run, up to `step`; nothing: it is the one that stands
    /// * At its first own step, in this order.
    using Change = std::variant<GiveTokens, SetParameter, SetPolicy, RefreshNow, FullStepNow>;
    std::vector<Change> changes = {};
    bool goes_on = false; ///< else it waits, paused
};
/// Saves the cache of the run's prompt as a file that other runs continue from (RunConfig::prompt_cache).
struct SavePromptCache {
    std::string path;
    bool exact = false; ///< else in four bits
};
} // namespace command

using Command = std::variant<command::StartRun, command::Pause, command::Resume, command::Step, command::Stop,
                             command::RefreshNow, command::Rewind, command::SetParameter, command::SetPolicy,
                             command::RequestAttention, command::CheckExactness, command::SetPace,
                             command::GiveTokens, command::ComputeLandscape, command::FullStepNow,
                             command::Branch, command::ComputeScope, command::SavePromptCache>;

/// A command with its step: it is applied after boundary step - 1, so step `step` is the first that feels it and a refresh
/// by hand comes at boundary `step`. A recording logs the same number.
struct TimedCommand {
    int64_t step = 1;
    Command command;
};

/// {"command": "set_parameter", "key": "entropy.threshold", "value": "5.2"}: the snake_case name and the fields.
[[nodiscard]] nlohmann::json to_json(const Command& command);
/// Throws Error{bad_input} naming `what` and the key.
[[nodiscard]] Command command_from_json(const nlohmann::json& json, const std::string& what);

/// What a command sets in a configuration: a parameter, or the policy. The others set nothing. Throws as set_parameter().
void apply_to(RunConfig& config, const Command& command);

/// What leads from one configuration to another while a run goes on: set_parameter for each live setting that differs, then
/// set_policy where the policies do. What is fixed during a run is left as it is.
[[nodiscard]] std::vector<Command> commands_between(RunConfig from, const RunConfig& to);

/// Commands with the same non-empty key replace each other while they wait: "set:entropy.threshold" (the parameter, in
/// whichever spelling), "policy", "pace", "attention:teacher:17" (one row is read once, however often it was asked for).
[[nodiscard]] std::string coalesce_key(const Command& command);

} // namespace refreshlab
