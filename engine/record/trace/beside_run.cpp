#include "engine/record/trace/beside_run.h"

#include "engine/base/error.h"
#include "engine/record/trace/trace_access.h"
#include "engine/record/trace/write/trace_target.h"

#include <fmt/format.h>

namespace refreshlab::trace {

void write_beside_run(const std::filesystem::path& path, const std::string& run_id, const BesideRun& about,
                      const std::function<void(sqlite::Database& db, int64_t run)>& write) {
    read_trace(path, [](const OpenTrace&) {}); // what it is, before anything is written
    try {
        sqlite::Database db(path, sqlite::Open::read_write);
        if (db.read_only()) throw Error(about.doing, path.string(), "the file is read-only", about.elsewhere);
        db.busy_timeout(sqlite::patience_ms);
        db.exec("BEGIN IMMEDIATE");
        int64_t number = 0;
        {
            sqlite::Statement run(db, "SELECT run FROM runs WHERE id = ?");
            run.bind(0, std::string_view(run_id));
            if (!run.step()) throw Error(about.doing, path.string(), "it holds no run " + run_id);
            number = run.integer(0);
        }
        if (!about.make_room(db)) {
            throw Error(about.doing, path.string(),
                        fmt::format("it is a trace of schema {}, which has no place for {}",
                                    db.integer("PRAGMA user_version"), about.what),
                        about.elsewhere);
        }
        write(db, number);
        db.exec("COMMIT");
    } catch (const sqlite::SqlError& e) {
        throw writing_error(path, e);
    }
}

} // namespace refreshlab::trace
