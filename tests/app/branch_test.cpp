// `run --branch`: another way from a step of a recorded run, as somebody without a window goes it.
#include "engine/base/json_file.h"
#include "engine/landscape/landscape_store.h"
#include "engine/record/trace/sqlite.h"
#include "engine/record/trace/trace_store.h"
#include "engine/session/worker/session_worker.h"
#include "tests/app/program.h"
#include "tests/engine/session/watcher.h"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

namespace branch_test {

namespace fs = std::filesystem;
using namespace refreshlab;
using namespace refreshlab::test;
using Catch::Matchers::ContainsSubstring;

namespace {

using Arguments = std::vector<std::string>;

Arguments operator+(Arguments a, const Arguments& b) {
    a.insert(a.end(), b.begin(), b.end());
    return a;
}

/// A run with refreshes and drawn tokens, so that every kind of row is on both sides of a fork.
Arguments run_of(const std::string& trace, const Arguments& more = {}) {
    return Arguments{"run",
                     "--prompt",
                     "Write a chronicle of 6 companies.",
                     "--max-tokens",
                     "60",
                     "--policy",
                     "entropy",
                     "--set",
                     "entropy.every=1",
                     "--set",
                     "entropy.cooldown=4",
                     "--set",
                     "entropy.threshold=2",
                     "--temperature",
                     "0.8",
                     "--seed",
                     "5",
                     "--device",
                     "cpu",
                     "--record",
                     trace} +
           more;
}

Outcome done(const Arguments& arguments) {
    const Outcome outcome = refreshlab_cli(arguments);
    INFO(outcome.err);
    REQUIRE(outcome.status == 0);
    return outcome;
}

Outcome branch(const std::string& place, const std::string& file, const Arguments& more = {}) {
    return done(Arguments{"run", "--branch", place, "--record", file} + more);
}

std::string difference(const Recording& a, const Recording& b) {
    return first_difference(a, b).value_or("");
}

int64_t count(const std::string& trace, const std::string& what) {
    return sqlite::Database(trace, sqlite::Open::read_only).integer(("SELECT count(*) FROM " + what).c_str());
}

std::vector<std::string> files_of(const std::string& folder) {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(folder))
        names.push_back(entry.path().filename().string());
    std::ranges::sort(names);
    return names;
}

} // namespace

TEST_CASE("a branch shares the steps before it with its run, in the file as well", "[branch]") {
    const Scratch scratch("branch-shares");
    const std::string base = scratch / "base.rlt", other = scratch / "other.rlt";
    done(run_of(base));
    const Outcome outcome = branch(base + "@41", other, {"--give", " slate"});
    CHECK_THAT(outcome.err, ContainsSubstring("branch at step 41: token 42 is the first that differs"));
    const auto recorded = load_trace(base), runs = load_trace(other);
    REQUIRE(runs.size() == 2);
    CHECK(difference(*runs[0], *recorded.at(0)) == "");
    CHECK(runs[0]->info().id == recorded[0]->info().id);
    CHECK_THAT(outcome.err,
               ContainsSubstring("run " + runs[1]->info().id + ", a branch of " + runs[0]->info().id));
    CHECK(runs[1]->info().parent_id == runs[0]->info().id);
    CHECK(runs[1]->info().fork_step == 40);
    CHECK(runs[1]->steps() == 60);
    REQUIRE(runs[0]->refreshes().size() > 3);
    // Tables: the branch has rows of its own steps only, and of what its first refresh tells of the steps before it.
    CHECK(count(other, "steps WHERE run = 1") == 60);
    CHECK(count(other, "steps WHERE run = 2") == 20);
    CHECK(count(other, "topk WHERE run = 2 AND step <= 40") == 0);
    CHECK(count(other, "attention WHERE run = 2 AND step <= 40") == 0);
    CHECK(count(other, "attention WHERE run = 2") > 0);
    CHECK(count(other, "layers WHERE run = 2 AND step <= 40") == 0);
    CHECK(count(other, "signals WHERE run = 2 AND known <= 40") == 0);
    CHECK(count(other, "refreshes WHERE run = 2 AND step <= 40") == 0);
    // Two whole runs are twice the size; the branch adds its third.
    const auto size = fs::file_size(base), both = fs::file_size(other);
    INFO(size << " and " << both);
    CHECK(both < size * 16 / 10);
    CHECK(both > size);
    // The times go on from those of the run that was left.
    for (int64_t t = 1; t <= 40; ++t)
        CHECK(runs[1]->step(t).arrival_ms == recorded[0]->step(t).arrival_ms);
    CHECK(runs[1]->step(41).arrival_ms > runs[1]->step(40).arrival_ms);
    // The branch is a run like every other: it can be made again, and branched.
    CHECK_THAT(done({"run", "--replay", other}).err, ContainsSubstring("identical"));
    CHECK_THAT(done({"run", "--replay", other, "--run", runs[0]->info().id}).err,
               ContainsSubstring("identical"));
    const std::string third = scratch / "third.rlt";
    branch(other + "@51", third, {"--seed", "9"});
    const auto three = load_trace(third);
    REQUIRE(three.size() == 3);
    CHECK(three[2]->info().parent_id == runs[1]->info().id);
    CHECK(count(third, "steps") == 60 + 20 + 10);
    CHECK_THAT(done({"info", third}).out,
               ContainsSubstring("branch of " + runs[1]->info().id + " after step 50"));
#if REFRESHLAB_UI
    // A figure tells its branches apart, also where nobody named them.
    done({"figure", third, "--panel", "compare", "-o", scratch / "f.svg", "--size", "174x90mm"});
    const std::string svg = read_file(scratch / "f.svg");
    CHECK_THAT(svg, ContainsSubstring(", branch at step 41</text>"));
    CHECK_THAT(svg, ContainsSubstring(", branch at step 51</text>"));
#endif
}

