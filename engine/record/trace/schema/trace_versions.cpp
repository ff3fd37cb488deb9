#include "engine/record/trace/schema/trace_versions.h"

#include "engine/record/trace/schema/trace_schema.h"

#include <fmt/format.h>

#include <algorithm>

namespace refreshlab::trace {

std::string select_sql(std::string_view name, int64_t version) {
    std::string sql = "SELECT ";
    for (const Column& column : table(name).columns) {
        if (sql.back() != ' ') sql += ", ";
        sql += column.since <= version ? column.name : column.before;
    }
    return sql + fmt::format(" FROM {}", name);
}

bool add_missing_tables(sqlite::Database& db, int64_t up_to) {
    const int64_t version = db.integer("PRAGMA user_version");
    int64_t now = version;
    std::string sql;
    for (const Table& table : tables()) {
        if (table.since > up_to) continue;
        if (table.since > version) {
            sql += create_sql(table);
            now = std::max(now, table.since);
        } else if (table.columns_of(version).size() < table.columns_of(up_to).size()) {
            return false;
        }
    }
    if (now > version) db.exec((sql + fmt::format("PRAGMA user_version = {}", now)).c_str());
    return true;
}

bool bring_up_to_date(sqlite::Database& db) {
    const int64_t version = db.integer("PRAGMA user_version");
    if (version < 3) return false;
    if (version >= schema_version) return true;
    std::string sql;
    for (const Table& table : tables()) {
        if (table.since > version) {
            sql += create_sql(table);
            continue;
        }
        for (const Column& column : table.columns) {
            if (column.since <= version) continue;
            sql += fmt::format("ALTER TABLE {0} ADD COLUMN {1} {2};\nUPDATE {0} SET {1} = {3};\n", table.name,
                               column.name, column.type, column.before);
        }
    }
    db.exec((sql + fmt::format("PRAGMA user_version = {}", schema_version)).c_str());
    return true;
}

const std::vector<std::string>& signals_before_schema_3() {
    static const std::vector<std::string> names = {"entropy_bits",
                                                   "kl_nats",
                                                   "kl_mean_nats",
                                                   "mc_variance",
                                                   "mc_mutual_information_bits",
                                                   "mc_entropy_bits",
                                                   "top1_surprisal_bits",
                                                   "top1_prob",
                                                   "logprob",
                                                   "top1_hit",
                                                   "task_score",
                                                   "teacher_logprob",
                                                   "teacher_agreement",
                                                   "drift",
                                                   "steps_since_refresh",
                                                   "mc_variance_sd",
                                                   "mc_entropy_sd_bits"};
    return names;
}

} // namespace refreshlab::trace
