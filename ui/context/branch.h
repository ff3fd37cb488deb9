#pragma once

#include "engine/control/command.h"
#include "engine/record/runs/run_tree.h"
#include "ui/context/context.h"

#include <cstdint>
#include <optional>
#include <string>

namespace refreshlab::ui {

/// Why no branch can begin at this step of a run of the window; empty where one can. Whether models of a trace are there only the
/// engine finds out: it says so in one line, and the run that stands goes on.
[[nodiscard]] std::string why_no_branch(const UiContext& ctx, RunKey run, int64_t step);

/// A branch from the state after step `step` (0: just prefilled), bit for bit: the live run is rewound, any other is made again. Then
/// these tokens are given, if any, and it goes on or waits. The window looks at it. What stands in the way is a toast.
void branch_at(UiContext& ctx, RunKey run, int64_t step, std::optional<command::GiveTokens> give,
               bool goes_on);

} // namespace refreshlab::ui