TEST_CASE("a branch is what the run had been, had it been changed at that step", "[branch]") {
    const Scratch scratch("branch-equal");
    const std::string base = scratch / "base.rlt", other = scratch / "other.rlt", live = scratch / "live.rlt";
    done(run_of(base));
    const auto recorded = load_trace(base).at(0);
    const int32_t second = recorded->step(31).top_ids[1];
    struct Change {
        Arguments asked;
        std::string commands; ///< of the run that is changed live, at step 31
    };
    const Change changes[] = {
        {{}, ""},
        {{"--give", " slate"}, R"({"command": "give_tokens", "text": " slate"})"},
        {{"--candidate", "2"}, R"({"command": "give_tokens", "ids": [)" + std::to_string(second) + "]}"},
        {{"--seed", "9"}, R"({"command": "set_parameter", "key": "seed", "value": "9"})"},
        {{"--temperature", "1.5"},
         R"({"command": "set_parameter", "key": "sampler.temperature", "value": "1.5"})"},
        {{"--set", "entropy.threshold=0.5"}, ""}, // compared with the commands that it logs
        {{"--policy", "none"}, ""},
        {{"--refresh"}, R"({"command": "refresh_now"})"},
    };
    for (const Change& change : changes) {
        CAPTURE(change.asked);
        branch(base + "@31", other, change.asked);
        const auto branched = load_trace(other).at(1);
        nlohmann::json commands = nlohmann::json::array();
        if (!change.commands.empty()) {
            commands.push_back({{"step", 31}, {"command", nlohmann::json::parse(change.commands)}});
        } else {
            const auto& log = branched->commands();
            CHECK((log.size() == 0) == change.asked.empty());
            for (size_t i = 0; i < log.size(); ++i) {
                CHECK(log[i].step == 31);
                commands.push_back({{"step", log[i].step}, {"command", nlohmann::json::parse(log[i].json)}});
            }
        }
        write_file(scratch / "steps.json", commands.dump());
        done(run_of(live, {"--commands", scratch / "steps.json"}));
        CHECK(difference(*branched, *load_trace(live).at(0)) == "");
        CHECK((difference(*branched, *recorded) == "") == change.asked.empty());
    }
    // Tokens that the run was given at that step give way to others; what it was told there and before holds.
    write_file(scratch / "steps.json", R"([{"step": 20, "command": {"command": "refresh_now"}},
        {"step": 31, "command": {"command": "set_parameter", "key": "seed", "value": "77"}},
        {"step": 31, "command": {"command": "give_tokens", "text": " one two three"}},
        {"step": 40, "command": {"command": "refresh_now"}}])");
    const std::string steered = scratch / "steered.rlt";
    done(run_of(steered, {"--commands", scratch / "steps.json"}));
    branch(steered + "@31", other, {"--give", " slate"});
    write_file(scratch / "steps.json", R"([{"step": 20, "command": {"command": "refresh_now"}},
        {"step": 31, "command": {"command": "set_parameter", "key": "seed", "value": "77"}},
        {"step": 31, "command": {"command": "give_tokens", "text": " slate"}}])");
    done(run_of(live, {"--commands", scratch / "steps.json"}));
    CHECK(difference(*load_trace(other).at(1), *load_trace(live).at(0)) == "");
    // Commands at their steps, and more tokens than the run had.
    write_file(scratch / "steps.json", R"([{"step": 45, "command": {"command": "refresh_now"}}])");
    branch(base + "@31", other, {"--commands", scratch / "steps.json", "--max-tokens", "75"});
    done(run_of(live, {"--commands", scratch / "steps.json", "--max-tokens", "75"}));
    const auto longer = load_trace(other).at(1);
    CHECK(difference(*longer, *load_trace(live).at(0)) == "");
    CHECK(longer->info().config.max_tokens == 75);
    CHECK_THAT(done({"run", "--replay", other}).err, ContainsSubstring("identical"));
    CHECK_THAT(branch(base + "@60", other, {"--max-tokens", "66"}).err,
               ContainsSubstring("branch at step 60: the same 60 tokens as in the trace, and 6 more"));
}

