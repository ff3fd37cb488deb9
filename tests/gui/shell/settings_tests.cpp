// The settings page, and keys that a person has chosen.
#include "engine/record/recording/recording.h"
#include "tests/gui/robot.h"

namespace refreshlab::gui {

namespace {

void keys_are_changed(Robot& r) {
    r.start(r.config(), 5);
    r.act("app.settings");
    GUI_CHECK(r.dialog_open("Settings"));
    r.te->ItemClick("//Settings/parts/Keys");
    r.te->ItemInputValue("//Settings/parts/Keys/##find", "Refresh now");
    r.frames(3);
    const auto ask = [&](const char* id) {
        r.click(r.box(std::string("settings/key/") + id));
        r.frames(2);
        GUI_CHECK(r.shows("press a key..."));
    };
    // Esc leaves the key, and the dialog open.
    ask("run.refresh_now");
    r.te->KeyPress(ImGuiKey_Escape);
    r.frames(2);
    GUI_CHECK(r.dialog_open("Settings") && r.action("run.refresh_now").shortcut == ImGuiKey_R);
    // The key that is pressed, which does nothing else meanwhile.
    ask("run.refresh_now");
    r.te->KeyPress(ImGuiMod_Ctrl | ImGuiKey_J);
    r.frames(2);
    GUI_CHECK(r.action("run.refresh_now").shortcut == (ImGuiMod_Ctrl | ImGuiKey_J));
    // One that is somebody's is asked about, and does not do what it does otherwise.
    ask("run.refresh_now");
    r.te->KeyPress(ImGuiKey_Space);
    r.frames(2);
    GUI_CHECK(r.shows("Space is the key of \"" + r.action("run.play_pause").label + "\""));
    GUI_CHECK(r.status()->state == EngineState::paused && r.recording()->steps() == 5);
    r.te->ItemClick("//Settings/parts/Keys/Another key");
    r.te->KeyPress(ImGuiKey_K);
    r.frames(2);
    GUI_CHECK(r.shows("K is the key of \"Full step now\""));
    GUI_CHECK(r.action("run.full_step_now").shortcut == ImGuiKey_K);
    r.te->ItemClick("//Settings/parts/Keys/Take it");
    r.frames(2);
    GUI_CHECK(r.action("run.refresh_now").shortcut == ImGuiKey_K &&
              r.action("run.full_step_now").shortcut == 0);
    r.close_dialog("Settings");
    // It works, and is what the window says.
    const auto refreshes = r.recording()->refreshes().size();
    r.te->KeyPress(ImGuiKey_K);
    r.step(2);
    GUI_CHECK(r.recording()->refreshes().size() > refreshes);
    r.act("help.shortcuts");
    r.frames(2);
    GUI_CHECK(ui::check_actions(r.window().shell().actions()).empty());
    r.close_dialog("Shortcuts and gestures");
    // The key of the table, which is somebody's meanwhile; then all of them.
    r.act("app.settings");
    r.te->ItemClick("//Settings/parts/Keys");
    r.te->ItemInputValue("//Settings/parts/Keys/##find", "now");
    r.frames(3);
    ask("run.full_step_now");
    r.te->KeyPress(ImGuiKey_R);
    r.frames(2);
    GUI_CHECK(r.action("run.full_step_now").shortcut == ImGuiKey_R);
    r.click(r.box("settings/reset/run.refresh_now"));
    r.frames(2);
    GUI_CHECK(r.shows("R is the key of \"Full step now\""));
    r.te->ItemClick("//Settings/parts/Keys/Another key");
    GUI_CHECK(r.shows("press a key..."));
    r.te->KeyPress(ImGuiKey_Delete);
    r.frames(2);
    GUI_CHECK(r.action("run.refresh_now").shortcut == 0);
    r.te->ItemClick("//Settings/parts/Keys/Reset all");
    r.frames(2);
    GUI_CHECK(r.action("run.refresh_now").shortcut == ImGuiKey_R);
    GUI_CHECK(r.action("run.full_step_now").shortcut == ImGuiKey_K);
}

void the_other_pages(Robot& r) {
    r.start(r.config(), 5);
    r.act("app.settings");
    r.te->ItemClick("//Settings/parts/Look");
    r.te->ItemClick("//Settings/parts/Look/light");
    r.frames(3);
    GUI_CHECK(!r.ctx().theme.dark);
    r.te->ItemClick("//Settings/parts/Look/dark");
    r.te->ItemClick("//Settings/parts/Keeping");
    r.frames(3);
    GUI_CHECK(r.shows("Autosave, at most") && r.shows(r.ctx().host.state_folder().string()));
    r.close_dialog("Settings");
}

/// A colour of one's own is that of the curve, of the figure, and of the next start; reset, it is the theme's.
void colours_are_chosen(Robot& r) {
    r.start(r.config(), 10);
    const auto usual = r.ctx().theme.signal("entropy_bits");
    const std::string map = r.ctx().theme.map_amounts;
    r.act("app.settings");
    r.te->ItemClick("//Settings/parts/Colours");
    r.frames(2);
    r.click(r.box("settings/colour/entropy_bits"));
    r.frames(3);
    r.te->ItemInputValue("//$FOCUSED/##picker/##hex/##Text", "#123456");
    r.frames(3);
    r.te->KeyPress(ImGuiKey_Escape);
    r.frames(3);
    constexpr ui::Colour wanted = 0xFF563412U;
    GUI_CHECK(r.ctx().theme.signal("entropy_bits") == wanted && r.dialog_open("Settings"));
    r.te->ItemClick("//Settings/parts/Colours/##amounts");
    r.frames(2);
    r.te->ItemClick("//$FOCUSED/cividis");
    r.frames(3);
    GUI_CHECK(r.ctx().theme.map_amounts == "cividis" && r.ctx().theme.look != r.ctx().theme.name);
    r.close_dialog("Settings");
    // Another theme has its own.
    r.act("view.theme.light");
    r.frames(3);
    GUI_CHECK(r.ctx().theme.signal("entropy_bits") != wanted && r.ctx().theme.map_amounts != "cividis");
    r.act("view.theme.dark");
    r.frames(3);
    GUI_CHECK(r.ctx().theme.signal("entropy_bits") == wanted);
    r.act("app.settings");
    r.te->ItemClick("//Settings/parts/Colours");
    r.frames(2);
    r.te->ItemClick("//Settings/parts/Colours/Reset all");
    r.frames(3);
    GUI_CHECK(r.ctx().theme.signal("entropy_bits") == usual && r.ctx().theme.map_amounts == map);
    // Paper's colours leave the window as it is.
    r.te->ItemClick("//Settings/parts/Colours/figures on paper");
    r.te->ItemClick("//Settings/parts/Colours/##amounts");
    r.frames(2);
    r.te->ItemClick("//$FOCUSED/greys");
    r.frames(3);
    GUI_CHECK(r.ctx().theme.map_amounts == map && r.ctx().theme.look == r.ctx().theme.name);
    r.te->ItemClick("//Settings/parts/Colours/Reset all");
    r.te->ItemClick("//Settings/parts/Colours/###window");
    r.close_dialog("Settings");
}

} // namespace

std::vector<Case> settings_cases() {
    return {
        {"window", "WN10 keys are changed by pressing them, conflicts are named, and the table's come back",
         keys_are_changed},
        {"window", "WN10 settings say where things are kept, how much, and how the window looks",
         the_other_pages},
        {"window", "WN10 colours of signals and maps are chosen, for each theme", colours_are_chosen},
    };
}

} // namespace refreshlab::gui
