// Workspaces, recent files and sessions that were left.
#include "engine/base/json_file.h"
#include "engine/record/keep/session_folder.h"
#include "engine/record/recording/recording.h"
#include "engine/record/trace/trace_store.h"
#include "tests/gui/robot.h"
#include "ui/scene/axes/signal_choice.h"
#include "ui/scene/runs/run_set.h"
#include "ui/state/workspace.h"

#include <imgui_internal.h>

#include <algorithm>
#include <filesystem>

namespace refreshlab::gui {

namespace {

namespace fs = std::filesystem;

fs::path empty_folder(Robot& r, const std::string& name) {
    const fs::path folder = r.scratch(name);
    fs::remove_all(folder);
    fs::create_directories(folder);
    return folder;
}

/// The newest run of that recording's id that came from a file.
const ui::RunSet::Run* from_file(Robot& r, const std::string& id) {
    const ui::RunSet& runs = r.ctx().runs;
    for (const RunNode& node : runs.tree().runs())
        if (const auto* run = runs.find(node.key); run->from_file && run->recording->info().id == id)
            return run;
    return nullptr;
}

void save_as(Robot& r, const char* dialog, const fs::path& path) {
    r.te->ItemInputValue((std::string("//") + dialog + "/##path").c_str(), path.string().c_str());
    GUI_CHECK(r.until([&] { return !r.dialog_open(dialog); }, 1200));
}

void a_workspace_comes_back(Robot& r) {
    const fs::path folder = empty_folder(r, "workspace");
    r.start(r.config(), 30);
    r.forget_other_runs();
    const std::string first = r.recording()->info().id;
    r.act("file.save_trace");
    save_as(r, "Save trace", folder / "first.rlt");
    RunConfig other = r.config();
    other.policy.triggers.at(0).threshold = 4.25;
    r.start(other, 20);
    const std::string second = r.recording()->info().id;
    const auto keys = r.ctx().runs.tree().find_id(first);
    GUI_CHECK(keys != nullptr);
    r.ctx().runs.tick(keys->key, true);
    r.ctx().runs.rename(keys->key, "the wide gate");
    r.act("view.layout.tune");
    r.frames(20);
    r.ctx().select_step(12);
    r.ctx().views.text.coloured_by = "kl_nats";
    r.frames(2);

    // One question: where the runs go that are in no file, and how large they are.
    r.act("file.save_workspace");
    GUI_CHECK(r.dialog_open("Save workspace"));
    GUI_CHECK(r.shows("Save the run that is in no file beside it, about"));
    save_as(r, "Save workspace", folder / "lab.rlw");
    GUI_CHECK(r.count_log_lines("lab.rlw, 1 run in lab.rlt") == 1);
    const auto runs = load_trace(folder / "lab.rlt");
    GUI_CHECK(runs.size() == 1 && runs[0]->info().id == second && runs[0]->steps() == 20);
    std::vector<std::string> faults;
    const ui::Workspace saved = ui::read_workspace(folder / "lab.rlw", faults);
    GUI_CHECK(faults.empty() && saved.traces.size() == 2 && saved.shown == second && saved.step == 12);
    GUI_CHECK(saved.next_run && saved.next_run->policy.triggers.at(0).threshold == 4.25);
    // All runs are in files now: the next time it is saved without a question.
    r.ctx().select_step(14);
    r.act("file.save_workspace");
    GUI_CHECK(r.until(
        [&] { return r.count_log_lines("Workspace saved as " + (folder / "lab.rlw").string()) == 2; }));
    GUI_CHECK(!r.dialog_open("Save workspace"));
    GUI_CHECK(ui::read_workspace(folder / "lab.rlw", faults).step == 14);

    // Another state of the window, then all comes back; the folder may have moved.
    const fs::path moved = r.scratch("workspace-moved");
    fs::remove_all(moved);
    fs::rename(folder, moved);
    r.start(r.config(), 5);
    r.forget_other_runs();
    r.ctx().views.text.coloured_by = "entropy_bits";
    r.act("file.open_workspace");
    save_as(r, "Open workspace", moved / "lab.rlw");
    r.frames(20);
    const auto* one = from_file(r, first);
    const auto* two = from_file(r, second);
    GUI_CHECK(one != nullptr && two != nullptr && one->ticked && !two->ticked);
    GUI_CHECK(r.ctx().runs.name(r.ctx().runs.tree().find_id(first)->key) == "the wide gate");
    GUI_CHECK(r.ctx().recording == two->recording);
    GUI_CHECK(r.ctx().selection.step == 14);
    GUI_CHECK(r.ctx().views.text.coloured_by == "kl_nats");
    GUI_CHECK(r.checked("view.layout.tune"));
    // The run that waits keeps its policy; "New run..." begins with that of the workspace.
    GUI_CHECK(r.ctx().drafts.policy().triggers.at(0).threshold == 6);
    GUI_CHECK(r.count_log_lines("The policy stays that of the live run") >= 1);
    // It is at hand again: File > Open recent, the palette.
    r.ctx().select_step(std::nullopt);
    r.te->MenuClick("//##MainMenuBar/File/Open recent");
    r.frames(3);
    GUI_CHECK(r.find("menu/recent/workspace/lab.rlw")); // where it was
    r.click(r.box("menu/recent/workspace-moved/lab.rlw"));
    GUI_CHECK(r.until([&] { return r.ctx().selection.step == 14; }));
    GUI_CHECK(r.ctx().recent_files.front() == moved / "lab.rlw");
    r.act("file.clear_recent");
    GUI_CHECK(r.ctx().recent_files.empty());
    GUI_CHECK(!r.enabled("file.clear_recent"));
    r.ctx().views.text.coloured_by = "entropy_bits";
}

void a_workspace_without_its_traces(Robot& r) {
    const fs::path folder = empty_folder(r, "workspace-gone");
    r.start(r.config(), 12);
    r.forget_other_runs();
    const std::string kept = r.recording()->info().id;
    r.act("file.save_trace");
    save_as(r, "Save trace", folder / "kept.rlt");
    r.start(r.config(), 8);
    const std::string left_out = r.recording()->info().id;
    r.recording()->notes()->add({.first_step = 3, .last_step = 3, .text = "in no trace", .made_at = {}});
    r.act("file.save_workspace_as");
    r.te->ItemClick("//Save workspace/###beside");
    r.frames(2);
    GUI_CHECK(r.shows("The run is left out; its notes are kept"));
    save_as(r, "Save workspace", folder / "some.rlw");
    GUI_CHECK(!fs::exists(folder / "some.rlt"));
    const std::string text = read_file(folder / "some.rlw");
    GUI_CHECK(text.find("in no trace") != std::string::npos && text.find("kept.rlt") != std::string::npos);

    // A trace that is missing is one line, and the rest opens.
    std::string with_more = text;
    const std::string traces = "\"traces\": [";
    with_more.insert(with_more.find(traces) + traces.size(), "{\"path\": \"gone.rlt\", \"runs\": []},");
    write_file(folder / "more.rlw", with_more);
    r.start(r.config(), 4);
    r.forget_other_runs();
    r.window().shell().open_dropped(folder / "more.rlw");
    GUI_CHECK(
        r.until([&] { return r.count_log_lines((folder / "gone.rlt").string() + " is missing") == 1; }));
    GUI_CHECK(from_file(r, kept) != nullptr && from_file(r, left_out) == nullptr);

    // What is no workspace is one line with its place, beside the path, and nothing changes.
    const auto runs_before = r.ctx().runs.tree().runs().size();
    write_file(folder / "bad.rlw", "{\n  \"refreshlab_workspace\": 1,\n  \"step\": }\n");
    r.act("file.open_workspace");
    r.te->ItemInputValue("//Open workspace/##path", (folder / "bad.rlw").string().c_str());
    GUI_CHECK(r.until([&] { return r.find("dialog/fault").has_value(); }));
    GUI_CHECK(r.shows("line 3"));
    r.close_dialog("Open workspace");
    GUI_CHECK(r.ctx().runs.tree().runs().size() == runs_before);
    r.act("file.clear_recent");
}

/// A signal that was added to a recorded run is in no file: closing asks, and a workspace keeps it, as the trace does that is saved then.
void an_added_signal_is_kept(Robot& r) {
    const fs::path folder = empty_folder(r, "added-signal");
    r.start(r.config(), 12);
    r.forget_other_runs();
    const auto recorded = r.recording();
    const std::string id = recorded->info().id;
    r.act("file.save_trace");
    save_as(r, "Save trace", folder / "run.rlt");
    r.start(r.config(), 0);
    r.forget_other_runs();
    r.window().shell().open_dropped(folder / "run.rlt");
    GUI_CHECK(r.until([&] { return from_file(r, id) != nullptr; }));
    r.frames(3);
    GUI_CHECK(r.window().shell().may_close());
    r.act("policy.own_signal");
    r.frames(3);
    r.te->ItemInputValue("//Signal of your own/##name", "doubled");
    r.te->ItemInputValue("//Signal of your own/##expression", "2 * entropy_bits");
    r.frames(3);
    r.te->ItemClick("//Signal of your own/Add to the shown run");
    GUI_CHECK(r.until([&] { return r.ctx().recording->signal_id("doubled").has_value(); }));
    const auto asks = [&] {
        const bool asked = !r.window().shell().may_close();
        r.frames(3);
        if (!asked) return false;
        const bool said = r.dialog_open("Unsaved run") && r.shows("A signal that you added to recorded runs");
        r.te->ItemClick("//Unsaved run/Cancel");
        r.frames(2);
        return said;
    };
    GUI_CHECK(asks());

    r.act("file.save_workspace_as");
    GUI_CHECK(!r.shows("no file beside it")); // the run itself is in one
    save_as(r, "Save workspace", folder / "lab.rlw");
    GUI_CHECK(r.window().shell().may_close());
    r.forget_other_runs();
    GUI_CHECK(from_file(r, id) == nullptr);
    r.window().shell().open_dropped(folder / "lab.rlw");
    GUI_CHECK(r.until([&] { return from_file(r, id) != nullptr; }));
    r.frames(3);
    const auto back = from_file(r, id)->recording;
    const auto doubled = back->signal_id("doubled");
    GUI_CHECK(doubled && back->steps() == 12);
    for (int64_t t = 1; t <= 12; ++t)
        GUI_CHECK(back->signal(t, *doubled) == 2 * recorded->signal(t, *recorded->signal_id("entropy_bits")));
    GUI_CHECK(r.window().shell().may_close());

    r.act("file.save_trace");
    save_as(r, "Save trace", folder / "with.rlt");
    const auto saved = load_trace(folder / "with.rlt");
    GUI_CHECK(saved.size() == 1 && saved[0]->info().id == id && saved[0]->signal_id("doubled"));
    GUI_CHECK(!load_trace(folder / "run.rlt")[0]->signal_id("doubled"));
    // The workspace names the file that has it, and need not work it out.
    r.act("file.save_workspace");
    GUI_CHECK(r.until([&] { return read_file(folder / "lab.rlw").find("with.rlt") != std::string::npos; }));
    GUI_CHECK(read_file(folder / "lab.rlw").find("2 * entropy_bits") == std::string::npos);
    r.act("file.close_trace");
    r.ctx().views.signals = ui::first_signal_plots();
    r.act("file.clear_recent");
    r.frames(3);
}

/// As a program leaves it that was killed.
fs::path leave_session(Robot& r, const std::shared_ptr<const Recording>& run) {
    const auto folder = SessionFolder::create(r.ctx().host.state_folder());
    static_cast<void>(save_trace(folder->path() / "runs-1.rlt", run));
    ui::Workspace workspace;
    workspace.traces = {{folder->path() / "runs-1.rlt", {run->info().id}}};
    workspace.runs = {{.id = run->info().id, .steps = run->steps(), .name = "cut off", .colour = {}}};
    workspace.shown = run->info().id;
    workspace.step = 6;
    write_file(folder->workspace(), ui::workspace_text(workspace, folder->workspace()));
    return folder->path();
}

void a_left_session_is_offered(Robot& r) {
    fs::remove_all(r.ctx().host.state_folder() / "sessions");
    GUI_CHECK(!r.window().shell().offer_left_sessions({}));
    r.start(r.config(), 15);
    r.forget_other_runs();
    const auto run = r.recording();
    const fs::path session = leave_session(r, run);
    r.start(r.config(), 3);
    r.forget_other_runs();
    int begun = 0;

    // Esc leaves it for the next start, and what waited begins.
    GUI_CHECK(r.window().shell().offer_left_sessions([&] { ++begun; }));
    r.frames(3);
    GUI_CHECK(r.dialog_open("Last session") && r.shows("1 run that is in no file"));
    GUI_CHECK(r.shows(session.string()));
    r.te->KeyPress(ImGuiKey_Escape);
    r.frames(2);
    GUI_CHECK(!r.dialog_open("Last session") && begun == 1 && fs::exists(session));

    // Restored, it is the run of before, under its name and at its step, and still in no file.
    GUI_CHECK(r.window().shell().offer_left_sessions([&] { ++begun; }));
    r.frames(3);
    r.te->ItemClick("//Last session/Restore");
    GUI_CHECK(r.until([&] { return r.count_log_lines("Restored 1 run") == 1; }));
    r.frames(3);
    GUI_CHECK(begun == 1); // the restored run is looked at instead
    const auto* restored = from_file(r, run->info().id);
    GUI_CHECK(restored != nullptr && r.ctx().recording == restored->recording);
    GUI_CHECK(!first_difference(*restored->recording, *run));
    GUI_CHECK(r.ctx().selection.step == 6);
    GUI_CHECK(r.ctx().runs.name(*r.ctx().runs.looked_at()) == "cut off");
    GUI_CHECK(fs::exists(session)); // nothing is deleted before it is in a file, or given up
    GUI_CHECK(!r.window().shell().may_close());
    r.frames(3);
    GUI_CHECK(r.dialog_open("Unsaved run") && r.shows("1 restored run is in no file of yours"));
    r.te->ItemClick("//Unsaved run/Cancel");
    r.frames(2);
    // Saved in a file of one's own nothing is to be asked any more.
    r.act("file.save_runs");
    save_as(r, "Save trace", empty_folder(r, "restored") / "all.rlt");
    GUI_CHECK(r.window().shell().may_close());
    r.window().shell().end_session();
    GUI_CHECK(!fs::exists(session));

    // Two sessions come one after the other; a click on Discard deletes one.
    const fs::path older = leave_session(r, run), newer = leave_session(r, run);
    GUI_CHECK(r.window().shell().offer_left_sessions([&] { ++begun; }));
    r.frames(3);
    GUI_CHECK(r.shows("1 older session follows"));
    r.te->ItemClick("//Last session/Discard");
    r.frames(3);
    GUI_CHECK(fs::exists(older) != fs::exists(newer) && begun == 1);
    GUI_CHECK(r.dialog_open("Last session"));
    r.te->ItemClick("//Last session/Discard");
    r.frames(3);
    GUI_CHECK(!fs::exists(older) && !fs::exists(newer) && begun == 2 && !r.dialog_open("Last session"));
    r.act("file.clear_recent");
}

} // namespace

std::vector<Case> workspace_cases() {
    return {
        {"export", "HL3 WS1 a workspace comes back with its runs, ticks, step, layout, views and policy",
         a_workspace_comes_back},
        {"export", "HL3 WS2 a workspace without its traces: what is missing is said, the rest opens",
         a_workspace_without_its_traces},
        {"export", "WS3 a session that was left is offered, restored, or discarded by a click",
         a_left_session_is_offered},
        {"export", "WS4 a signal that was added to a recorded run is kept by a workspace and a trace",
         an_added_signal_is_kept},
    };
}

} // namespace refreshlab::gui
