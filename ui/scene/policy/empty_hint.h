#pragma once

#include "engine/control/engine_link.h"
#include "engine/record/recording/recording.h"
#include "engine/signals/registry.h"
#include "ui/scene/policy/drafts.h"

#include <string>

namespace refreshlab::ui {

/// Why a signal has no value, and the switch that would bring some.
struct EmptyHint {
    std::string why;
    const char* key = nullptr; ///< parameter to set to true; null = none would help
    const char* action = "";   ///< words of its button
};
/// \param recording  shown; null = no run yet
/// \param live       it is the engine's
[[nodiscard]] EmptyHint empty_hint(const Signal& signal, const Recording* recording, bool live, Mode mode,
                                   const Drafts& drafts);

} // namespace refreshlab::ui
