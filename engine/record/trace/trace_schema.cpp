#include "engine/record/trace/trace_schema.h"

#include "engine/base/error.h"
#include "engine/base/json_file.h"
#include "engine/base/json_text.h"

#include <fmt/format.h>
#include <sqlite3.h>

#include <array>
#include <cmath>
#include <cstring>
#include <fstream>
#include <limits>

namespace refreshlab::trace {

using json = nlohmann::json;

// Columns of floats have no declared type: with REAL affinity SQLite turns -0.0 into 0.0, and a replay is compared bit
// by bit. Tables with large blobs keep their rowid, as SQLite advises; the others are ordered by their key.
const char* const schema_sql = R"(
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE runs (
    run INTEGER PRIMARY KEY, id TEXT NOT NULL, parent TEXT, fork_step INTEGER NOT NULL, first_step INTEGER NOT NULL,
    inherited_refreshes INTEGER NOT NULL, inherited_passes INTEGER NOT NULL, inherited_commands INTEGER NOT NULL,
    inherited_drifts INTEGER NOT NULL, vocabulary INTEGER NOT NULL, info TEXT NOT NULL,
    stop_reason TEXT, total_ms, teacher_ppl, tail_logprob);
CREATE TABLE steps (
    run INTEGER, step INTEGER, position INTEGER, token_id INTEGER, next_token_id INTEGER, producer INTEGER,
    next_producer INTEGER, fed INTEGER, arrival_ms, model_ms, attention_ms, signals_ms, mc_ms, sample_ms,
    teacher_pass_ms, splice_ms, redraw_ms, other_ms, PRIMARY KEY (run, step)) WITHOUT ROWID;
CREATE TABLE signals (
    run INTEGER, step INTEGER, signal TEXT, known INTEGER, value,
    PRIMARY KEY (run, step, signal, known)) WITHOUT ROWID;
CREATE TABLE topk (
    run INTEGER, step INTEGER, rank INTEGER, token_id INTEGER, prob, PRIMARY KEY (run, step, rank)) WITHOUT ROWID;
CREATE TABLE refreshes (
    run INTEGER, n INTEGER, step INTEGER, id INTEGER, automatic INTEGER, delta INTEGER, first_pos INTEGER,
    spliced INTEGER, pass_tokens INTEGER, on_fire TEXT, token_before INTEGER, token_after INTEGER, kl_nats, mean_drift,
    teacher_ms, splice_ms, redraw_ms, hits TEXT, fired_step INTEGER, PRIMARY KEY (run, n)) WITHOUT ROWID;
CREATE TABLE passes (
    run INTEGER, n INTEGER, step INTEGER, first_pos INTEGER, tokens INTEGER, probe INTEGER, shadow INTEGER, kl_nats, ms,
    PRIMARY KEY (run, n)) WITHOUT ROWID;
CREATE TABLE commands (
    run INTEGER, n INTEGER, step INTEGER, json TEXT, PRIMARY KEY (run, n)) WITHOUT ROWID;
CREATE TABLE drift (
    run INTEGER, n INTEGER, step INTEGER, refresh_id INTEGER, first_pos INTEGER, positions INTEGER, layers INTEGER,
    k BLOB, v BLOB, k_max BLOB, v_max BLOB, PRIMARY KEY (run, n));
CREATE TABLE attention (
    run INTEGER, position INTEGER, teacher INTEGER, step INTEGER, heads INTEGER, keys INTEGER, layers BLOB, weights BLOB,
    PRIMARY KEY (run, position, teacher));
CREATE TABLE tokens (
    vocabulary INTEGER, id INTEGER, bytes BLOB, special INTEGER, PRIMARY KEY (vocabulary, id)) WITHOUT ROWID;
)";
static_assert(num_parts == 9, "the steps table has a column for every part");

const char* const table_names[11] = {"meta",   "runs",     "steps", "signals",   "topk",  "refreshes",
                                     "passes", "commands", "drift", "attention", "tokens"};

