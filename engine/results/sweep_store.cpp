#include "engine/results/sweep_store.h"

#include "engine/base/error.h"
#include "engine/base/regular_file.h"
#include "engine/results/sweep_claims.h"
#include "engine/text/digest.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>
#include <sqlite3.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <string_view>

namespace refreshlab {

namespace {

namespace fs = std::filesystem;
using sqlite::SqlError;
using sqlite::Statement;

constexpr int64_t application_id = 0x524C5357; // "RLSW"
constexpr int64_t schema_version = 1;
constexpr int busy_ms = 60'000; // another process's transaction takes milliseconds; a merge may take seconds

Error to_error(const fs::path& path, const SqlError& e) {
    const bool busy = e.code() == SQLITE_BUSY || e.code() == SQLITE_LOCKED;
    const bool full = e.code() == SQLITE_FULL;
    const bool machine = e.code() == SQLITE_IOERR || kind_of_errno(e.system()) == ErrorKind::failure;
    const bool damaged =
        e.code() == SQLITE_CORRUPT || e.code() == SQLITE_NOTADB || e.code() == SQLITE_MISMATCH;
    return {"using the sweep file", path.string(), e.what(),
            busy      ? "close the program that holds it"
            : full    ? "free some space and run the same command again"
            : machine ? "is the disk full, or a limit of this process reached (ulimit -f, ulimit -n)? The "
                        "same command continues"
            : damaged ? "the file is damaged or not a sweep; choose another --out"
                      : "check the folder and its permissions",
            busy || full || machine ? ErrorKind::failure : ErrorKind::bad_input};
}

/// Runs work; what SQLite says becomes an Error about this file.
template <typename Work>
auto guarded(const fs::path& path, const Work& work) {
    try {
        return work();
    } catch (const SqlError& e) {
        throw to_error(path, e);
    }
}

/// Of a file that is there: throws unless SQLite or empty.
void require_sqlite(const fs::path& path) {
    std::error_code ignored;
    if (fs::is_directory(path, ignored)) throw Error("using the sweep file", path.string(), "is a folder");
    const std::string head = RegularFile(path).read(0, 16);
    if (head.empty()) return;
    if (head != std::string("SQLite format 3\0", 16))
        throw Error("using the sweep file", path.string(), "the file exists and is not a sweep",
                    "choose another --out");
}

constexpr std::string_view kernel_separator = ", "; // of meta's "kernels"

std::vector<std::string> split_kernels(std::string_view text) {
    std::vector<std::string> names;
    while (!text.empty()) {
        const size_t end = std::min(text.find(kernel_separator), text.size());
        names.emplace_back(text.substr(0, end));
        text.remove_prefix(std::min(end + kernel_separator.size(), text.size()));
    }
    return names;
}

/// The metrics without a column, where the summary has them.
void add_pathed(SweepResult& result) {
    const auto names = [&](const char* key) { return result.summary.find(key) != std::string::npos; };
    if (!names("\"drafts\":{") && !names("\"bytes_sent\":")) return; // a sweep has many results of before
    const nlohmann::json summary = nlohmann::json::parse(result.summary, nullptr, false);
    if (summary.is_discarded()) return;
    const MetricValues values = metrics_of(summary);
    for (size_t i = 0; i < num_metrics; ++i)
        if (!metric_infos[i].has_column()) result.metrics[i] = values[i];
}

std::string metric_columns(const char* suffix) {
    std::string columns;
    for (const MetricInfo& metric : metric_infos) {
        if (metric.has_column()) columns += fmt::format(", {}{}", metric.name, suffix);
    }
    return columns;
}

} // namespace

SweepStore::SweepStore(fs::path path, sqlite::Open mode)
    : m_path(std::move(path))
    , m_db(std::make_unique<sqlite::Database>(m_path, mode)) {
    m_db->busy_timeout(busy_ms);
}

SweepStore::~SweepStore() = default;

template <typename Work>
void SweepStore::transaction(const Work& work) {
    transaction("BEGIN IMMEDIATE", work);
}

template <typename Work>
void SweepStore::snapshot(const Work& work) {
    transaction("BEGIN DEFERRED", work);
}

template <typename Work>
void SweepStore::transaction(const char* begin, const Work& work) {
    guarded(m_path, [&] {
        m_db->exec(begin);
        try {
            work();
            m_db->exec("COMMIT");
        } catch (...) {
            try {
                m_db->exec("ROLLBACK");
            } catch (const SqlError&) { // SQLite may have rolled back by itself
            }
            throw;
        }
    });
}

/// Reads, and then sees whether what was read was one state of the file.
template <typename Work>
auto SweepStore::reading(const Work& work) {
    return guarded(m_path, [&] {
        const auto unchanged = [&] { return m_stamp.empty() || sqlite::stamp(m_path) == m_stamp; };
        const auto fail = [&] {
            throw Error("reading a sweep", m_path.string(), "another program writes into it",
                        "run the same command again", ErrorKind::failure);
        };
        try {
            auto result = work();
            if (!unchanged()) fail();
            return result;
        } catch (const SqlError&) {
            if (!unchanged()) fail(); // half of the one and half of the other state
            throw;
        }
    });
}

std::unique_ptr<SweepStore> SweepStore::open(const fs::path& path, const SweepPlan& plan) {
    fs::path folder = path.parent_path();
    if (folder.empty()) folder = ".";
    std::error_code ignored;
    if (!fs::is_directory(folder, ignored)) throw Error("writing --out", path.string(), "no such folder");
    if (fs::exists(path, ignored)) require_sqlite(path);
    const SweepClaims claims(path);
    const auto setup = claims.wait("set-up"); // two processes that start together make the tables once
    return guarded(path, [&] {
        std::unique_ptr<SweepStore> store(new SweepStore(path, sqlite::Open::create));
        const int64_t id = store->m_db->integer("PRAGMA application_id");
        if (id == 0 && store->m_db->integer("SELECT count(*) FROM sqlite_master") == 0) {
            store->m_db->exec("PRAGMA journal_mode = WAL");
            store->m_db->exec("PRAGMA synchronous = NORMAL");
            store->transaction([&] {
                store->create_tables();
                store->write_plan(plan);
            });
        } else {
            store.reset();
            store = open_existing(path, false);
            if (store->m_plan.digest() != plan.digest() || store->m_plan.spec_text != plan.spec_text ||
                store->m_plan.kernels != plan.kernels)
                store->transaction([&] { store->write_plan(plan); });
        }
        store->m_plan = plan;
        return store;
    });
}

std::unique_ptr<SweepStore> SweepStore::open_existing(const fs::path& path, bool read_only) {
    std::error_code ignored;
    if (!fs::exists(path, ignored)) throw Error("reading a sweep", path.string(), "no such file");
    require_sqlite(path);
    return guarded(path, [&] {
        const bool unchanging = read_only && sqlite::unchanging(path);
        const std::string stamp = unchanging ? sqlite::stamp(path) : std::string();
        std::unique_ptr<SweepStore> store(new SweepStore(path, unchanging  ? sqlite::Open::unchanging
                                                               : read_only ? sqlite::Open::read_only
                                                                           : sqlite::Open::read_write));
        store->m_stamp = stamp;
        if (store->m_db->integer("PRAGMA application_id") != application_id)
            throw Error("reading a sweep", path.string(), "the file is not a sweep of refreshlab");
        const int64_t version = store->m_db->integer("PRAGMA user_version");
        if (version > schema_version) {
            throw Error("reading a sweep", path.string(),
                        fmt::format("written by a newer version (schema {}, this program reads up to {})",
                                    version, schema_version));
        }
        if (!read_only) {
            store->m_db->exec("PRAGMA journal_mode = WAL");
            store->m_db->exec("PRAGMA synchronous = NORMAL");
        }
        store->m_plan = store->reading([&] { return store->read_plan(); });
        return store;
    });
}

void SweepStore::create_tables() {
    std::string metrics;
    for (const MetricInfo& metric : metric_infos) {
        if (metric.has_column()) metrics += fmt::format(", {} REAL", metric.name);
    }
    const std::string tables = fmt::format(
        "PRAGMA application_id = {};"
        "PRAGMA user_version = {};"
        "CREATE TABLE meta(key TEXT PRIMARY KEY, value) WITHOUT ROWID;"
        "CREATE TABLE rows(row INTEGER PRIMARY KEY, label TEXT NOT NULL, mode TEXT NOT NULL, policy INTEGER "
        "NOT NULL,"
        " none_row INTEGER);"
        "CREATE TABLE prompts(prompt INTEGER PRIMARY KEY, grp TEXT NOT NULL, text TEXT NOT NULL);"
        "CREATE TABLE cells(cell INTEGER PRIMARY KEY, id TEXT NOT NULL, row INTEGER NOT NULL, prompt INTEGER "
        "NOT NULL,"
        " seed TEXT NOT NULL);"
        "CREATE TABLE results(id TEXT PRIMARY KEY, config TEXT NOT NULL, summary TEXT NOT NULL, digest TEXT "
        "NOT NULL{})"
        " WITHOUT ROWID;"
        "CREATE TABLE timings(id TEXT NOT NULL, pair INTEGER NOT NULL, tokens INTEGER NOT NULL, ttft_ms REAL "
        "NOT NULL,"
        " total_ms REAL NOT NULL, decode_tps REAL, none_total_ms REAL, PRIMARY KEY(id, pair)) WITHOUT ROWID;"
        "CREATE TABLE failures(id TEXT PRIMARY KEY, problem TEXT NOT NULL) WITHOUT ROWID;",
        application_id, schema_version, metrics);
    m_db->exec(tables.c_str());
}

void SweepStore::write_plan(const SweepPlan& plan) {
    m_db->exec("DELETE FROM meta; DELETE FROM rows; DELETE FROM prompts; DELETE FROM cells");
    Statement meta(*m_db, "INSERT INTO meta VALUES(?, ?)");
    const auto put = [&](std::string_view key, const auto& value) {
        meta.bind(0, key);
        if constexpr (std::is_same_v<std::decay_t<decltype(value)>, double>) {
            meta.bind_real(1, value);
        } else {
            meta.bind(1, value);
        }
        meta.run();
    };
    put("name", std::string_view(plan.name));
    put("spec", std::string_view(plan.spec_text));
    put("teacher", std::string_view(plan.models.teacher));
    put("student", std::string_view(plan.models.student));
    put("device", std::string_view(plan.models.device));
    put("kernels", std::string_view(fmt::format("{}", fmt::join(plan.kernels, kernel_separator))));
    put("runs", std::string_view(plan.runs));
    put("timing_pairs", static_cast<int64_t>(plan.timing.pairs));
    put("timing_prompts",
        static_cast<int64_t>(std::min<size_t>(plan.timing.prompts, static_cast<size_t>(INT64_MAX))));
    put("bootstrap_resamples", static_cast<int64_t>(plan.bootstrap.resamples));
    put("bootstrap_seed", std::string_view(fmt::format("{}", plan.bootstrap.seed)));
    put("bootstrap_level", plan.bootstrap.level);
    Statement row(*m_db, "INSERT INTO rows VALUES(?, ?, ?, ?, ?)");
    for (size_t i = 0; i < plan.rows.size(); ++i) {
        const SweepPlan::Row& r = plan.rows[i];
        row.bind(0, static_cast<int64_t>(i));
        row.bind(1, std::string_view(r.label));
        row.bind(2, std::string_view(r.mode));
        row.bind(3, static_cast<int64_t>(r.policy ? 1 : 0));
        if (r.none_row) {
            row.bind(4, static_cast<int64_t>(*r.none_row));
        } else {
            row.bind_null(4);
        }
        row.run();
    }
    Statement prompt(*m_db, "INSERT INTO prompts VALUES(?, ?, ?)");
    for (size_t i = 0; i < plan.prompts.size(); ++i) {
        prompt.bind(0, static_cast<int64_t>(i));
        prompt.bind(1, std::string_view(plan.prompts[i].group));
        prompt.bind(2, std::string_view(plan.prompts[i].text));
        prompt.run();
    }
    Statement cell(*m_db, "INSERT INTO cells VALUES(?, ?, ?, ?, ?)");
    for (size_t i = 0; i < plan.cells.size(); ++i) {
        const SweepCell& c = plan.cells[i];
        cell.bind(0, static_cast<int64_t>(i));
        cell.bind(1, std::string_view(c.id));
        cell.bind(2, static_cast<int64_t>(c.row));
        cell.bind(3, static_cast<int64_t>(c.prompt));
        cell.bind(4, std::string_view(fmt::format("{}", c.seed)));
        cell.run();
    }
}

SweepPlan SweepStore::read_plan() {
    SweepPlan plan;
    const auto text = [&](const char* key) {
        return m_db->text(fmt::format("SELECT value FROM meta WHERE key = '{}'", key).c_str());
    };
    const auto whole = [&](const char* key) {
        return m_db->integer(fmt::format("SELECT value FROM meta WHERE key = '{}'", key).c_str());
    };
    const auto unsigned_number = [](const std::string& digits) {
        return static_cast<uint64_t>(std::strtoull(digits.c_str(), nullptr, 10));
    };
    plan.name = text("name");
    plan.spec_text = text("spec");
    plan.models = {text("teacher"), text("student"), text("device")};
    plan.kernels = split_kernels(text("kernels"));
    plan.runs = text("runs");
    plan.timing.pairs = static_cast<int32_t>(whole("timing_pairs"));
    const int64_t timed = whole("timing_prompts");
    plan.timing.prompts = timed == INT64_MAX ? SIZE_MAX : static_cast<size_t>(timed);
    plan.bootstrap.resamples = static_cast<int32_t>(whole("bootstrap_resamples"));
    plan.bootstrap.seed = unsigned_number(text("bootstrap_seed"));
    Statement level(*m_db, "SELECT value FROM meta WHERE key = 'bootstrap_level'");
    if (level.step()) plan.bootstrap.level = level.real(0);
    const auto below = [](int64_t value, size_t limit) {
        if (value < 0 || static_cast<size_t>(value) >= limit)
            throw SqlError(SQLITE_CORRUPT, "the plan points outside its own lists");
        return static_cast<size_t>(value);
    };
    const auto number_of = [&](const char* table) {
        return static_cast<size_t>(m_db->integer(fmt::format("SELECT count(*) FROM {}", table).c_str()));
    };
    const size_t rows = number_of("rows");
    Statement row(*m_db, "SELECT label, mode, policy, none_row FROM rows ORDER BY row");
    while (row.step()) {
        SweepPlan::Row r{row.text(0), row.text(1), row.integer(2) != 0, {}};
        if (!row.is_null(3)) r.none_row = below(row.integer(3), rows);
        plan.rows.push_back(std::move(r));
    }
    Statement prompt(*m_db, "SELECT grp, text FROM prompts ORDER BY prompt");
    while (prompt.step())
        plan.prompts.push_back({prompt.text(0), prompt.text(1)});
    Statement cell(*m_db, "SELECT id, row, prompt, seed FROM cells ORDER BY cell");
    while (cell.step()) {
        plan.cells.push_back({cell.text(0), below(cell.integer(1), rows),
                              below(cell.integer(2), plan.prompts.size()), unsigned_number(cell.text(3))});
    }
    if (plan.runs.empty()) { // of a program that had one kind of id, run_id()
        Digest runs;
        for (const SweepCell& c : plan.cells)
            runs.add(c.id);
        plan.runs = runs.hex();
    }
    if (plan.bootstrap.resamples < 1 || !(plan.bootstrap.level > 0 && plan.bootstrap.level < 1))
        throw SqlError(SQLITE_CORRUPT, "the plan's bootstrap has no resamples or no level");
    return plan;
}

bool SweepStore::is_sweep(const std::filesystem::path& path) {
    // The header of an SQLite file has the id at a fixed place, high byte first.
    constexpr std::string_view magic("SQLite format 3\0", 16);
    constexpr size_t place = 68;
    std::array<char, place + 4> header{};
    std::ifstream file(path, std::ios::binary);
    if (!file.read(header.data(), header.size()) || std::string_view(header.data(), magic.size()) != magic)
        return false;
    int64_t id = 0;
    for (size_t i = place; i < header.size(); ++i)
        id = id * 256 + static_cast<unsigned char>(header[i]);
    return id == application_id;
}

std::unordered_set<std::string> SweepStore::finished() {
    return reading([&] {
        std::unordered_set<std::string> ids;
        Statement select(*m_db, "SELECT id FROM results");
        while (select.step())
            ids.insert(select.text(0));
        return ids;
    });
}

std::vector<std::string> SweepStore::row_configs() {
    return reading([&] {
        std::vector<std::string> configs(m_plan.rows.size());
        Statement select(*m_db, "SELECT config FROM results WHERE id = ?");
        for (const SweepCell& cell : m_plan.cells) {
            if (!configs[cell.row].empty()) continue;
            select.bind(0, std::string_view(cell.id));
            if (select.step()) configs[cell.row] = select.text(0);
            select.reset();
        }
        return configs;
    });
}

bool SweepStore::has_result(const std::string& id) {
    return reading([&] {
        Statement select(*m_db, "SELECT 1 FROM results WHERE id = ?");
        select.bind(0, std::string_view(id));
        return select.step();
    });
}

bool SweepStore::has_timing(const std::string& id, int32_t pair) {
    return reading([&] {
        Statement select(*m_db, "SELECT 1 FROM timings WHERE id = ? AND pair = ?");
        select.bind(0, std::string_view(id));
        select.bind(1, static_cast<int64_t>(pair));
        return select.step();
    });
}

void SweepStore::insert(const SweepResult& result, bool over) {
    Statement insert(
        *m_db, fmt::format("INSERT OR {} INTO results(id, config, summary, digest{}) VALUES(?, ?, ?, ?{})",
                           over ? "REPLACE" : "IGNORE", metric_columns(""), [] {
                               std::string marks;
                               for (const MetricInfo& metric : metric_infos)
                                   marks += metric.has_column() ? ", ?" : "";
                               return marks;
                           }()));
    insert.bind(0, std::string_view(result.id));
    insert.bind(1, std::string_view(result.config));
    insert.bind(2, std::string_view(result.summary));
    insert.bind(3, std::string_view(result.digest));
    int column = 4;
    for (size_t i = 0; i < num_metrics; ++i) {
        if (metric_infos[i].has_column()) insert.bind_number(column++, result.metrics[i]);
    }
    insert.run();
    Statement settled(*m_db, "DELETE FROM failures WHERE id = ?");
    settled.bind(0, std::string_view(result.id));
    settled.run();
}

void SweepStore::insert(const SweepTimingResult& timing, bool over) {
    Statement insert(*m_db, fmt::format("INSERT OR {} INTO timings VALUES(?, ?, ?, ?, ?, ?, ?)",
                                        over ? "REPLACE" : "IGNORE"));
    insert.bind(0, std::string_view(timing.id));
    insert.bind(1, static_cast<int64_t>(timing.pair));
    insert.bind(2, timing.tokens);
    insert.bind_real(3, timing.ttft_ms);
    insert.bind_real(4, timing.total_ms);
    insert.bind_number(5, timing.decode_tps);
    insert.bind_number(6, timing.none_total_ms);
    insert.run();
}

void SweepStore::add(const SweepResult& result) {
    transaction([&] { insert(result, false); });
}

void SweepStore::add(const SweepTimingResult& timing) {
    transaction([&] { insert(timing, false); });
}

void SweepStore::add_failure(const std::string& id, const std::string& problem) {
    transaction([&] {
        Statement insert(*m_db, "INSERT OR REPLACE INTO failures VALUES(?, ?)");
        insert.bind(0, std::string_view(id));
        insert.bind(1, std::string_view(problem));
        insert.run();
    });
}

std::vector<std::pair<std::string, std::string>> SweepStore::failures() {
    return reading([&] {
        std::vector<std::pair<std::string, std::string>> list;
        Statement select(*m_db, "SELECT id, problem FROM failures ORDER BY id");
        while (select.step())
            list.emplace_back(select.text(0), select.text(1));
        return list;
    });
}

std::vector<std::string> SweepStore::kernel_sets() {
    return reading([&] {
        std::vector<std::string> sets;
        Statement select(*m_db, "SELECT DISTINCT CASE WHEN json_valid(summary) THEN json_extract(summary, "
                                "'$.kernel_set') END AS name"
                                " FROM results WHERE id IN (SELECT id FROM cells) ORDER BY name");
        while (select.step())
            sets.push_back(select.is_null(0) ? "" : select.text(0));
        return sets;
    });
}

std::vector<SweepResult> SweepStore::all_results() {
    return reading([&] {
        std::vector<SweepResult> all;
        Statement select(*m_db, fmt::format("SELECT id, config, summary, digest{} FROM results ORDER BY id",
                                            metric_columns("")));
        while (select.step()) {
            SweepResult result{select.text(0), select.text(1), select.text(2), select.text(3), {}};
            int column = 4;
            for (size_t i = 0; i < num_metrics; ++i) {
                if (metric_infos[i].has_column()) result.metrics[i] = select.number(column++);
            }
            add_pathed(result);
            all.push_back(std::move(result));
        }
        return all;
    });
}

std::vector<SweepTimingResult> SweepStore::all_timings() {
    return reading([&] {
        std::vector<SweepTimingResult> all;
        Statement select(*m_db,
                         "SELECT id, pair, tokens, ttft_ms, total_ms, decode_tps, none_total_ms FROM timings"
                         " ORDER BY id, pair");
        while (select.step()) {
            SweepTimingResult timing;
            timing.id = select.text(0);
            timing.pair = static_cast<int32_t>(select.integer(1));
            timing.tokens = select.integer(2);
            timing.ttft_ms = select.real(3);
            timing.total_ms = select.real(4);
            timing.decode_tps = select.number(5);
            timing.none_total_ms = select.number(6);
            all.push_back(std::move(timing));
        }
        return all;
    });
}

SweepResults SweepStore::results() {
    SweepResults results;
    snapshot([&] {
        for (SweepResult& result : all_results())
            results.runs.emplace(std::move(result.id), result.metrics);
        for (SweepTimingResult& timing : all_timings()) {
            auto key = std::make_pair(timing.id, timing.pair);
            results.timings.emplace(std::move(key), std::move(timing));
        }
    });
    return results;
}

void SweepStore::replace(const std::vector<SweepResult>& results,
                         const std::vector<SweepTimingResult>& timings) {
    transaction([&] {
        for (const SweepResult& result : results)
            insert(result, true);
        for (const SweepTimingResult& timing : timings)
            insert(timing, true);
    });
}

} // namespace refreshlab
