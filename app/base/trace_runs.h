#pragma once

#include "engine/record/recording/recording.h"

#include <memory>
#include <span>
#include <string>

namespace refreshlab::app {

/// The run with this id of those that a trace, or several, hold; without an id the newest of them.
/// Throws Error{bad_input}: there is no run, or none with this id (naming those that there are).
/// \param doing, trace  for the message: what is done, and which file holds the runs
[[nodiscard]] std::shared_ptr<Recording> chosen_run(std::span<const std::shared_ptr<Recording>> runs,
                                                    const std::string& id, const std::string& doing,
                                                    const std::string& trace);

} // namespace refreshlab::app
