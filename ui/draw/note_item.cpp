#include "ui/draw/note_item.h"

#include "ui/base/value_format.h"

#include <fmt/format.h>
#include <imgui.h>

namespace refreshlab::ui {

void note_item(UiContext& ctx, int64_t step) {
    if (step < 1 || step > ctx.steps || !ctx.run_action) return;
    const bool there = !ctx.marks.notes_over(step, step).empty();
    if (!ImGui::MenuItem(
            fmt::format("{} at step {}...", there ? "Change the note" : "Note", format_thousands(step))
                .c_str(),
            "M"))
        return;
    ctx.select_step(step);
    ctx.run_action("note.edit");
}

} // namespace refreshlab::ui
