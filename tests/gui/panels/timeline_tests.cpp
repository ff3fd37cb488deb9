#include "engine/record/recording/recording.h"
#include "tests/gui/robot.h"
#include "ui/scene/axes/time_view.h"

#include <cmath>

namespace refreshlab::gui {

namespace {

float middle_of(const ui::Landmarks::Box& box) {
    return box.x + box.width / 2;
}

void arrows_walk(Robot& r) {
    r.start(r.config(), 30);
    r.act("select.previous");
    GUI_CHECK(r.ctx().selection.step == 29);
    // A token clicked and Esc pressed: the keys still walk through the steps.
    r.click(r.box("text/token/12"));
    const int64_t clicked = r.ctx().selection.step.value_or(0);
    GUI_CHECK(clicked > 5);
    r.te->KeyPress(ImGuiKey_Escape);
    r.act("select.previous");
    GUI_CHECK(r.ctx().selection.step == clicked - 1);
    r.ctx().select_step(29);
    r.frames(2);
    // Again and again: the keys must not end up in the controls.
    r.act("select.previous");
    r.act("select.previous");
    GUI_CHECK(r.ctx().selection.step == 27);
    r.act("select.next");
    GUI_CHECK(r.ctx().selection.step == 28);
    r.act("select.next");
    r.act("select.next");
    GUI_CHECK(r.ctx().live()); // past the newest step is live again
    r.ctx().select_step(1);
    r.frames(2);
    r.act("select.previous");
    GUI_CHECK(r.ctx().selection.step == 1);
    r.click(r.box("runbar/live"));
    GUI_CHECK(r.ctx().live());
    // While text is typed, keys are letters.
    r.ctx().select_step(12);
    r.frames(2);
    const size_t commands = r.recording()->commands().size();
    r.te->ItemClick("//Run bar/##steps at once");
    r.te->KeyPress(ImGuiKey_L);
    r.te->KeyPress(ImGuiKey_R);
    GUI_CHECK(r.ctx().selection.step == 12);
    r.te->KeyPress(ImGuiKey_Escape);
    r.frames(2);
    r.step(1); // a refresh that was asked for would be logged before this step
    GUI_CHECK(r.recording()->commands().size() == commands);
    r.te->KeyPress(ImGuiKey_R); // and here it is one
    r.step(1);
    GUI_CHECK(r.recording()->commands().size() == commands + 1);
}

void timeline_scrubs(Robot& r) {
    r.start(r.config(), 80);
    const auto bar = r.box("timeline/bar");
    r.ctx().select_step(20);
    r.frames(2);
    const float x20 = middle_of(r.box("timeline/cursor"));
    r.ctx().select_step(60);
    r.frames(2);
    const float x60 = middle_of(r.box("timeline/cursor"));
    r.move(x20, bar.y + bar.height / 2);
    r.te->MouseDown(0);
    r.frames(2);
    GUI_CHECK(std::abs(r.ctx().selection.step.value_or(-100) - 20) <= 1);
    for (int i = 1; i <= 4; ++i) {
        r.te->MouseMoveToPos(ImVec2(x20 + (x60 - x20) * static_cast<float>(i) / 4, bar.y + bar.height / 2));
        r.frames(2);
        GUI_CHECK(std::abs(r.ctx().selection.step.value_or(-100) - (20 + 10 * i)) <= 1);
    }
    // Past the newest step it is live again.
    r.te->MouseMoveToPos(ImVec2(bar.x + bar.width - 1, bar.y + bar.height / 2));
    r.frames(2);
    GUI_CHECK(r.ctx().live());
    r.te->MouseUp(0);
    r.ctx().select_step(33);
    r.frames(2);
    r.click(r.box("timeline/live"));
    GUI_CHECK(r.ctx().live() && r.ctx().time.follow);
}

void the_run_is_played_back(Robot& r) {
    r.start(r.config(), 60);
    r.te->SetRef("//Timeline");
    r.te->ItemClick("...##play back options");
    r.te->SetRef("//$FOCUSED");
    r.te->ItemClick("5");
    r.te->KeyPress(ImGuiKey_Escape);
    r.te->SetRef("");
    r.click(r.box("timeline/play_back"));
    GUI_CHECK(r.ctx().playback.playing() && r.ctx().playback.steps_per_second == 5.0);
    GUI_CHECK(r.ctx().selection.step.has_value()); // from the newest step: from the beginning
    int64_t before = *r.ctx().selection.step;
    GUI_CHECK(before < 60);
    r.ctx().playback.steps_per_second = 200;
    GUI_CHECK(r.until([&] {
        const int64_t now = r.ctx().selection.step.value_or(0);
        GUI_CHECK(now >= before);
        before = now;
        return !r.ctx().playback.playing();
    }));
    GUI_CHECK(r.ctx().selection.step == 60);

    // In a loop: the steps in sight, over and over; another step chosen by hand ends it.
    ui::set_time_range(r.ctx().time, 20, 28, r.ctx().steps);
    r.frames(2);
    r.te->SetRef("//Timeline");
    r.te->ItemClick("...##play back options");
    r.te->SetRef("//$FOCUSED");
    r.te->ItemCheck("Loop over the steps in sight");
    r.te->KeyPress(ImGuiKey_Escape);
    r.te->SetRef("");
    r.act("select.play_back");
    GUI_CHECK(r.until([&] { return r.ctx().playback.playing(); }, 5));
    int rounds = 0;
    before = 0;
    GUI_CHECK(r.until([&] {
        const int64_t now = r.ctx().selection.step.value_or(0);
        GUI_CHECK(now >= 20 && now <= 28);
        rounds += now < before ? 1 : 0;
        before = now;
        return rounds == 3;
    }));
    r.ctx().select_step(5);
    r.frames(3);
    GUI_CHECK(!r.ctx().playback.playing() && r.ctx().selection.step == 5);
    r.ctx().playback = ui::Playback{};
    r.act("select.live");
}

} // namespace

std::vector<Case> timeline_cases() {
    return {
        {"timeline", "TL1 arrow keys walk, Live returns, typing keeps its keys", arrows_walk},
        {"timeline", "TL1 the timeline scrubs, past the newest step is live", timeline_scrubs},
        {"timeline", "TL2 the run is played back, and in a loop over the steps in sight",
         the_run_is_played_back},
    };
}

} // namespace refreshlab::gui
