#include "engine/record/recording/recording.h"
#include "engine/record/trace/trace_store.h"
#include "engine/signals/registry.h"
#include "tests/gui/robot.h"
#include "tests/support/made_run.h"

#include <imgui_internal.h>

#include <cmath>
#include <fstream>
#include <iterator>
#include <sstream>

namespace refreshlab::gui {

namespace {

namespace fs = std::filesystem;

std::string read_all(const fs::path& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
}

/// Share of the points along a row, between x0 and x1, whose colour is nearer to `mark` than to `ground`.
double share_of(const Image& image, double y, double x0, double x1, uint32_t mark, uint32_t ground) {
    int hits = 0, all = 0;
    for (double x = x0; x < x1; x += 1) {
        const uint32_t pixel = image.at(x, y);
        hits += colour_distance(pixel, mark) < colour_distance(pixel, ground) ? 1 : 0;
        ++all;
    }
    return all > 0 ? static_cast<double>(hits) / all : 0;
}

/// The threshold line is in the picture where the window has it, times the picture's scale, and not elsewhere.
void check_threshold_line(Robot& r, const Image& picture, double scale, double left, double top) {
    const auto plot = r.box("signals/plot/entropy_bits");
    const auto line = r.box("signals/threshold/entropy_bits");
    const uint32_t mark = r.ctx().theme.signal("entropy_bits"), ground = r.ctx().theme.plot_background;
    const double x0 = (static_cast<double>(plot.x) - left + 4) * scale,
                 x1 = (static_cast<double>(plot.x + plot.width) - left - 4) * scale;
    const double y = (static_cast<double>(line.y + line.height / 2) - top) * scale;
    double best = 0;
    for (double dy = -1.5 * scale; dy <= 1.5 * scale; dy += 0.5)
        best = std::max(best, share_of(picture, y + dy, x0, x1, mark, ground));
    GUI_CHECK(best > 0.9);
    GUI_CHECK(share_of(picture, y - 8 * scale, x0, x1, mark, ground) < 0.3);
    GUI_CHECK(share_of(picture, y + 8 * scale, x0, x1, mark, ground) < 0.3);
}

void pictures_show_the_line(Robot& r) {
    RunConfig run = r.config();
    run.policy.triggers.at(0).threshold = 10.5; // above the curve
    r.start(run, 40);
    const int width = static_cast<int>(ImGui::GetIO().DisplaySize.x),
              height = static_cast<int>(ImGui::GetIO().DisplaySize.y);
    for (const int scale : {1, 2}) {
        const fs::path path = r.scratch("window-" + std::to_string(scale) + "x.png");
        fs::remove(path);
        r.act("export.picture");
        GUI_CHECK(r.dialog_open("Save picture"));
        r.te->ItemClick(scale == 1 ? "//Save picture/1x" : "//Save picture/2x");
        r.te->ItemInputValue("//Save picture/##path", path.string().c_str());
        GUI_CHECK(
            r.until([&] { return fs::exists(path) && r.count_log_lines("Saved " + path.string()) > 0; }, 60));
        GUI_CHECK(!r.dialog_open("Save picture"));
        const Image picture = read_png(path);
        GUI_CHECK(picture.width == width * scale && picture.height == height * scale);
        GUI_CHECK(picture.colours() > 50);
        check_threshold_line(r, picture, scale, 0, 0);
        // EX5: where it comes from is inside.
        const std::string bytes = read_all(path);
        GUI_CHECK(bytes.find("RefreshLab") != std::string::npos);
        GUI_CHECK(bytes.find(r.recording()->info().id) != std::string::npos);
        GUI_CHECK(bytes.find("test_gui") != std::string::npos);
    }
    // The window itself was not changed by it.
    r.move_away();
    r.ctx().toasts.dismiss_all();
    r.frames(2);
    check_threshold_line(r, r.look(), 1, 0, 0);
}

void a_panel_alone(Robot& r) {
    RunConfig run = r.config();
    run.policy.triggers.at(0).threshold = 10.5;
    r.start(run, 40);
    const auto panel = r.box("panel/Signals");
    const fs::path path = r.scratch("signals-2x.png");
    fs::remove(path);
    r.window().save_picture({path, "Signals", 2});
    GUI_CHECK(
        r.until([&] { return fs::exists(path) && r.count_log_lines("Saved " + path.string()) > 0; }, 60));
    const Image picture = read_png(path);
    GUI_CHECK(std::abs(picture.width - static_cast<int>(panel.width * 2)) <= 2);
    GUI_CHECK(std::abs(picture.height - static_cast<int>(panel.height * 2)) <= 2);
    check_threshold_line(r, picture, 2, static_cast<double>(panel.x), static_cast<double>(panel.y));
    // What cannot be written is an error line, and nothing else happens.
    r.window().save_picture({r.scratch("no-such-folder") / "a.png", "", 1});
    GUI_CHECK(r.until([&] { return r.count_log_lines("no-such-folder") == 1; }, 60));
    r.window().save_picture({r.scratch("none.png"), "No such panel", 1});
    GUI_CHECK(r.until([&] { return r.count_log_lines("No such panel") == 1; }, 60));
    GUI_CHECK(!fs::exists(r.scratch("none.png")));
}

void traces_and_tables(Robot& r) {
    r.start(r.config(), 30);
    const auto live = r.recording();
    const fs::path trace = r.scratch("run.rlt"), csv = r.scratch("csv");
    fs::remove_all(trace);
    fs::remove_all(csv);
    r.act("file.save_trace");
    r.te->ItemInputValue("//Save trace/##path", trace.string().c_str());
    GUI_CHECK(r.until([&] { return r.count_log_lines("Trace saved as " + trace.string()) > 0; }));
    r.act("export.csv");
    r.te->ItemInputValue("//Export CSV/##path", csv.string().c_str());
    GUI_CHECK(r.until([&] { return r.count_log_lines("CSV written to " + csv.string()) > 0; }));
    for (const char* name : {"steps.csv", "topk.csv", "events.csv", "drift.csv", "meta.json"})
        GUI_CHECK(fs::file_size(csv / name) > 0);
    std::istringstream lines(read_all(csv / "steps.csv"));
    int rows = -1; // the first line is the head
    for (std::string line; std::getline(lines, line);)
        ++rows;
    GUI_CHECK(rows == 30);

    // The file shows what the run showed, in the same window, while the engine keeps its own.
    GUI_CHECK(!r.enabled("file.close_trace"));
    r.act("file.open_trace");
    r.te->ItemInputValue("//Open trace/##path", trace.string().c_str());
    GUI_CHECK(r.until([&] { return r.ctx().recording && r.ctx().recording != live; }));
    const auto difference = first_difference(*live, *r.ctx().recording);
    if (difference) r.te->LogError("%s", difference->c_str());
    GUI_CHECK(!difference);
    GUI_CHECK(r.recording() == live);
    GUI_CHECK(!r.enabled("run.rewind"));
    r.ctx().toasts.dismiss_all();
    r.frames(2);
    r.click(r.box("text/token/11"));
    GUI_CHECK(r.ctx().selection.step == 10);
    r.move_away();
    r.act("file.close_trace");
    GUI_CHECK(r.until([&] { return r.ctx().recording == live; }, 10));
    // No trace: one line about it, and the run stays.
    const fs::path other = r.scratch("not-a-trace.txt");
    std::ofstream(other) << "hello";
    r.act("file.open_trace");
    r.te->ItemInputValue("//Open trace/##path", other.string().c_str());
    GUI_CHECK(r.until([&] { return r.find("dialog/fault").has_value(); }));
    GUI_CHECK(r.dialog_open("Open trace") && r.count_log_lines("not-a-trace.txt") == 1);
    GUI_CHECK(r.ctx().recording == live);
    r.close_dialog("Open trace");
}

/// A trace that is opened brings its policy, as one of the command line does: by path, not from under a run that is under way.
void a_trace_brings_its_policy(Robot& r) {
    RunConfig other = r.config();
    other.policy = preset_policy("kl");
    other.policy.triggers.at(0).threshold = 1.25;
    r.start(other, 10);
    const fs::path trace = r.scratch("policy.rlt");
    fs::remove(trace);
    r.act("file.save_trace");
    r.te->ItemInputValue("//Save trace/##path", trace.string().c_str());
    GUI_CHECK(r.until([&] { return r.count_log_lines("Trace saved as " + trace.string()) > 0; }));
    const RefreshPolicy of_trace = other.policy;
    // Under a paused run: its own stays, and the way to the trace's is one action.
    r.start(r.config(), 10);
    const RefreshPolicy of_run = r.status()->applied.policy;
    GUI_CHECK(of_run != of_trace && !r.enabled("run.take_policy"));
    const int told = r.count_log_lines("The policy stays that of the live run");
    r.window().shell().open_trace(trace);
    GUI_CHECK(r.until([&] { return !r.ctx().of_engine(); }));
    r.frames(3);
    GUI_CHECK(r.status()->applied.policy == of_run);
    GUI_CHECK(r.count_log_lines("The policy stays that of the live run") == told + 1);
    r.ctx().toasts.dismiss_all();
    r.act("run.take_policy");
    GUI_CHECK(r.until([&] { return r.status()->applied.policy == of_trace; }));
    GUI_CHECK(r.find("signals/threshold/kl_nats"));
    r.act("edit.undo");
    GUI_CHECK(r.until([&] { return r.status()->applied.policy == of_run; }));
    // Beside a run that has ended it is taken over.
    r.start(r.config(12), 10);
    r.act("run.play_pause");
    GUI_CHECK(r.until([&] { return r.status()->state == EngineState::finished; }));
    r.act("file.open_trace");
    r.te->ItemInputValue("//Open trace/##path", trace.string().c_str());
    GUI_CHECK(r.until([&] { return !r.ctx().of_engine(); }));
    GUI_CHECK(r.until([&] { return r.status()->applied.policy == of_trace; }));
    r.act("edit.undo");
    GUI_CHECK(r.until([&] { return r.status()->applied.policy == of_run; }));
    r.act("file.close_trace");
    r.frames(2);
}

std::vector<std::string> lines_of(const fs::path& path) {
    std::istringstream stream(read_all(path));
    std::vector<std::string> lines;
    for (std::string line; std::getline(stream, line);) {
        if (line.ends_with('\r')) line.pop_back();
        lines.push_back(line);
    }
    return lines;
}

/// What is plotted comes out as a table: the steps in sight of the shown signals, with the numbers of the recording.
/// From the menu of a panel's tab: a preview, a name that says no kind of file, the file with its numbers.
void a_figure(Robot& r) {
    RunConfig run = r.config();
    run.policy = preset_policy("periodic");
    run.policy.triggers.at(0).threshold = 16;
    r.start(run, 60);
    const ImGuiWindow* window = ImGui::FindWindowByName("Text");
    GUI_CHECK(window != nullptr);
    const ImVec2 tab = window->DC.DockTabItemRect.GetCenter();
    r.move(tab.x, tab.y);
    r.te->MouseClick(1);
    r.frames(2);
    r.act_by_item("export.figure", "//$FOCUSED/Export figure...");
    r.frames(2);
    GUI_CHECK(r.dialog_open("Export figure") && r.shows("Text, coloured by a signal"));
    GUI_CHECK(r.until([&] { return r.find("figure/preview").has_value(); }, 2000));
    const auto narrow = r.box("figure/preview");
    r.te->SetRef("//Export figure");
    r.te->ComboClick("##width/two columns, 174 mm");
    GUI_CHECK(r.until(
        [&] { return r.find("figure/preview") && r.box("figure/preview").width > 1.8F * narrow.width; },
        2000));
    GUI_CHECK(r.box("figure/preview").height < narrow.height); // fewer lines
    // It is paper, whatever the screen is.
    const auto page = r.box("figure/preview");
    GUI_CHECK(r.ctx().theme.dark);
    GUI_CHECK(r.look().at(page.x + 2, page.y + 2) == 0xFFFFFFFFU);
    const fs::path path = r.scratch("figure.svg");
    fs::remove(path);
    r.te->ItemInputValue("//Export figure/##path", r.scratch("figure.gif").string().c_str());
    GUI_CHECK(r.until([&] { return r.find("dialog/fault").has_value(); }, 2000));
    GUI_CHECK(r.dialog_open("Export figure") && r.shows(".svg, .pdf or .png"));
    r.te->ItemInputValue("//Export figure/##path", path.string().c_str());
    GUI_CHECK(r.until([&] { return !r.dialog_open("Export figure"); }, 2000));
    const std::string svg = read_all(path);
    GUI_CHECK(svg.find("width=\"174mm\"") != std::string::npos &&
              svg.find("Entropy (bits)") != std::string::npos);
    fs::path table = path;
    GUI_CHECK(lines_of(table.replace_extension(".csv")).size() == 61);
    // Another panel, and one that has nothing.
    r.act("export.figure");
    r.frames(2);
    r.te->SetRef("//Export figure");
    r.te->ComboClick("##of/What refreshes cost");
    GUI_CHECK(r.until([&] { return r.find("figure/preview").has_value(); }, 2000));
    r.ctx().views.attention.read_missing = false; // nothing but what is recorded
    r.ctx().views.attention.of = ui::AttentionOf::teacher;
    r.te->ComboClick("##of/Attention of the shown head");
    GUI_CHECK(r.until([&] { return r.shows("no attention of the teacher"); }, 2000));
    r.ctx().views.attention = {};
    r.te->SetRef("");
    r.close_dialog("Export figure");
}

void plotted_values(Robot& r) {
    r.start(r.config(), 60);
    const fs::path path = r.scratch("plotted.csv");
    fs::remove(path);
    r.ctx().time = {.x_min = 9.5, .x_max = 31.2, .follow = false, .seen_steps = 60};
    r.frames(2);
    // From the menu of a plot, where nobody has measured MC variance.
    const auto plot = r.box("signals/plot/kl_nats");
    r.move(plot.x + plot.width * 0.9F, plot.y + plot.height - 4);
    r.te->MouseClick(1);
    r.frames(2);
    r.act_by_item("export.plotted", "//$FOCUSED/Export plotted values...");
    r.frames(2);
    GUI_CHECK(r.dialog_open("Export plotted values"));
    GUI_CHECK(r.shows("Steps 10 to 31 of Entropy, KL teacher || student, MC-dropout variance"));
    r.te->ItemInputValue("//Export plotted values/##path", r.scratch("plotted.txt").string().c_str());
    r.frames(2);
    GUI_CHECK(r.dialog_open("Export plotted values") && r.shows("The name must end in .csv"));
    r.te->ItemInputValue("//Export plotted values/##path", path.string().c_str());
    GUI_CHECK(r.until([&] { return r.count_log_lines("22 steps written to " + path.string()) == 1; }));
    GUI_CHECK(!r.dialog_open("Export plotted values"));
    const auto table = lines_of(path);
    GUI_CHECK(table.size() == 23);
    GUI_CHECK(table[0] == "step,entropy_bits,kl_nats,mc_variance,mc_variance_sd,refreshed,reason");
    for (int64_t t = 10; t <= 31; ++t) {
        std::istringstream row(table[static_cast<size_t>(t) - 9]);
        std::string step, entropy, kl, variance;
        std::getline(row, step, ',');
        std::getline(row, entropy, ',');
        std::getline(row, kl, ',');
        std::getline(row, variance, ',');
        GUI_CHECK(step == std::to_string(t));
        GUI_CHECK(std::stof(entropy) == r.recording()->signal(t, *signal_id("entropy_bits")));
        GUI_CHECK(kl.empty() == is_absent(r.recording()->signal(t, *signal_id("kl_nats"))));
        GUI_CHECK(variance.empty()); // not measured is not 0
    }
    // A file that is something else stays what it is, and one line says so.
    const fs::path other = r.scratch("prompts.csv");
    std::ofstream(other) << "prompt,answer\n";
    r.act("export.plotted");
    r.te->ItemInputValue("//Export plotted values/##path", other.string().c_str());
    r.frames(2);
    r.te->ItemClick("//Export plotted values/Replace");
    GUI_CHECK(r.until([&] { return r.find("dialog/fault").has_value(); }));
    GUI_CHECK(r.count_log_lines("prompts.csv") == 1);
    r.close_dialog("Export plotted values");
    GUI_CHECK(read_all(other) == "prompt,answer\n");
    // Where nothing is plotted there is nothing to write, and the reason is told.
    const ui::SignalPlots shown = r.ctx().views.signals;
    r.ctx().views.signals = {};
    GUI_CHECK(!r.enabled("export.plotted"));
    GUI_CHECK(r.action("export.plotted").reason(r.ctx()).find("No signal") != std::string::npos);
    r.ctx().views.signals = shown;
    r.act("view.fit");
    r.act("view.follow");
}

/// A tooltip lies on everything: one of a panel keeps off an open dialog.
void tips_keep_off_a_dialog(Robot& r) {
    r.start(r.config(), 40);
    const auto token = r.box("text/token/20");
    const auto tip_drawn = [] {
        for (const ImGuiWindow* window : ImGui::GetCurrentContext()->Windows)
            if ((window->Flags & ImGuiWindowFlags_Tooltip) != 0 && window->WasActive && !window->Hidden)
                return true;
        return false;
    };
    r.act("export.figure");
    r.frames(3);
    const ImGuiWindow* dialog = ImGui::FindWindowByName("Export figure");
    GUI_CHECK(dialog != nullptr);
    const float x = token.x + token.width / 2, y = token.y + token.height / 2;
    // Beside the mouse, where the tooltip would be.
    r.te->WindowMove("//Export figure", ImVec2(x + 16, y - 60));
    r.move(x, y);
    r.frames(40);                                // a tooltip may wait a little
    GUI_CHECK(r.ctx().hovered_step.has_value()); // the panel under the mouse is told of it
    GUI_CHECK(!tip_drawn());
    r.te->WindowMove("//Export figure", ImVec2(x + 600, y - 60));
    r.move(x, y);
    r.frames(40);
    GUI_CHECK(tip_drawn());
    r.move_away();
    r.close_dialog("Export figure");
}

/// Another program writes a trace that the window shows.
void a_trace_is_followed(Robot& r) {
    const auto made = [](const std::string& id) {
        RunInfo info = test::made_info(5, id);
        info.vocab_size = 60;
        return test::made_run(info);
    };
    const auto add_steps = [](Recording& run, int n) {
        for (int i = 0; i < n; ++i) {
            StepRecord step = test::next_record(run, 1);
            step.signals[*run.signal_id("entropy_bits")] = 2;
            run.append(step);
        }
    };
    const fs::path path = r.scratch("followed.rlt");
    const auto store = TraceStore::create(path);
    const auto write = [&](const std::shared_ptr<Recording>& run, int steps) {
        add_steps(*run, steps);
        store->notify();
        store->flush();
    };
    const auto first = made("followed-1"), second = made("followed-2"), third = made("followed-3");
    store->attach(first);
    write(first, 4);
    r.window().shell().open_trace(path);
    const auto shows = [&](const char* id, int64_t steps) {
        return r.until(
            [&] { return r.ctx().recording->info().id == id && r.ctx().recording->steps() == steps; }, 2000);
    };
    GUI_CHECK(shows("followed-1", 4));
    write(first, 3);
    GUI_CHECK(shows("followed-1", 7));
    store->attach(second);
    write(second, 2);
    GUI_CHECK(shows("followed-2", 2));
    r.ctx().select_step(1); // somebody looks closer
    store->attach(third);
    write(third, 2);
    const auto has_third = [&] {
        const auto& runs = r.ctx().runs.tree().runs();
        return std::ranges::any_of(runs, [](const auto& run) { return run.id == "followed-3"; });
    };
    GUI_CHECK(r.until(has_third, 2000));
    GUI_CHECK(shows("followed-2", 2));
    GUI_CHECK(r.ctx().selection.step == 1);
}

} // namespace

std::vector<Case> file_cases() {
    return {
        {"export", "EX1 EX5 a picture of the window shows the threshold line where it is, at 1x and 2x",
         pictures_show_the_line},
        {"export", "EX1 LG1 a picture of one panel, and of what is not there", a_panel_alone},
        {"export", "EX4 HL3 a trace is saved and opened in the same view, tables are written",
         traces_and_tables},
        {"export", "HL3 a trace that another program writes is followed", a_trace_is_followed},
        {"export", "HL3 PO2 a trace brings its policy, not from under a run", a_trace_brings_its_policy},
        {"export", "EX2 EX3 a figure of a panel: its tab, a preview, the file and its numbers", a_figure},
        {"export", "EX2 a panel's tooltip keeps off an open dialog", tips_keep_off_a_dialog},
        {"export", "EX4 what is plotted is written as one table, with its empty fields", plotted_values},
    };
}

} // namespace refreshlab::gui
