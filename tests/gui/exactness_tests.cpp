#include "tests/gui/robot.h"

namespace refreshlab::gui {

namespace {

void open_panel(Robot& r) {
    r.start(r.config(), 12);
    r.te->MenuCheck("//##MainMenuBar/View/Panels/Exactness");
    r.te->WindowFocus("//Exactness");
    r.frames(2);
}

void close_panel(Robot& r) {
    r.te->MenuUncheck("//##MainMenuBar/View/Panels/Exactness");
    r.frames(2);
}

void wait_for_report(Robot& r) {
    GUI_CHECK(r.until([&] {
        const auto s = r.status();
        return s->exactness && s->exactness->progress >= 1 && !s->checking;
    }));
    r.frames(2);
}

void the_check_holds(Robot& r) {
    open_panel(r);
    const int64_t steps = r.recording()->steps();
    r.te->SetRef("//Exactness");
    r.te->ItemUncheck("Latency");
    r.te->ItemInputValue("steps", 8);
    r.te->ItemClick("Check");
    wait_for_report(r);
    GUI_CHECK(r.shows("Exact: every statement holds"));
    GUI_CHECK(r.shows("rewind = fresh run") && r.shows("splice = fresh prefill"));
    GUI_CHECK(!r.shows("BROKEN"));
    GUI_CHECK(r.recording()->steps() == steps);
    GUI_CHECK(r.status()->exactness->maps.at(0).steps == 8);
    close_panel(r);
}

void a_fault_is_caught(Robot& r) {
    open_panel(r);
    r.te->SetRef("//Exactness");
    r.te->ItemUncheck("Latency");
    r.te->ComboClick("##fault/Off by one position");
    r.te->ItemClick("Check");
    wait_for_report(r);
    GUI_CHECK(r.status()->exactness->options.fault == CacheFault::off_by_one_position);
    GUI_CHECK(r.shows("caught") && !r.shows("NOT caught"));
    GUI_CHECK(r.shows("BROKEN"));
    r.te->ComboClick("##fault/No fault");
    r.te->ItemCheck("Latency");
    close_panel(r);
}

void a_check_is_cancelled(Robot& r) {
    open_panel(r);
    r.te->SetRef("//Exactness");
    r.te->ItemCheck("Latency"); // long enough to be cancelled on any machine
    r.te->ItemClick("Check");
    GUI_CHECK(r.until([&] { return r.status()->checking; }));
    r.te->ItemClick("Cancel");
    GUI_CHECK(r.until([&] { return !r.status()->checking; }));
    GUI_CHECK(r.status()->exactness->progress < 1);
    GUI_CHECK(r.status()->state == EngineState::paused);
    close_panel(r);
}

} // namespace

std::vector<Case> exactness_cases() {
    return {
        {"exactness", "the check of the loaded pair holds and leaves the run alone", the_check_holds},
        {"exactness", "a cache that is wrong on purpose is caught", a_fault_is_caught},
        {"exactness", "a check is cancelled", a_check_is_cancelled},
    };
}

} // namespace refreshlab::gui
