#pragma once

#include "ui/state/shell_state.h"

#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace refreshlab::ui {

/// Numbers of the run bar, most wanted first: the last ones go when the window is narrow.
struct Number {
    static constexpr float apart_em = 1.1F; ///< between words, and before the next number

    int rank; ///< importance for the run bar, 0 first
    std::vector<std::pair<std::string, Colour>>
        words; ///< beside each other; one means little without the next
    std::string help;
    float width; ///< of the widest text it will have soon, so that the strip does not jitter
};

[[nodiscard]] std::vector<Number> run_numbers(const ShellState& state);

/// Something that takes long: loading, prefilling, a job.
struct Progress {
    float fraction; ///< negative: the length is unknown
    std::string text;
    std::function<void()> cancel;
    int job = -1; ///< its index; -1 is the engine
};

/// Those that have taken longer than 200 ms (RB8).
[[nodiscard]] std::vector<Progress> run_progress(ShellState& state);

} // namespace refreshlab::ui
