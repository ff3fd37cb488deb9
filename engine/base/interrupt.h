#pragma once

#include <atomic>
#include <chrono>

namespace refreshlab {

/// The same signal again within this time is still the first one: `timeout` and batch systems send theirs to a process and then to its
/// group, and whether the two arrive as one is chance. Far below what a person takes to press Ctrl-C, read and press again.
inline constexpr std::chrono::milliseconds interrupt_repeat{250};

/// Ctrl-C and SIGTERM. A command calls note_interrupts() when it begins what should be finished in good order (a recording,
/// a sweep's file): from then on the first signal is noted and the command ends after the step in flight. Before that call
/// the first signal ends the program at once, and the second one always does (one of another kind, or after interrupt_repeat).
void note_interrupts();

/// The signal that was noted; 0 without one.
[[nodiscard]] int interrupted();
/// The same for those who look between steps.
[[nodiscard]] const std::atomic<bool>& interrupt_flag();

} // namespace refreshlab
