#include "ui/dialogs/note_edit.h"

#include "engine/record/trace/trace_notes.h"
#include "ui/state/shell_state.h"

#include <fmt/format.h>

namespace refreshlab::ui {

namespace {

/// From `before` to `after`, of which one is nothing where a note comes or goes; into the file that holds the run as well. The engine's
/// own trace takes its notes by itself.
void put(ShellState& state, const std::shared_ptr<RunNotes>& owner, const std::optional<StepNote>& before,
         const std::optional<StepNote>& after) {
    if (after)
        owner->put(*after);
    else
        owner->erase(before->id);
    const auto file = state.files.find(owner);
    if (file == state.files.end()) return;
    state.start_job("Writing the note",
                    [path = file->second, owner](const std::atomic<bool>&) -> std::function<void()> {
                        store_notes(path, *owner);
                        return [] {};
                    });
}

} // namespace

void change_note(ShellState& state, const std::shared_ptr<RunNotes>& owner,
                 const std::optional<StepNote>& before, std::optional<StepNote> after) {
    if (!before && !after) return;
    if (after) after->id = before ? before->id : owner->add(*after);
    put(state, owner, before, after);
    if (after) after = owner->find(after->id); // cleaned, and with its time
    state.ctx.drafts.join_history(fmt::format("{} at {}",
                                              !before ? "Note"
                                              : after ? "Changed note"
                                                      : "Erased note",
                                              note_place(after ? *after : *before)),
                                  [&state, owner, before, after](bool back) {
                                      back ? put(state, owner, after, before)
                                           : put(state, owner, before, after);
                                  });
}

} // namespace refreshlab::ui
