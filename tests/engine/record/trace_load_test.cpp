#include "engine/base/error.h"
#include "engine/record/export/export.h"
#include "engine/record/trace/sqlite.h"
#include "engine/record/trace/trace_store.h"
#include "tests/engine/record/file_bytes.h"
#include "tests/engine/record/random_recording.h"
#include "tests/support/seed.h"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace trace_load_test {

using namespace refreshlab;
using namespace refreshlab::test;
using Catch::Matchers::ContainsSubstring;

namespace {

/// The one line of the error that loading gives, or "" if it loads.
std::string load_error(const std::filesystem::path& path) {
    try {
        for (const auto& recording : load_trace(path))
            (void)summary_json(*recording); // and it can be used
        return {};
    } catch (const Error& e) {
        const std::string line = e.what();
        CHECK(e.kind() == ErrorKind::bad_input);
        CHECK(line.find('\n') == std::string::npos);
        CHECK_THAT(line, ContainsSubstring(path.string()));
        return line;
    }
}

/// A trace with a root and a branch, and every kind of row in it.
void make_trace(const std::filesystem::path& path) {
    for (uint64_t seed = 21; seed < 60; ++seed) { // what a seed brings changes with the list of signals
        Grower grower(seed);
        const auto root = grower.start();
        grower.grow(*root, 40);
        const auto branch = root->fork(20, "branch");
        grower.grow(*branch, 20);
        grower.finish(*branch);
        if (root->refreshes().size() < 2 || root->commands().size() < 2 ||
            branch->passes().size() <= branch->inherited().passes)
            continue;
        size_t many = 0, wide = 0; // events of several ranges, and with bytes of each layer
        for (size_t i = 0; i < root->cache_entries().size(); ++i) {
            many += root->cache_entries()[i].positions().size() > 1 ? 1 : 0;
            wide += root->cache_entries()[i].bytes().size() > 1 ? 1 : 0;
        }
        if (many == 0 || wide == 0) continue;
        const auto store = TraceStore::create(path);
        store->attach(root);
        store->attach(branch);
        return;
    }
    FAIL("no recording has every kind of row");
}

} // namespace

TEST_CASE("what is no trace is refused in one line", "[record]") {
    TemporaryFolder folder;
    CHECK_THAT(load_error(folder / "missing.trace"), ContainsSubstring("no such file"));
    CHECK_THAT(load_error(folder.path()), ContainsSubstring("folder"));
    CHECK_THAT(load_error("/dev/null"), ContainsSubstring("not a regular file"));
    write(folder / "empty.trace", "");
    CHECK_THAT(load_error(folder / "empty.trace"), ContainsSubstring("empty"));
    for (const size_t size : {size_t{1}, size_t{15}, size_t{99}, size_t{600}, size_t{9000}}) {
        write(folder / "text.trace", std::string(size, 'a'));
        CHECK_THAT(load_error(folder / "text.trace"), ContainsSubstring("not a RefreshLab trace"));
    }
    sqlite::Database(folder / "foreign.db", sqlite::Open::create).exec("CREATE TABLE runs (run)");
    CHECK_THAT(load_error(folder / "foreign.db"), ContainsSubstring("not a RefreshLab trace"));
}

TEST_CASE("a trace that was cut is damaged, not another program's", "[record]") {
    TemporaryFolder folder;
    make_trace(folder / "good.trace");
    const std::string good = contents(folder / "good.trace");
    REQUIRE(good.size() > 3 * 4096);
    const auto cut = folder / "cut.trace";
    for (const size_t size : {size_t{100}, size_t{511}, size_t{4095}, size_t{4096}, size_t{4097},
                              size_t{8192}, good.size() / 2, good.size() - 4096, good.size() - 1}) {
        INFO(size << " of " << good.size() << " bytes");
        write(cut, good.substr(0, size));
        CHECK_THAT(load_error(cut), ContainsSubstring("damaged, perhaps truncated"));
        if (size == 4096) CHECK_THROWS_AS(TraceStore::create(cut), Error); // nothing is written over it
        CHECK(contents(cut).size() == size);
    }
    for (const size_t size : {size_t{1}, size_t{15}, size_t{99}}) { // less than a header says nothing
        write(cut, good.substr(0, size));
        CHECK_THAT(load_error(cut),
                   ContainsSubstring("not a RefreshLab trace") && !ContainsSubstring("database"));
    }
    std::string other = good.substr(0, 4096); // the same cut of a database with another application id
    other[70] = 'x';
    write(cut, other);
    CHECK_THAT(load_error(cut), ContainsSubstring("not a RefreshLab trace"));
}

