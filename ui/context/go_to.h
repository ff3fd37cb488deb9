#pragma once

#include "ui/context/context.h"
#include "ui/scene/runs/note_rows.h"

namespace refreshlab::ui {

/// Shows the first step of a note, in the shown run where that has it, else in the note's.
void go_to_note(UiContext& ctx, const NoteRow& row);

} // namespace refreshlab::ui
