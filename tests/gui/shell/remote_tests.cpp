#include "engine/policies/cache_policy_config.h"
#include "engine/record/notes/run_notes.h"
#include "engine/record/recording/recording.h"
#include "engine/record/trace/trace_store.h"
#include "tests/gui/robot.h"
#include "ui/scene/runs/run_set.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <filesystem>

namespace refreshlab::gui {

namespace {

bool was_said(Robot& r, const std::string& part) {
    return std::ranges::any_of(r.ctx().toasts.lines(),
                               [&](const auto& line) { return line.text.find(part) != std::string::npos; });
}

/// A run of a server, paused after a few steps that its window has asked for.
void start_there(Robot& r, const RunConfig& run) {
    r.ctx().run_action("file.close_trace"); // of a case before
    r.ctx().runs.look_live();
    r.frames(2);
    const auto before = r.ctx().recording;
    const auto stands = [&] {
        return r.ctx().recording != before && r.ctx().of_engine() &&
               r.ctx().status->state == EngineState::paused;
    };
    r.window().engine().send(command::StartRun{run, true});
    GUI_CHECK(r.until(stands));
    r.window().engine().send(command::Step{12});
    GUI_CHECK(r.until([&] { return stands() && r.ctx().steps == 12; }));
}

bool same_here(Robot& r) {
    return r.ctx().recording && r.ctx().recording != r.recording() &&
           !first_difference(*r.recording(), *r.ctx().recording);
}

void a_window_steers_a_server(Robot& r) {
    start_there(r, r.slow_config()); // it still runs when it is paused
    GUI_CHECK(r.ctx().landmarks.text("menu/server") == "on " + r.ctx().status->link->host);
    r.act("run.play_pause");
    GUI_CHECK(r.until([&] { return r.ctx().steps >= 20; }));
    r.act("run.play_pause");
    GUI_CHECK(r.until([&] { return r.ctx().status->state == EngineState::paused; }));
    GUI_CHECK(r.until([&] { return same_here(r); }));
    r.act("run.refresh_now");
    r.act("run.step");
    GUI_CHECK(r.until([&] { return same_here(r) && r.ctx().recording->steps() > 20; }));
    const auto before = r.ctx().recording;
    r.ctx().select_step(10);
    r.act("run.rewind");
    GUI_CHECK(r.until([&] { return r.ctx().recording != before && same_here(r); }));
    GUI_CHECK(r.ctx().recording->info().parent_id == before->info().id);
    GUI_CHECK(r.ctx().recording->step(5).token_id == before->step(5).token_id);
}

void the_wheel_is_taken(Robot& r) {
    start_there(r, r.config(200));
    GUI_CHECK(!r.enabled("run.take_wheel"));
    remote::RemoteEngine::Options options;
    options.server = r.stage().server->endpoint();
    options.name = "bob";
    remote::RemoteEngine bob(options);
    bob.take_wheel();
    GUI_CHECK(r.until([&] { return !r.ctx().status->link->driving; }));
    GUI_CHECK(r.until([&] { return was_said(r, "bob drives this engine now"); }));
    const int64_t steps = r.ctx().steps;
    r.act("run.step");
    GUI_CHECK(r.until([&] { return was_said(r, "bob drives this engine; take the wheel first"); }));
    GUI_CHECK(r.ctx().steps == steps);
    r.act_by_item("run.take_wheel", "//Run bar/###run.take_wheel");
    GUI_CHECK(r.until([&] { return r.ctx().status->link->driving; }));
    r.act("run.step");
    GUI_CHECK(r.until([&] { return r.ctx().steps == steps + 1; }));
}

void a_lost_connection_loses_nothing(Robot& r) {
    start_there(r, r.config(200));
    const auto before = r.ctx().recording;
    const std::string address = to_string(r.stage().server->endpoint());
    r.stage().server.reset();
    GUI_CHECK(r.until([&] { return !r.ctx().status->link->connected; }));
    GUI_CHECK(r.until([&] { return was_said(r, "is lost"); }));
    GUI_CHECK(!r.enabled("run.take_wheel"));
    GUI_CHECK(r.ctx().recording == before);
    r.stage().serve(address);
    GUI_CHECK(r.until([&] { return r.ctx().status->link->connected; }, 4000));
    GUI_CHECK(r.until([&] { return was_said(r, "started anew"); }));
    GUI_CHECK(r.until(
        [&] { return same_here(r); })); // this engine has outlived its server, and its run comes again
}

/// The dialogs know the server's models and traces.
void the_servers_files_are_offered(Robot& r) {
    start_there(r, r.config(200));
    const auto folder = Robot::scratch("served");
    std::filesystem::remove_all(folder);
    std::filesystem::create_directories(folder);
    save_trace(folder / "there.rlt", r.recording());
    r.act("run.new");
    GUI_CHECK(r.until([&] { return r.dialog_open("New run"); }));
    r.te->SetRef("//New run");
    GUI_CHECK(!r.te->ItemExists("##teacher/Browse...")); // this machine's disk
    r.te->ItemClick("##teacher/##known");
    GUI_CHECK(r.until([&] { return r.shows("llama-tales-student"); }));
    r.te->ItemClick("//$FOCUSED/llama-tales-student");
    GUI_CHECK(r.until([&] { return r.shows("llama-tales-student"); }));
    r.close_dialog("New run");

    const size_t runs = r.ctx().runs.tree().runs().size();
    r.act("file.open_trace");
    GUI_CHECK(r.until([&] { return r.shows("there.rlt"); }));
    r.te->ItemClick("//Open trace/**/###there.rlt");
    r.te->ItemClick("//Open trace/Fetch and open");
    GUI_CHECK(r.until([&] { return !r.dialog_open("Open trace"); }, 4000));
    GUI_CHECK(r.until([&] { return was_said(r, "Fetched to"); }));
    GUI_CHECK(r.ctx().runs.tree().runs().size() == runs + 1);
    GUI_CHECK(same_here(r)); // the file's run is shown
    std::filesystem::remove_all(folder);
}

/// A note of this window is in the run there, one of another window is here, and one that is made without a connection waits for it.
void notes_cross_the_link(Robot& r) {
    start_there(r, r.config(200));
    const ui::StepMarks& marks = r.ctx().marks;
    const auto notes = [&] { return marks.count(ui::MarkLane::note); };
    const auto there = [&] { return r.recording()->notes()->own(); };
    const auto write = [&](int64_t step, const char* words) {
        r.ctx().select_step(step);
        r.frames(2);
        r.act("note.edit");
        r.frames(3);
        r.te->KeyChars(words);
        r.te->ItemClick("//Note/Keep");
        r.frames(3);
    };
    write(5, "loses the names");
    GUI_CHECK(r.until([&] { return there().size() == 1 && there()[0].text == "loses the names"; }));
    r.act("edit.undo");
    GUI_CHECK(r.until([&] { return there().empty(); }));
    r.act("edit.redo");
    GUI_CHECK(r.until([&] { return there().size() == 1; }));
    remote::RemoteEngine::Options options;
    options.server = r.stage().server->endpoint();
    options.name = "bob";
    {
        remote::RemoteEngine bob(options);
        GUI_CHECK(r.until([&] { return bob.recording() && bob.recording()->notes()->own().size() == 1; }));
        bob.recording()->notes()->add({.first_step = 8, .last_step = 9, .text = "of bob", .made_at = {}});
        GUI_CHECK(r.until([&] { return notes() == 2; }));
        GUI_CHECK(there().size() == 2);
    }
    const std::string address = to_string(r.stage().server->endpoint());
    r.stage().server.reset();
    GUI_CHECK(r.until([&] { return !r.ctx().status->link->connected; }));
    write(10, "made alone");
    GUI_CHECK(notes() == 3 && there().size() == 2);
    GUI_CHECK(r.until([&] { return r.ctx().status->link->notes_to_send == 1; }));
    r.stage().serve(address);
    GUI_CHECK(r.until([&] { return there().size() == 3; }, 4000));
    GUI_CHECK(r.until([&] { return same_here(r) && notes() == 3; }));
    GUI_CHECK(there()[2].text == "made alone");
}

/// The server's engine runs the comparison; both runs are shown here.
void compared_there(Robot& r) {
    start_there(r, r.config(200));
    const auto before = r.ctx().recording;
    r.act("run.compare_cache");
    r.te->ItemInputValue("//Compare with cache policy/##query", "h2o"); // Enter takes the first
    GUI_CHECK(
        r.until([&] { return r.ctx().recording != before && r.ctx().of_engine() && r.ctx().steps >= 12; }));
    GUI_CHECK(r.recording()->info().config.student_cache.policy == "h2o");
    RunConfig run = r.ctx().recording->info().config;
    run.student_cache = before->info().config.student_cache;
    GUI_CHECK(to_json(run) == to_json(before->info().config));
    r.frames(3);
    GUI_CHECK(r.ctx().runs.compared().size() == 1 && r.find("text/difference"));
    r.ctx().runs.untick_all();
}

/// What a cache policy thinks of an entry comes when a mouse stands over it.
void scores_come_when_they_are_looked_at(Robot& r) {
    RunConfig run = r.config(200);
    run.policy = preset_policy("none");
    run.student_cache = cache_policy_defaults("h2o", "a test");
    run.student_cache.values["budget"] = 24;
    start_there(r, run);
    GUI_CHECK(r.until([&] { return same_here(r); }));
    r.te->WindowFocus("//Cache");
    r.frames(3);
    const auto map = r.box("cache/map");
    const EntryScores& here = r.ctx().recording->entry_scores();
    GUI_CHECK(!here.here(2));
    r.move(map.x + map.width * 0.05F, map.y + map.height * 0.3F);
    GUI_CHECK(r.until([&] { return here.wanted() >= 0 && here.here(here.wanted()); }));
    GUI_CHECK(!r.shows("not here yet"));
    const int64_t position = here.wanted();
    const auto same_scores = [&] { // and which step gave the newest
        const auto x = here.column(position), y = r.recording()->entry_scores().column(position);
        const bool same = std::ranges::equal(x, y, [](const auto& a, const auto& b) {
            return a.step == b.step && (a.step < 0 || a.value == b.value);
        });
        int32_t newest = -1;
        for (const auto& score : x)
            newest = std::max(newest, score.step);
        return same ? std::optional(newest) : std::nullopt;
    };
    GUI_CHECK(r.until([&] { return same_scores().has_value(); }));
    GUI_CHECK(r.recording()->entry_scores().asked());
    r.act("run.step"); // from now on the policy tells its scores at every step
    GUI_CHECK(r.until([&] { return r.ctx().steps == 13 && same_scores() == 13; }));
    r.move_away();
}

/// Saved caches of a prompt and gates are the server's files.
void files_there_are_chosen(Robot& r) {
    namespace fs = std::filesystem;
    const fs::path folder = Robot::scratch("parts");
    fs::remove_all(folder);
    fs::create_directories(folder);
    fs::copy_file(fs::path(r.config().student_dir) / "gates" / "trim_kv.safetensors",
                  folder / "mine.safetensors");
    start_there(r, r.config(200));
    const fs::path saved = folder / "saved.safetensors";
    const uint64_t ticket = r.window().engine().send(command::SavePromptCache{saved.string(), true});
    GUI_CHECK(r.until([&] { return r.ctx().status->answered >= ticket; }));
    GUI_CHECK(fs::exists(saved));
    const auto first = r.ctx().recording;
    r.act("file.from_prompt_cache");
    GUI_CHECK(r.until([&] { return r.shows("saved.safetensors"); }));
    GUI_CHECK(!r.shows("mine.safetensors")); // a gate is no cache
    r.te->ItemClick("//Continue from a saved cache/**/###saved.safetensors");
    GUI_CHECK(r.until([&] { return !r.dialog_open("Continue from a saved cache"); }, 2000));
    GUI_CHECK(r.until([&] { return r.ctx().recording != first && r.ctx().of_engine(); }));
    GUI_CHECK(r.ctx().recording->info().config.prompt_cache == saved.string());
    GUI_CHECK(r.ctx().recording->info().prompt_ids == first->info().prompt_ids);
    GUI_CHECK(r.until([&] { return !r.enabled("run.stop"); })); // it comes to its end
    fs::remove_all(folder);
}

} // namespace

std::vector<Case> remote_cases() {
    return {{"remote", "RE1 a window steers the engine of a server", a_window_steers_a_server},
            {"remote", "RE2 another window takes the wheel, and this one takes it back", the_wheel_is_taken},
            {"remote", "RE3 a lost connection loses nothing and comes back", a_lost_connection_loses_nothing},
            {"remote", "RE4 models and traces of the server are offered, and fetched",
             the_servers_files_are_offered},
            {"remote", "RE5 notes are the same in all windows and on the server", notes_cross_the_link},
            {"remote", "RE6 scores of cache entries come when they are looked at",
             scores_come_when_they_are_looked_at},
            {"remote", "RE9 PO10 a comparison of cache policies runs on the server", compared_there},
            {"remote", "RE8 saved caches of the server are chosen", files_there_are_chosen}};
}

} // namespace refreshlab::gui
