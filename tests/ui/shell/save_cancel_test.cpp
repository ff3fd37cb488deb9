#include "engine/base/error.h"
#include "engine/base/json_file.h"
#include "engine/record/export/export.h"
#include "engine/record/trace/trace_store.h"
#include "tests/ui/maps/heatmap_recording.h"

#include <catch2/catch_test_macros.hpp>

#include <atomic>
#include <filesystem>
#include <set>
#include <string>
#include <thread>
#include <vector>

namespace save_cancel_test {

using namespace refreshlab;

namespace {

namespace fs = std::filesystem;

struct Folder {
    Folder() {
        fs::remove_all(path);
        fs::create_directories(path);
    }
    ~Folder() { fs::remove_all(path); }
    [[nodiscard]] std::set<std::string> files() const {
        std::set<std::string> names;
        for (const auto& entry : fs::directory_iterator(path))
            names.insert(entry.path().filename().string());
        return names;
    }
    const fs::path path = fs::path(RL_BUILD_DIR) / "save-cancel-test";
};

std::shared_ptr<Recording> recording_of(int64_t steps) {
    const auto recording = test::empty_recording(Mode::overfill, 5);
    for (int64_t t = 1; t <= steps; ++t)
        test::append_step(*recording);
    return recording;
}

} // namespace

TEST_CASE("a cancelled save stops, and leaves neither a half file nor a touched one", "[ui][RB6]") {
    const Folder folder;
    const fs::path file = folder.path / "run.rlt";
    std::atomic<bool> cancelled = true;
    CHECK_FALSE(save_trace(file, recording_of(3000), &cancelled));
    CHECK(folder.files().empty());

    cancelled = false;
    REQUIRE(save_trace(file, recording_of(20), &cancelled));
    const std::string before = read_file(file, size_t{1} << 26);
    cancelled = true;
    CHECK_FALSE(save_trace(file, recording_of(3000), &cancelled));
    CHECK(folder.files() == std::set<std::string>{"run.rlt"});
    CHECK(read_file(file, size_t{1} << 26) == before);
}

TEST_CASE("a save that is cancelled half-way stops there", "[ui][RB6]") {
    const Folder folder;
    const fs::path file = folder.path / "run.rlt";
    // Long enough that the other thread sees the half file before the whole one can be there; when it does not, because
    // the machine gave it no time, the save must have been finished.
    const auto recording = recording_of(60000);
    std::atomic<bool> cancelled = false, done = false, saved = false;
    std::thread saver([&] {
        saved = save_trace(file, recording, &cancelled);
        done = true;
    });
    while (!done && folder.files().empty())
        std::this_thread::yield();
    cancelled = true;
    saver.join();
    CHECK(fs::exists(file) == saved.load());
    CHECK(folder.files().size() == (saved ? 1 : 0));
}

TEST_CASE("a cancelled table export stops between rows and leaves no file of its own", "[ui][RB6]") {
    const Folder folder;
    std::atomic<bool> cancelled = true;
    write_file(folder.path / "notes.txt", "mine");
    CHECK_FALSE(export_csv(*recording_of(3000), folder.path, &cancelled));
    CHECK(folder.files() == std::set<std::string>{"notes.txt"});
    cancelled = false;
    CHECK(export_csv(*recording_of(3000), folder.path, &cancelled));
    CHECK(folder.files() == std::set<std::string>{"drift.csv", "events.csv", "meta.json", "notes.txt",
                                                  "steps.csv", "topk.csv"});
}

TEST_CASE("a table export that is cancelled within its first table ends there", "[ui][RB6]") {
    const Folder folder;
    const auto recording = recording_of(200000);
    std::atomic<bool> cancelled = false, done = false, whole = false;
    std::thread exporter([&] {
        whole = export_csv(*recording, folder.path, &cancelled);
        done = true;
    });
    // The first table is there from its first row on; the machine may still give the exporter all the time.
    while (!done && !fs::exists(folder.path / "steps.csv"))
        std::this_thread::yield();
    cancelled = true;
    exporter.join();
    CHECK(folder.files().size() == (whole ? 5 : 0));
}

TEST_CASE("a save that cannot be written says so in one line and cleans up", "[ui][RB6]") {
    const Folder folder;
    const auto recording = recording_of(10);
    CHECK_THROWS_AS(save_trace(folder.path / "no" / "folder.rlt", recording), Error);
    write_file(folder.path / "notes.txt", "mine");
    CHECK_THROWS_AS(save_trace(folder.path / "notes.txt", recording), Error);
    CHECK(read_file(folder.path / "notes.txt", 100) == "mine");
    CHECK(folder.files() == std::set<std::string>{"notes.txt"});
}

TEST_CASE("saves of one trace at the same time do not meet: each is whole, or is refused", "[ui][RB6]") {
    const Folder folder;
    const fs::path file = folder.path / "run.rlt";
    const auto recording = recording_of(3000);
    std::vector<std::thread> savers;
    std::atomic<int> saved = 0, refused = 0;
    for (int i = 0; i < 4; ++i)
        savers.emplace_back([&] {
            for (int k = 0; k < 3; ++k)
                try {
                    saved += save_trace(file, recording) ? 1 : 0;
                } catch (const Error&) { // another one was looking at the file just then
                    ++refused;
                }
        });
    for (std::thread& t : savers)
        t.join();
    CHECK(saved + refused == 12);
    CHECK(saved > 0);
    CHECK(folder.files() == std::set<std::string>{"run.rlt"});
    CHECK(load_trace(file).back()->steps() == 3000);
}

} // namespace save_cancel_test