TEST_CASE("a newer or impossible schema is refused by its number", "[record]") {
    TemporaryFolder folder;
    const auto file = folder / "version.trace";
    make_trace(file);
    sqlite::Database(file, sqlite::Open::read_write).exec("PRAGMA user_version = 13");
    CHECK_THAT(load_error(file),
               ContainsSubstring("written by a newer version (schema 13, this program reads up to 12)"));
    for (const char* pragma : {"PRAGMA user_version = 0", "PRAGMA user_version = -3"}) {
        sqlite::Database(file, sqlite::Open::read_write).exec(pragma);
        CHECK_THAT(load_error(file), ContainsSubstring("damaged"));
    }
    sqlite::Database(file, sqlite::Open::read_write).exec("PRAGMA user_version = 12");
    CHECK(load_error(file).empty());
}

TEST_CASE("a trace of schema 1, which had no lagged refreshes, is read and stays as it is", "[record]") {
    TemporaryFolder folder;
    const auto file = folder / "old.trace", now = folder / "now.trace";
    make_trace(now);
    make_trace(file);
    for (const auto& each : {now, file}) // it could not tell the bins of these
        sqlite::Database(each, sqlite::Open::read_write)
            .exec("DELETE FROM attention WHERE edges IS NOT NULL");
    {
        sqlite::Database db(file, sqlite::Open::read_write);
        db.exec("ALTER TABLE attention DROP COLUMN edges; ALTER TABLE attention DROP COLUMN exact_keys; "
                "ALTER TABLE refreshes DROP COLUMN fired_step; ALTER TABLE refreshes DROP COLUMN bytes_sent; "
                "ALTER TABLE runs DROP COLUMN inherited_cache; "
                "DROP TABLE drafts; DROP TABLE layers; DROP "
                "TABLE cache; DROP TABLE landscapes; DROP TABLE landscape_rows; "
                "DROP TABLE labels; DROP TABLE notes; DROP TABLE scope_maps; PRAGMA user_version = 1");
    }
    const std::string bytes = contents(file);
    const auto old = load_trace(file), expected = load_trace(now);
    REQUIRE(old.size() == expected.size());
    for (size_t i = 0; i < old.size(); ++i) {
        REQUIRE(old[i]->refreshes().size() == expected[i]->refreshes().size());
        CHECK(old[i]->token_ids() == expected[i]->token_ids());
        for (size_t n = 0; n < old[i]->refreshes().size(); ++n) {
            CHECK(old[i]->refreshes()[n].step == expected[i]->refreshes()[n].step);
            CHECK(old[i]->refreshes()[n].fired_step == old[i]->refreshes()[n].step);
            CHECK(old[i]->refreshes()[n].hits.size() == expected[i]->refreshes()[n].hits.size());
        }
    }
    CHECK(contents(file) == bytes);
    // A table of another shape under the old number is damage like any other.
    sqlite::Database(file, sqlite::Open::read_write).exec("DROP TABLE refreshes");
    CHECK_THAT(load_error(file), ContainsSubstring("damaged"));
}

