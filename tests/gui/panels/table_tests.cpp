// CSV files in the window: the table, its plot, runs that its rows start, a file that grows.
#include "engine/base/json_file.h"
#include "engine/record/recording/recording.h"
#include "tests/gui/robot.h"
#include "ui/scene/runs/run_set.h"

#include <filesystem>
#include <string>
#include <utility>

namespace refreshlab::gui {

namespace {

namespace fs = std::filesystem;

constexpr const char* study = "policy,budget,KL,low,high,bytes\n"
                              "vanilla,all,0,0,0,90000\n"
                              "H2O,24,0.4,0.3,0.5,20000\n"
                              "StreamingLLM,24,0.6,0.5,0.7,20000\n"
                              "\"RefreshKV, stride 5\",24,0.1,0.05,0.2,90000\n";

/// By the dialog.
void open_table(Robot& r, const fs::path& path) {
    r.act("file.open_table");
    r.te->ItemInputValue("//Open table/##path", path.string().c_str());
    GUI_CHECK(r.until([&] { return !r.dialog_open("Open table") && r.ctx().tables.shown(); }));
    r.frames(4);
}

void close_tables(Robot& r) {
    while (r.ctx().tables.shown()) {
        r.te->ItemClick("//Table/x##close");
        r.frames(2);
    }
    r.ctx().views.file_table = {};
}

void hover_mark(Robot& r, int row) {
    const auto mark = r.box("table/mark/" + std::to_string(row));
    r.move(mark.x, mark.y);
    r.frames(3);
}

/// A point tells its row, and a click on it runs the present prompt so; so does Enter on the row.
void points_start_runs(Robot& r) {
    RunConfig run = r.config(40);
    run.seed = 3;
    r.start(run, 20);
    const auto first = r.recording();
    const fs::path file = r.scratch("study.csv");
    write_file(file, study);
    open_table(r, file);
    GUI_CHECK(r.ctx().tables.shown()->table.rows.size() == 4);
    GUI_CHECK(r.find("table/plot"));
    hover_mark(r, 3);
    GUI_CHECK(r.shows("'stride 5' is no setting of RefreshKV"));
    hover_mark(r, 1);
    GUI_CHECK(r.shows("KL: 0.4") && r.shows("bytes: 20000") && r.shows("H2O, budget 24"));
    r.te->MouseClick(0);
    GUI_CHECK(r.until([&] { return r.recording() != first && r.recording()->steps() >= 20; }));
    const auto second = r.recording();
    r.frames(3); // the engine may be ahead of the window
    GUI_CHECK(second->info().config.student_cache.policy == "h2o");
    GUI_CHECK(second->info().config.student_cache.values.find("budget")->second == 24);
    GUI_CHECK(second->info().prompt_ids == first->info().prompt_ids && second->info().config.seed == 3);
    GUI_CHECK(r.ctx().runs.compared().size() == 1);
    // One click on a row looks at it; Enter starts.
    r.move_away();
    r.click(r.box("table/row/2"));
    r.frames(5);
    GUI_CHECK(r.recording() == second);
    r.te->KeyPress(ImGuiKey_Enter);
    GUI_CHECK(r.until([&] { return r.recording() != second && r.recording()->steps() >= 20; }));
    r.frames(3);
    GUI_CHECK(r.recording()->info().config.student_cache.policy == "streaming_llm");
    // A row that names no policy starts nothing, and says why.
    const auto third = r.recording();
    r.click(r.box("table/row/3"));
    r.te->KeyPress(ImGuiKey_Enter);
    GUI_CHECK(r.until([&] { return r.count_log_lines("is no setting of RefreshKV") > 0; }, 60));
    GUI_CHECK(r.recording() == third);
    r.ctx().runs.untick_all();
    close_tables(r);
}

void sorted_and_chosen(Robot& r) {
    r.start(r.config(10), 5);
    const fs::path file = r.scratch("study.csv");
    write_file(file, study);
    open_table(r, file);
    const auto row = [&](int i) { return r.box("table/row/" + std::to_string(i)).y; };
    GUI_CHECK(row(0) < row(1) && row(1) < row(2));
    r.ctx().views.file_table.table.set_order("-KL");
    r.frames(3);
    GUI_CHECK(row(2) < row(1) && row(1) < row(3) && row(3) < row(0));
    r.te->ItemClick("//Table/Frontier");
    r.frames(3);
    GUI_CHECK(!r.ctx().views.file_table.frontier);
    r.te->ItemClick("//Table/Log##x");
    r.frames(3);
    GUI_CHECK(r.ctx().views.file_table.log_x);
    r.te->SetRef("//Table");
    r.te->ComboClick("##y/budget");
    r.te->SetRef("");
    r.frames(3);
    GUI_CHECK(r.ctx().views.file_table.y == "budget");
    r.act("edit.undo");
    r.frames(2);
    GUI_CHECK(r.ctx().views.file_table.y.empty());
    // What is plotted is a figure.
    r.te->WindowFocus("//Table");
    r.frames(2);
    const fs::path figure = r.scratch("table.svg");
    fs::remove(figure);
    r.act("export.figure");
    GUI_CHECK(r.until([&] { return r.find("figure/preview").has_value(); }));
    r.te->ItemInputValue("//Export figure/##path", figure.string().c_str());
    GUI_CHECK(r.until([&] { return !r.dialog_open("Export figure"); }, 2000));
    GUI_CHECK(read_file(figure).find("Evict while decoding") !=
              std::string::npos); // a colour for each family
    close_tables(r);
}

/// A budget that is a share is told as the table has it: how many entries it is depends on the run.
void a_share_is_no_number_of_entries(Robot& r) {
    r.start(r.config(40), 20);
    const fs::path file = r.scratch("shares.csv");
    write_file(file, "policy,budget,KL,bytes\nH2O,1/8,0.4,20000\nH2O,16,0.3,30000\nH2O,,0.2,40000\n");
    open_table(r, file);
    for (const auto& [row, words] : {std::pair{0, "H2O\npolicy: H2O\nbudget: 1/8"},
                                     std::pair{1, "H2O, budget 16\npolicy: H2O\nbudget: 16"},
                                     std::pair{2, "H2O\npolicy: H2O\nKL: 0.2"}}) {
        hover_mark(r, row);
        GUI_CHECK(r.shows(words));
    }
    r.move_away();
    close_tables(r);
}

/// A training's losses are followed; a file that is spoilt or gone leaves what was there, with one line.
void a_file_is_followed(Robot& r) {
    r.start(r.config(10), 5);
    const fs::path file = r.scratch("loss.csv");
    std::string losses = "step,loss,part\n";
    for (int step = 1; step <= 30; ++step)
        losses += std::to_string(step) + "," + std::to_string(3.0 / step) + ",1\n";
    write_file(file, losses);
    r.window().shell().open_dropped(file);
    const auto rows = [&] { return r.ctx().tables.shown() ? r.ctx().tables.shown()->table.rows.size() : 0; };
    GUI_CHECK(r.until([&] { return rows() == 30; }));
    r.frames(4);
    GUI_CHECK(r.find("table/plot") && r.shows("30 rows"));
    write_file(file, losses + "31,0.05,1\n32,0.04,1\n");
    GUI_CHECK(r.until([&] { return rows() == 32; }, 2000));
    GUI_CHECK(r.shows("32 rows"));
    write_file(file, "step,loss\n1,2,3,4\n");
    GUI_CHECK(r.until([&] { return r.shows("line 2 has 4 fields"); }, 2000));
    GUI_CHECK(rows() == 32);
    fs::remove(file);
    GUI_CHECK(r.until([&] { return r.shows("is not there any more"); }, 2000));
    GUI_CHECK(rows() == 32);
    write_file(file, losses);
    GUI_CHECK(r.until([&] { return rows() == 30 && !r.shows("not there any more"); }, 2000));
    close_tables(r);
    // What is no table is one line, and nothing is shown.
    const fs::path bad = r.scratch("bad.csv");
    write_file(bad, "");
    const int before = r.count_log_lines("names no columns");
    r.window().shell().open_dropped(bad);
    GUI_CHECK(r.until([&] { return r.count_log_lines("names no columns") == before + 1; }));
    GUI_CHECK(r.ctx().tables.shown() == nullptr);
    r.act("file.open_table");
    r.te->ItemInputValue("//Open table/##path", bad.string().c_str());
    GUI_CHECK(r.until([&] { return r.find("dialog/fault").has_value(); }));
    r.close_dialog("Open table");
}

} // namespace

std::vector<Case> table_cases() {
    return {
        {"table", "FT1 FT3 a table's points and rows start runs with their cache policy", points_start_runs},
        {"table", "FT2 rows are sorted, axes chosen, and the plot is a figure", sorted_and_chosen},
        {"table", "FT3 a budget that is a share is told as it stands", a_share_is_no_number_of_entries},
        {"table", "FT4 a file that changes is followed, and a bad one is one line", a_file_is_followed},
    };
}

} // namespace refreshlab::gui
