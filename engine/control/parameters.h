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
    enum class Kind : uint8_t { boolean, integer, real, choice };
    std::string_view key;       ///< "entropy.threshold", "sampler.temperature", "on_fire", ...
    std::string_view label;     ///< for people, sentence case
    std::string_view unit;      ///< "bits", "tokens", ""
    std::string_view help;      ///< one sentence
    Kind kind = Kind::real;
    double min = 0, max = 0;    ///< inclusive range accepted
    double slider_min = 0, slider_max = 0; ///< usual range
    std::vector<std::string_view> choices; ///< Kind::choice
    bool live = true;           ///< may change between steps; false: only before a run
    bool optional = false;      ///< accepts "none" (unlimited): window.size, budget.refreshes
};

/// All parameters. Policy keys (`periodic.every`, `window.size`, `entropy.threshold|stride|cooldown`,
/// `kl.every|threshold|cooldown`, `burst.every`, `mc.threshold|samples|p|stride|cooldown`, `budget.refreshes`,
/// `budget.per_tokens`, `on_fire`, ...) act on the policy's trigger of that signal.
[[nodiscard]] std::span<const Parameter> parameters();
[[nodiscard]] const Parameter* find_parameter(std::string_view key);

/// Value as text ("6", "none", "redraw"); nothing if the configuration has no such thing (no entropy trigger).
[[nodiscard]] std::optional<std::string> parameter_value(const RunConfig& config, std::string_view key);

/// Sets one parameter from text. Throws Error{bad_input} naming key, value and range: unknown key (with the nearest),
/// not a number, NaN, out of range, or a policy that has no such trigger ("policy periodic has no entropy trigger").
void set_parameter(RunConfig& config, std::string_view key, std::string_view value);
/// "KEY=VALUE".
void set_parameter(RunConfig& config, std::string_view assignment);

} // namespace refreshlab