TEST_CASE("a branch of the window and one of the command line are the same run", "[branch]") {
    const Scratch scratch("branch-window");
    const std::string base = scratch / "base.rlt", other = scratch / "other.rlt";
    done(run_of(base));
    branch(base + "@31", other, {"--give", " slate"});
    SessionWorker worker;
    Watcher watch(worker);
    worker.send(command::StartRun{load_trace(base).at(0)->info().config, false});
    watch.until_state(EngineState::finished);
    const auto left = worker.recording();
    worker.send(command::Rewind{30});
    worker.send(command::GiveTokens{.ids = {}, .text = " slate"});
    worker.send(command::Resume{});
    watch.until([&](const EngineStatus& s) {
        return s.state == EngineState::finished && worker.recording() != left;
    });
    CHECK(difference(*load_trace(other).at(1), *worker.recording()) == "");
}

TEST_CASE("a branch goes into the trace that it leaves, and all that it holds stays", "[branch]") {
    const Scratch scratch("branch-in-place");
    const std::string folder = scratch / "in", file = folder + "/tree.rlt";
    fs::create_directories(folder);
    done(run_of(scratch / "base.rlt"));
    branch(scratch / "base.rlt@21", file, {"--policy", "none"});
    const auto before = load_trace(file);
    REQUIRE(before.size() == 2);
    const std::string root = before[0]->info().id;
    REQUIRE(save_traces(
        file, std::vector<SavedRun>{{before[0], {}, 0, {"the gate", 3}}, {before[1], {}, 0, {"never", 5}}}));
    done({"landscape", file, "--run", root, "--every", "20", "--best", "2"});
    const auto landscape = load_landscapes(file);
    REQUIRE(landscape.size() == 1);
    fs::permissions(file, fs::perms{0640});

    const Outcome outcome = branch(file + "@31", file, {"--run", root, "--refresh"});
    CHECK_THAT(outcome.err, ContainsSubstring("a branch of " + root));
    CHECK(files_of(folder) == std::vector<std::string>{"tree.rlt"});
    CHECK(fs::status(file).permissions() == fs::perms{0640});
    const LabelledRuns after = load_labelled_trace(file);
    REQUIRE(after.runs.size() == 3);
    for (size_t i = 0; i < 2; ++i) {
        CHECK(difference(*after.runs[i], *before[i]) == "");
        CHECK(after.runs[i]->info().id == before[i]->info().id);
    }
    const bool labels_kept = after.labels == std::vector<RunLabel>{{"the gate", 3}, {"never", 5}, {}};
    CHECK(labels_kept);
    CHECK(after.runs[2]->info().parent_id == root);
    CHECK(count(file, "steps") == 60 + 40 + 30);
    const auto kept = load_landscapes(file);
    REQUIRE(kept.size() == 1);
    CHECK(kept[0].run_id == root);
    CHECK(kept[0].landscape->info().tokens == landscape[0].landscape->info().tokens);
    REQUIRE(kept[0].landscape->rows() == landscape[0].landscape->rows());
    for (const int64_t row : kept[0].landscape->rows())
        CHECK(kept[0].landscape->row(row)->planes == landscape[0].landscape->row(row)->planes);
    CHECK_THAT(done({"info", file}).out, ContainsSubstring("3 runs") && ContainsSubstring("the gate") &&
                                             ContainsSubstring("never") && ContainsSubstring("landscape"));
    // Through a link it is the file behind it that is written again.
    fs::create_symlink(file, scratch / "link.rlt");
    branch(file + "@31", scratch / "link.rlt", {"--run", root, "--seed", "8"});
    CHECK(fs::is_symlink(scratch / "link.rlt"));
    CHECK(load_trace(file).size() == 4);
    CHECK(files_of(folder) == std::vector<std::string>{"tree.rlt"});
}

