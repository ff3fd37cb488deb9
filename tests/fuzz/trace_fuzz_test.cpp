#include "engine/base/error.h"
#include "engine/base/json_text.h"
#include "engine/landscape/landscape_export.h"
#include "engine/landscape/landscape_store.h"
#include "engine/record/export/export.h"
#include "engine/record/recording/cache_state.h"
#include "engine/record/recording/logged_config.h"
#include "engine/record/trace/sqlite.h"
#include "engine/record/trace/trace_store.h"
#include "tests/fuzz/fuzz_support.h"

#include <catch2/catch_test_macros.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <filesystem>
#include <fstream>

namespace trace_fuzz_test {

using namespace refreshlab;

namespace {

using sqlite::Database;

struct Column {
    std::string table, name;
};

/// Files are what the reader reads, so every input becomes one, in the page cache of a folder of the build tree.
class Scratch {
public:
    Scratch()
        : m_folder(std::filesystem::path(RL_BUILD_DIR) / "test-files" / "fuzz-trace") {
        std::filesystem::remove_all(m_folder);
        std::filesystem::create_directories(m_folder);
    }
    Scratch(const Scratch&) = delete;
    Scratch& operator=(const Scratch&) = delete;
    ~Scratch() {
        std::error_code ignored;
        std::filesystem::remove_all(m_folder, ignored);
    }
    [[nodiscard]] std::filesystem::path file(const std::string& name) const { return m_folder / name; }

private:
    std::filesystem::path m_folder;
};

void write(const std::filesystem::path& path, const std::string& bytes) {
    std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
}

std::string read(const std::filesystem::path& path) {
    std::ifstream in(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
}

/// SQL values that readers tend to get wrong.
const char* const values[] = {"NULL",
                              "0",
                              "-1",
                              "1",
                              "2",
                              "4",
                              "6",
                              "255",
                              "65536",
                              "1e308",
                              "-0.5",
                              "2147483647",
                              "2147483648",
                              "9223372036854775807",
                              "-9223372036854775808",
                              "''",
                              "'nan'",
                              "'[]'",
                              "'{}'",
                              "'keep'",
                              "'[{\"trigger\":0}]'",
                              "X''",
                              "X'00'",
                              "X'0000803F'",
                              "zeroblob(7)",
                              "zeroblob(4096)",
                              "'entropy_bits'",
                              "'kept_positions'",
                              "'appended'",
                              "'dropped'",
                              "'skipped'",
                              "zeroblob(12)",
                              "zeroblob(32)",
                              "'{\"command\":\"pause\"}'",
                              "'{\"values\":[\"logprob\"]}'",
                              "'a' || char(10) || 'b'"};

std::vector<Column> columns_of(const std::filesystem::path& path) {
    std::vector<Column> columns;
    Database db(path, sqlite::Open::read_only);
    sqlite::Statement rows(db,
                           "SELECT m.name, c.name FROM sqlite_master AS m, pragma_table_info(m.name) AS c "
                           "WHERE m.type = 'table' ORDER BY 1, c.cid");
    while (rows.step())
        columns.push_back({rows.text(0), rows.text(1)});
    return columns;
}

/// Pages that belong together and values that do not: changes one to three columns of random rows, drops or doubles
/// rows, changes the head.
std::string changed_by_sql(const std::string& trace, const std::vector<Column>& columns,
                           const std::filesystem::path& path, fuzz::Random& random) {
    write(path, trace);
    {
        Database db(path, sqlite::Open::read_write);
        db.exec("PRAGMA journal_mode = OFF");
        db.exec("PRAGMA synchronous = OFF");
        for (size_t i = 1 + random.below(3); i > 0; --i) {
            const Column& column = columns[random.below(columns.size())];
            const char* value = values[random.below(std::size(values))];
            std::vector<const Column*>
                keys; // rows are chosen by a column of their table, not by SQL's own random()
            for (const Column& other : columns) {
                if (other.table == column.table) keys.push_back(&other);
            }
            const std::string some_rows =
                random.one_in(3) ? "1"
                                 : fmt::format("{} % {} = {}", keys[random.below(keys.size())]->name,
                                               1 + random.below(6), random.below(3));
            std::string sql;
            switch (random.below(13)) {
            case 0:
                sql = fmt::format("DELETE FROM {} WHERE {}", column.table, some_rows);
                break;
            case 1:
                sql = fmt::format("UPDATE OR REPLACE {} SET {} = {} + 1 WHERE {}", column.table, column.name,
                                  column.name, some_rows);
                break;
            case 2:
                sql = fmt::format("PRAGMA {} = {}", random.one_in(2) ? "user_version" : "application_id",
                                  random.below(5));
                break;
            case 3:
                sql = fmt::format("DROP TABLE {}", column.table);
                break;
            case 12: { // another schema
                const char* const schemas[] = {
                    "ALTER TABLE {0} ADD COLUMN z AS ({1})",
                    "ALTER TABLE {0} ADD COLUMN z",
                    "ALTER TABLE {0} DROP COLUMN {1}",
                    "ALTER TABLE {0} RENAME COLUMN {1} TO z",
                    "CREATE INDEX z ON {0} ({1})",
                    "CREATE VIEW z AS SELECT {1} FROM {0}",
                    "CREATE TRIGGER z AFTER INSERT ON {0} BEGIN DELETE FROM {0}; END"};
                sql = fmt::format(fmt::runtime(schemas[random.below(std::size(schemas))]), column.table,
                                  column.name);
                break;
            }
            case 4: // a part of a JSON text
                sql = fmt::format("UPDATE OR IGNORE {} SET {} = replace({}, '{}', '{}') WHERE {}",
                                  column.table, column.name, column.name, "0123456789,:"[random.below(12)],
                                  "09-,e1"[random.below(6)], some_rows);
                break;
            default:
                sql = fmt::format("UPDATE OR IGNORE {} SET {} = {} WHERE {}", column.table, column.name,
                                  value, some_rows);
            }
            try {
                db.exec(sql.c_str());
            } catch (const sqlite::SqlError&) { // a table that is gone, a constraint
            }
        }
    }
    return read(path);
}

/// Everything that a reader of a trace may ask of a recording.
void use(const Recording& recording) {
    (void)last_config(recording);
    (void)json_text(summary_json(recording));
    (void)summary_table(recording);
    (void)generated_text(recording);
    (void)recording.attention_rows();
    for (int64_t t = 1; t <= recording.steps(); ++t) {
        (void)recording.refresh_at(t);
        for (size_t id = 0; id < recording.signals().size(); ++id) {
            (void)recording.signal(t, id);
            (void)layer_mean(recording.layer_values(t, id));
        }
    }
    for (const bool teacher : {false, true}) {
        const CacheState state = cache_state(recording, recording.steps(), teacher);
        for (int64_t layer = 0; layer < state.layers(); ++layer)
            (void)state.plane(layer, state.kv_heads() - 1);
    }
    if (recording.steps() > 1) {
        const auto fork = recording.fork(recording.steps() / 2, "fork");
        (void)cache_state(*fork, fork->steps(), false);
        (void)first_difference(recording, *fork);
    }
}

/// The same of a landscape that stands beside a run.
void use(const Landscape& landscape) {
    if (!landscape.has_row(0)) return;
    LandscapeQuestions questions;
    questions.best = 4;
    questions.price = 0.5;
    if (landscape.value_index("kl_nats")) questions.policy = preset_policy("kl");
    (void)json_text(landscape_summary(landscape, questions));
    (void)landscape_table(landscape, questions);
}

} // namespace

TEST_CASE("any trace file is refused in one line or can be read through", "[fuzz]") {
    const Scratch scratch;
    const std::vector<fuzz::CorpusFile> corpus = fuzz::read_corpus("trace");
    const fuzz::Mutator mutator(corpus, {std::string("SQLite format 3\0", 16), "CREATE TABLE ", "INTEGER",
                                         "WITHOUT ROWID", std::string("\0\0\0\0", 4),
                                         std::string("\xFF\xFF\xFF\xFF", 4)});
    std::vector<std::vector<Column>> columns;
    for (const fuzz::CorpusFile& file : corpus) {
        write(scratch.file("whole"), file.bytes);
        columns.push_back(columns_of(scratch.file("whole")));
        const auto runs = load_trace(scratch.file("whole")); // the corpus itself is in order
        REQUIRE(runs.size() == 1);
        REQUIRE(runs.front()->steps() > 0);
    }
    const auto make = [&](fuzz::Random& random) {
        const size_t i = random.below(corpus.size());
        if (random.one_in(3)) return mutator.mutate_bytes(corpus[i].bytes, random);
        const std::string name = fmt::format("sql-{}", random.next());
        const std::string bytes = changed_by_sql(corpus[i].bytes, columns[i], scratch.file(name), random);
        std::filesystem::remove(scratch.file(name));
        return random.one_in(8) ? mutator.mutate_bytes(bytes, random) : bytes;
    };
    const fuzz::Outcome outcome =
        fuzz::run_target("trace", corpus, make, [&](const std::string& input, size_t thread) {
            const std::filesystem::path file = scratch.file(fmt::format("read-{}", thread));
            write(file, input);
            for (const auto& recording : load_trace(file))
                use(*recording);
            if (input.find("landscape_rows") == std::string::npos)
                return; // a second reading costs as much again
            for (const StoredLandscape& stored : load_landscapes(file))
                use(*stored.landscape);
        });
    CHECK(outcome.accepted > outcome.refused / 20);
}

TEST_CASE("a trace whose pages multiply each other is refused after bounded work", "[fuzz]") {
    const Scratch scratch;
    const std::filesystem::path file = scratch.file("pages");
    write(file, fuzz::read_corpus("trace").front().bytes);
    int64_t page_size = 0, root = 0;
    {
        Database db(file, sqlite::Open::read_write);
        db.exec("PRAGMA journal_mode = OFF");
        db.exec("WITH RECURSIVE n(i) AS (VALUES(1000) UNION ALL SELECT i + 1 FROM n WHERE i < 1200) "
                "INSERT INTO tokens SELECT 7, i, zeroblob(16), 0 FROM n");
        page_size = db.integer("PRAGMA page_size");
        root = db.integer("SELECT rootpage FROM sqlite_master WHERE name = 'tokens'");
    }
    REQUIRE(load_trace(file).size() == 1);
    std::string bytes = read(file);
    const auto at = [&](int64_t page) { return static_cast<size_t>((page - 1) * page_size); };
    const auto number = [&](size_t offset, size_t size) {
        int64_t value = 0;
        for (size_t i = 0; i < size; ++i)
            value = value * 256 + static_cast<unsigned char>(bytes[offset + i]);
        return value;
    };
    const auto put_page = [&](size_t offset, int64_t page) {
        for (size_t i = 4; i-- > 0; page /= 256)
            bytes[offset + i] = static_cast<char>(page % 256);
    };
    // Interior page of an index: type 2, cells counted at 3, right child at 8, pointers to the cells from 12; a cell
    // starts with its left child.
    REQUIRE(bytes[at(root)] == 2);
    std::vector<size_t> child_offsets = {8};
    for (int64_t cell = 0; cell < number(at(root) + 3, 2); ++cell)
        child_offsets.push_back(
            static_cast<size_t>(number(at(root) + 12 + 2 * static_cast<size_t>(cell), 2)));
    std::vector<int64_t> children;
    for (const size_t offset : child_offsets)
        children.push_back(number(at(root) + offset, 4));
    constexpr size_t levels = 12; // more than SQLite's own limit would be noticed
    REQUIRE(children.size() > levels);
    const std::string interior = bytes.substr(at(root), static_cast<size_t>(page_size));
    int64_t parent = root;
    for (size_t level = 0; level < levels; ++level) {
        if (parent != root) bytes.replace(at(parent), interior.size(), interior);
        for (const size_t offset : child_offsets)
            put_page(at(parent) + offset, children[level]);
        parent = children[level];
    }
    write(file, bytes);
    try {
        (void)load_trace(file); // 13 children at each of 12 levels: 10^13 rows
        FAIL("no error");
    } catch (const Error& error) {
        INFO(error.what());
        CHECK(std::string(error.what()).find("more work than a file of its size") != std::string::npos);
    }
}

} // namespace trace_fuzz_test
