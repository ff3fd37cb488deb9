#pragma once

#include "engine/record/recording/step_record.h"

#include <string>
#include <string_view>

namespace refreshlab::ui {

/// A command that the engine applied, for people: "Entropy threshold: 5.2 bits". One that this version does not know is shown as
/// it stands. No ImGui in here.
[[nodiscard]] std::string command_words(const CommandEvent& event);
/// The same as one log line: "step 110: Entropy threshold: 5.2 bits".
[[nodiscard]] std::string describe(const CommandEvent& event);
/// Key of the parameter that it sets; empty for other commands.
[[nodiscard]] std::string set_key(const CommandEvent& event);
/// Whether it asked for a row of attention. Panels send many of them by themselves.
[[nodiscard]] bool reads_attention(const CommandEvent& event);

/// Why a run has ended, for a person: "all tokens made" for max_tokens.
[[nodiscard]] std::string stop_text(std::string_view reason);

} // namespace refreshlab::ui
