#pragma once

#include "ui/figure/figure.h"

#include <span>

namespace refreshlab::ui {

/// Names for a legend, where nobody gave one: "entropy, seed 0", with the cache policy where there is one, and of a branch its step. Runs
/// that would have one name get what is other in them behind it, else a number.
void name_runs(std::span<FigureRun> runs);

} // namespace refreshlab::ui