TEST_CASE("impossible contents are damage, not a crash", "[record]") {
    TemporaryFolder folder;
    const auto good = folder / "good.trace";
    make_trace(good);
    REQUIRE(load_error(good).empty());
    const std::string bytes = contents(good);
    const auto bad = folder / "bad.trace";
    const char* const attacks[] = {
        "UPDATE steps SET step = -5 WHERE step = 3",
        "DELETE FROM steps WHERE step = 3",
        "UPDATE steps SET position = 1000000000000 WHERE step = 3",
        "UPDATE steps SET token_id = 300 WHERE step = 3",
        "UPDATE steps SET next_token_id = 4294967297 WHERE step = 3",
        "UPDATE steps SET producer = 2 WHERE step = 3",
        "UPDATE steps SET fed = 'yes' WHERE step = 3",
        "UPDATE steps SET arrival_ms = x'00' WHERE step = 3",
        "UPDATE steps SET mc_ms = 'soon' WHERE step = 3",
        "INSERT INTO topk SELECT run, step, 16, 1, 0.5 FROM steps",
        "UPDATE topk SET rank = -1 WHERE rank = 0",
        "UPDATE topk SET token_id = -2",
        "UPDATE topk SET step = step + 77",
        "UPDATE signals SET known = step - 1 WHERE known = step AND step = 4",
        "UPDATE signals SET known = known + 1000 WHERE known > step",
        "UPDATE signals SET step = 9223372036854775807, known = 9223372036854775807 WHERE step = "
        "4 AND known "
        "= step",
        "UPDATE signals SET value = 'much'",
        "UPDATE refreshes SET step = -1",
        "UPDATE refreshes SET step = 1000 - n",
        "UPDATE refreshes SET n = n + 1000",
        "UPDATE refreshes SET step = 999999, fired_step = 999999 WHERE n = (SELECT max(n) FROM "
        "refreshes)",
        "UPDATE refreshes SET id = id + 1000",
        "UPDATE refreshes SET delta = step + 1",
        "UPDATE refreshes SET first_pos = first_pos + 100000",
        "UPDATE refreshes SET spliced = spliced + 100000",
        "UPDATE refreshes SET spliced = delta + 1",
        "UPDATE refreshes SET pass_tokens = 100000",
        "UPDATE refreshes SET bytes_sent = -1",
        "UPDATE refreshes SET bytes_sent = 9223372036854775807",
        "UPDATE refreshes SET bytes_sent = 'all'",
        "UPDATE refreshes SET fired_step = step + 1",
        "UPDATE refreshes SET on_fire = 'explode'",
        "UPDATE refreshes SET hits = '[{'",
        "UPDATE refreshes SET hits = '{}}'",
        "UPDATE refreshes SET hits = '[{\"trigger\": 99999999999999999999}]'",
        "UPDATE refreshes SET kl_nats = 'not a number'",
        "UPDATE refreshes SET spliced = NULL",
        "UPDATE passes SET tokens = -1",
        "UPDATE passes SET first_pos = 1e300",
        "UPDATE passes SET first_pos = 100000000",
        "UPDATE passes SET tokens = tokens + 100000",
        "UPDATE passes SET step = 43",
        "UPDATE drafts SET step = 43",
        "UPDATE drafts SET n = n + 1000",
        "UPDATE drafts SET refresh_id = -1",
        "UPDATE drafts SET first_pos = first_pos + 100000",
        "UPDATE drafts SET instead = 300",
        "UPDATE drafts SET instead = CASE WHEN instead < 0 THEN 5 ELSE -1 END",
        "UPDATE drafts SET rejected_read = 100",
        "UPDATE drafts SET rejected_ms = 'long'",
        "UPDATE drafts SET tokens = x''",
        "UPDATE drafts SET tokens = zeroblob(100000)",
        "UPDATE drafts SET tokens = replace(tokens, x'00', x'7f')",
        "UPDATE drafts SET stays = zeroblob(100)",
        "UPDATE drafts SET stays = replace(hex(stays), '01', '02')",
        "UPDATE drafts SET p_teacher = NULL",
        "UPDATE drafts SET p_student = x'00'",
        "UPDATE drafts SET expected = 0.5",
        "UPDATE commands SET step = 43",
        "UPDATE commands SET json = 'rm -rf'",
        "UPDATE commands SET json = NULL",
        "UPDATE commands SET json = replace(hex(zeroblob(100000)), '00', '[')",
        "UPDATE drift SET layers = 2147483647, positions = 2147483647",
        "UPDATE drift SET layers = 4294967296, positions = 4294967296",
        "UPDATE drift SET k = x'0011'",
        "UPDATE drift SET first_pos = 2000000000",
        "UPDATE drift SET step = step + 1000",
        "UPDATE drift SET refresh_id = refresh_id + 1000",
        "UPDATE drift SET v_max = NULL",
        "UPDATE layers SET layer_values = x'0000803f'",
        "UPDATE layers SET layer_values = 1.5",
        "UPDATE layers SET layer_values = NULL",
        "UPDATE layers SET step = step + 1000",
        "INSERT INTO layers SELECT run, step, 'entropy_bits', zeroblob(12) FROM steps",
        "UPDATE cache SET step = step + 1000",
        "UPDATE cache SET step = 1 WHERE step > 5",
        "UPDATE cache SET n = n + 1000",
        "UPDATE cache SET steps = 0",
        "UPDATE cache SET steps = 1000",
        "UPDATE cache SET steps = 2 WHERE change <> 'appended'",
        "UPDATE cache SET bytes_stride = 64 WHERE steps = 1",
        "UPDATE cache SET bytes_stride = -1000000 WHERE steps > 1",
        "UPDATE cache SET bytes = -1",
        "UPDATE cache SET bytes = 9223372036854775807, bytes_stride = 9223372036854775807",
        "UPDATE cache SET teacher = 2",
        "UPDATE cache SET change = 'exploded'",
        "UPDATE cache SET layer = 3",
        "UPDATE cache SET layer = -2",
        "UPDATE cache SET kv_head = 2",
        "UPDATE cache SET first_pos = -1",
        "UPDATE cache SET first_pos = 9223372036854775807",
        "UPDATE cache SET positions = 0",
        "UPDATE cache SET positions = positions + 1 WHERE ranges IS NOT NULL",
        "UPDATE cache SET positions = 100000",
        "UPDATE cache SET ranges = x'00'",
        "UPDATE cache SET ranges = zeroblob(32)",
        "UPDATE cache SET ranges = x''",
        "UPDATE cache SET origin = 'nowhere'",
        "UPDATE cache SET origin = NULL",
        "UPDATE cache SET refresh_id = 4294967296",
        "UPDATE cache SET layer_bytes = zeroblob(8)",
        "UPDATE cache SET layer_bytes = x'ffffffffffffffffffffffffffffffffffffffffffffffff'",
        "UPDATE runs SET inherited_cache = -1 WHERE first_step > 1",
        // Minus 1 may be no damage: the branch stores the last inherited row again when that row goes on in it.
        "UPDATE runs SET inherited_cache = inherited_cache - 2 WHERE first_step > 1",
        "UPDATE runs SET info = json_remove(info, '$.kernel_set')",
        "UPDATE runs SET info = json_set(info, '$.rebuild', 'yes')",
        "UPDATE runs SET info = json_set(info, '$.signals', 'all')",
        "UPDATE runs SET info = json_set(info, '$.signals[0]', 5)",
        "UPDATE runs SET info = json_set(info, '$.published_signals[0].name', 'two words')",
        "UPDATE runs SET info = json_set(info, '$.published_signals[1].name', 'kept_positions')",
        "UPDATE runs SET info = json_set(info, '$.published_signals[0].letter', 'QQ')",
        "UPDATE runs SET info = json_set(info, '$.published_signals[0].min', 'nan')",
        "UPDATE runs SET info = json_set(info, '$.published_signals[0].about', 3)",
        "UPDATE runs SET info = json_set(info, '$.published_signals[0].layered', json('false'))",
        "UPDATE runs SET info = json_remove(info, '$.cache_events')",
        "UPDATE refreshes SET hits = "
        "'[{\"trigger\":0,\"signal\":\"entropy_bits\",\"value\":1,\"threshold\":1,"
        "\"letter\":\"E\",\"reduce\":\"median\"}]'",
        "UPDATE attention SET heads = 65536, keys = 9223372036854775807",
        "UPDATE OR REPLACE attention SET position = -1, keys = 0",
        "UPDATE attention SET step = step + 1000",
        "UPDATE attention SET position = position + 1000, step = step + 1000, keys = keys + 1000",
        "UPDATE attention SET weights = x''",
        "UPDATE attention SET weights = substr(weights, 3)",
        "UPDATE attention SET edges = NULL, exact_keys = NULL, weights = zeroblob(16 * (keys - "
        "1))", // no bins of a power of two are so many
        "UPDATE attention SET layers = x'01020304'",
        "UPDATE attention SET edges = x'0000000001000000' WHERE edges IS NOT NULL", // one bin of less than all
        "UPDATE attention SET edges = edges || edges WHERE edges IS NOT NULL",
        "UPDATE attention SET edges = x'00' WHERE edges IS NOT NULL",
        "UPDATE attention SET edges = NULL WHERE exact_keys IS NOT NULL",
        "UPDATE attention SET exact_keys = exact_keys || x'00' WHERE exact_keys IS NOT NULL",
        "UPDATE attention SET exact_keys = zeroblob(length(exact_keys)) WHERE exact_keys IS NOT "
        "NULL",
        "UPDATE attention SET exact_keys = NULL WHERE exact_keys IS NOT NULL",
        "UPDATE tokens SET bytes = 17",
        "UPDATE OR REPLACE tokens SET id = id - 1000",
        "DELETE FROM tokens",
        "DELETE FROM tokens WHERE id = (SELECT token_id FROM steps WHERE run = 2 AND step = 25)",
        "DELETE FROM tokens WHERE id = (SELECT token_id FROM topk WHERE rank = 1 LIMIT 1)",
        "DELETE FROM tokens WHERE id = (SELECT token_before FROM refreshes LIMIT 1)",
        "DELETE FROM tokens WHERE id = (SELECT json_extract(info, '$.prompt_ids[0]') FROM runs)",
        "UPDATE runs SET vocabulary = 77 WHERE first_step = 1",
        "UPDATE runs SET id = 'same'",
        "UPDATE runs SET parent = 'nobody' WHERE first_step > 1",
        "UPDATE runs SET parent = 'branch' WHERE first_step > 1",
        "UPDATE runs SET parent = id",
        "UPDATE runs SET parent = id WHERE first_step = 1",
        "UPDATE runs SET parent = 'branch' WHERE first_step = 1",
        "UPDATE runs SET fork_step = 5 WHERE first_step = 1",
        "UPDATE runs SET parent = 'gone', fork_step = 5000 WHERE first_step = 1",
        "UPDATE runs SET fork_step = 41, first_step = 42 WHERE first_step > 1",
        "UPDATE runs SET fork_step = -1 WHERE first_step > 1",
        "UPDATE runs SET first_step = 30 WHERE first_step > 1",
        "UPDATE runs SET inherited_passes = -1 WHERE first_step > 1",
        "UPDATE runs SET info = '{'",
        "UPDATE runs SET info = '[]'",
        "UPDATE runs SET info = '{}'",
        "UPDATE runs SET info = json_set(info, '$.prompt_ids', 5)",
        "UPDATE runs SET info = json_set(info, '$.prompt_ids[0]', -1)",
        "UPDATE runs SET info = json_set(info, '$.prompt_ids[0]', 300)",
        "UPDATE runs SET info = json_set(info, '$.vocab_size', 1e30)",
        "UPDATE runs SET info = json_set(info, '$.layers', -1)",
        "UPDATE runs SET info = json_set(info, '$.threads', 99999999999)",
        "UPDATE runs SET info = json_set(info, '$.first_token', 12345)",
        "UPDATE runs SET info = json_set(info, '$.first_logprob', 'low')",
        "UPDATE runs SET info = json_set(info, '$.config', 3)",
        "UPDATE runs SET info = json_set(info, '$.config.policy.when', 'never')",
        "UPDATE runs SET stop_reason = 5.5, total_ms = 'x'",
        "UPDATE runs SET stop_reason = 'boredom' WHERE stop_reason IS NOT NULL",
        "UPDATE runs SET run = 50 - run",
        "DROP TABLE tokens",
        "ALTER TABLE steps RENAME TO paces",
        "ALTER TABLE topk DROP COLUMN prob",
        "DROP TABLE passes; CREATE VIEW passes AS WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL "
        "SELECT x + 1 "
        "FROM c) SELECT "
        "1, x, 1, 1, 1, 1, 1, 1.0, 1.0 FROM c",
    };
    for (const char* attack : attacks) {
        INFO(attack);
        write(bad, bytes);
        sqlite::Database(bad, sqlite::Open::read_write).exec(attack);
        CHECK_THAT(load_error(bad), ContainsSubstring("damaged"));
    }
}

