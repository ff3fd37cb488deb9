// Notes beside a run: what a run and its branches show of them, and what its trace keeps.
#include "engine/base/error.h"
#include "engine/record/export/export.h"
#include "engine/record/notes/run_notes.h"
#include "engine/record/trace/sqlite.h"
#include "engine/record/trace/trace_notes.h"
#include "engine/record/trace/trace_store.h"
#include "engine/text/utf8.h"
#include "tests/engine/record/file_bytes.h"
#include "tests/engine/record/random_recording.h"
#include "tests/support/seed.h"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <fmt/format.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

namespace run_notes_test {

using namespace refreshlab;
using namespace refreshlab::test;
using Catch::Matchers::ContainsSubstring;

namespace {

StepNote note(int64_t first, int64_t last, const char* text, uint32_t colour = 0) {
    return {.first_step = first,
            .last_step = last,
            .colour = colour,
            .text = text,
            .made_at = "2026-01-02T03:04:05Z"};
}

/// Texts of what a run shows, with the steps.
std::vector<std::string> shown(const Recording& run) {
    std::vector<std::string> all;
    for (const auto& seen : run.notes()->seen())
        all.push_back(note_place(seen.note) + ": " + seen.note.text);
    return all;
}

using Lines = std::vector<std::string>;

std::filesystem::path old_trace(const TemporaryFolder& folder, int schema) {
    const auto file = folder / fmt::format("old{}.rlt", schema);
    std::filesystem::copy_file(
        std::filesystem::path(RL_SOURCE_DIR) / fmt::format("tests/engine/record/schema{}.rlt", schema), file);
    return file;
}

} // namespace

TEST_CASE("a note's text is lines that can be shown", "[record]") {
    CHECK(clean_note_text("one\r\ntwo\rthree\tfour \n\n") == "one\ntwo\nthree\tfour");
    CHECK(clean_note_text("\x1B[31mred \xFF") == " [31mred \xEF\xBF\xBD");
    std::mt19937 random(seed(0x4071));
    for (int round = 0; round < 200; ++round) {
        std::string bytes(std::uniform_int_distribution<size_t>(0, 300)(random), '\0');
        for (char& byte : bytes)
            byte = static_cast<char>(std::uniform_int_distribution<int>(0, 255)(random));
        const std::string text = clean_note_text(bytes);
        CHECK(clean_note_text(text) == text);
        CHECK_FALSE(first_invalid_utf8(text));
    }
}

TEST_CASE("a note that is none is refused and changes nothing", "[record]") {
    RunNotes notes("run");
    for (const StepNote& bad :
         {note(0, 3, ""), note(5, 4, ""), note(1, last_note_step + 1, ""), note(1, 1, "", note_colours),
          note(1, 1, std::string(longest_note + 1, 'x').c_str())}) {
        CHECK_THROWS_AS(notes.add(bad), Error);
    }
    CHECK(notes.own().empty());
    CHECK(notes.revision() == 0);
}

TEST_CASE("an erased note comes back under its id, and listeners hear of each change", "[record]") {
    RunNotes notes("run");
    int heard = 0;
    const uint64_t key = notes.listen([&] { ++heard; });
    const int64_t id = notes.add(note(7, 9, "later"));
    notes.add(note(2, 2, "earlier"));
    CHECK(notes.own().front().text == "earlier");
    const StepNote kept = *notes.find(id);
    CHECK(notes.erase(id));
    CHECK_FALSE(notes.erase(id));
    CHECK_FALSE(notes.find(id));
    notes.put(kept);
    CHECK(*notes.find(id) == kept);
    CHECK(heard == 4);
    CHECK(notes.revision() == 4);
    notes.unlisten(key);
    CHECK(notes.add(note(1, 1, "")) > id);
    CHECK(heard == 4);
}

TEST_CASE("a branch shows the notes of shared steps, also those made after the fork", "[record]") {
    Grower grower(seed(0x4072));
    const auto root = grower.start();
    grower.grow(*root, 12);
    root->notes()->add(note(3, 3, "shared"));
    const auto branch = root->fork(8, "branch"), twig = branch->fork(5, "twig");
    root->notes()->add(note(6, 11, "over the fork"));
    root->notes()->add(note(9, 9, "the root's alone"));
    branch->notes()->add(note(5, 5, "the branch's"));
    CHECK(shown(*root) ==
          Lines{"step 3: shared", "steps 6 to 11: over the fork", "step 9: the root's alone"});
    CHECK(shown(*branch) == Lines{"step 3: shared", "step 5: the branch's", "steps 6 to 8: over the fork"});
    CHECK(shown(*twig) == Lines{"step 3: shared", "step 5: the branch's"});
    const auto seen = twig->notes()->seen();
    CHECK(seen[0].owner == root->notes());
    CHECK(seen[1].owner == branch->notes());
    // An edit goes to the run that has it, and both show it.
    const uint64_t before = twig->notes()->seen_revision();
    StepNote edited = *seen[0].owner->find(seen[0].note.id);
    edited.text = "edited";
    seen[0].owner->put(edited);
    CHECK(shown(*twig).front() == "step 3: edited");
    CHECK(shown(*root).front() == "step 3: edited");
    CHECK(twig->notes()->seen_revision() != before);
}

TEST_CASE("notes come back from their trace with branches that share steps and that do not", "[record]") {
    TemporaryFolder folder;
    Grower grower(seed(0x4073));
    const auto root = grower.start();
    grower.grow(*root, 12);
    const auto branch = root->fork(8, "branch");
    grower.grow(*branch, 3);
    root->notes()->add(note(3, 10, "two\nlines", 5));
    root->notes()->add(note(9, 9, "", 2));
    branch->notes()->add(note(10, 40, "of a step to come", 7));
    const std::vector<SavedRun> runs{{root, {}, 0, {}}, {branch, {}, 0, {}}};
    REQUIRE(save_traces(folder / "both.rlt", runs));
    const auto both = load_trace(folder / "both.rlt");
    for (size_t i = 0; i < 2; ++i) {
        CHECK(shown(*both[i]) == shown(*runs[i].recording));
        CHECK_FALSE(first_difference(*both[i], *runs[i].recording));
    }
    CHECK(both[1]->notes()->own().size() == 1);
    CHECK(both[0]->notes()->own()[0].made_at == "2026-01-02T03:04:05Z");
    CHECK(both[0]->notes()->own()[0].colour == 5);
    REQUIRE(save_trace(folder / "alone.rlt", branch)); // takes along what it shows
    CHECK(shown(*load_trace(folder / "alone.rlt").at(0)) == shown(*branch));
}

TEST_CASE("a live trace has a note that is made while no step is", "[record]") {
    TemporaryFolder folder;
    Grower grower(seed(0x4074));
    const auto run = grower.start();
    grower.grow(*run, 4);
    const auto store = TraceStore::create(folder / "live.rlt");
    store->attach(run);
    store->flush();
    const int64_t id = run->notes()->add(note(2, 2, "first"));
    while (store->error().empty() && load_trace(folder / "live.rlt").at(0)->notes()->own().empty())
        (void)store->steps_written(
            std::chrono::milliseconds(1000)); // waits for the writer, tells it nothing new
    CHECK(shown(*load_trace(folder / "live.rlt").at(0)) == Lines{"step 2: first"});
    run->notes()->erase(id);
    run->notes()->add(note(4, 4, "second"));
    store->flush();
    CHECK(shown(*load_trace(folder / "live.rlt").at(0)) == Lines{"step 4: second"});
}

TEST_CASE("notes are put into traces of every schema that has room, and nothing else changes", "[record]") {
    TemporaryFolder folder;
    for (int schema = 3; schema <= 8; ++schema) {
        INFO(schema);
        const auto file = old_trace(folder, schema);
        const LabelledRuns before = load_labelled_trace(file);
        const Recording& run = *before.runs.back();
        run.notes()->add(note(2, 5, "seen here", 3));
        store_notes(file, *run.notes());
        CHECK(sqlite::Database(file, sqlite::Open::read_only).integer("PRAGMA user_version") == 12);
        const LabelledRuns after = load_labelled_trace(file);
        REQUIRE(after.runs.size() == before.runs.size());
        CHECK(after.labels == before.labels);
        for (size_t i = 0; i < before.runs.size(); ++i) {
            CHECK_FALSE(first_difference(*after.runs[i], *before.runs[i]));
            CHECK(shown(*after.runs[i]) == shown(*before.runs[i]));
        }
        run.notes()->erase(run.notes()->own().front().id); // and out again
        store_notes(file, *run.notes());
        CHECK(load_trace(file).back()->notes()->own().empty());
    }
    const auto oldest = old_trace(folder, 2);
    const std::string bytes = contents(oldest);
    CHECK_THROWS_AS(store_notes(oldest, *load_trace(oldest).at(0)->notes()), Error);
    CHECK_THROWS_AS(store_notes(folder / "old8.rlt", RunNotes("somebody else")), Error);
    CHECK_THROWS_AS(store_notes(folder / "none.rlt", RunNotes("run")), Error);
    CHECK(contents(oldest) == bytes);
}

TEST_CASE("notes are put into a trace that is being read, and read while they are put there", "[record]") {
    TemporaryFolder folder;
    const auto file = folder / "read.rlt";
    Grower grower(seed(0x4075));
    const auto run = grower.start();
    grower.grow(*run, 12);
    REQUIRE(save_trace(file, run));
    std::atomic<bool> stop = false;
    std::atomic<int> refused = 0;
    std::vector<std::thread> readers;
    for (int i = 0; i < 2; ++i)
        readers.emplace_back([&] {
            while (!stop) {
                try {
                    if (load_trace(file).size() != 1) ++refused;
                } catch (const Error&) {
                    ++refused;
                }
            }
        });
    int written = 0;
    for (int i = 0; i < 150; ++i) {
        run->notes()->add(note(1, 2, "again"));
        try {
            store_notes(file, *run->notes());
            ++written;
        } catch (const Error&) {
            ++refused;
        }
    }
    stop = true;
    for (std::thread& reader : readers)
        reader.join();
    CHECK(written == 150);
    CHECK(refused == 0);
    CHECK(load_trace(file).back()->notes()->own().size() == 150);
}

TEST_CASE("a trace of schema 8 has no notes, and is read as it was", "[record]") {
    TemporaryFolder folder;
    const auto file = old_trace(folder, 8);
    const std::string bytes = contents(file);
    const auto run = load_trace(file).at(0);
    CHECK(contents(file) == bytes);
    CHECK(run->steps() == 12);
    REQUIRE(run->refreshes().size() == 2);
    CHECK(run->refreshes()[0].bytes_sent == 30720);
    CHECK(run->notes()->seen().empty());
}

TEST_CASE("notes that no program wrote are damage", "[record]") {
    TemporaryFolder folder;
    const auto file = old_trace(folder, 8);
    const auto run = load_trace(file).at(0);
    run->notes()->add(note(2, 5, "text"));
    store_notes(file, *run->notes());
    for (const char* change :
         {"run = 9", "first_step = 0", "first_step = 6", "colour = 8", "colour = -1", "n = 0", "text = x'00'",
          "text = char(7)", "text = NULL", "made_at = ''", "last_step = 'five'"}) {
        INFO(change);
        std::filesystem::copy_file(file, folder / "bad.rlt",
                                   std::filesystem::copy_options::overwrite_existing);
        sqlite::Database(folder / "bad.rlt", sqlite::Open::read_write)
            .exec(fmt::format("UPDATE notes SET {}", change).c_str());
        try {
            (void)load_trace(folder / "bad.rlt");
            FAIL_CHECK("it was read");
        } catch (const Error& e) {
            CHECK_THAT(e.what(), ContainsSubstring("damaged"));
        }
    }
}

TEST_CASE("an export has a row for each note that the run shows", "[record]") {
    TemporaryFolder folder;
    Grower grower(seed(0x4075));
    const auto root = grower.start();
    grower.grow(*root, 6);
    root->notes()->add(note(2, 3, "a, \"b\"\nc", 4));
    const auto branch = root->fork(4, "branch");
    REQUIRE(export_csv(*branch, folder / "csv"));
    CHECK(contents(folder / "csv" / "notes.csv") ==
          fmt::format("note,first_step,last_step,colour,made_at,run,text\r\n"
                      "1,2,3,4,2026-01-02T03:04:05Z,{},\"a, \"\"b\"\"\nc\"\r\n",
                      root->info().id));
    root->notes()->erase(1);
    REQUIRE(export_csv(*branch, folder / "csv")); // that of an earlier export goes
    CHECK_FALSE(std::filesystem::exists(folder / "csv" / "notes.csv"));
}

} // namespace run_notes_test