TEST_CASE("a run that was stopped goes on from its end", "[branch]") {
    const Scratch scratch("branch-on");
    const std::string base = scratch / "base.rlt", part = scratch / "part.rlt", other = scratch / "other.rlt";
    done(run_of(base));
    const auto whole = load_trace(base).at(0);
    const auto stopped = whole->fork(24, "0123456789abcdef");
    stopped->set_end({"cancelled", 1, {}, {}});
    REQUIRE(save_trace(part, stopped));
    branch(part + "@25", other);
    const auto on = load_trace(other).at(1);
    CHECK(difference(*on, *whole) == "");
    CHECK(on->info().parent_id == "0123456789abcdef");
    CHECK(count(other, "steps WHERE run = 2") == 60 - 24);
}

TEST_CASE("a branch that cannot be made leaves the trace as it was", "[branch][bad-input]") {
    const Scratch scratch("branch-refused");
    const std::string folder = scratch / "in", file = folder + "/run.rlt";
    fs::create_directories(folder);
    done(run_of(file, {"--max-tokens", "12"}));
    const std::string bytes = read_file(file);
    const auto refused = [&](const std::string& place, const Arguments& more, const char* part) {
        const Outcome outcome = refreshlab_cli(Arguments{"run", "--branch", place} + more);
        CAPTURE(place, more, outcome.err);
        CHECK(outcome.status == 2);
        CHECK(outcome.out.empty());
        CHECK(std::ranges::count(outcome.err, '\n') == 1);
        CHECK_THAT(outcome.err, ContainsSubstring(part));
        CHECK(read_file(file) == bytes);
        CHECK(files_of(folder) == std::vector<std::string>{"run.rlt"});
    };
    const Arguments here{"--record", file};
    refused(file + "@13", here, "1 to 12, not 13");
    refused(file + "@99999999999999999999", here, "1 to 12");
    refused(file + "@5x", here, "TRACE@STEP");
    refused(file + "@5", here + Arguments{"--run", "nobody"}, "no run nobody");
    refused(file + "@5", here + Arguments{"--teacher", scratch / "none"}, "none");
    refused(file + "@5", here + Arguments{"--student", RL_SOURCE_DIR "/assets/models/llama-tales-teacher"},
            "chooses another one than was recorded");
    refused(file + "@5", here + Arguments{"--max-tokens", "4"}, "end the run before step 5");
    refused(file + "@12", here + Arguments{"--give", " x"}, "chooses none");
    refused(file + "@5", here + Arguments{"--give", ""}, "--give");
    refused(file + "@5", here + Arguments{"--give", "\xFF"}, "not UTF-8");
    refused(file + "@5", here + Arguments{"--give", " x", "--candidate", "2"}, "--candidate");
    refused(file + "@5", here + Arguments{"--candidate", "12"}, "candidates 1 to 8 of step 5");
    refused(file + "@5", here + Arguments{"--set", "entropy.treshold=3"}, "entropy.threshold");
    refused(file + "@5", {"--summary", file}, "--summary");
    write_file(scratch / "early.json", R"([{"step": 4, "command": {"command": "refresh_now"}}])");
    refused(file + "@5", here + Arguments{"--commands", scratch / "early.json"}, "begins at step 5");
    refused(file + "@5", {"--record", folder}, "folder");
    refused(file + "@5", {"--record", "/no/such/folder/x.rlt"}, "/no/such/folder");
    write_file(scratch / "text.rlt", "this is a letter and no trace, and it goes on for a while\n");
    refused(file + "@5", {"--record", scratch / "text.rlt"}, "not a RefreshLab trace");
    for (const Arguments& alone :
         {Arguments{"--candidate", "2"}, Arguments{"--refresh"}, Arguments{"--run", "abc"}}) {
        const Outcome outcome = refreshlab_cli(Arguments{"run", "--prompt", "Hello"} + alone);
        CHECK(outcome.status == 2);
        CHECK_THAT(outcome.err, ContainsSubstring("--branch"));
    }
    // A damaged trace, and one that somebody records into.
    write_file(scratch / "cut.rlt", bytes.substr(0, bytes.size() / 2));
    refused((scratch / "cut.rlt") + "@5", {"--record", scratch / "cut.rlt"}, "damaged");
    CHECK(read_file(scratch / "cut.rlt") == bytes.substr(0, bytes.size() / 2));
    const std::string busy = scratch / "busy.rlt";
    {
        const auto store = TraceStore::create(busy);
        store->attach(load_trace(file).at(0));
        store->flush();
        refused(busy + "@5", {"--record", busy}, "another program is using this trace");
    }
    CHECK(load_trace(busy).size() == 1);
}

} // namespace branch_test