TEST_CASE("a signal that this program does not know is left out", "[record]") {
    TemporaryFolder folder;
    const auto file = folder / "signal.trace";
    make_trace(file);
    const auto before = load_trace(file);
    sqlite::Database(file, sqlite::Open::read_write)
        .exec("INSERT INTO signals VALUES (1, 3, 'of_the_future', 3, 1.5); "
              "INSERT INTO layers VALUES (1, 3, 'of_the_future', x'00'); "
              "UPDATE runs SET info = json_insert(info, '$.signals[#]', 'of_the_future')");
    const auto after = load_trace(file);
    CHECK(first_difference(*before[0], *after[0]) == std::nullopt);
}

TEST_CASE("cut and flipped bytes never crash the reader", "[record]") {
    const uint64_t seed = test::seed(1);
    INFO("seed " << seed);
    std::mt19937_64 random(seed);
    TemporaryFolder folder;
    make_trace(folder / "good.trace");
    const std::string good = contents(folder / "good.trace");
    const auto bad = folder / "bad.trace";
    int refused = 0;
    for (int i = 0; i < 150; ++i) {
        std::string bytes = good;
        if (i % 5 == 0) {
            bytes.resize(random() % bytes.size());
        } else if (i % 5 == 1) { // a whole page
            const size_t page = random() % (bytes.size() / 4096);
            for (size_t k = 0; k < 4096; ++k)
                bytes[page * 4096 + k] = static_cast<char>(random());
        } else {
            for (uint64_t k = 0; k <= random() % 40; ++k)
                bytes[random() % bytes.size()] = static_cast<char>(random());
        }
        write(bad, bytes);
        if (!load_error(bad).empty())
            ++refused; // a changed number may pass: it is one that could have been written
    }
    CHECK(refused > 30);
}

} // namespace trace_load_test
