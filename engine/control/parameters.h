#pragma once

#include "engine/control/run_config.h"

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace refreshlab {

/// One option, listed once for command line (--set KEY=VALUE), JSON and window.
struct Parameter {
    enum class Kind : uint8_t {
        boolean,
        integer,
        real,
        choice,
        text, ///< a text of a form of its own, which Parameter::form describes
        list, ///< ascending whole numbers with commas: "12,40,64"; or the word of `choices`, which stands for an empty one
    };
    std::string_view key;   ///< "entropy.threshold", "sampler.temperature", "on_fire", ...
    std::string_view label; ///< for people, sentence case
    std::string_view unit;  ///< "bits", "tokens", ""
    std::string_view help;  ///< one sentence
    std::string_view
        option; ///< short form of `--set KEY=` on the command line: "--top-k"; empty: there is none
    Kind kind = Kind::real;
    double min = 0, max = 0;               ///< inclusive range accepted
    double slider_min = 0, slider_max = 0; ///< usual range
    std::vector<std::string_view> choices; ///< Kind::choice; of Kind::list one word
    std::string_view form; ///< of Kind::text, what it takes: "layers and ranges of layers ..., or all"
    bool live =
        true; ///< may change between steps, of a cache policy where its method says so; false: only before a run
    bool optional = false;   ///< accepts "none": unlimited (window.size), the checkpoint's own (mc.p)
    bool of_policy = false;  ///< part of RunConfig::policy, so a whole new policy replaces it
    std::string_view signal; ///< of a trigger's field: the signal; empty else
};

/// All parameters, each once. Policy keys (`periodic.every`, `window.size`, `entropy.threshold|every|cooldown|enabled`,
/// `kl.every|threshold|cooldown|enabled`, `burst.every`, `mc.threshold|samples|p|every|cooldown|enabled`, `mi.*`,
/// `surprisal.*`, `budget.refreshes`, `budget.per_tokens`, `on_fire`, `combine`) act on the policy's trigger of that signal;
/// signals without a short word go by their name (`top1_prob.threshold`).
/// periodic.every and burst.every are the threshold of the steps_since_refresh trigger; in the preset burst, burst.every
/// sets the window too (R = W = k); the `every` of that trigger is periodic.look_every. mc.every says both where MC is
/// measured and where the mc_variance trigger looks.
[[nodiscard]] std::span<const Parameter> parameters();
/// Null if there is none. Takes every spelling of a trigger's field: the general `<signal>.threshold|every|cooldown|
/// enabled`, and `stride`, as earlier versions called `every`; the result's `key` is the spelling of the list.
[[nodiscard]] const Parameter* find_parameter(std::string_view key);
/// What helps after a key that find_parameter() does not know: the nearest name, or where the names are listed.
[[nodiscard]] std::string parameter_hint(std::string_view key);

/// Value as text ("6", "none", "redraw"); nothing if the configuration has no such thing (no entropy trigger).
[[nodiscard]] std::optional<std::string> parameter_value(const RunConfig& config, std::string_view key);

/// Sets one parameter from text. Throws Error{bad_input} naming key, value and range: unknown key (with the nearest),
/// not a number, NaN, out of range (negative thresholds are), or a policy that has no such trigger ("policy periodic has
/// no entropy trigger"). The configuration is as before then.
void set_parameter(RunConfig& config, std::string_view key, std::string_view value);
/// Why a parameter cannot change while a run with this configuration goes on, for people; empty: it can.
[[nodiscard]] std::string fixed_reason(const RunConfig& config, std::string_view key);
/// The same while a run goes on: also throws for a parameter that is fixed then.
void set_live_parameter(RunConfig& config, std::string_view key, std::string_view value);
/// "KEY=VALUE"; spaces around either do not count.
void set_parameter(RunConfig& config, std::string_view assignment);

} // namespace refreshlab
