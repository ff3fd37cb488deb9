#pragma once

#include "ui/state/shell_state.h"

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace refreshlab::ui {

/// What a chapter of the tour can ask of the window, and say in its texts: a number, or a word.
using FactValue = std::variant<double, std::string>;
/// "3.42", "paused".
[[nodiscard]] std::string fact_text(const FactValue& value);

/// Empty where there is a fact of that name; else one sentence with the nearest name.
/// "steps", "refreshes", "last_refresh.entries", ..., and families: "parameter:KEY", "plot:SIGNAL", "panel:TITLE", "at:SIGNAL",
/// "done:ACTION" (fact_names()).
[[nodiscard]] std::string fact_fault(std::string_view name);
/// Each with a sentence, for the page about chapters.
[[nodiscard]] std::vector<std::pair<std::string, std::string>> fact_names();
/// Nothing: it is not known now (no refresh yet). Precondition: there is such a fact.
[[nodiscard]] std::optional<FactValue> fact(const ShellState& state, std::string_view name);

/// A text with facts in braces: "{refreshes} refreshes, the last rewrote {last_refresh.entries} entries".
/// Empty where every fact of it exists; else what is wrong.
[[nodiscard]] std::string text_fault(std::string_view text);
/// What is not known is "-".
[[nodiscard]] std::string with_facts(const ShellState& state, std::string_view text);

} // namespace refreshlab::ui