const char* migration_sql(int64_t from) {
    static constexpr std::array<const char*, schema_version - 1> steps = {
        // 1 -> 2: lagged refreshes. Before them every refresh was spliced where it fired.
        "ALTER TABLE refreshes ADD COLUMN fired_step INTEGER; UPDATE refreshes SET fired_step = step;",
    };
    return from >= 1 && from < schema_version ? steps[static_cast<size_t>(from - 1)] : nullptr;
}

namespace {

constexpr size_t header_bytes = 100; ///< of an SQLite file; the application id stands at 68, big-endian

/// The file begins as a trace does.
bool has_trace_header(const std::filesystem::path& path) {
    std::array<char, header_bytes> header{};
    std::ifstream file(path, std::ios::binary);
    if (!file.read(header.data(), header.size())) return false;
    uint32_t id = 0;
    for (size_t i = 68; i < 72; ++i)
        id = id << 8U | static_cast<unsigned char>(header[i]);
    return std::memcmp(header.data(), "SQLite format 3", 16) == 0 && id == application_id;
}

} // namespace

FileKind file_kind(const std::filesystem::path& path) {
    std::error_code error;
    const auto status = std::filesystem::status(path, error);
    if (!std::filesystem::exists(status)) return FileKind::missing;
    if (std::filesystem::is_directory(status)) return FileKind::folder;
    if (!std::filesystem::is_regular_file(status)) return FileKind::special;
    const uintmax_t size = std::filesystem::file_size(path, error);
    if (!error && size == 0) return FileKind::empty;
    if (!error && size < header_bytes)
        return FileKind::foreign; // one byte would be an empty database to SQLite
    try {
        sqlite::Database db(path, sqlite::Open::read_only);
        return db.integer("PRAGMA application_id") == application_id ? FileKind::trace
                                                                     : FileKind::foreign_sqlite;
    } catch (const sqlite::SqlError& e) {
        if (e.code() == SQLITE_NOTADB || e.code() == SQLITE_CORRUPT)
            return has_trace_header(path) ? FileKind::damaged : FileKind::foreign;
        throw;
    }
}

json number_json(double value) {
    if (std::isfinite(value)) return value;
    if (std::isnan(value)) return "nan";
    return value > 0 ? "inf" : "-inf";
}

double number_from_json(const json& value) {
    if (!value.is_string()) return value.get<double>();
    const auto& text = value.get_ref<const std::string&>();
    if (text == "nan") return std::numeric_limits<double>::quiet_NaN();
    if (text == "inf") return std::numeric_limits<double>::infinity();
    if (text == "-inf") return -std::numeric_limits<double>::infinity();
    return value.get<double>(); // throws
}

namespace {

/// Integer of a key within [min, max]; nlohmann would cut a larger one silently.
int64_t integer(const json& object, const char* key, int64_t min, int64_t max) {
    const json& value = object.at(key);
    const bool fits = value.is_number_integer() &&
                      (!value.is_number_unsigned() ||
                       value.get<uint64_t>() <= static_cast<uint64_t>(std::numeric_limits<int64_t>::max()));
    const int64_t n = fits ? value.get<int64_t>() : 0;
    if (!fits || n < min || n > max) {
        throw Error("reading", "a run's description",
                    fmt::format("{} is not an integer from {} to {}", key, min, max));
    }
    return n;
}

int32_t integer32(const json& object, const char* key, int32_t min) {
    return static_cast<int32_t>(integer(object, key, min, std::numeric_limits<int32_t>::max()));
}

constexpr int64_t max_shape = int64_t{1} << 31; ///< layers, heads, widths: far above any model

} // namespace

std::string info_to_text(const RunInfo& info) {
    json versions = json::array();
    for (const auto& [name, version] : info.versions)
        versions.push_back({name, version});
    return json_text({{"config", to_json(info.config)},
                      {"rendered_prompt", info.rendered_prompt},
                      {"prompt_ids", info.prompt_ids},
                      {"first_token", info.first_token},
                      {"first_producer", static_cast<int>(info.first_producer)},
                      {"first_logprob", number_json(info.first_logprob)},
                      {"vocab_size", info.vocab_size},
                      {"layers", info.layers},
                      {"heads", info.heads},
                      {"kv_heads", info.kv_heads},
                      {"head_dim", info.head_dim},
                      {"cache_bytes_per_token", info.cache_bytes_per_token},
                      {"ttft_ms", number_json(info.ttft_ms)},
                      {"prefill_ms", number_json(info.prefill_ms)},
                      {"device", info.device},
                      {"dtype", info.dtype},
                      {"threads", info.threads},
                      {"started_at", info.started_at},
                      {"versions", versions},
                      {"text_rule",
                       {{"leading_spaces", info.text_rule.leading_spaces},
                        {"byte_fallback", info.text_rule.byte_fallback}}},
                      {"note", info.note}});
}

