#include "engine/record/trace/trace_notes.h"

#include "engine/base/error.h"
#include "engine/record/notes/run_notes.h"
#include "engine/record/trace/schema/trace_versions.h"
#include "engine/record/trace/sqlite.h"
#include "engine/record/trace/trace_access.h"
#include "engine/record/trace/write/note_rows.h"
#include "engine/record/trace/write/trace_target.h"

#include <fmt/format.h>

namespace refreshlab {

namespace {

constexpr auto writing = "writing notes";

} // namespace

void store_notes(const std::filesystem::path& path, const RunNotes& notes) {
    trace::read_trace(path, [](const trace::OpenTrace&) {}); // what it is, before anything is written
    try {
        sqlite::Database db(path, sqlite::Open::read_write);
        if (db.read_only())
            throw Error(writing, path.string(), "the file is read-only", "save the runs as another trace");
        db.busy_timeout(2000);
        db.exec("BEGIN IMMEDIATE");
        sqlite::Statement run(db, "SELECT run FROM runs WHERE id = ?");
        run.bind(0, std::string_view(notes.run_id()));
        if (!run.step()) throw Error(writing, path.string(), "it holds no run " + notes.run_id());
        const int64_t number = run.integer(0);
        run.reset();
        if (!trace::bring_up_to_date(db)) {
            throw Error(writing, path.string(),
                        fmt::format("it is a trace of schema {}, which has no place for notes",
                                    db.integer("PRAGMA user_version")),
                        "save the runs as another trace");
        }
        trace::NoteRows(db).replace(number, notes.own());
        db.exec("COMMIT");
    } catch (const sqlite::SqlError& e) {
        throw trace::writing_error(path, e);
    }
}

} // namespace refreshlab
