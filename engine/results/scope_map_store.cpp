#include "engine/results/scope_map_store.h"

#include "engine/base/json_file.h"
#include "engine/base/json_text.h"
#include "engine/record/trace/beside_run.h"
#include "engine/record/trace/schema/trace_schema.h"
#include "engine/record/trace/schema/trace_versions.h"
#include "engine/record/trace/trace_access.h"
#include "engine/results/scope_map_json.h"

#include <fmt/format.h>

#include <utility>

namespace refreshlab {

namespace {

using sqlite::Database;
using sqlite::Statement;
using trace::Damage;

/// Throws Damage unless the run has the steps that the map speaks of.
void check_steps(Database& db, int64_t run, const ScopeMap& map) {
    Statement last(
        db, "SELECT max(fork_step, coalesce((SELECT max(step) FROM steps WHERE steps.run = runs.run), 0)) "
            "FROM runs WHERE run = ?"); // a branch has its own steps alone
    last.bind(0, run);
    const int64_t steps = last.step() ? last.integer(0) : 0;
    for (const ScopeMap::Refresh& refresh : map.refreshes)
        if (refresh.boundary + map.horizon > steps + 1) // the step that fed y_t follows the one that chose it
            throw Damage(
                fmt::format("it has a scope map of step {} and {} tokens behind it, of a run of {} steps",
                            refresh.boundary, map.horizon, steps));
}

} // namespace

std::vector<StoredScopeMap> load_scope_maps(const std::filesystem::path& path) {
    std::vector<StoredScopeMap> all;
    trace::read_trace(path, [&](const trace::OpenTrace& file) {
        if (file.version < trace::table("scope_maps").since) return;
        Statement rows(file.db, trace::select_sql("scope_maps", file.version) + " ORDER BY run");
        while (rows.step()) {
            const int64_t run = rows.integer(0);
            Statement id(file.db, "SELECT id FROM runs WHERE run = ?");
            id.bind(0, run);
            if (!id.step()) throw Damage(fmt::format("it has a scope map of run {}, which it has not", run));
            const std::string what = fmt::format("the scope map of run {} of {}", run, path.string());
            auto map = std::make_shared<ScopeMap>(scope_map_from_json(parse_json(rows.text(1), what), what));
            check_steps(file.db, run, *map);
            all.push_back({id.text(0), std::move(map)});
        }
    });
    return all;
}

std::shared_ptr<const ScopeMap> load_scope_map_of(const std::filesystem::path& path,
                                                  const std::string& run_id) {
    for (StoredScopeMap& stored : load_scope_maps(path))
        if (stored.run_id == run_id) return std::move(stored.map);
    return nullptr;
}

void store_scope_map(const std::filesystem::path& path, const std::string& run_id, const ScopeMap& map) {
    constexpr trace::BesideRun about{.doing = "writing a scope map",
                                     .what = "scope maps",
                                     .elsewhere = "save the run as another trace",
                                     .make_room = trace::bring_up_to_date};
    const std::string text = json_text(measured_json(map));
    trace::write_beside_run(path, run_id, about, [&](Database& db, int64_t run) {
        Statement put(db, "INSERT OR REPLACE INTO scope_maps VALUES (?, ?)");
        put.bind(0, run);
        put.bind(1, std::string_view(text));
        put.run();
    });
}

} // namespace refreshlab
