// A workspace as text, and the list of recent files.
#include "engine/base/error.h"
#include "engine/base/json_file.h"
#include "tests/ui/changed_views.h"
#include "ui/base/short_name.h"
#include "ui/state/recent_files.h"
#include "ui/state/workspace.h"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <filesystem>
#include <string>
#include <vector>

namespace workspace_test {

using namespace refreshlab;
using namespace refreshlab::ui;
using Catch::Matchers::ContainsSubstring;
using refreshlab::test::changed_views;
namespace fs = std::filesystem;

namespace {

struct Folder {
    Folder()
        : path(fs::path(RL_BUILD_DIR) / "workspace-test") {
        fs::remove_all(path);
        fs::create_directories(path);
    }
    ~Folder() { fs::remove_all(path); }
    Folder(const Folder&) = delete;
    Folder& operator=(const Folder&) = delete;
    fs::path path;
};

Workspace some(const fs::path& folder) {
    Workspace workspace;
    workspace.traces = {{folder / "a.rlt", {"one", "two"}},
                        {folder / "below" / "b.rlt", {"three"}},
                        {folder.parent_path() / "elsewhere" / "c.rlt", {}}};
    workspace.runs = {{"one", 120, "the first", 3, true}, {"two", 7, "", {}, false}};
    workspace.runs[1].signals = {own_signal_from_text("rise = entropy_bits - mean(entropy_bits, 4)", "test")};
    workspace.tables = {folder / "tables" / "text.csv", folder.parent_path() / "loss.csv"};
    workspace.shown = "two";
    workspace.step = 5;
    workspace.by_position = true;
    workspace.layout = "Tune";
    workspace.arrangement = "[RefreshLab][Panels]\nOpen=Text\n";
    workspace.views = changed_views();
    workspace.more_panels["Signals 2"] = changed_views();
    workspace.next_run = RunConfig();
    workspace.next_run->prompt = "Once";
    workspace.next_run->policy = preset_policy("entropy");
    workspace.notes["four"] = {{.id = 0,
                                .first_step = 2,
                                .last_step = 4,
                                .colour = 1,
                                .text = "two\nlines",
                                .made_at = "2026-01-01T00:00:00Z"}};
    return workspace;
}

/// \return the text with one value in the place of another
std::string changed(const std::string& text, const char* pointer, const nlohmann::json& value) {
    nlohmann::json object = nlohmann::json::parse(text);
    object[nlohmann::json::json_pointer(pointer)] = value;
    return object.dump();
}

std::string refusal(const std::string& text, const fs::path& file) {
    std::vector<std::string> faults;
    try {
        (void)workspace_from_text(text, file, faults);
    } catch (const Error& e) {
        CHECK(e.kind() == ErrorKind::bad_input);
        return e.what();
    }
    return "";
}

} // namespace

TEST_CASE("a workspace is the same after its file, wherever both lie", "[ui][workspace]") {
    const Folder folder;
    const Workspace workspace = some(folder.path / "lab");
    const fs::path file = folder.path / "lab" / "day.rlw";
    const std::string text = workspace_text(workspace, file);
    std::vector<std::string> faults;
    const Workspace read = workspace_from_text(text, file, faults);
    CHECK(faults.empty());
    CHECK(workspace_text(read, file) == text);
    CHECK(read.tables == workspace.tables);
    REQUIRE(read.traces.size() == 3);
    for (size_t i = 0; i < 3; ++i) {
        CHECK(read.traces[i].path == workspace.traces[i].path);
        CHECK(read.traces[i].runs == workspace.traces[i].runs);
    }
    REQUIRE(read.runs.size() == 2);
    CHECK(read.runs[0].name == "the first");
    CHECK(read.runs[0].colour == 3u);
    CHECK(read.runs[0].steps == 120);
    CHECK((read.runs[0].signals.empty() && read.runs[1].signals == workspace.runs[1].signals));
    CHECK((read.runs[0].ticked && !read.runs[1].ticked));
    CHECK((read.shown == "two" && read.step == 5 && read.by_position));
    CHECK((read.layout == "Tune" && read.arrangement == workspace.arrangement));
    CHECK(read.views == workspace.views);
    CHECK(read.more_panels == workspace.more_panels);
    CHECK(read.next_run == workspace.next_run);
    REQUIRE(read.notes.at("four").size() == 1);
    CHECK(read.notes.at("four")[0] == workspace.notes.at("four")[0]);

    // Traces beside and below it move along with it; others stay where they are.
    const Workspace moved = workspace_from_text(text, folder.path / "moved" / "day.rlw", faults);
    CHECK(moved.tables[0] == folder.path / "moved" / "tables" / "text.csv");
    CHECK(moved.traces[0].path == folder.path / "moved" / "a.rlt");
    CHECK(moved.traces[1].path == folder.path / "moved" / "below" / "b.rlt");
    CHECK(moved.traces[2].path == folder.path / "elsewhere" / "c.rlt");
}

TEST_CASE("what is wrong with a workspace is one line with its place", "[ui][workspace]") {
    const Folder folder;
    const fs::path file = folder.path / "day.rlw";
    const std::string text = workspace_text(some(folder.path), file);
    CHECK_THAT(refusal(text.substr(0, text.size() / 2), file), ContainsSubstring("line "));
    CHECK_THAT(refusal("{\n  \"refreshlab_workspace\": 1,\n  nonsense\n}", file),
               ContainsSubstring("line 3"));
    CHECK_THAT(refusal("[]", file), ContainsSubstring("no workspace of RefreshLab"));
    CHECK_THAT(refusal("{\"theme\": \"dark\"}", file), ContainsSubstring("no workspace of RefreshLab"));
    CHECK_THAT(refusal(changed(text, "/refreshlab_workspace", 2), file),
               ContainsSubstring("newer version (workspace 2, this program reads up to 1)"));
    CHECK_THAT(refusal(changed(text, "/step", "five"), file), ContainsSubstring("\"step\" has another type"));
    CHECK_THAT(refusal(changed(text, "/step", -3), file), ContainsSubstring("\"step\" is negative"));
    CHECK_THAT(refusal(changed(text, "/traces", 7), file), ContainsSubstring("\"traces\" is no list"));
    CHECK_THAT(refusal(changed(text, "/traces/0", "a.rlt"), file),
               ContainsSubstring("\"traces\" has an element that is no object"));
    CHECK_THAT(refusal(changed(text, "/traces/0/path", ""), file), ContainsSubstring("without a path"));
    CHECK_THAT(refusal(changed(text, "/runs/0/colour", 99), file),
               ContainsSubstring("\"colour\" is not below"));
    CHECK_THAT(refusal(changed(text, "/runs/1/signals/0/expression", "entropy_bits +"), file),
               ContainsSubstring("signals of a run in " + file.string()));
    CHECK_THAT(refusal(changed(text, "/runs/1/signals", 3), file),
               ContainsSubstring("signals of a run in " + file.string()));
    CHECK_THAT(refusal(changed(text, "/views/signals", true), file),
               ContainsSubstring("\"views\" has another type"));
    CHECK_THAT(refusal(changed(text, "/notes/four/0/first_step", 0), file), ContainsSubstring("\"notes\""));
    // A configuration of another version is left out; the rest is there.
    std::vector<std::string> faults;
    const Workspace read = workspace_from_text(changed(text, "/next_run/no_such_key", 1), file, faults);
    CHECK_FALSE(read.next_run);
    CHECK(read.traces.size() == 3);
    REQUIRE(faults.size() == 1);
    CHECK_THAT(faults[0], ContainsSubstring("no_such_key"));
    // What is not there is as at the first start.
    const Workspace bare = workspace_from_text("{\"refreshlab_workspace\": 1}", file, faults);
    CHECK((bare.traces.empty() && bare.layout.empty() && !bare.step && bare.views == Views{}));
}

TEST_CASE("recent files: the newest first, each once, ten, shared by windows", "[ui][workspace]") {
    const Folder folder;
    const fs::path state = folder.path / "state";
    RecentFiles here(state), there(state);
    CHECK(here.files().empty());
    for (int i = 0; i < 12; ++i)
        here.add(folder.path / fmt::format("{}.rlt", i));
    REQUIRE(here.files().size() == RecentFiles::most);
    CHECK(here.files().front() == folder.path / "11.rlt");
    CHECK(here.files().back() == folder.path / "2.rlt");
    there.add(folder.path / "5.rlt"); // the other window has seen what this one has opened
    CHECK(there.files().size() == RecentFiles::most);
    CHECK(there.files()[0] == folder.path / "5.rlt");
    CHECK(there.files()[1] == folder.path / "11.rlt");
    CHECK(RecentFiles(state).files() == there.files());
    there.clear();
    CHECK(RecentFiles(state).files().empty());
    write_file(state / "recent.json", "{\"files\": [1, 2]}");
    CHECK(RecentFiles(state).files().empty());
    write_file(state / "recent.json", "{");
    RecentFiles damaged(state);
    damaged.add(folder.path / "a.rlt");
    CHECK(RecentFiles(state).files() == std::vector{folder.path / "a.rlt"});
    RecentFiles nowhere;
    nowhere.add(folder.path / "a.rlt");
    CHECK(nowhere.files().size() == 1);
}

TEST_CASE("files of one name are told apart by their folders", "[ui][workspace]") {
    const std::vector<fs::path> list = {"/lab/a/day.rlw", "/lab/b/day.rlw", "/c/b/day.rlw",
                                        "/lab/holiday.rlw"};
    CHECK(short_name(list[0], list) == "a/day.rlw");
    CHECK(short_name(list[1], list) == "lab/b/day.rlw");
    CHECK(short_name(list[2], list) == "c/b/day.rlw");
    CHECK(short_name(list[3], list) == "holiday.rlw");
    CHECK(short_name("/lab/day.rlw", list) == "lab/day.rlw");
    CHECK(short_name("/day.rlw", std::vector<fs::path>{"/lab/day.rlw"}) == "/day.rlw");
}

} // namespace workspace_test
