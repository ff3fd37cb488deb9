#include "engine/control/command.h"
#include "engine/record/recording/recording.h"
#include "tests/gui/robot.h"

#include <nlohmann/json.hpp>

namespace refreshlab::gui {

namespace {

/// The settings of this key in the recording's commands: step and value.
std::vector<std::pair<int64_t, std::string>> settings_of(const Recording& recording, const std::string& key) {
    std::vector<std::pair<int64_t, std::string>> found;
    const auto& commands = recording.commands();
    for (size_t i = 0, n = commands.size(); i < n; ++i) {
        const Command command = command_from_json(nlohmann::json::parse(commands[i].json), "a command");
        const auto* set = std::get_if<command::SetParameter>(&command);
        if (set && set->key == key) found.emplace_back(commands[i].step, set->value);
    }
    return found;
}

void play_and_pause(Robot& r) {
    r.start(r.slow_config(), 4);
    GUI_CHECK(!r.checked("run.play_pause"));
    r.act_by_item("run.play_pause", "//Run bar/###run.play_pause");
    GUI_CHECK(r.until([&] { return r.status()->state == EngineState::running; }));
    GUI_CHECK(r.until([&] { return r.recording()->steps() >= 10; }));
    GUI_CHECK(r.checked("run.play_pause"));
    // The button answers at once, whatever the engine is doing: this frame and no later one.
    r.te->MouseMove("//Run bar/###run.play_pause");
    r.te->MouseDown(0);
    r.te->MouseUp(0);
    GUI_CHECK(!r.checked("run.play_pause"));
    GUI_CHECK(r.until([&] { return r.status()->state == EngineState::paused; }));
    const int64_t steps = r.recording()->steps();
    r.frames(20);
    GUI_CHECK(r.recording()->steps() == steps);
    r.act("run.play_pause"); // and by its key
    GUI_CHECK(r.until([&] { return r.recording()->steps() > steps; }));
    r.act("run.play_pause");
    GUI_CHECK(r.until([&] { return r.status()->state == EngineState::paused; }));
}

void stop_ends_the_run(Robot& r) {
    r.start(r.config(), 6);
    r.act("run.stop");
    GUI_CHECK(r.until([&] { return r.status()->state == EngineState::finished; }));
    GUI_CHECK(r.status()->stop_reason == "cancelled");
    GUI_CHECK(r.recording()->steps() == 6);
    GUI_CHECK(!r.enabled("run.step"));
    GUI_CHECK(!r.action("run.step").reason(r.ctx()).empty());
    // "Start again" appears in the run bar and runs the same thing from the beginning.
    const auto before = r.recording();
    r.act_by_item("run.restart", "//Run bar/###run.restart");
    GUI_CHECK(r.until([&] { return r.recording() != before && r.recording()->steps() >= 6; }));
    r.engine().send(command::Pause{});
    GUI_CHECK(r.until([&] { return r.status()->state == EngineState::paused; }));
    for (int64_t t = 1; t <= 6; ++t)
        GUI_CHECK(r.recording()->step(t).token_id == before->step(t).token_id);
}

void steps_are_counted(Robot& r) {
    r.start(r.config(), 3);
    r.act_by_item("run.step", "//Run bar/###run.step");
    GUI_CHECK(r.until([&] { return r.recording()->steps() == 4; }));
    GUI_CHECK(r.until([&] { return r.status()->state == EngineState::paused; }));
    r.act("run.step"); // by its key
    GUI_CHECK(r.until([&] { return r.recording()->steps() == 5; }));
    r.te->ItemInputValue("//Run bar/##steps at once", 9);
    r.act_by_item("run.step_n", "//Run bar/###run.step_n");
    GUI_CHECK(
        r.until([&] { return r.recording()->steps() >= 14 && r.status()->state == EngineState::paused; }));
    r.frames(20);
    GUI_CHECK(r.recording()->steps() == 14);
    GUI_CHECK(r.status()->state == EngineState::paused);
    r.act("run.step_n");
    GUI_CHECK(
        r.until([&] { return r.recording()->steps() >= 23 && r.status()->state == EngineState::paused; }));
    r.frames(20);
    GUI_CHECK(r.recording()->steps() == 23);
}

void pace_of_a_run(Robot& r) {
    RunConfig run = r.config();
    run.policy = preset_policy("none");
    r.start(run, 4);
    GUI_CHECK(r.status()->pace == 0); // tests run as fast as it goes
    r.act("run.slower");
    GUI_CHECK(r.until([&] { return r.status()->pace == 200; }));
    // The slowest: one token a second. Pause, refresh and settings do not wait for it.
    r.te->ItemClick("//Run bar/##pace");
    r.te->ItemClick("//$FOCUSED/1 a second");
    GUI_CHECK(r.until([&] { return r.status()->pace == 1; }));
    GUI_CHECK(!r.enabled("run.slower"));
    r.act("run.play_pause");
    GUI_CHECK(r.until([&] { return r.recording()->steps() >= 5; }));
    const int64_t before = r.recording()->steps();
    r.act("run.refresh_now");
    GUI_CHECK(r.until([&] { return r.recording()->refreshes().size() == 1; }, 40));
    GUI_CHECK(r.recording()->steps() <= before + 2);
    r.act("run.play_pause");
    GUI_CHECK(r.until([&] { return r.status()->state == EngineState::paused; }, 40));
    r.act("run.faster");
    GUI_CHECK(r.until([&] { return r.status()->pace == 2; }));
    r.te->ItemClick("//Run bar/##pace");
    r.te->ItemClick("//$FOCUSED/as fast as it goes");
    GUI_CHECK(r.until([&] { return r.status()->pace == 0; }));
    r.step(30); // and so they do
}

void refresh_now_while_decoding(Robot& r) {
    RunConfig run = r.slow_config();
    run.policy = preset_policy("none");
    r.start(run, 12);
    GUI_CHECK(r.recording()->refreshes().size() == 0);
    r.act("run.play_pause");
    GUI_CHECK(r.until([&] { return r.recording()->steps() >= 20; }));
    GUI_CHECK(r.status()->state == EngineState::running);
    const int64_t asked = r.recording()->steps();
    r.act("run.refresh_now");
    GUI_CHECK(r.until([&] { return r.recording()->refreshes().size() == 1; }));
    const int64_t came = r.recording()->steps();
    GUI_CHECK(r.until([&] { return r.recording()->steps() >= came + 20; }));
    GUI_CHECK(r.recording()->refreshes().size() == 1);
    const RefreshEvent& event = r.recording()->refreshes()[0];
    GUI_CHECK(event.step >= asked);
    GUI_CHECK(!event.automatic);
    GUI_CHECK(reason_letter(event.hits) == 'H');
    GUI_CHECK(event.spliced == event.delta && event.delta > 0);
    r.engine().send(command::Pause{});
    GUI_CHECK(r.until([&] { return r.status()->state == EngineState::paused; }));
    // Paused it waits for the next boundary, and fires there once.
    const int64_t before = r.recording()->steps();
    r.act_by_item("run.refresh_now", "//Run bar/###run.refresh_now");
    r.frames(10);
    GUI_CHECK(r.recording()->refreshes().size() == 1);
    r.step(1);
    GUI_CHECK(r.recording()->refreshes().size() == 2);
    GUI_CHECK(r.recording()->refreshes()[1].step == before + 1);
    // Without a teacher's cache there is nothing to refresh from: the button says so.
    run.mode = Mode::student;
    r.start(run, 4);
    GUI_CHECK(!r.enabled("run.refresh_now"));
    GUI_CHECK(!r.action("run.refresh_now").reason(r.ctx()).empty());
}

void rewind_and_continue(Robot& r) {
    RunConfig run = r.config();
    run.sampler.temperature = 0.8;
    run.seed = 7;
    r.start(run, 40);
    const auto first = r.recording();
    GUI_CHECK(!r.enabled("run.rewind")); // nothing is selected
    r.ctx().select_step(15);
    r.frames(2);
    r.act("run.rewind");
    GUI_CHECK(r.until([&] { return r.recording() != first && r.recording()->steps() == 15; }));
    GUI_CHECK(r.status()->state == EngineState::paused);
    GUI_CHECK(r.recording()->info().parent_id == first->info().id);
    GUI_CHECK(r.until([&] { return r.ctx().live() && r.ctx().steps == 15; }, 10));
    r.step(25);
    const auto difference = first_difference(*first, *r.recording());
    if (difference) r.te->LogError("%s", difference->c_str());
    GUI_CHECK(!difference);
    // The same with another setting is another run: the comparison is able to tell.
    r.ctx().select_step(15);
    r.frames(2);
    const auto second = r.recording();
    r.act_by_item("run.rewind", "//Run bar/###run.rewind");
    GUI_CHECK(r.until([&] { return r.recording() != second && r.recording()->steps() == 15; }));
    r.engine().send(command::SetParameter{"seed", "8"});
    r.step(25);
    GUI_CHECK(first_difference(*first, *r.recording()).has_value());
}

void sampling_while_running(Robot& r) {
    r.start(r.slow_config(), 4);
    r.act("run.play_pause");
    GUI_CHECK(r.until([&] { return r.recording()->steps() >= 8; }));
    const int64_t before = r.recording()->steps();
    r.te->ItemInputValue("//Run bar/temperature/##entry", "0.9");
    GUI_CHECK(r.until([&] { return r.status()->applied.sampler.temperature == 0.9; }));
    const auto set = settings_of(*r.recording(), "sampler.temperature");
    GUI_CHECK(!set.empty());
    GUI_CHECK(set.back().second == "0.9");
    GUI_CHECK(set.back().first > before && set.back().first <= r.recording()->steps() + 1);
    GUI_CHECK(r.status()->state != EngineState::failed);
    // The others stand in Sampling.
    r.te->WindowFocus("//Sampling");
    r.frames(3);
    struct Edit {
        const char* key;
        const char* item;
        const char* value;
    };
    for (const Edit& edit : {Edit{"sampler.top_k", "//Sampling/sampler.top_k/entry/##entry", "40"},
                             Edit{"sampler.top_p", "//Sampling/sampler.top_p/entry/##entry", "0.9"},
                             Edit{"sampler.min_p", "//Sampling/sampler.min_p/entry/##entry", "0.05"},
                             Edit{"seed", "//Sampling/seed/entry/##entry", "12345"}}) {
        r.te->ItemInputValue(edit.item, edit.value);
        GUI_CHECK(r.until([&] { return parameter_value(r.status()->applied, edit.key) == edit.value; }));
        const auto logged = settings_of(*r.recording(), edit.key);
        GUI_CHECK(!logged.empty() && logged.back().second == edit.value);
    }
    r.engine().send(command::Pause{});
    GUI_CHECK(r.until([&] { return r.status()->state == EngineState::paused; }));
    // A value outside its range is refused in one line, and nothing is sent.
    r.te->ItemInputValue("//Run bar/temperature/##entry", "0.5");
    GUI_CHECK(r.until([&] { return r.status()->applied.sampler.temperature == 0.5; }));
    r.te->WindowFocus("//Policy");
}

void new_run_says_what_it_needs(Robot& r) {
    r.start(r.config(), 5);
    const auto before = r.recording();
    r.act("run.new");
    GUI_CHECK(r.dialog_open("New run"));
    GUI_CHECK(r.shows("need a new run"));
    GUI_CHECK(r.recording() == before); // opening it changes nothing
    r.te->ItemInputValue("//New run/##max tokens", 7);
    r.te->ItemInputValue("//New run/##seed", "99");
    GUI_CHECK(r.recording() == before && r.status()->applied.max_tokens == 1500);
    r.te->ItemClick("//New run/Start");
    GUI_CHECK(r.until([&] { return r.recording() != before; }));
    GUI_CHECK(r.until([&] { return r.status()->state == EngineState::finished; }));
    GUI_CHECK(!r.dialog_open("New run"));
    GUI_CHECK(r.recording()->info().parent_id.empty());
    GUI_CHECK(r.recording()->info().config.max_tokens == 7 && r.recording()->info().config.seed == 99);
    GUI_CHECK(r.recording()->steps() == 7);
}

} // namespace

std::vector<Case> run_cases() {
    return {
        {"run bar", "RB1 play and pause: the button answers in its frame, the decode before its next step",
         play_and_pause},
        {"run bar", "RB1 stop ends the run, start again makes it anew", stop_ends_the_run},
        {"run bar", "RB2 step makes one record, step N makes N, then it is paused", steps_are_counted},
        {"run bar", "RB9 the pace of a run: halved, doubled, chosen; nothing else waits for it",
         pace_of_a_run},
        {"run bar", "RB3 refresh now in mid-generation: one more refresh, by hand",
         refresh_now_while_decoding},
        {"run bar", "RB4 rewind and continue gives a bit-equal recording", rewind_and_continue},
        {"run bar", "RB5 sampling is edited while running and recorded with its step",
         sampling_while_running},
        {"run bar", "RB7 what needs a new run says so first", new_run_says_what_it_needs},
    };
}

} // namespace refreshlab::gui
