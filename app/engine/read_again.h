#pragma once

#include "engine/control/run_config.h"
#include "engine/record/recording/recording.h"
#include "engine/session/pair/run_text.h"

#include <memory>
#include <string>

namespace refreshlab::app {

// A recorded text that both models read once more.

/// Models and device in the place of the run's own; empty: its own.
struct ReadAgain {
    std::string teacher, student, device;
};
/// The run's configuration with these, for both models. Says so where the student wrote the text by itself.
/// \param advice  what says more then: "take a given one"
[[nodiscard]] RunConfig config_to_read(const Recording& run, const ReadAgain& with,
                                       const std::string& advice);
/// Its prompt and its tokens.
[[nodiscard]] std::shared_ptr<const RunText> text_to_read(const Recording& run);

} // namespace refreshlab::app