RunInfo info_from_text(const std::string& text, const std::string& what) {
    const json object = parse_json(text, what);
    RunInfo info;
    info.config = run_config_from_json(object.at("config"), what);
    info.rendered_prompt = object.at("rendered_prompt").get<std::string>();
    info.vocab_size = integer(object, "vocab_size", 0, std::numeric_limits<int32_t>::max());
    const int64_t max_id = info.vocab_size > 0 ? info.vocab_size - 1 : std::numeric_limits<int32_t>::max();
    for (const json& id : object.at("prompt_ids")) {
        const auto value = id.is_number_integer() ? id.get<int64_t>() : -1;
        if (value < 0 || value > max_id)
            throw Error("reading", what, "a prompt token is outside the vocabulary");
        info.prompt_ids.push_back(static_cast<int32_t>(value));
    }
    info.first_token = static_cast<int32_t>(integer(object, "first_token", -1, max_id));
    info.first_producer = static_cast<Producer>(integer(object, "first_producer", 0, 1));
    info.first_logprob = number_from_json(object.at("first_logprob"));
    info.layers = integer(object, "layers", 0, max_shape);
    info.heads = integer(object, "heads", 0, max_shape);
    info.kv_heads = integer(object, "kv_heads", 0, max_shape);
    info.head_dim = integer(object, "head_dim", 0, max_shape);
    info.cache_bytes_per_token = integer(object, "cache_bytes_per_token", 0, int64_t{1} << 50);
    info.ttft_ms = number_from_json(object.at("ttft_ms"));
    info.prefill_ms = number_from_json(object.at("prefill_ms"));
    info.device = object.at("device").get<std::string>();
    info.dtype = object.at("dtype").get<std::string>();
    info.threads = integer32(object, "threads", 0);
    info.started_at = object.at("started_at").get<std::string>();
    for (const json& pair : object.at("versions")) {
        info.versions.emplace_back(pair.at(0).get<std::string>(), pair.at(1).get<std::string>());
    }
    info.note = object.at("note").get<std::string>();
    if (const auto rule = object.find("text_rule"); rule != object.end()) { // not in traces of the first days
        info.text_rule.leading_spaces = static_cast<int32_t>(integer(*rule, "leading_spaces", 0, 1000));
        info.text_rule.byte_fallback = rule->at("byte_fallback").get<bool>();
    }
    return info;
}

std::string hits_to_text(const std::vector<TriggerHit>& hits) {
    json list = json::array();
    for (const TriggerHit& hit : hits) {
        list.push_back({{"trigger", hit.trigger},
                        {"signal", hit.signal},
                        {"value", number_json(hit.value)},
                        {"threshold", number_json(hit.threshold)},
                        {"letter", std::string(1, hit.letter)}});
    }
    return json_text(list);
}

std::vector<TriggerHit> hits_from_text(const std::string& text, const std::string& what) {
    std::vector<TriggerHit> hits;
    for (const json& object : parse_json(text, what)) {
        TriggerHit hit;
        hit.trigger = integer32(object, "trigger", -1);
        hit.signal = object.at("signal").get<std::string>();
        hit.value = number_from_json(object.at("value"));
        hit.threshold = number_from_json(object.at("threshold"));
        const auto letter = object.at("letter").get<std::string>();
        if (letter.size() != 1) throw Error("reading", what, "the letter of a trigger is not one character");
        hit.letter = letter[0];
        hits.push_back(std::move(hit));
    }
    return hits;
}

} // namespace refreshlab::trace
