#include "engine/record/trace/trace_notes.h"

#include "engine/record/notes/run_notes.h"
#include "engine/record/trace/beside_run.h"
#include "engine/record/trace/schema/trace_versions.h"
#include "engine/record/trace/write/note_rows.h"

namespace refreshlab {

void store_notes(const std::filesystem::path& path, const RunNotes& notes) {
    constexpr trace::BesideRun about{.doing = "writing notes",
                                     .what = "notes",
                                     .elsewhere = "save the runs as another trace",
                                     .make_room = trace::bring_up_to_date};
    trace::write_beside_run(path, notes.run_id(), about, [&](sqlite::Database& db, int64_t run) {
        trace::NoteRows(db).replace(run, notes.own());
    });
}

} // namespace refreshlab
