// What a person does after a run: moves a line and runs again, runs without refreshes, jumps between refreshes, looks words up.
#include "engine/base/json_file.h"
#include "engine/record/recording/recording.h"
#include "engine/tasks/prompt_file.h"
#include "tests/gui/robot.h"
#include "ui/scene/runs/run_set.h"

#include <cstdlib>
#include <filesystem>
#include <regex>
#include <string>

namespace refreshlab::gui {

namespace {

namespace fs = std::filesystem;

/// A finished run of the demonstration.
void finish(Robot& r, int32_t tokens) {
    RunConfig run = r.config(tokens);
    run.task = find_task(run.prompt, r.ctx().host.assets() / "prompts").value_or(TaskConfig{});
    r.start(run, 5);
    r.act("run.play_pause");
    GUI_CHECK(r.until([&] { return r.status()->state == EngineState::finished; }, 3000));
    GUI_CHECK(r.until([&] { return r.ctx().steps == r.recording()->steps(); }, 10));
    r.frames(3);
}

/// SG3: the estimate stays after a line is dropped on a finished run, and a button runs again with it.
void run_again_with_a_threshold(Robot& r) {
    finish(r, 90);
    const auto before = r.recording();
    GUI_CHECK(!r.find("signals/run_again/entropy_bits"));
    const auto line = r.box("signals/threshold/entropy_bits");
    r.move(line.x + line.width / 2, line.y + line.height / 2);
    r.te->MouseDown(0);
    r.drag_by(0, 25, 5);
    GUI_CHECK(r.find("signals/what_if/entropy_bits") && !r.find("signals/run_again/entropy_bits"));
    r.te->MouseUp(0);
    r.move_away();
    r.frames(30);
    const double threshold = r.status()->applied.policy.triggers.at(0).threshold;
    GUI_CHECK(threshold < 6);
    GUI_CHECK(r.find("signals/what_if/entropy_bits"));
    r.click(r.box("signals/run_again/entropy_bits"));
    GUI_CHECK(
        r.until([&] { return r.recording() != before && r.status()->state == EngineState::finished; }, 3000));
    GUI_CHECK(r.recording()->info().config.policy.triggers.at(0).threshold == threshold);
    GUI_CHECK(r.recording()->refreshes().size() > before->refreshes().size());
    r.move_away();
    r.frames(3);
    GUI_CHECK(!r.find("signals/run_again/entropy_bits")); // the line is where the run had it
    // What was estimated stands beside what came of it: in the plot's header and in the panel Runs.
    const ui::RunSet& runs = r.ctx().runs;
    const RunKey key = *runs.live();
    const ui::RunSet::Run* verified = runs.find(key);
    GUI_CHECK(verified && verified->estimate && verified->estimate->steps == before->steps());
    GUI_CHECK(verified->estimate->expected.fires.size() > before->refreshes().size());
    GUI_CHECK(verified->metrics.numbers().added_percent.value_or(0) > 0);
    GUI_CHECK(r.find("signals/outcome/entropy_bits"));
    GUI_CHECK(runs.compared().size() == 1 && runs.recording(runs.compared()[0]) == before);
    r.te->WindowFocus("//Runs");
    r.frames(4);
    const auto estimate = r.box("runs/estimate/" + std::to_string(key));
    r.move(estimate.x + 5, estimate.y + estimate.height / 2);
    GUI_CHECK(r.until([&] { return r.shows("Estimated on ") && r.shows("It has in "); }, 60));
    r.move_away();
    r.ctx().runs.untick_all();
    r.te->WindowFocus("//Policy");
    r.frames(3);
    // Without a moved line it verifies the policy as it is: recorded fires are what is expected.
    const auto first = r.recording();
    r.act("run.verify");
    GUI_CHECK(
        r.until([&] { return r.recording() != first && r.status()->state == EngineState::finished; }, 3000));
    r.frames(3);
    const ui::RunSet::Run* again = runs.find(*runs.live());
    GUI_CHECK(again->estimate && again->estimate->expected.fires.size() == first->refreshes().size());
    GUI_CHECK(r.recording()->refreshes().size() == first->refreshes().size());
    r.ctx().runs.untick_all();
    r.frames(3);
}

/// The demonstration with and without refreshes: right and wrong of its task, and B between the two.
void with_and_without_refresh(Robot& r) {
    const auto none_wrong = [&] { return std::regex_search(r.text(), std::regex("(^|[^0-9,])0 wrong")); };
    finish(r, 200);
    const auto with = r.recording();
    GUI_CHECK(with->refreshes().size() > 0);
    GUI_CHECK(r.shows(" right") && none_wrong());
    r.frames(2);
    GUI_CHECK(r.enabled("run.without_refresh"));
    r.act("run.without_refresh");
    GUI_CHECK(
        r.until([&] { return r.recording() != with && r.status()->state == EngineState::finished; }, 3000));
    const auto without = r.recording();
    GUI_CHECK(without->refreshes().size() == 0 && without->steps() == with->steps());
    GUI_CHECK(without->info().config.prompt == with->info().config.prompt);
    GUI_CHECK(without->info().config.seed == with->info().config.seed);
    r.frames(3);
    GUI_CHECK(!none_wrong() && r.shows(" wrong"));
    // Where the bar has little room, the right ones do not stand there alone.
    r.act("view.layout.present");
    for (const int width : {1280, 1100, 1000, 900}) {
        r.window().resize(width, 800);
        r.frames(3);
        GUI_CHECK(r.shows(" right") == r.shows(" wrong"));
    }
    r.window().resize(1280, 800);
    r.act("view.layout.explore");
    r.frames(3);
    // B shows the one before, and goes back.
    GUI_CHECK(!r.find("signals/stair/entropy_bits"));
    r.act("file.run_before");
    GUI_CHECK(r.until([&] { return r.ctx().recording == with; }, 10));
    r.frames(2);
    GUI_CHECK(r.find("signals/stair/entropy_bits")); // its threshold, which the present policy lacks
    GUI_CHECK(none_wrong());
    r.act("file.run_before");
    GUI_CHECK(r.until([&] { return r.ctx().recording == without; }, 10));
    // The policy that was put aside comes back.
    GUI_CHECK(r.enabled("run.without_refresh"));
    r.act("run.without_refresh");
    GUI_CHECK(r.until([&] { return r.recording() != without && r.status()->state == EngineState::finished; },
                      3000));
    // Panels may have read rows of attention for one of the two; what the run itself did is the same.
    const auto again = r.recording();
    GUI_CHECK(again->info().config.policy == with->info().config.policy);
    GUI_CHECK(again->token_ids() == with->token_ids());
    GUI_CHECK(again->refreshes().size() == with->refreshes().size());
    for (size_t i = 0; i < with->refreshes().size(); ++i)
        GUI_CHECK(again->refreshes()[i].step == with->refreshes()[i].step);
}

/// What another run has nothing to do with is not put aside for it; and why there is no such run is said.
void nothing_put_aside_for_others(Robot& r) {
    const auto why = [&] { return r.action("run.without_refresh").reason(r.ctx()); };
    r.start(r.config(), 5);
    r.act("run.without_refresh");
    GUI_CHECK(
        r.until([&] { return r.status()->applied.policy.triggers.empty() && r.recording()->steps() > 0; }));
    r.ctx().run_action("run.stop");
    GUI_CHECK(r.enabled("run.without_refresh")); // the policy comes back
    r.act("run.new");
    r.frames(3);
    GUI_CHECK(r.until(
        [&] { return (r.te->ItemInfo("//New run/Start").ItemFlags & ImGuiItemFlags_Disabled) == 0; }));
    r.te->ItemClick("//New run/Start");
    GUI_CHECK(r.until([&] { return !r.dialog_open("New run"); }));
    GUI_CHECK(!r.enabled("run.without_refresh") && why() == "The policy refreshes nothing");
    r.ctx().runs.untick_all();
    for (const Mode mode : {Mode::student, Mode::teacher}) {
        RunConfig run = r.config();
        run.mode = mode;
        r.start(run, 3);
        GUI_CHECK(!r.enabled("run.without_refresh") && !r.enabled("run.verify"));
        GUI_CHECK(why() == "Only in mode overfill are there refreshes");
    }
}

/// TX6: a candidate that was not chosen, or a word of one's own, begins a branch; the run before stays.
void branch_at_a_word(Robot& r) {
    r.start(r.config(), 40);
    const auto whole = r.recording();
    r.te->WindowFocus("//Inspector");
    r.ctx().select_step(20);
    r.frames(3);
    const StepRecord& record = whole->step(20);
    const size_t other = record.top_ids[0] == record.next_token_id ? 1 : 0;
    r.click(r.box("candidates/" + std::to_string(other)));
    GUI_CHECK(r.until([&] { return r.recording() != whole && r.recording()->steps() > 24; }, 2000));
    r.act("run.play_pause");
    GUI_CHECK(r.until([&] { return r.status()->state == EngineState::paused; }, 200));
    const auto branch = r.recording();
    GUI_CHECK(branch->info().parent_id == whole->info().id && branch->info().fork_step == 19);
    GUI_CHECK(branch->step(20).next_token_id == record.top_ids[other]);
    for (int64_t t = 1; t <= 20; ++t)
        GUI_CHECK(branch->token(t) == whole->token(t));
    GUI_CHECK(r.count_log_lines("given by hand") == 1);
    r.act("file.run_before");
    GUI_CHECK(r.until([&] { return r.ctx().recording == whole; }, 10));
    r.frames(2);
    GUI_CHECK(
        r.find("candidates/" + std::to_string(other))); // a run that is not live can be branched as well
    r.act("file.run_before");
    // Typed, at the newest step; the space before the word comes by itself.
    r.ctx().select_step(10);
    r.frames(3);
    const std::string_view chosen = branch->tokens().token_bytes(branch->step(10).next_token_id);
    const bool spaced = chosen.starts_with(' ');
    r.te->ItemClick("//Inspector/##typed");
    r.te->KeyCharsReplaceEnter("slate");
    GUI_CHECK(r.until([&] { return r.recording() != branch && r.recording()->steps() > 12; }, 2000));
    r.act("run.play_pause");
    GUI_CHECK(r.until([&] { return r.status()->state != EngineState::running; }, 200));
    std::string text;
    for (int64_t t = 11; t <= 13; ++t)
        text += r.recording()->tokens().token_bytes(r.recording()->token(t));
    GUI_CHECK(text.starts_with(spaced ? " slate" : "slate"));
    GUI_CHECK(first_difference(*r.recording()->fork(9, "x"), *whole->fork(9, "x")) == std::nullopt);
}

void refreshes_by_key(Robot& r) {
    RunConfig run = r.config();
    run.policy = preset_policy("periodic");
    run.policy.triggers.at(0).threshold = 7;
    r.start(run, 30);
    GUI_CHECK(r.recording()->refreshes().size() == 4);
    GUI_CHECK(!r.enabled("select.next_refresh"));
    r.act("select.previous_refresh");
    GUI_CHECK(r.ctx().selection.step == 28);
    r.act("select.previous_refresh");
    GUI_CHECK(r.ctx().selection.step == 21);
    r.act("select.next_refresh");
    GUI_CHECK(r.ctx().selection.step == 28);
    r.ctx().select_step(7);
    r.frames(2);
    GUI_CHECK(!r.enabled("select.previous_refresh"));
    r.act("select.live");
}

/// TX5: words are found across tokens; right click copies.
void find_in_the_text(Robot& r) {
    r.start(r.config(), 60);
    r.act("text.find");
    r.frames(3);
    r.te->KeyChars("KING");
    r.frames(3);
    GUI_CHECK(r.shows(" found"));
    r.te->KeyPress(ImGuiKey_Enter);
    r.frames(3);
    GUI_CHECK(r.ctx().selection.step.has_value());
    const int64_t first = *r.ctx().selection.step;
    const auto& record = r.recording()->step(first);
    GUI_CHECK(std::string(r.recording()->tokens().token_bytes(record.next_token_id)).find("king") !=
              std::string::npos);
    GUI_CHECK(r.shows("1 of "));
    r.frames(3);
    r.te->KeyPress(ImGuiKey_Enter);
    r.frames(3);
    GUI_CHECK(*r.ctx().selection.step > first && r.shows("2 of "));
    r.te->KeyPress(ImGuiMod_Shift | ImGuiKey_Enter);
    r.frames(3);
    GUI_CHECK(*r.ctx().selection.step == first);
    r.te->KeyPress(ImGuiKey_Escape);
    r.frames(3);
    GUI_CHECK(!r.shows("1 of "));
    // The menu of a token.
    r.act("select.live");
    ImGui::SetClipboardText("");
    const auto token = r.box("text/token/12");
    r.move(token.x + token.width / 2, token.y + token.height / 2);
    r.te->MouseClick(1);
    r.frames(3);
    r.te->ItemClick("//$FOCUSED/Copy text up to here");
    r.frames(2);
    std::string text;
    for (int64_t y = 1; y <= 12; ++y) {
        const int32_t id =
            y == 1 ? r.recording()->info().first_token : r.recording()->step(y - 1).next_token_id;
        text += r.recording()->tokens().token_bytes(id);
    }
    GUI_CHECK(text == ImGui::GetClipboardText());
    r.move_away();
}

/// WN5: the palette has parameters, signals and panels as well.
void palette_finds_everything(Robot& r) {
    r.start(r.config(), 6);
    const auto choose = [&](const char* words) {
        r.act("help.palette");
        r.te->KeyChars(words);
        r.frames(3);
        r.te->KeyPress(ImGuiKey_Enter);
        r.frames(4);
    };
    choose("set temperature");
    GUI_CHECK(r.dialog_open("Find a command") && r.shows("Temperature"));
    r.te->KeyCharsReplaceEnter("-1");
    r.frames(3);
    GUI_CHECK(r.dialog_open("Find a command") && r.shows("out of range")); // said here, nothing is lost
    r.te->KeyCharsReplaceEnter("0.5");
    GUI_CHECK(r.until([&] { return r.status()->applied.sampler.temperature == 0.5; }));
    GUI_CHECK(!r.dialog_open("Find a command"));
    GUI_CHECK(!r.ctx().views.signals.of("varentropy_bits2").shown);
    choose("plot varentropy");
    GUI_CHECK(r.ctx().views.signals.of("varentropy_bits2").shown &&
              r.until(
                  [&] {
                      return r.find("signals/plot/varentropy_bits2") ||
                             r.find("signals/folded/varentropy_bits2");
                  },
                  20));
    choose("hide plot varentropy");
    GUI_CHECK(!r.ctx().views.signals.of("varentropy_bits2").shown);
    choose("panel measure");
    GUI_CHECK(r.until([&] { return r.find("panel/Measure").has_value(); }, 20));
    // A switch has its two words; Esc goes back to the list first.
    r.act("help.palette");
    r.te->KeyChars("set shadow");
    r.frames(3);
    r.te->KeyPress(ImGuiKey_Enter);
    r.frames(4);
    GUI_CHECK(r.shows("on") && r.shows("off"));
    r.te->KeyPress(ImGuiKey_Escape);
    r.frames(3);
    GUI_CHECK(r.dialog_open("Find a command"));
    r.close_dialog("Find a command");
}

void words_are_explained(Robot& r) {
    r.start(r.config(), 6);
    r.act("help.legend");
    r.frames(3);
    for (const char* word : {"Refresh", "OverFill", "Delta", "Splice", "Drift", "Entropy", "by hand"})
        GUI_CHECK(r.shows(word));
    r.close_dialog("Terms and letters");
    r.act("help.first_hints");
    r.frames(5);
    GUI_CHECK(r.shows("A teacher and a student write together"));
    GUI_CHECK(r.shows("the threshold line of Entropy"));
    r.frames(60); // what called it back does not send it away
    r.te->KeyPress(ImGuiKey_L);
    r.frames(3);
    GUI_CHECK(!r.shows("A teacher and a student write together"));
    // A policy without a line is not told to drag one.
    RunConfig without = r.config();
    without.policy = RefreshPolicy{};
    r.start(without, 6);
    r.act("help.first_hints");
    r.frames(5);
    GUI_CHECK(r.shows("choose a preset"));
    GUI_CHECK(!r.shows("the threshold line of"));
    r.te->KeyPress(ImGuiKey_L);
    r.start(r.config(), 6);
}

/// PO1: each card says what its trigger has done.
void triggers_tell_what_they_did(Robot& r) {
    r.start(r.config(), 30);
    GUI_CHECK(r.shows("has not fired yet"));
    r.step(40);
    const size_t fires = r.recording()->refreshes().size();
    GUI_CHECK(fires == 1);
    GUI_CHECK(r.shows("1 fire, "));
    RunConfig run = r.config();
    run.shadow = true; // the teacher reads both sides of the refresh
    r.start(run, 70);
    GUI_CHECK(r.recording()->refreshes().size() == 1);
    GUI_CHECK(r.shows("; KL ") && r.shows(" after"));
}

/// TL2: played back, what has not happened yet is dimmed.
void playback_dims_what_is_to_come(Robot& r) {
    r.start(r.config(), 40);
    GUI_CHECK(!r.find("signals/to_come"));
    r.ctx().select_step(10);
    r.frames(2);
    r.act("select.play_back");
    GUI_CHECK(r.until([&] { return r.find("signals/to_come").has_value(); }, 60));
    const auto veil = r.box("signals/to_come"), plot = r.box("signals/plot/entropy_bits");
    GUI_CHECK(veil.x > plot.x && veil.x < plot.x + plot.width);
    r.act("select.play_back");
    r.frames(2);
    GUI_CHECK(!r.find("signals/to_come"));
    r.act("select.live");
}

/// EX1: the picture goes to whatever xclip puts it; here that is a program of the test.
void copy_the_picture(Robot& r) {
    r.start(r.config(), 20);
    const fs::path folder = r.scratch("clipboard");
    fs::remove_all(folder);
    fs::create_directories(folder);
    const std::string path = std::getenv("PATH") ? std::getenv("PATH") : "";
    write_file(folder / "xclip", "#!/bin/sh\nfor last; do :; done\ncp \"$last\" \"" +
                                     (folder / "copied.png").string() + "\"\n");
    fs::permissions(folder / "xclip", fs::perms::owner_all);
    ::setenv("PATH", (folder.string() + ":" + path).c_str(), 1);
    r.act("export.copy_picture");
    GUI_CHECK(r.until([&] { return r.count_log_lines("Picture copied") == 1; }, 4000));
    const Image picture = read_png(folder / "copied.png");
    GUI_CHECK(picture.width == 2 * static_cast<int>(ImGui::GetIO().DisplaySize.x));
    // Without that program: one line, and what helps.
    ::setenv("PATH", "/nowhere", 1);
    const int before = r.count_log_lines("copying a picture");
    r.act("export.copy_picture");
    GUI_CHECK(r.until(
        [&] { return r.count_log_lines("copying a picture") + r.count_log_lines("starting sh") > before; },
        4000));
    ::setenv("PATH", path.c_str(), 1);
    r.ctx().toasts.dismiss_all();
}

} // namespace

std::vector<Case> comparison_cases() {
    return {
        {"after a run", "SG3 a dropped line keeps its estimate and runs again", run_again_with_a_threshold},
        {"after a run", "RB1 TX1 the same run without refresh, and back", with_and_without_refresh},
        {"after a run", "RB1 nothing is put aside for another run", nothing_put_aside_for_others},
        {"branch", "TX6 a candidate or a typed word begins a branch, the run before stays", branch_at_a_word},
        {"after a run", "TL1 next and previous refresh by key", refreshes_by_key},
        {"after a run", "TX5 words are found, tokens are copied", find_in_the_text},
        {"after a run", "WN5 the palette sets parameters, plots signals, opens panels",
         palette_finds_everything},
        {"after a run", "WN5 terms, letters and the first hints", words_are_explained},
        {"after a run", "PO1 a card says what its trigger has done", triggers_tell_what_they_did},
        {"after a run", "TL2 what is to come is dimmed while a run is played back",
         playback_dims_what_is_to_come},
        {"after a run", "EX1 a picture is copied", copy_the_picture},
    };
}

} // namespace refreshlab::gui
