// Traces of earlier schemas. schema2.rlt was recorded by the last program of schema 2: 20 tokens of the bundled pair with a
// lagged KL policy, MC dropout every 8 tokens, one refresh by hand, two other commands. schema3.rlt was recorded by the last
// program of schema 3: 12 tokens of the bundled pair with attention entropies and one refresh by hand. schema4.rlt was recorded by
// the last program of schema 4: 12 tokens of the bundled pair, the student's older entries in 4 bits (KIVI), one refresh. schema5.rlt
// was recorded by the last program of schema 5: 12 tokens of the bundled pair with an entropy gate, one refresh. schema6.rlt was recorded
// by the last program of schema 6: 12 tokens of the bundled pair, two periodic refreshes with on_fire redraw. schema7.rlt was recorded by the
// last program of schema 7: 12 tokens of the bundled pair in four drafts that were verified. schema9.rlt was recorded by the last program
// of schema 9: 12 tokens of the bundled pair, two periodic refreshes, attention in 8 bins at most. schema11.rlt was recorded by the last
// program of schema 11: 12 tokens of the bundled pair, one periodic refresh, attention rows of 500 bytes a step at most.
#include "engine/base/error.h"
#include "engine/record/export/export.h"
#include "engine/record/trace/schema/trace_versions.h"
#include "engine/record/trace/sqlite.h"
#include "engine/record/trace/trace_store.h"
#include "tests/engine/record/file_bytes.h"
#include "tests/engine/record/random_recording.h"

#include <catch2/catch_approx.hpp>
#include <catch2/catch_test_macros.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <fstream>
#include <iterator>

