#include "engine/base/error.h"
#include "engine/landscape/landscape_store.h"
#include "engine/record/recording/recording.h"
#include "engine/record/trace/sqlite.h"
#include "engine/record/trace/trace_store.h"
#include "tests/engine/landscape/old_trace.h"
#include "tests/engine/landscape/random_landscape.h"
#include "tests/support/seed.h"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <filesystem>

using namespace refreshlab;
using namespace refreshlab::test;
using Catch::Matchers::ContainsSubstring;

namespace {

namespace fs = std::filesystem;

constexpr int before_landscapes = 3; ///< the last schema that knew none

bool same(const Landscape& a, const Landscape& b) {
    if (a.info() != b.info() || a.rows() != b.rows()) return false;
    for (const int64_t j : a.rows()) {
        if (a.row(j)->planes != b.row(j)->planes) return false;
    }
    return true;
}

std::string error_of(const fs::path& file) {
    try {
        static_cast<void>(load_landscapes(file));
    } catch (const Error& e) {
        return e.what();
    }
    return {};
}

} // namespace

TEST_CASE("a landscape is stored beside its run, row by row, and read back bit for bit",
          "[landscape][record]") {
    const OldTrace trace("landscape-rows", before_landscapes);
    std::mt19937 random(seed(0x5701));
    const std::string id = trace.run()->info().id;
    CHECK(load_landscapes(trace.file()).empty());
    const Landscape whole = random_landscape(random, 12);
    Landscape part(whole.info());
    part.put_row(whole.row(0));
    part.put_row(whole.row(8));
    store_landscape(trace.file(), id, part);
    CHECK(sqlite::Database(trace.file(), sqlite::Open::read_only).integer("PRAGMA user_version") == 4);
    REQUIRE(load_landscapes(trace.file()).size() == 1);
    CHECK(load_landscapes(trace.file())[0].run_id == id);
    CHECK(same(*load_landscapes(trace.file())[0].landscape, part));
    store_landscape(trace.file(), id, whole);
    CHECK(same(*load_landscapes(trace.file())[0].landscape, whole));
    CHECK(trace.run()->steps() == 12); // the run is what it was
    CHECK(trace.run()->refreshes().size() == 1);

    const Landscape other = random_landscape(random, 9, 4); // of another text: takes its place
    store_landscape(trace.file(), id, other);
    CHECK(same(*load_landscapes(trace.file())[0].landscape, other));

    LandscapeInfo dropout = other.info(); // MC rows of another seed make it another landscape
    dropout.mc = {8, 0.1F, 0xFFFF'FFFF'FFFF'FFFFULL, true};
    Landscape with_mc(dropout);
    with_mc.put_row(other.row(0));
    store_landscape(trace.file(), id, with_mc);
    CHECK(same(*load_landscapes(trace.file())[0].landscape, with_mc));
    CHECK(load_landscapes(trace.file())[0].landscape->info().mc == dropout.mc);
    CHECK(load_landscapes(trace.file())[0].landscape->rows() == std::vector<int64_t>{0});
}

TEST_CASE("a landscape goes with the text of its run and no other", "[landscape][record]") {
    const OldTrace trace("landscape-text", before_landscapes);
    std::mt19937 random(seed(0x5702));
    const auto run = trace.run();
    const Landscape foreign = random_landscape(random, 12);
    CHECK_THROWS_AS(require_landscape_of(foreign, *run, "x.rlt"), Error);
    LandscapeInfo info = foreign.info();
    info.prompt_ids = run->info().prompt_ids;
    info.tokens = run->token_ids();
    CHECK_NOTHROW(require_landscape_of(Landscape(info), *run, "x.rlt"));
    info.tokens.push_back(1);
    info.teacher_logprob.push_back(-1);
    CHECK_THROWS_AS(require_landscape_of(Landscape(info), *run, "x.rlt"), Error);
}

TEST_CASE("writing a landscape where none can stand changes nothing", "[landscape][record]") {
    const OldTrace trace("landscape-refused", before_landscapes);
    std::mt19937 random(seed(0x5703));
    const Landscape landscape = random_landscape(random, 12);
    const auto refused = [&](const fs::path& file, const std::string& id) -> std::string {
        try {
            store_landscape(file, id, landscape);
        } catch (const Error& e) {
            return e.what();
        }
        return "accepted";
    };
    CHECK_THAT(refused(trace.file(), "0123456789abcdef"),
               ContainsSubstring("it holds no run 0123456789abcdef"));
    CHECK(sqlite::Database(trace.file(), sqlite::Open::read_only).integer("PRAGMA user_version") == 3);
    CHECK_THAT(refused("no-such-file.rlt", "x"), ContainsSubstring("no such file"));
    CHECK_THAT(refused(fs::path(RL_SOURCE_DIR) / "README.md", "x"),
               ContainsSubstring("not a RefreshLab trace"));
    fs::copy_file(fs::path(RL_SOURCE_DIR) / "tests/engine/record/schema2.rlt", trace.file(),
                  fs::copy_options::overwrite_existing);
    CHECK_THAT(refused(trace.file(), trace.run()->info().id),
               ContainsSubstring("schema 2, which has no place"));
    CHECK(sqlite::Database(trace.file(), sqlite::Open::read_only).integer("PRAGMA user_version") == 2);
}

TEST_CASE("a landscape that does not hold together is damage", "[landscape][record]") {
    std::mt19937 random(seed(0x5704));
    const Landscape landscape = random_landscape(random, 12);
    const struct {
        const char* sql;
        const char* says;
    } cases[] = {
        {"UPDATE landscape_rows SET row = 11 WHERE row = 10", "has a row 11"},
        {"UPDATE landscape_rows SET row = -1 WHERE row = 10", "has a row -1"},
        {"UPDATE landscape_rows SET cells = X'00' WHERE row = 3", "are no list"},
        {"UPDATE landscape_rows SET cells = zeroblob(4) WHERE row = 3", "instead of 8 for each of 3 values"},
        {"UPDATE landscape_rows SET cells = NULL WHERE row = 3", "damaged"},
        {"DELETE FROM landscape_rows WHERE row = 0", "no row 0"},
        {"UPDATE landscapes SET tokens = zeroblob(4)", "needs two at least"},
        {"UPDATE landscapes SET tokens = X'FFFFFFFF01000000'", "a token that is none"},
        {"UPDATE landscapes SET teacher_logprob = zeroblob(8)", "not as many"},
        {"UPDATE landscapes SET run = 7", "a landscape of run 7, which it has not"},
        {"UPDATE landscapes SET info = '{}'", "logprob"},
        {"UPDATE landscapes SET info = json_set(info, '$.values[1]', 'nothing')", "nothing"},
        {"UPDATE landscapes SET info = json_set(info, '$.more', 1)", "more"},
        {"UPDATE landscapes SET info = 'x'", "damaged"},
        {"DROP TABLE landscape_rows", "table landscape_rows is missing"},
    };
    for (const auto& [sql, says] : cases) {
        const OldTrace trace("landscape-damage", before_landscapes);
        store_landscape(trace.file(), trace.run()->info().id, landscape);
        trace.exec(sql);
        INFO(sql);
        CHECK_THAT(error_of(trace.file()), ContainsSubstring(says));
        CHECK_THAT(error_of(trace.file()), ContainsSubstring("damaged"));
    }
}
