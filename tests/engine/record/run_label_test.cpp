// Names and colours of runs: what a trace keeps of them, and what it makes of absurd ones.
#include "engine/base/error.h"
#include "engine/record/runs/run_label.h"
#include "engine/record/trace/sqlite.h"
#include "engine/record/trace/trace_store.h"
#include "engine/text/utf8.h"
#include "tests/engine/record/file_bytes.h"
#include "tests/engine/record/random_recording.h"
#include "tests/support/seed.h"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <random>
#include <string>
#include <vector>

namespace run_label_test {

using namespace refreshlab;
using namespace refreshlab::test;
using Catch::Matchers::ContainsSubstring;

namespace {

std::string load_error(const std::filesystem::path& path) {
    try {
        (void)load_trace(path);
        return {};
    } catch (const Error& e) {
        CHECK(e.kind() == ErrorKind::bad_input);
        return e.what();
    }
}

} // namespace

TEST_CASE("a name of a run is one line that can be shown", "[record]") {
    CHECK(clean_run_name("before the blue door") == "before the blue door");
    CHECK(clean_run_name("  spaces  inside ") == "spaces  inside");
    CHECK(clean_run_name("").empty());
    CHECK(clean_run_name(" \t\n\r ").empty());
    CHECK(clean_run_name("two\nlines\tand \x1B[31mred\x7F") == "two lines and  [31mred");
    CHECK(clean_run_name(std::string("a\0b", 3)) == "a b");
    CHECK(clean_run_name("caf\xC3\xA9 \xE6\x97\xA5") == "caf\xC3\xA9 \xE6\x97\xA5");
    CHECK(clean_run_name("\xFF half \xE6\x97") == "\xEF\xBF\xBD half \xEF\xBF\xBD");
    CHECK(clean_run_name("turned \xE2\x80\xAE around") == "turned   around");
    CHECK(clean_run_name(std::string(5000, 'n')) == std::string(longest_run_name, 'n'));
    std::string wide; // cut between characters, never inside one
    for (int i = 0; i < 300; ++i)
        wide += "\xE6\x97\xA5";
    CHECK(clean_run_name(wide).size() == longest_run_name / 3 * 3);

    std::mt19937 random(seed(0x1A8E));
    for (int round = 0; round < 300; ++round) {
        std::string bytes(std::uniform_int_distribution<size_t>(0, 600)(random), '\0');
        for (char& byte : bytes)
            byte = static_cast<char>(std::uniform_int_distribution<int>(0, 255)(random));
        const std::string name = clean_run_name(bytes);
        CHECK(clean_run_name(name) == name);
        CHECK_FALSE(first_invalid_utf8(name));
        CHECK(name.size() <= longest_run_name);
        CHECK(visible_text(name) == name);
    }
}

TEST_CASE("names and colours of runs come back from their trace", "[record]") {
    TemporaryFolder folder;
    Grower grower(seed(0x1A8F));
    const auto root = grower.start();
    grower.grow(*root, 12);
    const auto branch = root->fork(8, "branch"), plain = root->fork(5, "plain"),
               shown = root->fork(3, "shown");
    grower.grow(*branch, 3);
    std::vector<SavedRun> runs{{root, {}, 0, {"the one", 3}},
                               {branch, {}, 0, {"  line\nbreak " + std::string(900, 'x'), std::nullopt}},
                               {plain, {}, 0, {}},
                               {shown, {}, 0, {"", 7}}};
    const auto file = folder / "named.rlt";
    REQUIRE(save_traces(file, runs));
    const auto check = [&](const LabelledRuns& loaded) {
        REQUIRE(loaded.runs.size() == 4);
        REQUIRE(loaded.labels.size() == 4);
        for (size_t i = 0; i < runs.size(); ++i)
            CHECK_FALSE(first_difference(*loaded.runs[i], *runs[i].recording));
        CHECK(loaded.labels[0] == RunLabel{"the one", 3});
        CHECK(loaded.labels[1] == RunLabel{"line break " + std::string(longest_run_name - 11, 'x'), {}});
        CHECK(loaded.labels[2].empty());
        CHECK(loaded.labels[3] == RunLabel{"", 7});
    };
    const LabelledRuns loaded = load_labelled_trace(file);
    check(loaded);
    CHECK(load_trace(file).size() == 4);
    // Saved again from what was loaded: the same.
    for (size_t i = 0; i < runs.size(); ++i)
        runs[i].label = loaded.labels[i];
    REQUIRE(save_traces(file, runs));
    check(load_labelled_trace(file));
    CHECK(sqlite::Database(file, sqlite::Open::read_only).integer("SELECT count(*) FROM labels") == 3);
}

TEST_CASE("a trace that is recorded live has runs without names", "[record]") {
    TemporaryFolder folder;
    Grower grower(seed(0x1A90));
    const auto run = grower.start();
    grower.grow(*run, 4);
    {
        const auto store = TraceStore::create(folder / "live.rlt");
        store->attach(run);
        store->flush();
    }
    const LabelledRuns loaded = load_labelled_trace(folder / "live.rlt");
    REQUIRE(loaded.labels.size() == 1);
    CHECK(loaded.labels[0].empty());
    { // unless whoever records says what it is known by
        const auto store = TraceStore::create(folder / "named.rlt");
        store->attach(run, {"the one", 2});
    }
    CHECK(load_labelled_trace(folder / "named.rlt").labels.at(0) == RunLabel{"the one", 2});
}

TEST_CASE("names that no program of ours wrote are damage", "[record]") {
    TemporaryFolder folder;
    Grower grower(seed(0x1A91));
    const auto run = grower.start();
    grower.grow(*run, 3);
    const SavedRun saved{run, {}, 0, {"good", 1}};
    const auto file = folder / "bad.rlt";
    const auto changed = [&](const std::string& sql) {
        REQUIRE(save_traces(file, std::span(&saved, 1)));
        sqlite::Database(file, sqlite::Open::read_write).exec(sql.c_str());
        return load_error(file);
    };
    CHECK(changed("UPDATE labels SET name = NULL").empty());
    CHECK(changed("UPDATE labels SET colour = NULL").empty());
    CHECK(changed("UPDATE labels SET colour = 7").empty());
    for (const char* sql :
         {"UPDATE labels SET name = 'two' || char(10) || 'lines'", "UPDATE labels SET name = ''",
          "UPDATE labels SET name = ' good'", "UPDATE labels SET name = CAST(x'FFFE' AS TEXT)",
          "UPDATE labels SET name = 'a' || char(0) || 'b'",
          "UPDATE labels SET name = replace(hex(zeroblob(300)), '00', 'xx')", "UPDATE labels SET colour = 8",
          "UPDATE labels SET colour = -1", "UPDATE labels SET colour = 'red'", "UPDATE labels SET run = 2",
          "INSERT INTO labels VALUES (9, 'nobody', 1)", "DROP TABLE labels",
          "ALTER TABLE labels ADD COLUMN icon TEXT"}) {
        INFO(sql);
        const std::string error = changed(sql);
        CHECK_THAT(error, ContainsSubstring("damaged"));
        CHECK(error.find('\n') == std::string::npos);
    }
}

} // namespace run_label_test