namespace trace_old_test {

using namespace refreshlab;
using namespace refreshlab::test;
using Catch::Approx;

namespace {

/// The small trace that a program of this schema wrote.
std::filesystem::path trace_of_schema(int64_t schema) {
    return std::filesystem::path(RL_SOURCE_DIR) / fmt::format("tests/engine/record/schema{}.rlt", schema);
}
std::filesystem::path schema2() {
    return trace_of_schema(2);
}

/// What that trace holds. Checks that it is small and of its schema, and that reading changes nothing in the file.
LabelledRuns read_as_it_was(int64_t schema) {
    const std::filesystem::path file = trace_of_schema(schema);
    const std::string bytes = contents(file);
    REQUIRE(bytes.size() < 60'000);
    {
        sqlite::Database db(file, sqlite::Open::unchanging);
        REQUIRE(db.integer("PRAGMA user_version") == schema);
    }
    LabelledRuns trace = load_labelled_trace(file);
    CHECK(contents(file) == bytes);
    return trace;
}

float value(const Recording& r, int64_t step, const char* name) {
    return r.signal(step, *r.signal_id(name));
}

/// A copy of the schema-2 trace, changed.
std::filesystem::path changed(const TemporaryFolder& folder, const char* sql) {
    const auto file = folder / "changed.rlt";
    std::filesystem::copy_file(schema2(), file, std::filesystem::copy_options::overwrite_existing);
    sqlite::Database(file, sqlite::Open::read_write).exec(sql);
    return file;
}

} // namespace

TEST_CASE("a trace that a program of schema 2 wrote is read as it was", "[record]") {
    const auto runs = read_as_it_was(2).runs;
    REQUIRE(runs.size() == 1);
    const Recording& r = *runs[0];
    CHECK(r.steps() == 20);
    CHECK(r.info().kernel_set.empty());
    CHECK_FALSE(r.info().rebuild);
    CHECK_FALSE(r.info().has_cache_events);
    CHECK(r.info().config.policy.lag == 2);
    CHECK(r.info().config.mc.every == 8); // "stride" in this file
    CHECK(generated_text(r) ==
          " upon a time there was a small bakery. It would say it would brings every time");
    // As sqlite3 reads them from the file.
    CHECK(value(r, 8, "entropy_bits") == 4.12615442276001F);
    CHECK(value(r, 8, "kl_nats") == 1.51043879985809F);
    CHECK(value(r, 9, "kl_nats") == 1.43868029117584F);
    CHECK(is_absent(value(r, 8, "varentropy_bits2")));
    REQUIRE(r.refreshes().size() == 2);
    CHECK(r.refreshes()[0].step == 8);
    CHECK(r.refreshes()[0].fired_step == 6);
    CHECK(r.refreshes()[0].hits.at(0).signal == "kl_nats");
    CHECK(r.refreshes()[0].hits.at(0).reduce == Reduction::mean);
    CHECK(r.refreshes()[1].hits.at(0).letter == 'H');
    CHECK(r.commands().size() == 3);
    CHECK(r.drifts().size() == 2);
    CHECK(r.attention_rows().size() == 1);
    CHECK(r.layer_rows().empty());
    CHECK_FALSE(r.info().has_cache_events);
    CHECK_FALSE(r.cache_entries().empty()); // derived while it is read
    // Its writer had 17 signals; those that came later are not known to be absent.
    size_t known = 0;
    for (size_t id = 0; id < r.signals().size(); ++id)
        known += r.knows_signal(id) ? 1 : 0;
    CHECK(known == 17);
    CHECK_FALSE(r.knows_signal(*signal_id("varentropy_bits2")));
    CHECK(r.knows_signal(*signal_id("mc_entropy_sd_bits")));
    REQUIRE(r.end());
    CHECK(*r.end()->teacher_ppl == Approx(17.05).epsilon(1e-3));
}

TEST_CASE("a trace that a program of schema 3 wrote is read as it was", "[record]") {
    const auto runs = read_as_it_was(3).runs;
    REQUIRE(runs.size() == 1);
    const Recording& r = *runs[0];
    CHECK(r.steps() == 12);
    CHECK(generated_text(r) == ", there was a little girl named Lily. She loved to");
    REQUIRE(r.refreshes().size() == 1);
    CHECK(r.refreshes()[0].step == 8);
    CHECK(r.refreshes()[0].hits.at(0).letter == 'H');
    CHECK_FALSE(r.layer_rows().empty());
    CHECK_FALSE(r.cache_entries().empty());
    CHECK(r.info().has_cache_events);
}

TEST_CASE("a trace that a program of schema 4 wrote is read as it was, with entries that were encoded",
          "[record]") {
    const auto file = trace_of_schema(4);
    const auto runs = read_as_it_was(4).runs;
    REQUIRE(runs.size() == 1);
    const Recording& r = *runs[0];
    CHECK(r.steps() == 12);
    CHECK(r.info().config.student_cache.policy == "kivi");
    REQUIRE(r.refreshes().size() == 1);
    CHECK(r.refreshes()[0].step == 6);
    const auto encoded = [](const Recording& recording) {
        int64_t n = 0;
        for (size_t i = 0; i < recording.cache_entries().size(); ++i)
            n += recording.cache_entries()[i].change == CacheChange::encoded ? 1 : 0;
        return n;
    };
    CHECK(encoded(r) > 0);
    TemporaryFolder folder;
    REQUIRE(save_trace(folder / "now.rlt", runs[0]));
    const auto now = load_trace(folder / "now.rlt").at(0);
    CHECK(first_difference(r, *now) == std::nullopt);
    CHECK(encoded(*now) == encoded(r));
    // Schema 3 had no such change.
    const auto older = folder / "older.rlt";
    std::filesystem::copy_file(file, older);
    sqlite::Database(older, sqlite::Open::read_write)
        .exec("DROP TABLE landscapes; DROP TABLE landscape_rows; PRAGMA user_version = 3");
    CHECK_THROWS_AS(load_trace(older), Error);
}

TEST_CASE("a trace that a program of schema 5 wrote is read as it was, its run without a name", "[record]") {
    const auto file = trace_of_schema(5);
    const LabelledRuns trace = read_as_it_was(5);
    REQUIRE(trace.runs.size() == 1);
    REQUIRE(trace.labels.size() == 1);
    CHECK(trace.labels[0].empty());
    const Recording& r = *trace.runs[0];
    CHECK(r.steps() == 12);
    CHECK(r.info().config.seed == 7);
    CHECK(value(r, 4, "entropy_bits") == 3.677324056625366F); // as sqlite3 reads it from the file
    REQUIRE(r.refreshes().size() == 1);
    CHECK(r.refreshes()[0].step == 4);
    CHECK(r.refreshes()[0].hits.at(0).letter == 'E');
    TemporaryFolder folder;
    const SavedRun named{trace.runs[0], {}, 0, {"the old one", 2}};
    REQUIRE(save_traces(folder / "now.rlt", std::span(&named, 1)));
    const LabelledRuns now = load_labelled_trace(folder / "now.rlt");
    CHECK(first_difference(r, *now.runs.at(0)) == std::nullopt);
    CHECK(now.labels.at(0) == RunLabel{"the old one", 2});
    // Schema 5 had no such table.
    std::filesystem::copy_file(folder / "now.rlt", folder / "older.rlt");
    sqlite::Database(folder / "older.rlt", sqlite::Open::read_write).exec("PRAGMA user_version = 5");
    CHECK_THROWS_AS(load_trace(folder / "older.rlt"), Error);
}

TEST_CASE("a trace that a program of schema 6 wrote is read as it was, without drafts", "[record]") {
    const LabelledRuns trace = read_as_it_was(6);
    REQUIRE(trace.runs.size() == 1);
    const Recording& r = *trace.runs[0];
    CHECK(r.steps() == 12);
    CHECK(r.drafts().empty());
    REQUIRE(r.refreshes().size() == 2);
    CHECK(r.refreshes()[0].step == 4);
    CHECK(r.refreshes()[0].on_fire == OnFire::redraw);
    TemporaryFolder folder;
    REQUIRE(save_trace(folder / "now.rlt", trace.runs[0]));
    CHECK(first_difference(r, *load_trace(folder / "now.rlt").at(0)) == std::nullopt);
    // Schema 6 had no table of drafts.
    sqlite::Database(folder / "now.rlt", sqlite::Open::read_write).exec("PRAGMA user_version = 6");
    CHECK_THROWS_AS(load_trace(folder / "now.rlt"), Error);
}

TEST_CASE(
    "a trace that a program of schema 7 wrote is read as it was, and does not tell the bytes that were sent",
    "[record]") {
    const LabelledRuns trace = read_as_it_was(7);
    REQUIRE(trace.runs.size() == 1);
    const Recording& r = *trace.runs[0];
    CHECK(r.steps() == 12);
    CHECK(generated_text(r) == "The sun was shining brightly overhead, Emma and Tom.");
    CHECK(r.drafts().size() == 4);
    REQUIRE(r.refreshes().size() == 4);
    CHECK(r.refreshes()[2].step == 10);
    CHECK(r.refreshes()[2].spliced == 2);
    for (size_t i = 0; i < 4; ++i)
        CHECK_FALSE(r.refreshes()[i].bytes_sent);
    CHECK_FALSE(bytes_sent(r));
    CHECK(summary_json(r).at("bytes_sent").is_null());
    CHECK(r.info().config.policy.scope.whole());
    TemporaryFolder folder;
    REQUIRE(save_trace(folder / "now.rlt", trace.runs[0]));
    const auto now = load_trace(folder / "now.rlt").at(0);
    CHECK(first_difference(r, *now) == std::nullopt);
    CHECK_FALSE(now->refreshes()[0].bytes_sent);
    // Schema 7 had no such column.
    sqlite::Database(folder / "now.rlt", sqlite::Open::read_write).exec("PRAGMA user_version = 7");
    CHECK_THROWS_AS(load_trace(folder / "now.rlt"), Error);
}

TEST_CASE(
    "a trace that a program of schema 9 wrote is read as it was, its attention in the bins it was made in",
    "[record]") {
    const LabelledRuns trace = read_as_it_was(9);
    REQUIRE(trace.runs.size() == 1);
    const Recording& r = *trace.runs[0];
    CHECK(r.steps() == 12);
    CHECK(value(r, 4, "entropy_bits") == 3.8185501098632812F); // as sqlite3 reads it from the file
    CHECK(r.info().config.capture.attention_bytes == 0);       // what was recorded is what a replay makes
    CHECK(r.info().config.capture.attention_bins == 8);
    REQUIRE(r.attention_rows().size() == 11);
    CHECK(r.attention(7, false)->every_key());
    CHECK(r.attention(7, false)->weights.at(0) == 0x23A5);
    const AttentionRows& in_bins = *r.attention(16, false);
    CHECK(resolution_of(in_bins) == AttentionResolution{4, 4, 1});
    CHECK(in_bins.edges == std::vector<int32_t>{0, 4, 8, 12, 16, 17});
    CHECK(in_bins.exact == 0);
    TemporaryFolder folder;
    REQUIRE(save_trace(folder / "now.rlt", trace.runs[0]));
    const auto now = load_trace(folder / "now.rlt").at(0);
    CHECK(first_difference(r, *now) == std::nullopt);
    CHECK(now->info().config == r.info().config);
    // Brought up to date in place, as a note does, it says the same.
    const auto noted = folder / "noted.rlt";
    std::filesystem::copy_file(trace_of_schema(9), noted);
    {
        sqlite::Database db(noted, sqlite::Open::read_write);
        REQUIRE(trace::bring_up_to_date(db));
        REQUIRE(db.integer("PRAGMA user_version") == 12);
    }
    const auto up_to_date = load_trace(noted).at(0);
    CHECK(first_difference(r, *up_to_date) == std::nullopt);
    CHECK(up_to_date->info().config == r.info().config);
    // Schema 9 had no such columns.
    sqlite::Database(folder / "now.rlt", sqlite::Open::read_write).exec("PRAGMA user_version = 9");
    CHECK_THROWS_AS(load_trace(folder / "now.rlt"), Error);
}

TEST_CASE("a trace of schema 11, which had no scope maps, is read as it was and takes one", "[record]") {
    const LabelledRuns trace = read_as_it_was(11);
    REQUIRE(trace.runs.size() == 1);
    const Recording& r = *trace.runs[0];
    CHECK(r.steps() == 12);
    CHECK(r.info().config.capture.attention_bytes == 500);
    REQUIRE(r.attention_rows().size() == 11);
    CHECK_FALSE(r.attention(15, false)->every_key());
    CHECK(r.attention(15, false)->edges.size() == 7);
    TemporaryFolder folder;
    REQUIRE(save_trace(folder / "now.rlt", trace.runs[0]));
    CHECK(first_difference(r, *load_trace(folder / "now.rlt").at(0)) == std::nullopt);
    const auto with_place = folder / "with-place.rlt";
    std::filesystem::copy_file(trace_of_schema(11), with_place);
    {
        sqlite::Database db(with_place, sqlite::Open::read_write);
        REQUIRE(trace::bring_up_to_date(db));
        CHECK(db.integer("PRAGMA user_version") == 12);
        CHECK(db.integer("SELECT count(*) FROM scope_maps") == 0);
    }
    CHECK(first_difference(r, *load_trace(with_place).at(0)) == std::nullopt);
    // Schema 11 had no such table.
    sqlite::Database(folder / "now.rlt", sqlite::Open::read_write).exec("PRAGMA user_version = 11");
    CHECK_THROWS_AS(load_trace(folder / "now.rlt"), Error);
}

TEST_CASE("a trace keeps the first name of mc.every, so that earlier programs read it", "[record]") {
    const TemporaryFolder folder;
    REQUIRE(save_trace(folder / "new.rlt", load_trace(schema2()).at(0)));
    sqlite::Database db(folder / "new.rlt", sqlite::Open::read_only);
    CHECK(db.integer("SELECT json_extract(info, '$.config.mc.stride') FROM runs") == 8);
    CHECK(db.integer("SELECT json_extract(info, '$.config.mc.every') IS NULL FROM runs") == 1);
    CHECK(load_trace(folder / "new.rlt").at(0)->info().config.mc.every == 8);
}

TEST_CASE("an old run that is saved again stays what it was", "[record]") {
    TemporaryFolder folder;
    const auto old = load_trace(schema2()).at(0);
    REQUIRE(save_trace(folder / "now.rlt", old));
    {
        sqlite::Database db(folder / "now.rlt", sqlite::Open::read_only);
        CHECK(db.integer("PRAGMA user_version") == 12);
    }
    const auto now = load_trace(folder / "now.rlt").at(0);
    CHECK(first_difference(*old, *now) == std::nullopt);
    CHECK_FALSE(now->info().has_cache_events);
    for (size_t id = 0; id < old->signals().size(); ++id)
        CHECK(now->knows_signal(id) == old->knows_signal(id));
    // Run again by a program that measures more, it is still the same run.
    RunInfo info = old->info();
    info.written_signals.reset();
    info.has_cache_events = true;
    const auto again = std::make_shared<Recording>(info, old->token_table());
    StepRecord record = old->step(1);
    std::ranges::copy(old->measured(1), record.signals.begin());
    record.signals[*signal_id("varentropy_bits2")] = 3;
    CacheEvent event;
    event.positions = {{0, 1}};
    again->add_cache_event(event);
    again->append(record);
    CHECK(first_difference(*again, *old->fork(1, "one")) == std::nullopt);
}

TEST_CASE("rebuild mode of an old trace is told by its note, once", "[record]") {
    TemporaryFolder folder;
    const auto rebuild = [&](const char* sql) {
        return load_trace(changed(folder, sql)).at(0)->info().rebuild;
    };
    CHECK(rebuild("UPDATE runs SET info = json_set(info, '$.note', 'rebuild mode: the KV geometries differ "
                  "(layers)')"));
    CHECK_FALSE(rebuild("UPDATE runs SET info = json_set(info, '$.note', 'stand-in pair; no rebuild mode')"));
    CHECK_FALSE(
        rebuild("UPDATE runs SET info = json_set(info, '$.note', 'rebuild mode: ...', '$.config.mode', "
                "'student')"));
}

TEST_CASE("a branch of an old trace begins at its fork", "[record]") {
    TemporaryFolder folder;
    const auto file = changed(
        folder, "INSERT INTO runs SELECT 2, 'branch', id, 10, 11, 1, 2, 0, 1, vocabulary, info, NULL, NULL, "
                "NULL, NULL FROM runs");
    const auto runs = load_trace(file);
    REQUIRE(runs.size() == 2);
    CHECK(runs[1]->steps() == 10);
    CHECK(first_difference(*runs[1], *runs[0]->fork(10, "branch")) == std::nullopt);
}

TEST_CASE("an old trace has the tables of its own version and no others", "[record]") {
    TemporaryFolder folder;
    for (const char* sql : {"CREATE TABLE layers (run INTEGER, step INTEGER, signal TEXT, layer_values BLOB, "
                            "PRIMARY KEY (run, step, "
                            "signal)) WITHOUT ROWID",
                            "ALTER TABLE runs ADD COLUMN inherited_cache INTEGER", "PRAGMA user_version = 3",
                            "PRAGMA user_version = 1"}) {
        INFO(sql);
        CHECK_THROWS_AS(load_trace(changed(folder, sql)), Error);
    }
}

} // namespace trace_old_test
