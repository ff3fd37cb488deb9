#include "ui/dialogs/note_edit.h"

#include "engine/record/trace/trace_notes.h"
#include "ui/state/shell_state.h"

#include <fmt/format.h>

#include <filesystem>
#include <utility>

namespace refreshlab::ui {

namespace {

/// Into the file that holds the run. The engine's own trace takes its notes by itself.
void store(ShellState& state, const std::shared_ptr<RunNotes>& owner) {
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
    if (after) {
        after->id = before ? before->id : 0;
        if (before)
            owner->put(*after);
        else
            after->id = owner->add(*after);
        after = owner->find(after->id); // cleaned, and with its time
    } else {
        owner->erase(before->id);
    }
    store(state, owner);
    std::string words = fmt::format("{} at {}",
                                    !before ? "Note"
                                    : after ? "Changed note"
                                            : "Erased note",
                                    note_place(after ? *after : *before));
    state.ctx.drafts.join_history(std::move(words), [&state, owner, before, after](bool back) {
        const std::optional<StepNote>& now = back ? before : after;
        if (now)
            owner->put(*now);
        else
            owner->erase((back ? after : before)->id);
        store(state, owner);
    });
}

} // namespace refreshlab::ui
