#include "engine/record/trace/schema/trace_schema.h"

#include "engine/base/check.h"
#include "engine/record/recording/step_record.h"

#include <fmt/format.h>

#include <algorithm>

namespace refreshlab::trace {

namespace {

constexpr auto integer_type = "INTEGER", text_type = "TEXT", blob_type = "BLOB";
constexpr auto required_integer = "INTEGER NOT NULL", required_text = "TEXT NOT NULL";
/// Columns of floats have no declared type: with REAL affinity SQLite turns -0.0 into 0.0, and a replay is compared bit by
/// bit.
constexpr auto number_type = "";

} // namespace

// Tables with large blobs keep their rowid, as SQLite advises; the others are ordered by their key.
const std::vector<Table>& tables() {
    static const std::vector<Table> all = {
        {.name = "meta", .columns = {{"key", text_type}, {"value", required_text}}, .key = "key"},
        {.name = "runs",
         .columns = {{"run", integer_type},
                     {"id", required_text},
                     {"parent", text_type},
                     {"fork_step", required_integer},
                     {"first_step", required_integer},
                     {"inherited_refreshes", required_integer},
                     {"inherited_passes", required_integer},
                     {"inherited_commands", required_integer},
                     {"inherited_drifts", required_integer},
                     {"vocabulary", required_integer},
                     {"info", required_text},
                     {"stop_reason", text_type},
                     {"total_ms", number_type},
                     {"teacher_ppl", number_type},
                     {"tail_logprob", number_type},
                     {"inherited_cache", integer_type, 3, "0"}},
         .key = "run",
         .has_rowid = true},
        {.name = "steps",
         .columns = {{"run", integer_type},
                     {"step", integer_type},
                     {"position", integer_type},
                     {"token_id", integer_type},
                     {"next_token_id", integer_type},
                     {"producer", integer_type},
                     {"next_producer", integer_type},
                     {"fed", integer_type},
                     {"arrival_ms", number_type},
                     {"model_ms", number_type},
                     {"attention_ms", number_type},
                     {"signals_ms", number_type},
                     {"mc_ms", number_type},
                     {"sample_ms", number_type},
                     {"teacher_pass_ms", number_type},
                     {"splice_ms", number_type},
                     {"redraw_ms", number_type},
                     {"other_ms", number_type}},
         .key = "run, step"},
        {.name = "signals",
         .columns = {{"run", integer_type},
                     {"step", integer_type},
                     {"signal", text_type},
                     {"known", integer_type},
                     {"value", number_type}},
         .key = "run, step, signal, known"},
        {.name = "layers",
         .columns = {{"run", integer_type},
                     {"step", integer_type},
                     {"signal", text_type},
                     {"layer_values", blob_type}},
         .key = "run, step, signal",
         .since = 3},
        {.name = "topk",
         .columns = {{"run", integer_type},
                     {"step", integer_type},
                     {"rank", integer_type},
                     {"token_id", integer_type},
                     {"prob", number_type}},
         .key = "run, step, rank"},
        {.name = "refreshes",
         .columns = {{"run", integer_type},
                     {"n", integer_type},
                     {"step", integer_type},
                     {"id", integer_type},
                     {"automatic", integer_type},
                     {"delta", integer_type},
                     {"first_pos", integer_type},
                     {"spliced", integer_type},
                     {"pass_tokens", integer_type},
                     {"on_fire", text_type},
                     {"token_before", integer_type},
                     {"token_after", integer_type},
                     {"kl_nats", number_type},
                     {"mean_drift", number_type},
                     {"teacher_ms", number_type},
                     {"splice_ms", number_type},
                     {"redraw_ms", number_type},
                     {"hits", text_type},
                     {"fired_step", integer_type, 2,
                      "step"}, // before lags every refresh landed where it fired
                     {"bytes_sent", integer_type, 8, "NULL"}},
         .key = "run, n"},
        {.name = "passes",
         .columns = {{"run", integer_type},
                     {"n", integer_type},
                     {"step", integer_type},
                     {"first_pos", integer_type},
                     {"tokens", integer_type},
                     {"probe", integer_type},
                     {"shadow", integer_type},
                     {"kl_nats", number_type},
                     {"ms", number_type}},
         .key = "run, n"},
        {.name = "drafts",
         .columns = {{"run", integer_type},
                     {"n", integer_type},
                     {"step", integer_type},
                     {"refresh_id", integer_type},
                     {"first_pos", integer_type},
                     {"instead", integer_type},
                     {"rejected_read", integer_type},
                     {"rejected_ms", number_type},
                     {"teacher_ms", number_type},
                     {"tokens", blob_type},
                     {"stays", blob_type},
                     {"p_teacher", blob_type},
                     {"p_student", blob_type},
                     {"expected", blob_type}},
         .key = "run, n",
         .since = 7},
        {.name = "commands",
         .columns = {{"run", integer_type}, {"n", integer_type}, {"step", integer_type}, {"json", text_type}},
         .key = "run, n"},
        {.name = "cache",
         .columns = {{"run", integer_type},
                     {"n", integer_type},
                     {"step", integer_type},
                     {"steps", integer_type},
                     {"teacher", integer_type},
                     {"change", text_type},
                     {"layer", integer_type},
                     {"kv_head", integer_type},
                     {"first_pos", integer_type},
                     {"positions", integer_type},
                     {"ranges", blob_type},
                     {"origin", text_type},
                     {"refresh_id", integer_type},
                     {"bytes", integer_type},
                     {"bytes_stride", integer_type},
                     {"layer_bytes", blob_type}},
         .key = "run, n",
         .since = 3},
        {.name = "drift",
         .columns = {{"run", integer_type},
                     {"n", integer_type},
                     {"step", integer_type},
                     {"refresh_id", integer_type},
                     {"first_pos", integer_type},
                     {"positions", integer_type},
                     {"layers", integer_type},
                     {"k", blob_type},
                     {"v", blob_type},
                     {"k_max", blob_type},
                     {"v_max", blob_type}},
         .key = "run, n",
         .has_rowid = true},
        {.name = "attention",
         .columns = {{"run", integer_type},
                     {"position", integer_type},
                     {"teacher", integer_type},
                     {"step", integer_type},
                     {"heads", integer_type},
                     {"keys", integer_type},
                     {"layers", blob_type},
                     {"weights", blob_type},
                     {"edges", blob_type, 11, "NULL"}, // of bins, before, the number of weights tells them
                     {"exact_keys", blob_type, 11, "NULL"}},
         .key = "run, position, teacher",
         .has_rowid = true},
        {.name = "tokens",
         .columns = {{"vocabulary", integer_type},
                     {"id", integer_type},
                     {"bytes", blob_type},
                     {"special", integer_type}},
         .key = "vocabulary, id"},
        {.name = "landscapes",
         .columns = {{"run", integer_type},
                     {"prompt_ids", blob_type},
                     {"tokens", blob_type},
                     {"teacher_logprob", blob_type},
                     {"info", text_type}},
         .key = "run",
         .has_rowid = true,
         .since = 4},
        {.name = "landscape_rows",
         .columns = {{"run", integer_type}, {"row", integer_type}, {"cells", blob_type}},
         .key = "run, row",
         .has_rowid = true,
         .since = 4},
        {.name = "labels",
         .columns = {{"run", integer_type}, {"name", text_type}, {"colour", integer_type}},
         .key = "run",
         .since = 6},
        {.name = "notes",
         .columns = {{"run", integer_type},
                     {"n", integer_type},
                     {"first_step", integer_type},
                     {"last_step", integer_type},
                     {"colour", integer_type},
                     {"text", text_type},
                     {"made_at", text_type}},
         .key = "run, n",
         .since = 9},
        {.name = "scope_maps",
         .columns = {{"run", integer_type}, {"map", text_type}},
         .key = "run",
         .has_rowid = true,
         .since = 12},
    };
    static_assert(num_parts == 9, "the steps table has a column for every part");
    return all;
}

const Table& table(std::string_view name) {
    const auto found = std::ranges::find(tables(), name, &Table::name);
    RL_ASSERT(found != tables().end());
    return *found;
}

std::vector<Column> Table::columns_of(int64_t version) const {
    std::vector<Column> of_version;
    for (const Column& column : columns) {
        if (column.since <= version) of_version.push_back(column);
    }
    return of_version;
}

std::string create_sql(const Table& table) {
    std::string sql = fmt::format("CREATE TABLE {} (", table.name);
    for (const Column& column : table.columns)
        sql += fmt::format("{}{}{}, ", column.name, *column.type == '\0' ? "" : " ", column.type);
    return sql + fmt::format("PRIMARY KEY ({})){};\n", table.key, table.has_rowid ? "" : " WITHOUT ROWID");
}

std::string create_sql() {
    std::string sql;
    for (const Table& table : tables())
        sql += create_sql(table);
    return sql;
}

} // namespace refreshlab::trace
