#pragma once

#include "engine/record/notes/run_notes.h"

#include <memory>
#include <optional>

namespace refreshlab::ui {

struct ShellState;

/// Writes, changes or erases a note of a run: one entry of the undo history. A run that a trace holds (ShellState::files) has it there as
/// well, beside the frames; what its live trace does not take is a toast.
/// \param before  as it is, its id with it; nothing: it is a new one
/// \param after   as it shall be; nothing: it goes. Throws Error{bad_input} for a note_fault()
void change_note(ShellState& state, const std::shared_ptr<RunNotes>& owner,
                 const std::optional<StepNote>& before, std::optional<StepNote> after);

} // namespace refreshlab::ui
