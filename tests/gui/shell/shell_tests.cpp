#include "engine/record/recording/recording.h"
#include "tests/gui/robot.h"
#include "tests/support/made_run.h"
#include "ui/panels/panel.h"
#include "ui/shell/shell.h"
#include "ui/state/shell_state.h"

#include <fmt/format.h>
#include <implot.h>

#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace refreshlab::gui {

namespace {

void hints_go_at_the_first_input(Robot& r) {
    GUI_CHECK(r.ctx().first_start_hints);
    const std::string told = r.text();
    for (const char* hint : {"choose a preset", "Press R", "Click"}) // no policy yet, so no line to drag
        GUI_CHECK(told.find(hint) != std::string::npos);
    r.move_away(); // moving the mouse is not an answer yet
    GUI_CHECK(r.ctx().first_start_hints);
    // A run that was over before anybody could read: what the card says can still be done.
    r.engine().send(command::StartRun{r.config(3)});
    GUI_CHECK(r.until([&] { return r.status()->state == EngineState::finished; }));
    r.frames(3);
    GUI_CHECK(r.shows("Ctrl+R") && !r.shows("Press R"));
    GUI_CHECK(r.shows("the threshold line of Entropy"));
    GUI_CHECK(r.enabled("run.restart") && !r.enabled("run.refresh_now"));
    const ImGuiWindow* card = ImGui::FindWindowByName("##first start");
    GUI_CHECK(card != nullptr && card->WasActive);
    for (const char* seen : {"panel/Signals", "panel/Text", "panel/Timeline", "panel/Attention"}) {
        const auto box = r.box(seen);
        GUI_CHECK(!card->Rect().Overlaps(ImRect(box.x, box.y, box.x + box.width, box.y + box.height)));
    }
    const auto plot = r.box("panel/Signals");
    r.move(plot.x + plot.width / 2, plot.y + plot.height / 2);
    r.te->MouseClick(0);
    r.frames(2);
    GUI_CHECK(!r.ctx().first_start_hints);
    GUI_CHECK(!r.shows("Press R"));
}

void empty_panels_offer_a_run(Robot& r) {
    // Before the first run: panels say what would fill them, and nothing that needs a run is enabled.
    GUI_CHECK(!r.recording());
    GUI_CHECK(r.shows("as soon as it makes its first step"));
    for (const char* id : {"run.play_pause", "run.step", "run.refresh_now", "run.rewind", "run.stop",
                           "run.restart", "file.save_trace", "export.csv", "select.previous"}) {
        GUI_CHECK(!r.enabled(id));
        GUI_CHECK(!r.action(id).reason(r.ctx()).empty());
    }
}

std::shared_ptr<Recording> recording_of_one_step(const std::string& note) {
    RunInfo info = test::made_info(3, "00000000000000ff");
    info.layers = info.heads = 1;
    info.note = note;
    info.config.teacher_dir = "models/a-teacher-of-that-name";
    info.config.student_dir = "models/a-student-of-that-name";
    const auto made = test::made_run(info);
    made->append(test::next_record(*made, 5));
    return made;
}

void no_live_run_to_go_back_to(Robot& r) {
    GUI_CHECK(!r.recording());
    const auto made = recording_of_one_step("");
    r.window().shell().show_recording(made);
    r.frames(3);
    GUI_CHECK(r.ctx().recording == made);
    GUI_CHECK(!r.shows("Back to the live run") && r.te->ItemExists("//Run bar/###close trace"));
    GUI_CHECK(r.ctx().first_start_hints &&
              !r.shows("a token: every panel shows its step")); // not over a trace
    r.ctx().run_action("file.close_trace"); // not by the mouse: a click would end the hints of the next test
    r.frames(3);
    GUI_CHECK(!r.ctx().recording);
}

void a_long_note_gives_way(Robot& r) {
    r.start(r.config(), 4);
    GUI_CHECK(!r.find("menu/note"));
    const std::string note =
        "rebuild mode: the KV geometries differ (kv_heads: 3 and 6), so teacher entries are never "
        "copied and a refresh recomputes the student's own";
    r.window().shell().show_recording(recording_of_one_step(note));
    r.frames(3);
    GUI_CHECK(r.ctx().landmarks.text("menu/note") == "Rebuild mode");
    const auto box = r.box("menu/note");
    GUI_CHECK(box.x + box.width <= ImGui::GetIO().DisplaySize.x);
    GUI_CHECK(box.width >= ImGui::CalcTextSize("Rebuild mode").x - 1); // none of it is cut
    GUI_CHECK(!r.shows("recomputes the student's own"));
    r.move(box.x + box.width / 2, box.y + box.height / 2);
    r.frames(30); // a tooltip waits a little
    GUI_CHECK(r.shows("recomputes the student's own"));
    r.move_away();
    r.act("file.close_trace");
}

void an_error_appears_once(Robot& r) {
    r.start(r.config(), 8);
    const auto before = r.recording();
    RunConfig broken = r.config();
    broken.teacher_dir = r.scratch("no-such-model").string();
    const uint64_t errors = r.status()->errors;
    r.engine().send(command::StartRun{broken});
    GUI_CHECK(r.until([&] { return r.status()->errors == errors + 1; }));
    r.frames(10);
    GUI_CHECK(r.count_log_lines("no-such-model") == 1);
    for (const ui::Toasts::Line& line : r.ctx().toasts.lines()) {
        if (line.text.find("no-such-model") == std::string::npos) continue;
        GUI_CHECK(line.level == ui::Toasts::Level::error && line.shown_as_toast && line.repeats == 1);
        GUI_CHECK(line.text.find('\n') == std::string::npos);
    }
    GUI_CHECK(r.shows("no-such-model")); // the toast is on the screen
    r.ctx().toasts.dismiss_all();
    r.te->WindowFocus("//Log");
    r.frames(2);
    GUI_CHECK(r.shows("no-such-model")); // and the line in the log
    r.te->WindowFocus("//Performance");
    // Nothing is lost: the run that stood there goes on.
    GUI_CHECK(r.recording() == before && r.status()->state == EngineState::paused);
    r.step(2);
    GUI_CHECK(r.recording()->steps() == 10);
}

void help_and_palette(Robot& r) {
    r.start(r.config(), 5);
    r.act("help.shortcuts");
    GUI_CHECK(r.dialog_open("Shortcuts and gestures"));
    r.frames(2);
    const std::string sheet = r.text();
    for (const ui::Action& action : r.window().shell().actions()) {
        if (action.shortcut == 0) continue;
        GUI_CHECK(sheet.find(action.label) != std::string::npos);
        GUI_CHECK(sheet.find(ui::shortcut_text(action.shortcut)) != std::string::npos);
    }
    r.close_dialog("Shortcuts and gestures");
    r.act("help.palette");
    GUI_CHECK(r.dialog_open("Find a command"));
    ImGuiWindow* hits = r.te->WindowInfo("//Find a command/hits").Window;
    GUI_CHECK(hits != nullptr);
    r.te->SetRef(hits);
    for (const ui::Action& action : r.window().shell().actions())
        if (action.id != "help.palette") GUI_CHECK(r.te->ItemExists(("###" + action.id).c_str()));
    // Typing narrows it, Enter runs the first.
    r.te->SetRef("");
    const auto steps = r.recording()->steps();
    r.te->ItemInputValue("//Find a command/##query", "Run: Step N");
    r.frames(3);
    GUI_CHECK(!r.dialog_open("Find a command"));
    GUI_CHECK(r.until([&] { return r.recording()->steps() > steps + 1; }));
    GUI_CHECK(r.until([&] { return r.status()->state == EngineState::paused; }));
    r.act("help.about");
    GUI_CHECK(r.dialog_open("About RefreshLab"));
    GUI_CHECK(r.shows("libtorch"));
    r.close_dialog("About RefreshLab");
    // Esc closes a dialog as well.
    r.act("help.shortcuts");
    r.te->KeyPress(ImGuiKey_Escape);
    r.frames(3);
    GUI_CHECK(!r.dialog_open("Shortcuts and gestures"));
}

void menus_hold_the_table(Robot& r) {
    r.start(r.config(), 5);
    const int64_t steps = r.recording()->steps();
    r.te->MenuClick("//##MainMenuBar/Run/###run.step");
    GUI_CHECK(r.until([&] { return r.recording()->steps() == steps + 1; }));
    r.te->MenuClick("//##MainMenuBar/View/Theme/###view.theme.light");
    r.frames(3);
    GUI_CHECK(r.ctx().theme.name == "light");
    r.te->MenuClick("//##MainMenuBar/View/Theme/###view.theme.dark");
    r.frames(3);
    GUI_CHECK(r.ctx().theme.name == "dark");
    GUI_CHECK(ui::check_actions(r.window().shell().actions()).empty());
}

void refusals_in_order(Robot& r) {
    r.start(r.config(), 8);
    RunConfig broken = r.config();
    broken.teacher_dir = r.scratch("no-such-cause").string();
    const uint64_t errors = r.status()->errors;
    const size_t lines_before = r.ctx().toasts.lines().size();
    // Both are refused before the window looks again.
    r.engine().send(command::StartRun{broken});
    r.engine().send(command::Rewind{5000});
    r.without_frames_until([&] { return r.status()->errors == errors + 2; });
    r.frames(3);
    std::vector<std::string> told;
    const auto& lines = r.ctx().toasts.lines();
    for (size_t i = lines_before; i < lines.size(); ++i)
        if (lines[i].level == ui::Toasts::Level::error && lines[i].shown_as_toast)
            told.push_back(lines[i].text);
    GUI_CHECK(told.size() == 2);
    GUI_CHECK(told[0].find("no-such-cause") != std::string::npos);
    GUI_CHECK(told[1] == r.status()->error && told[1] != told[0]);
}

void the_run_before_stays(Robot& r) {
    r.start(r.config(), 9);
    const auto first = r.recording();
    r.start(r.config(), 5);
    const auto second = r.recording();
    GUI_CHECK(r.enabled("file.run_before"));
    r.act("file.run_before");
    GUI_CHECK(r.until([&] { return r.ctx().recording == first; }, 10));
    GUI_CHECK(first->steps() == 9 && r.recording() == second && r.checked("file.run_before"));
    r.act("file.run_before");
    GUI_CHECK(r.until([&] { return r.ctx().recording == second; }, 10));
    // A rewind gives up the steps after it: they stay as well.
    r.engine().send(command::Rewind{3});
    GUI_CHECK(r.until([&] { return r.recording() != second; }));
    r.frames(2);
    r.act("file.run_before");
    GUI_CHECK(r.until([&] { return r.ctx().recording == second; }, 10));
    r.act("file.close_trace");
}

void closing_asks_about_an_unsaved_run(Robot& r) {
    r.start(r.config(), 12);
    r.forget_other_runs();
    const auto close = [&r] { return r.window().shell().may_close(); };
    GUI_CHECK(!close());
    r.frames(3);
    GUI_CHECK(r.dialog_open("Unsaved run") && r.shows("12 steps"));
    // The run goes on meanwhile, and Esc takes the wish back.
    r.step(2);
    r.te->WindowFocus("//Unsaved run");
    r.te->KeyPress(ImGuiKey_Escape);
    r.frames(3);
    GUI_CHECK(!r.dialog_open("Unsaved run") && r.window().open());
    // Enter saves; leaving that dialog leaves the window open, too.
    GUI_CHECK(!close());
    r.frames(3);
    r.te->KeyPress(ImGuiKey_Enter);
    r.frames(3);
    GUI_CHECK(!r.dialog_open("Unsaved run") && r.dialog_open("Save trace"));
    r.close_dialog("Save trace");
    GUI_CHECK(r.window().open());
    // What is in a file, or was never made, is not asked about; what has grown since is.
    const std::filesystem::path file = r.scratch("asked.rlt");
    std::filesystem::remove(file);
    r.act("file.save_trace");
    r.te->ItemInputValue("//Save trace/##path", file.string().c_str());
    GUI_CHECK(r.until([&] { return r.count_log_lines("Trace saved as " + file.string()) > 0; }));
    GUI_CHECK(close() && !r.dialog_open("Unsaved run"));
    r.step(1);
    GUI_CHECK(!close());
    r.frames(2);
    r.close_dialog("Unsaved run");
    // So is what another run took the place of: it stays in Runs. Both are saved by default.
    r.start(r.config(), 5);
    GUI_CHECK(!close());
    r.frames(3);
    GUI_CHECK(r.dialog_open("Unsaved run") && r.shows("2 runs are in no file and end with the window."));
    r.te->ItemClick("//Unsaved run/Save trace...");
    r.frames(3);
    GUI_CHECK((r.te->ItemInfo("//Save trace/###all").StatusFlags & ImGuiItemStatusFlags_Checked) != 0);
    r.close_dialog("Save trace");
    const std::filesystem::path both = r.scratch("asked-both.rlt");
    std::filesystem::remove(both);
    r.act("file.save_runs");
    r.te->ItemInputValue("//Save trace/##path", both.string().c_str());
    GUI_CHECK(r.until([&] { return r.count_log_lines("Trace saved as " + both.string()) > 0; }));
    GUI_CHECK(close());
}

/// Fails in the middle of what it draws.
class FaultyPanel final : public ui::Panel {
public:
    enum class Place : uint8_t { nowhere, window, styles, child, table, plot, tooltip };
    explicit FaultyPanel(std::shared_ptr<const Place> place)
        : m_place(std::move(place)) {}
    [[nodiscard]] std::string_view title() const override { return "Faulty"; }
    void draw(ui::UiContext&) override {
        ImGui::TextUnformatted("Drawn before it");
        switch (*m_place) {
        case Place::nowhere:
            ImGui::TextUnformatted("All is well");
            return;
        case Place::window:
            break;
        case Place::styles:
            ImGui::PushStyleColor(ImGuiCol_Text, IM_COL32(255, 0, 0, 255));
            ImGui::PushStyleVar(ImGuiStyleVar_FramePadding, ImVec2(20, 20));
            ImGui::PushID("left open");
            ImGui::BeginDisabled();
            ImGui::PushClipRect({0, 0}, {10, 10}, true);
            break;
        case Place::child:
            ImGui::BeginChild("##child");
            ImGui::BeginGroup();
            break;
        case Place::table:
            if (ImGui::BeginTable("##table", 2, ImGuiTableFlags_ScrollY, {0, 60})) ImGui::TableNextColumn();
            break;
        case Place::plot: {
            // The axis and its labels are variables of this function: nobody may touch them when it has ended.
            double low = 0, high = 1;
            ImPlot::PushStyleVar(ImPlotStyleVar_PlotPadding, ImVec2(40, 40));
            ImPlot::PushStyleColor(ImPlotCol_PlotBg, ImVec4(1, 0, 0, 1));
            if (ImPlot::BeginPlot("##plot", {200, 100})) {
                ImPlot::SetupAxisLinks(ImAxis_X1, &low, &high);
                ImGui::PushID("in a plot");
                throw std::runtime_error(problem(*m_place));
            }
            break;
        }
        case Place::tooltip:
            ImGui::BeginTooltip();
            ImGui::TextUnformatted("half a tooltip");
            break;
        }
        throw std::runtime_error(problem(*m_place));
    }
    static std::string problem(Place place) {
        return fmt::format("fault number {} of a test", static_cast<int>(place));
    }

private:
    std::shared_ptr<const Place> m_place;
};

/// LG2: wherever a panel fails, it says so in its place, once in the log, and nothing else changes.
void a_failing_panel_ends_alone(Robot& r) {
    using Place = FaultyPanel::Place;
    r.start(r.config(), 40);
    const auto place = std::make_shared<Place>(Place::nowhere);
    r.window().shell().add_panel(std::make_unique<FaultyPanel>(place));
    r.frames(4);
    const auto text = r.box("panel/Text");
    r.te->WindowMove("//Faulty", {text.x + 10, text.y + 40});
    r.te->WindowResize("//Faulty", {text.width - 30, text.height - 60});
    r.move_away();
    GUI_CHECK(r.shows("All is well"));
    /// Pixels of panels with plots, tables and maps.
    const auto others = [&] {
        const Image seen = r.look();
        std::vector<uint32_t> found;
        for (const char* panel : {"panel/Signals", "panel/Policy", "panel/Attention", "panel/Cache"}) {
            const auto at = r.box(panel);
            for (float y = at.y + 2; y < at.y + at.height - 2; y += 1)
                for (float x = at.x + 2; x < at.x + at.width - 2; x += 1)
                    found.push_back(seen.at(static_cast<double>(x), static_cast<double>(y)));
        }
        return found;
    };
    /// Pixels of the message: words may be there and cut away.
    const auto red = [&] {
        const Image seen = r.look();
        const auto at = r.box("panel/Faulty");
        int found = 0;
        for (float y = at.y; y < at.y + at.height; y += 1)
            for (float x = at.x; x < at.x + at.width; x += 1)
                if (colour_distance(seen.at(static_cast<double>(x), static_cast<double>(y)),
                                    r.ctx().theme.text_error) < 60)
                    ++found;
        return found;
    };
    const auto before = others();
    GUI_CHECK(before.size() > 100'000);
    GUI_CHECK(red() == 0);
    for (const Place fault :
         {Place::window, Place::styles, Place::child, Place::table, Place::plot, Place::tooltip}) {
        *place = fault;
        const std::string problem = FaultyPanel::problem(fault);
        r.frames(6);
        GUI_CHECK(r.shows(problem) && r.shows("the others continue"));
        GUI_CHECK(!r.shows("All is well"));
        GUI_CHECK(r.count_log_lines(problem) == 1);
        GUI_CHECK(r.count_log_lines("drawing panel Faulty: " + problem) == 1);
        GUI_CHECK(others() == before);
        GUI_CHECK(red() > 40);
    }
    *place = Place::nowhere;
    r.frames(3);
    GUI_CHECK(r.shows("All is well") && !r.shows("the others continue"));
    GUI_CHECK(others() == before);
    // The run goes on as well.
    r.step(2);
    r.te->MenuUncheck("//##MainMenuBar/View/Panels/Faulty");
    r.frames(2);
    GUI_CHECK(!r.find("panel/Faulty"));
}

void discarding_closes(Robot& r) {
    r.start(r.config(), 3);
    r.act("app.quit");
    r.frames(3);
    GUI_CHECK(r.window().open() && r.dialog_open("Unsaved run"));
    r.te->KeyPress(ImGuiKey_D);
    r.frames(2);
    GUI_CHECK(!r.window().open());
}

void every_action_was_run(Robot& r) {
    r.start(r.config(), 4);
    r.act("app.quit"); // last: from here on the window wants to close
    r.frames(3);
    GUI_CHECK(r.window().open() && r.dialog_open("Unsaved run"));
    const std::filesystem::path file = r.scratch("saved-at-the-end.rlt");
    std::filesystem::remove(file);
    r.te->ItemClick("//Unsaved run/Save trace...");
    r.frames(3);
    r.te->ItemInputValue("//Save trace/##path", file.string().c_str());
    GUI_CHECK(r.until([&] { return !r.window().open(); }));
    GUI_CHECK(std::filesystem::exists(file));
    std::string missing;
    for (const ui::Action& action : r.window().shell().actions())
        if (!r.ran().contains(action.id)) missing += " " + action.id;
    if (!missing.empty()) r.te->LogError("never run:%s", missing.c_str());
    GUI_CHECK(missing.empty());
}

} // namespace

std::vector<Case> shell_cases() {
    return {
        {"first start", "empty panels say what would fill them", empty_panels_offer_a_run},
        {"first start", "TL1 a trace without a live run is closed, not gone back from",
         no_live_run_to_go_back_to},
        {"first start", "the card of hints goes at the first input", hints_go_at_the_first_input},
        {"window", "RB7 a note that is too long for the menu bar is its head, the rest a tooltip",
         a_long_note_gives_way},
        {"window", "LG1 an error appears once, as toast and log line, and the run lives on",
         an_error_appears_once},
        {"window", "LG1 refusals are told in order, the cause first", refusals_in_order},
        {"window", "LG2 a panel that fails says so, and the rest of the window goes on",
         a_failing_panel_ends_alone},
        {"window", "RB1 the run before stays until the next one is replaced", the_run_before_stays},
        {"window", "RB1 LG1 closing asks once about a run that is in no file",
         closing_asks_about_an_unsaved_run},
        {"window", "WN5 help sheet and palette list every action", help_and_palette},
        {"window", "WN4 menus run the same table", menus_hold_the_table},
    };
}

std::vector<Case> last_cases() {
    return {{"first start", "RB1 a discarded run closes the window", discarding_closes},
            {"window", "WN4 every action has been run by a test", every_action_was_run}};
}

} // namespace refreshlab::gui
