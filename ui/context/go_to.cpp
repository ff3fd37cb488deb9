#include "ui/context/go_to.h"

#include "ui/scene/runs/run_set.h"

#include <algorithm>

namespace refreshlab::ui {

void go_to_note(UiContext& ctx, const NoteRow& row) {
    if (!ctx.recording || !shows_note(*ctx.recording, row)) ctx.runs.look_at(row.run);
    const int64_t steps = ctx.runs.recording(*ctx.runs.looked_at())->steps();
    const int64_t step = std::clamp<int64_t>(row.note.first_step, 1, std::max<int64_t>(steps, 1));
    ctx.select_step(step);
    reveal_step(ctx.time, step, steps);
}

} // namespace refreshlab::ui
