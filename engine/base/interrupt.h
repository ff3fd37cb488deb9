#pragma once

#include <atomic>

namespace refreshlab {

/// Ctrl-C and SIGTERM. A command calls note_interrupts() when it begins what should be finished in good order (a recording,
/// a sweep's file): from then on the first signal is noted and the command ends after the step in flight. Before that call
/// the first signal ends the program at once, and the second one always does.
void note_interrupts();

/// The signal that was noted; 0 without one.
[[nodiscard]] int interrupted();
/// The same for those who look between steps.
[[nodiscard]] const std::atomic<bool>& interrupt_flag();

} // namespace refreshlab
