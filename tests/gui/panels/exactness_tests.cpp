#include "engine/base/json_file.h"
#include "tests/gui/robot.h"

#include <nlohmann/json.hpp>

#include <filesystem>

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

/// Presses Check and waits for the whole report of this very check: that of an earlier one is still shown.
void check(Robot& r) {
    const auto before = r.status()->exactness;
    r.te->ItemClick("Check");
    GUI_CHECK(r.until(
        [&] {
            const auto s = r.status();
            return s->exactness != before && s->exactness && s->exactness->progress >= 1 && !s->checking;
        },
        4000));
    r.frames(2);
}

void the_check_holds(Robot& r) {
    open_panel(r);
    const int64_t steps = r.recording()->steps();
    r.te->SetRef("//Exactness");
    r.te->ItemUncheck("Latency");
    r.te->ItemInputValue("steps", 8);
    check(r);
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
    r.te->ItemInputValue("steps", 8);
    r.te->ComboClick("##fault/Off by one position");
    check(r);
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
    GUI_CHECK(r.until([&] { return !r.status()->checking; }, 4000));
    GUI_CHECK(r.status()->exactness->progress < 1);
    GUI_CHECK(r.status()->state == EngineState::paused);
    close_panel(r);
}

/// The bundled student with keys that turn half as slowly: its columns mean something else than the teacher's.
void rebuild_mode_is_said(Robot& r) {
    namespace fs = std::filesystem;
    RunConfig config = r.config();
    const fs::path student = Robot::scratch("other_geometry");
    fs::remove_all(student);
    fs::copy(config.student_dir, student, fs::copy_options::recursive);
    nlohmann::json json = read_json_file(student / "config.json");
    json["rope_theta"] = 20000.0;
    write_file(student / "config.json", json.dump());
    config.student_dir = student.string();
    r.start(config, 20);
    GUI_CHECK(r.status()->rebuild_mode);
    GUI_CHECK(r.shows("Rebuild mode: the KV geometries differ"));
    r.te->MenuCheck("//##MainMenuBar/View/Panels/Exactness");
    r.te->WindowFocus("//Exactness");
    r.frames(2);
    GUI_CHECK(r.shows("rebuild mode, nothing is spliced") && r.shows("theta 20000"));
    close_panel(r);
    r.start(r.config(), 2);
    GUI_CHECK(!r.status()->rebuild_mode);
    GUI_CHECK(!r.shows("Rebuild mode: the KV"));
    fs::remove_all(student);
}

} // namespace

std::vector<Case> exactness_cases() {
    return {
        {"exactness", "the check of the loaded pair holds and leaves the run alone", the_check_holds},
        {"exactness", "a cache that is wrong on purpose is caught", a_fault_is_caught},
        {"exactness", "a check is cancelled", a_check_is_cancelled},
        {"exactness", "a pair with two KV geometries says that it runs in rebuild mode",
         rebuild_mode_is_said},
    };
}

} // namespace refreshlab::gui
