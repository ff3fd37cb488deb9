// Runs with many refreshes: the rug above the plots, short tooltips, the table of events.
#include "engine/base/error.h"
#include "engine/record/recording/recording.h"
#include "engine/record/trace/trace_store.h"
#include "tests/gui/painted.h"
#include "tests/gui/panels/plot_marks.h"
#include "tests/gui/robot.h"
#include "ui/scene/axes/time_view.h"
#include "ui/scene/text/step_marks.h"

#include <imgui_internal.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <string>
#include <vector>

namespace refreshlab::gui {

namespace {

/// A refresh at every other step, and some by hand among them.
void start_crowd(Robot& r, int32_t steps) {
    RunConfig run = r.config();
    run.policy = preset_policy("periodic");
    set_parameter(run, "periodic.every", "2");
    r.start(run, steps - 1);
    r.engine().send(command::RefreshNow{});
    r.step(1);
    r.frames(3);
}

const ImGuiWindow* tooltip() {
    const ImGuiWindow* window = ImGui::FindWindowByName("##Tooltip_00");
    return window && window->Active ? window : nullptr;
}

/// Not more than eight rows, and beside the vertical middle of the plots.
void check_tip(Robot& r) {
    r.frames(3); // its size is known from the second frame on
    const ImGuiWindow* tip = tooltip();
    GUI_CHECK(tip != nullptr);
    GUI_CHECK(tip->Size.y <= 9 * ImGui::GetTextLineHeightWithSpacing());
    const auto plot = r.box(plot_mark);
    const float middle_x = plot.x + plot.width / 2;
    GUI_CHECK(tip->Pos.x >= middle_x || tip->Pos.x + tip->Size.x <= middle_x);
}

void crowds_are_a_rug(Robot& r) {
    start_crowd(r, 220);
    r.move_away();
    GUI_CHECK(r.recording()->refreshes().size() > 100);
    const auto rug = r.box("signals/rug");
    const auto plot = r.box(plot_mark);
    GUI_CHECK(rug.y + rug.height <= plot.y && rug.height > 4);
    GUI_CHECK(std::abs(rug.x - plot.x) < 1 && std::abs(rug.width - plot.width) < 1);
    const Image seen = r.look();
    const auto at = [&](float x, float y) { return seen.at(static_cast<double>(x), static_cast<double>(y)); };
    const uint32_t mark = r.ctx().theme.signal("steps_since_refresh"), ground = r.ctx().theme.plot_background;
    int ticks = 0;
    for (float x = rug.x; x < rug.x + rug.width; x += 1)
        ticks += colour_distance(at(x, rug.y + rug.height - 2), mark) < 60 ? 1 : 0;
    GUI_CHECK(ticks > 60);
    // Along a row of the empty plot, beside its words, there is nothing but the ground and its grid.
    const auto empty = r.box("signals/plot/mc_variance"), words = r.box("signals/empty/mc_variance");
    int lines = 0;
    for (float x = empty.x + 3; x < words.x - 3; x += 1)
        lines += colour_distance(at(x, empty.y + empty.height * 0.3F), ground) > 70 ? 1 : 0;
    GUI_CHECK(lines <= 3);
    // A few in sight are lines again: one at every second step that the words do not hide.
    ui::set_time_range(r.ctx().time, 100, 112, r.ctx().steps);
    r.frames(4);
    const auto every_line_is_seen = [&] {
        const Image near = r.look();
        const auto plot_now = r.box("signals/plot/mc_variance"),
                   words_now = r.box("signals/empty/mc_variance");
        const auto bright = [&](float x) {
            return colour_distance(near.at(static_cast<double>(x),
                                           static_cast<double>(plot_now.y + plot_now.height * 0.3F)),
                                   ground) > 40;
        };
        std::vector<float> seen_at, due_at;
        for (float x = plot_now.x + 3; x < words_now.x - 3; x += 1)
            if (bright(x)) seen_at.push_back(x);
        for (int step = 102; step < 112; step += 2) {
            const float x = plot_now.x + plot_now.width * static_cast<float>(step - 100) / 12;
            if (x < words_now.x - 3) due_at.push_back(x);
        }
        return !due_at.empty() &&
               std::ranges::equal(seen_at, due_at, [](float a, float b) { return std::abs(a - b) <= 1.5F; });
    };
    GUI_CHECK(r.until(every_line_is_seen, 50));
    r.act("view.fit");
    r.act("view.follow");
    GUI_CHECK(r.find("timeline/rug"));
}

void crowd_tooltips_are_short(Robot& r) {
    start_crowd(r, 220);
    const auto first = r.box("signals/marker/0");
    r.move(first.x + first.width / 2, first.y + first.height / 2);
    check_tip(r);
    GUI_CHECK(r.shows(" refreshes, steps "));
    const auto plot = r.box(plot_mark), rug = r.box("signals/rug");
    for (const float share : {0.1F, 0.45F, 0.55F, 0.8F}) {
        r.move(plot.x + plot.width * share, plot.y + plot.height * 0.4F);
        check_tip(r);
        r.move(rug.x + rug.width * share, rug.y + rug.height / 2);
        if (tooltip()) check_tip(r); // between two ticks there may be none
    }
    r.move_away();
}

void table_of_events(Robot& r) {
    start_crowd(r, 60);
    const auto& refreshes = r.recording()->refreshes();
    GUI_CHECK(refreshes.size() > 20);
    r.te->WindowFocus("//Events");
    r.frames(3);
    const std::string told = r.text();
    for (const char* part : {"Step", "Reason", "Value"}) // the others are reached by scrolling
        GUI_CHECK(told.find(part) != std::string::npos);
    GUI_CHECK(told.find("steps_since_refresh") == std::string::npos); // the registry's name, not its key
    // A click goes there, in every panel.
    r.click(r.box("events/row/1"));
    GUI_CHECK(r.ctx().selection.step == refreshes[1].step);
    // By the newest first: a click on the header once more.
    const auto first = r.box("events/row/0");
    r.te->TableClickHeader("//Events/##events", "Step"); // ascending
    r.te->TableClickHeader("//Events/##events", "Step"); // descending
    r.frames(3);
    const auto newest = r.box("events/row/" + std::to_string(refreshes.size() - 1));
    GUI_CHECK(std::abs(newest.y - first.y) < 2);
    r.te->ItemClick("//Events/Copy table");
    const std::string copied = ImGui::GetClipboardText();
    GUI_CHECK(std::ranges::count(copied, '\n') == static_cast<long>(refreshes.size()) + 1);
    GUI_CHECK(copied.find(std::to_string(refreshes[refreshes.size() - 1].step) + ",") < copied.find("\n2,"));
    r.te->ItemClick("//Events/Export CSV...");
    r.frames(3);
    GUI_CHECK(r.dialog_open("Export CSV"));
    r.close_dialog("Export CSV");
    // The order is a choice of the view: it is taken back, and on paper too.
    const auto& table = *ImGui::TableFindByID(r.te->GetID("//Events/##events"));
    ui::TableView& view = r.ctx().views.events.table;
    GUI_CHECK(view.order() == "-step");
    GUI_CHECK(printed(r, "events").texts_of("rows").front().words ==
              std::to_string(refreshes[refreshes.size() - 1].step));
    r.act("edit.undo");
    r.frames(3);
    GUI_CHECK(view.order() == "step" && table.Columns[0].SortDirection == ImGuiSortDirection_Ascending);
    GUI_CHECK(std::abs(r.box("events/row/0").y - first.y) < 2);
    // So are the columns: by the menu of the header, and from elsewhere.
    r.te->TableOpenContextMenu("//Events/##events", 3);
    r.te->ItemClick("//$FOCUSED/Threshold");
    r.te->PopupCloseAll();
    r.frames(3);
    GUI_CHECK(view.hidden == std::vector<std::string>{"threshold"});
    GUI_CHECK(!printed(r, "events").says("Threshold") && printed(r, "events").says("Spliced"));
    view.hidden = {"value", "spliced"};
    r.frames(3);
    GUI_CHECK(view.hidden == (std::vector<std::string>{"value", "spliced"}));
    GUI_CHECK(!table.Columns[2].IsEnabled && table.Columns[3].IsEnabled && !table.Columns[4].IsEnabled);
    r.ctx().views.events = {};
    r.ctx().select_step(std::nullopt);
    r.te->WindowFocus("//Performance");
    r.frames(2);
}

/// Where a step stands in a row over the plots.
float x_of_step(Robot& r, const ui::Landmarks::Box& row, double step) {
    const auto& time = r.ctx().time;
    return row.x + row.width * static_cast<float>((step - time.x_min) / (time.x_max - time.x_min));
}

/// As other cases find the window.
void leave_events(Robot& r) {
    r.ctx().views.events = {};
    r.ctx().select_step(std::nullopt);
    r.te->WindowFocus("//Performance");
    r.frames(2);
}

/// A gate that holds at nearly every step and may fire once in a thousand tokens.
void held_back_is_seen(Robot& r) {
    RunConfig run = r.config();
    run.policy = preset_policy("entropy");
    set_parameter(run, "entropy.threshold", "0");
    set_parameter(run, "entropy.every", "1");
    set_parameter(run, "entropy.cooldown", "0");
    set_parameter(run, "budget.refreshes", "1");
    set_parameter(run, "budget.per_tokens", "1000");
    r.start(run, 30);
    r.engine().send(command::SetParameter{"entropy.threshold", "1000"}); // no step beyond here
    r.step(20);
    r.frames(3);
    const ui::StepMarks& marks = r.ctx().marks;
    GUI_CHECK(marks.count(ui::MarkLane::refresh) == 1);
    GUI_CHECK(marks.count(ui::MarkLane::blocked) > 20);
    GUI_CHECK(marks.step(ui::MarkLane::blocked, marks.count(ui::MarkLane::blocked) - 1) <= 30);
    // Paler than a refresh, in rows of their own; beyond step 30 there is nothing.
    const auto row = r.box("signals/blocked"), plot = r.box(plot_mark);
    GUI_CHECK(row.y + row.height <= plot.y && row.height > 3);
    GUI_CHECK(r.find("timeline/blocked"));
    r.move_away();
    r.frames(2);
    const Image seen = r.look();
    const double middle = static_cast<double>(row.y + row.height / 2);
    const uint32_t full = r.ctx().theme.signal("entropy_bits"),
                   ground = seen.at(static_cast<double>(row.x + row.width - 3), middle);
    const auto ticks = [&](float from, float to) {
        int found = 0;
        for (float x = from; x < to; x += 1) {
            const uint32_t at = seen.at(static_cast<double>(x), middle);
            found += colour_distance(at, ground) > 30 && colour_distance(at, full) > 30 ? 1 : 0;
        }
        return found;
    };
    const auto x_of = [&](double step) { return x_of_step(r, row, step); };
    GUI_CHECK(ticks(x_of(1), x_of(30.5)) > 20);
    GUI_CHECK(ticks(x_of(31), row.x + row.width) == 0);
    // The mouse asks, a click goes there, and the Inspector tells it at length.
    const int64_t step = marks.step(ui::MarkLane::blocked, 10);
    r.move(x_of(static_cast<double>(step)), row.y + row.height / 2);
    r.frames(3);
    GUI_CHECK(r.shows("No refresh at step " + std::to_string(step)));
    GUI_CHECK(r.shows("by the budget"));
    r.te->MouseClick(0);
    r.frames(2);
    GUI_CHECK(r.ctx().selection.step == step);
    r.move_away();
    r.te->WindowFocus("//Inspector");
    r.frames(3);
    GUI_CHECK(r.shows("No refresh at step " + std::to_string(step)));
    // In the table each kind can be left out, which the settings keep.
    r.te->WindowFocus("//Events");
    r.frames(3);
    GUI_CHECK(r.find("events/row/0") && r.find("events/row/held_back/0"));
    GUI_CHECK(r.shows("prevented by the budget"));
    r.click(r.box("events/choice/refreshes"));
    r.frames(2);
    GUI_CHECK(!r.find("events/row/0") && r.find("events/row/held_back/0"));
    r.click(r.box("events/choice/held_back"));
    r.frames(2);
    GUI_CHECK(!r.find("events/row/held_back/0") && r.find("events/row/changes/0"));
    GUI_CHECK(r.ctx().views.events.hidden == (std::array{true, true, false, false, false}));
    r.click(r.box("events/row/changes/0"));
    GUI_CHECK(r.ctx().selection.step == marks.step(ui::MarkLane::change, 0));
    leave_events(r);
}

/// Speculative decoding: what the teacher rejected stands in a row of its own.
void cut_drafts_are_seen(Robot& r) {
    RunConfig run = r.config();
    run.policy = preset_policy("speculative");
    r.start(run, 80);
    r.frames(3);
    const ui::StepMarks& marks = r.ctx().marks;
    const size_t cuts = marks.count(ui::MarkLane::cut);
    GUI_CHECK(cuts > 3);
    GUI_CHECK(r.find("timeline/cuts") && !r.find("timeline/blocked"));
    const auto row = r.box("signals/cuts"), plot = r.box(plot_mark);
    GUI_CHECK(row.y + row.height <= plot.y && row.height > 3);
    const int64_t step = marks.step(ui::MarkLane::cut, cuts / 2);
    r.move(x_of_step(r, row, static_cast<double>(step)), row.y + row.height / 2);
    r.frames(3);
    GUI_CHECK(r.shows("Draft cut at step ") || r.shows("drafts cut, steps "));
    r.te->MouseClick(0);
    r.frames(2);
    GUI_CHECK(r.ctx().selection.step.has_value());
    r.ctx().select_step(step);
    r.move_away();
    r.te->WindowFocus("//Inspector");
    r.frames(3);
    const DraftEvent& draft = marks.cut(cuts / 2);
    GUI_CHECK(r.shows("Draft cut at step " + std::to_string(step)));
    GUI_CHECK(r.shows(std::to_string(draft.accepted()) + " of " + std::to_string(draft.tokens.size()) +
                      " drafted tokens"));
    r.te->WindowFocus("//Events");
    r.frames(3);
    r.click(r.box("events/choice/refreshes"));
    r.frames(2);
    GUI_CHECK(r.find("events/row/cuts/0") && r.shows("draft cut: "));
    // What they had, beside the curve of what stays: asked for in the list of signals.
    ui::SignalPlots& plots = r.ctx().views.signals;
    const ui::SignalPlots before = plots;
    plots.choose("logprob").shown = true;
    r.frames(3);
    const auto told = [&] { return r.ctx().landmarks.text("signals/rejected/logprob"); };
    GUI_CHECK(told().empty());
    r.te->ItemClick("//Signals/Choose signals");
    r.frames(2);
    r.te->SetRef(r.te->WindowInfo("//$FOCUSED").Window);
    r.te->ItemClick("Rejected drafts, fainter");
    r.te->SetRef("");
    r.te->KeyPress(ImGuiKey_Escape);
    r.frames(3);
    GUI_CHECK(plots.rejected && !told().empty() && told() != "0 0");
    r.act("edit.undo");
    r.frames(3);
    GUI_CHECK(!plots.rejected);
    plots = before;
    leave_events(r);
}

/// M, words, Ctrl+Enter: the note stands in Timeline, Events and Inspector, is undone, and is in the trace that holds the run.
void notes_stay_with_a_run(Robot& r) {
    r.start(r.config(40), 30);
    const auto trace = r.scratch("notes.rlt");
    std::filesystem::remove(trace);
    r.act("file.save_trace");
    r.te->ItemInputValue("//Save trace/##path", trace.string().c_str());
    GUI_CHECK(r.until([&] { return r.count_log_lines("Trace saved as " + trace.string()) > 0; }));
    const ui::StepMarks& marks = r.ctx().marks;
    const auto notes = [&] { return marks.count(ui::MarkLane::note); };
    const auto in_file = [&] { return load_trace(trace).back()->notes()->own(); };
    const auto in_file_are = [&](size_t count) {
        try {
            return in_file().size() == count;
        } catch (const Error&) {
            return false; // it is being written just now
        }
    };
    r.ctx().select_step(12);
    r.frames(2);
    GUI_CHECK(notes() == 0 && !r.find("timeline/notes"));
    r.te->KeyPress(ImGuiKey_M);
    r.frames(3);
    GUI_CHECK(r.dialog_open("Note"));
    r.te->KeyChars("loses the names");
    r.click(r.box("note/colour/3"));
    r.te->ItemInputValue("//Note/##last", 15);
    r.te->ItemClick("//Note/Keep");
    r.frames(3);
    GUI_CHECK(!r.dialog_open("Note") && notes() == 1);
    const StepNote kept = marks.note(0).note;
    GUI_CHECK(kept.first_step == 12 && kept.last_step == 15 && kept.colour == 3 &&
              kept.text == "loses the names");
    GUI_CHECK(r.find("timeline/notes"));
    GUI_CHECK(r.until([&] { return in_file_are(1); }));
    GUI_CHECK(in_file().at(0).text == kept.text && in_file().at(0).made_at == kept.made_at);
    r.te->WindowFocus("//Events");
    r.frames(3);
    GUI_CHECK(r.find("events/row/notes/0") && r.shows("note: loses the names"));
    r.ctx().select_step(3);
    r.frames(2);
    r.click(r.box("events/row/notes/0"));
    GUI_CHECK(r.ctx().selection.step == 12);
    r.te->WindowFocus("//Inspector");
    r.frames(3);
    GUI_CHECK(r.shows("Note at steps 12 to 15"));
    // It is undone and done again, in the file as well.
    r.act("edit.undo");
    r.frames(2);
    GUI_CHECK(notes() == 0 && r.until([&] { return in_file_are(0); }));
    r.act("edit.redo");
    r.frames(2);
    GUI_CHECK(notes() == 1 && marks.note(0).note == kept);
    // Beside a step that it covers M opens it. Esc keeps what was typed; Erase takes it away, and undo brings it back.
    r.ctx().select_step(14);
    r.frames(2);
    r.te->KeyPress(ImGuiKey_M);
    r.frames(3);
    r.te->KeyPress(ImGuiKey_End);
    r.te->KeyChars(", every time");
    r.te->KeyPress(ImGuiKey_Escape);
    r.frames(2);
    r.te->KeyPress(ImGuiKey_Escape);
    r.frames(2);
    GUI_CHECK(!r.dialog_open("Note") && marks.note(0).note.text.find("every time") != std::string::npos);
    r.act("note.edit");
    r.frames(3);
    r.te->ItemInputValue("//Note/##last", 400);
    r.frames(2);
    GUI_CHECK(r.shows("the run has steps 1 to 30"));
    r.te->ItemClick("//Note/Erase");
    r.frames(2);
    GUI_CHECK(notes() == 0);
    r.act("edit.undo");
    r.frames(2);
    GUI_CHECK(notes() == 1 && r.until([&] { return in_file_are(1); }));
    leave_events(r);
}

/// Notes of two runs: the panel lists, filters and goes there, the palette and Ctrl+F find their words, right clicks write them.
void notes_are_found(Robot& r) {
    r.start(r.config(40), 30);
    const auto first = r.ctx().recording;
    const auto write = [&](const char* words) {
        r.act("note.edit");
        r.frames(3);
        r.te->KeyChars(words);
        r.te->ItemClick("//Note/Keep");
        r.frames(3);
        GUI_CHECK(!r.dialog_open("Note"));
    };
    r.ctx().select_step(12);
    r.frames(2);
    write("zebra of the first run");
    // Another run, with a note that a right click in Text begins.
    r.start(r.config(41), 30);
    GUI_CHECK(r.ctx().recording != first);
    const auto token = r.box("text/token/21"); // chosen at step 20
    r.te->MouseMoveToPos({token.x + token.width / 2, token.y + token.height / 2});
    r.te->MouseClick(ImGuiMouseButton_Right);
    r.frames(2);
    r.te->ItemClick("//$FOCUSED/Note at step 20...");
    r.frames(3);
    GUI_CHECK(r.dialog_open("Note") && r.ctx().selection.step == 20);
    r.te->KeyChars("giraffe");
    r.te->ItemInputValue("//Note/##last", 24);
    r.te->ItemClick("//Note/Keep");
    r.frames(3);
    const ui::StepMarks& marks = r.ctx().marks;
    GUI_CHECK(marks.count(ui::MarkLane::note) == 1 && marks.note(0).note.last_step == 24);
    GUI_CHECK(r.find("signals/notes") && r.find("timeline/notes"));
    // The tooltip of a token that it covers says it; in a plot the menu offers to change it.
    const auto covered = r.box("text/token/23");
    r.move(covered.x + covered.width / 2, covered.y + covered.height / 2);
    r.frames(3);
    GUI_CHECK(r.shows("giraffe"));
    const auto& time = r.ctx().time;
    const auto menu_at = [&](const ui::Landmarks::Box& plot, double step, double x_min, double x_max) {
        const auto share = static_cast<float>((step - x_min) / (x_max - x_min));
        r.te->MouseMoveToPos({plot.x + plot.width * share, plot.y + plot.height * 0.4F});
        r.te->MouseClick(ImGuiMouseButton_Right);
        r.frames(2);
    };
    menu_at(r.box("signals/plot/entropy_bits"), 22, time.x_min, time.x_max);
    r.te->ItemClick("//$FOCUSED/Change the note at step 22...");
    r.frames(3);
    GUI_CHECK(r.dialog_open("Note") && r.shows("giraffe"));
    r.te->ItemClick("//Note/Cancel");
    r.frames(2);
    const auto bar = r.box("timeline/bar");
    menu_at(bar, 5, 0, ui::fitted_max(r.ctx().steps));
    r.te->ItemClick("//$FOCUSED/Note at step 5...");
    r.frames(3);
    GUI_CHECK(r.dialog_open("Note") && r.ctx().selection.step == 5);
    r.te->ItemClick("//Note/Cancel");
    r.frames(2);
    // The panel has both, and one that has these words.
    r.te->WindowFocus("//Notes");
    r.frames(3);
    GUI_CHECK(r.find("notes/row/0") && r.find("notes/row/1") && !r.find("notes/row/2"));
    GUI_CHECK(r.shows("zebra of the first run") && r.shows("giraffe"));
    r.te->ItemClick("//Notes/Shown run alone");
    r.frames(2);
    GUI_CHECK(r.find("notes/row/0") && !r.find("notes/row/1") && r.shows("giraffe"));
    r.te->ItemClick("//Notes/Shown run alone");
    r.te->ItemInputValue("//Notes/##words", "ZEBRA");
    r.frames(2);
    GUI_CHECK(r.find("notes/row/0") && !r.find("notes/row/1"));
    r.click(r.box("notes/row/0"));
    r.frames(3);
    GUI_CHECK(r.ctx().recording == first && r.ctx().selection.step == 12);
    r.te->ItemInputValue("//Notes/##words", "no such words");
    r.frames(2);
    GUI_CHECK(r.shows("No note has these words"));
    r.te->ItemInputValue("//Notes/##words", "");
    r.frames(2);
    // The other one opens by a double click.
    const auto row = r.box("notes/row/1");
    r.te->MouseMoveToPos({row.x + row.width / 2, row.y + row.height / 2});
    r.te->MouseDoubleClick(ImGuiMouseButton_Left);
    r.frames(4);
    GUI_CHECK(r.dialog_open("Note") && r.shows("giraffe"));
    r.te->ItemClick("//Note/Cancel");
    r.frames(3);
    GUI_CHECK(r.ctx().recording != first && r.ctx().selection.step == 20);
    // The palette goes there as well.
    r.act("help.palette");
    r.te->KeyChars("zebra");
    r.frames(3);
    r.te->KeyPress(ImGuiKey_Enter);
    r.frames(4);
    GUI_CHECK(r.ctx().recording == first && r.ctx().selection.step == 12);
    // And so does a search of the text.
    r.ctx().select_step(2);
    r.frames(2);
    r.act("text.find");
    r.frames(3);
    r.te->KeyChars("zebra");
    r.frames(2);
    GUI_CHECK(r.shows("1 found, 1 in notes"));
    r.te->KeyPress(ImGuiKey_Enter);
    r.frames(3);
    GUI_CHECK(r.ctx().selection.step == 12);
    r.te->KeyPress(ImGuiKey_Escape);
    r.frames(2);
    r.ctx().runs.look_live();
    r.frames(3);
    leave_events(r);
}

} // namespace

std::vector<Case> event_cases() {
    return {
        {"events", "TL3 notes are listed, found and gone to", notes_are_found},
        {"events", "SG4 many refreshes are a rug above the plots, and no band over the curves",
         crowds_are_a_rug},
        {"events", "SG4 refreshes that a limit prevented are marks of their own", held_back_is_seen},
        {"events", "SG4 drafts that verification cut are marks of their own", cut_drafts_are_seen},
        {"events", "SG17 tooltips of a crowd have eight rows and keep off the middle",
         crowd_tooltips_are_short},
        {"events", "SG4 notes stay with a run, in the window and in its trace", notes_stay_with_a_run},
        {"events", "SG18 the table of events sorts, jumps, and goes out as CSV", table_of_events},
    };
}

} // namespace refreshlab::gui
