// The panel Runs: every run of the window, which one is live, looked at, compared; two of them over each other.
#include "engine/record/recording/recording.h"
#include "engine/record/trace/trace_store.h"
#include "tests/gui/robot.h"
#include "ui/scene/runs/run_set.h"

#include <imgui_internal.h>

#include <cstdlib>
#include <filesystem>
#include <regex>
#include <string>

namespace refreshlab::gui {

namespace {

using ui::RunSet;

std::string of(const char* what, RunKey key) {
    return std::string("runs/") + what + "/" + std::to_string(key);
}

RunSet& runs(Robot& r) {
    return r.ctx().runs;
}

/// Pictures of what a case shows, for a person: into the folder that REFRESHLAB_GUI_PICTURES names.
void picture(Robot& r, const char* name) {
    const char* folder = std::getenv("REFRESHLAB_GUI_PICTURES");
    if (folder == nullptr) return;
    r.ctx().host.save_picture({std::filesystem::path(folder) / (std::string(name) + ".png"), "", 1});
    r.frames(4);
}

/// A run of 40 steps, and a branch of it at step 20 in which step 21 chooses another token. \return both
std::pair<RunKey, RunKey> branch(Robot& r, int32_t steps = 15) {
    r.start(r.config(), 40);
    r.forget_other_runs();
    const RunKey whole = *runs(r).live();
    const StepRecord& record = r.recording()->step(21);
    const auto before = r.recording();
    r.engine().send(command::Rewind{20});
    r.engine().send(command::GiveTokens{
        .ids = {record.top_ids[record.top_ids[0] == record.next_token_id ? 1 : 0]}, .text = {}});
    r.engine().send(command::Step{steps});
    GUI_CHECK(r.until([&] {
        return r.recording() != before && r.recording()->steps() == 20 + steps &&
               r.status()->state == EngineState::paused;
    }));
    r.frames(3);
    r.te->WindowFocus("//Runs");
    r.frames(3);
    return {whole, *runs(r).live()};
}

/// RU1: the tree; a click looks at a run, at the same step; a tick lays it over the other.
void a_tree_of_runs(Robot& r) {
    const auto [whole, other] = branch(r);
    GUI_CHECK(whole != other && runs(r).tree().find(other)->parent == whole);
    GUI_CHECK(runs(r).tree().find(other)->fork_step == 20);
    GUI_CHECK(runs(r).tree().find(other)->change.starts_with("given by hand"));
    GUI_CHECK(r.box(of("row", other)).y > r.box(of("row", whole)).y);
    const auto stood = runs(r).recording(whole);
    GUI_CHECK(r.ctx().of_engine());
    r.ctx().select_step(12);
    r.frames(2);
    r.click(r.box(of("row", whole)));
    GUI_CHECK(r.until([&] { return r.ctx().recording == stood; }, 10));
    GUI_CHECK(r.ctx().selection.step == 12); // what is selected is so in every run
    GUI_CHECK(!r.find("signals/difference/entropy_bits/" + std::to_string(other)));
    r.click(r.box(of("tick", other)));
    r.move_away();
    r.frames(4);
    GUI_CHECK(runs(r).ticked(other) && r.ctx().recording == stood); // a tick does not look
    GUI_CHECK(r.find("signals/difference/entropy_bits/" + std::to_string(other)));
    GUI_CHECK(r.find("signals/legend/" + std::to_string(other)) &&
              r.find("signals/legend/" + std::to_string(whole)));
    picture(r, "runs-tree");
    // The mouse tells the values of both, under their names; a figure of the panel is of both as well.
    const auto plot = r.box("signals/plot/entropy_bits");
    r.move(plot.x + plot.width / 2, plot.y + plot.height / 2);
    r.frames(3);
    const std::string name = runs(r).name(whole), beside = runs(r).name(other);
    const std::string value = "[0-9.e-]+ bits";
    const std::regex columns(name + " \\| " + beside + " \\|\\s+\\| Entropy \\| " + value + " \\| " + value);
    GUI_CHECK(std::regex_search(r.text(), columns));
    r.move_away();
    r.te->WindowFocus("//Signals");
    r.act("export.figure");
    r.frames(2);
    GUI_CHECK(r.shows("Compared runs: their signals"));
    r.close_dialog("Export figure");
    // The strip is of no difference before the fork, and of one behind it.
    const auto strip = r.box("signals/difference/entropy_bits/" + std::to_string(other));
    const Image seen = r.look();
    const auto colour = [&](double step) {
        const double share = (step - r.ctx().time.x_min) / (r.ctx().time.x_max - r.ctx().time.x_min);
        return seen.at(static_cast<double>(strip.x) + share * static_cast<double>(strip.width),
                       static_cast<double>(strip.y + strip.height / 2));
    };
    int changed = 0;
    for (int step = 22; step <= 34; ++step)
        changed += colour_distance(colour(step), colour(10)) > 40 ? 1 : 0;
    GUI_CHECK(changed >= 3);
    GUI_CHECK(colour_distance(colour(5), colour(15)) < 10);
    r.te->ItemClick("//Runs/Untick all");
    r.frames(3);
    GUI_CHECK(!r.find("signals/difference/entropy_bits/" + std::to_string(other)));
    r.act("file.close_trace");
    GUI_CHECK(r.until([&] { return r.ctx().of_engine(); }, 10));
}

/// TX7: two texts, the first token that differs and later ones.
void texts_part(Robot& r) {
    const auto [whole, other] = branch(r);
    GUI_CHECK(!r.find("text/compared/5"));
    runs(r).tick(whole, true);
    r.frames(4);
    GUI_CHECK(r.find("text/difference"));
    r.click(r.box("text/difference"));
    r.frames(3);
    GUI_CHECK(r.ctx().selection.step == 21); // it chose token 22, the first that differs
    r.move_away();
    const auto here = r.box("text/token/22"), there = r.box("text/compared/22"),
               same = r.box("text/compared/20");
    const Image seen = r.look();
    const uint32_t mark = r.ctx().theme.text_error;
    const auto pointed_at = [&](const ui::Landmarks::Box& token) {
        for (float y = token.y - 8; y < token.y - 3; y += 1)
            if (colour_distance(
                    seen.at(static_cast<double>(token.x + token.width / 2), static_cast<double>(y)), mark) <
                60)
                return true;
        return false;
    };
    GUI_CHECK(pointed_at(here) && pointed_at(there) && !pointed_at(same));
    picture(r, "runs-text");
    // A click on a token of the other text selects its step.
    r.click(r.box("text/compared/22"));
    GUI_CHECK(r.ctx().selection.step == 21);
    // Beside each other where the panel is wide.
    r.act("view.layout.tune");
    r.frames(10);
    picture(r, "runs-tune");
    runs(r).untick_all();
    r.frames(3);
    GUI_CHECK(!r.find("text/compared/22"));
    r.act("view.layout.explore");
    r.frames(3);
}

/// While a run is shorter than the one it is compared with, the other text shows what it had at that step.
void texts_go_together(Robot& r) {
    r.start(r.config(), 400);
    const RunKey whole = *runs(r).live();
    r.start(r.config(), 60);
    runs(r).tick(whole, true);
    r.frames(4);
    GUI_CHECK(r.find("text/compared/61") && !r.find("text/compared/390"));
    r.step(140);
    r.frames(4);
    GUI_CHECK(r.find("text/compared/201") && !r.find("text/compared/61") && !r.find("text/compared/390"));
    runs(r).untick_all();
}

/// B flips between two ticked runs; step and view stay, so maps blink.
void blink(Robot& r) {
    const auto [whole, other] = branch(r);
    const auto a = runs(r).recording(whole), b = runs(r).recording(other);
    runs(r).tick(whole, true);
    runs(r).tick(other, true);
    r.ctx().select_step(30);
    ui::set_time_range(r.ctx().time, 10, 33, r.ctx().steps);
    r.frames(3);
    const double from = r.ctx().time.x_min, to = r.ctx().time.x_max;
    for (const auto& wanted : {a, b, a, b}) {
        r.act("file.run_before");
        GUI_CHECK(r.until([&] { return r.ctx().recording == wanted; }, 10));
        r.frames(2);
        GUI_CHECK(r.ctx().selection.step == 30);
        GUI_CHECK(r.ctx().time.x_min == from && r.ctx().time.x_max == to);
    }
    runs(r).untick_all();
    r.act("view.follow");
    r.act("select.live");
}

/// Another run is live; this one is made again, bit for bit, and goes on.
void go_on_from_its_end(Robot& r) {
    const auto [whole, other] = branch(r);
    const auto stood = runs(r).recording(whole);
    r.move(r.box(of("row", whole)).x + 60, r.box(of("row", whole)).y + 6);
    r.te->MouseClick(1);
    r.frames(3);
    r.te->ItemClick("//$FOCUSED/Continue from its end");
    GUI_CHECK(r.until(
        [&] {
            return r.status()->state == EngineState::paused &&
                   r.recording()->info().parent_id == stood->info().id && r.recording()->steps() == 40;
        },
        3000));
    r.frames(3);
    GUI_CHECK(runs(r).live() == whole && runs(r).tree().runs().size() == 2); // the same run, live again
    GUI_CHECK(first_difference(*r.recording(), *stood->fork(40, "x")) == std::nullopt);
    r.step(5);
    GUI_CHECK(runs(r).tree().find(whole)->steps == 45);
    GUI_CHECK(runs(r).tree().find(other)->standing == RunStanding::left);
    // And a candidate of the other one, which is not live.
    runs(r).look_at(other);
    r.te->WindowFocus("//Inspector");
    r.ctx().select_step(30);
    r.frames(3);
    const auto from = runs(r).recording(other);
    const StepRecord& record = from->step(30);
    const size_t pick = record.top_ids[0] == record.next_token_id ? 1 : 0;
    r.click(r.box("candidates/" + std::to_string(pick)));
    GUI_CHECK(r.until(
        [&] { return r.recording()->info().parent_id == from->info().id && r.recording()->steps() > 32; },
        3000));
    r.act("run.play_pause");
    GUI_CHECK(r.recording()->step(30).next_token_id == record.top_ids[pick]);
    GUI_CHECK(r.until([&] { return r.ctx().of_engine(); }, 10));
}

/// Names can be edited; Esc leaves the old one.
void names(Robot& r) {
    const auto [whole, other] = branch(r);
    const auto rename = [&](RunKey key, const char* text, ImGuiKey last) {
        const auto row = r.box(of("row", key));
        r.move(row.x + 60, row.y + row.height / 2);
        r.te->MouseDoubleClick(0);
        r.frames(5);
        r.te->KeyCharsReplace(text);
        r.frames(2);
        r.te->KeyPress(last);
        r.frames(4);
    };
    rename(whole, "before the blue door", ImGuiKey_Enter);
    GUI_CHECK(runs(r).name(whole) == "before the blue door");
    rename(whole, "no", ImGuiKey_Escape);
    GUI_CHECK(runs(r).name(whole) == "before the blue door");
    rename(other, "A very long name that nobody can read in a table of a hundred columns, \xC3\xA4 and more",
           ImGuiKey_Enter);
    GUI_CHECK(runs(r).name(other).size() > 80);
    rename(other, "", ImGuiKey_Enter);
    GUI_CHECK(runs(r).name(other) == "Run " + std::to_string(other));
}

/// Thirty runs in a small window, every theme; sorted; removed; the live one stays.
void many_runs(Robot& r) {
    branch(r);
    for (int i = 0; i < 30; ++i) {
        const auto before = r.recording();
        RunConfig run = r.config();
        run.seed = static_cast<uint64_t>(i);
        r.engine().send(command::StartRun{run, true});
        r.engine().send(command::Step{2 + i % 5});
        GUI_CHECK(r.until([&] {
            return r.recording() != before && r.recording()->steps() == 2 + i % 5 &&
                   r.status()->state == EngineState::paused;
        }));
        r.frames(2);
    }
    GUI_CHECK(runs(r).tree().runs().size() == 32);
    runs(r).rename(runs(r).tree().runs()[3].key, std::string(120, 'n'));
    for (const RunNode& run : runs(r).tree().runs())
        runs(r).tick(run.key, run.key % 2 == 0);
    r.te->WindowFocus("//Runs");
    r.frames(4);
    for (const char* theme : {"print", "light", "dark"}) {
        r.ctx().run_action(std::string("view.theme.") + theme);
        r.frames(4);
        picture(r, (std::string("runs-many-") + theme).c_str());
    }
    GUI_CHECK(r.find(of("row", runs(r).tree().runs()[0].key)));
    runs(r).untick_all();
    const RunKey first = runs(r).tree().runs()[0].key;
    GUI_CHECK(runs(r).remove(first));
    GUI_CHECK(!runs(r).remove(*runs(r).live()));
    r.frames(3);
    GUI_CHECK(!r.find(of("row", first)));
    for (const RunTree::Row& row : runs(r).tree().rows())
        runs(r).remove(row.key);
    GUI_CHECK(runs(r).tree().runs().size() == 1);
}

/// A run goes by the menu of its row, in the very frame that draws the row.
void removed_by_its_menu(Robot& r) {
    const auto [whole, other] = branch(r);
    r.start(r.config(), 3);
    r.te->WindowFocus("//Runs");
    r.frames(3);
    const size_t before = runs(r).tree().runs().size();
    r.move(r.box(of("row", other)).x + 60, r.box(of("row", other)).y + 6);
    r.te->MouseClick(1);
    r.frames(3);
    r.te->ItemClick("//$FOCUSED/Remove from the list");
    r.frames(2);
    GUI_CHECK(runs(r).find(other) == nullptr && !r.find(of("row", other)));
    GUI_CHECK(runs(r).tree().runs().size() == before - 1 && r.find(of("row", whole)));
}

/// RU2: the runs of a trace come into the list with their tree.
void a_trace_brings_its_runs(Robot& r) {
    const auto [whole, other] = branch(r);
    const auto path = Robot::scratch("runs.rlt");
    std::filesystem::remove(path);
    const int saved = r.count_log_lines("Trace saved as " + path.string());
    r.act("file.save_runs");
    r.te->ItemInputValue("//Save trace/##path", path.string().c_str());
    GUI_CHECK(r.until([&] { return r.count_log_lines("Trace saved as " + path.string()) > saved; }));
    const auto runs_of_file = load_trace(path);
    GUI_CHECK(runs_of_file.size() == runs(r).tree().runs().size());
    std::vector<std::string> ids;
    for (const auto& run : runs_of_file)
        ids.push_back(run->info().id);
    GUI_CHECK(runs_of_file[1]->info().parent_id == ids[0]);
    runs(r).look_at(whole);
    r.start(r.config(), 3);
    for (const RunTree::Row& row : runs(r).tree().rows())
        runs(r).remove(row.key);
    r.window().shell().open_trace(path);
    GUI_CHECK(r.until([&] { return !r.ctx().of_engine(); }, 600));
    for (const std::string& id : ids)
        GUI_CHECK(runs(r).tree().find_id(id) != nullptr);
    GUI_CHECK(runs(r).tree().find_id(ids[1])->parent == runs(r).tree().find_id(ids[0])->key);
    GUI_CHECK(runs(r).name(*runs(r).looked_at()).starts_with("runs.rlt"));
    r.te->WindowFocus("//Runs");
    r.frames(3);
    GUI_CHECK(r.find(of("row", *runs(r).looked_at())));
    picture(r, "runs-file");
    r.act("file.close_trace");
    r.frames(3);
    GUI_CHECK(r.ctx().of_engine() && runs(r).tree().find_id(ids.back()) != nullptr);
    static_cast<void>(other);
}

/// AT8: the text is tinted by what the shown step read.
void attention_tints_the_text(Robot& r) {
    r.start(r.config(), 30);
    r.ctx().select_step(20);
    const std::string before = r.ctx().views.text.coloured_by;
    const auto row = r.recording()->attention(r.recording()->prompt_length() + 19, false);
    GUI_CHECK(row != nullptr);
    r.ctx().views.text.coloured_by = "attention:head";
    // The token that this head read most, but for the first, and one that it hardly read.
    const auto keys = static_cast<size_t>(row->keys),
               prompt = static_cast<size_t>(r.recording()->prompt_length());
    size_t most = prompt, least = prompt;
    for (size_t k = prompt; k < keys; ++k) {
        if (half_to_float(row->weights[k]) > half_to_float(row->weights[most])) most = k;
        if (half_to_float(row->weights[k]) < half_to_float(row->weights[least])) least = k;
    }
    r.move_away();
    r.frames(4);
    const Image seen = r.look();
    const auto ground = [&](size_t position) {
        const auto token = r.box("text/token/" + std::to_string(position - prompt + 1));
        return seen.at(static_cast<double>(token.x + 1), static_cast<double>(token.y + token.height - 2));
    };
    GUI_CHECK(colour_distance(ground(most), ground(least)) > 30);
    // What comes after the shown step is not coloured.
    const auto later = r.box("text/token/27");
    const uint32_t plain =
        seen.at(static_cast<double>(later.x + 1), static_cast<double>(later.y + later.height - 2));
    GUI_CHECK(colour_distance(plain, ground(most)) > 30);
    picture(r, "attention-tint");
    r.ctx().views.text.coloured_by = "attention:mean";
    r.frames(3);
    picture(r, "attention-tint-mean");
    RunConfig run = r.config();
    run.capture.attention = false;
    r.start(run, 5);
    r.ctx().views.text.coloured_by = "attention:mean";
    GUI_CHECK(r.until([&] { return r.shows("was not recorded"); }, 10));
    r.ctx().views.text.coloured_by = before;
}

/// Where a name and the word beside it have no room together, the name is whole.
void long_names_come_first(Robot& r) {
    const RunKey other = branch(r).second;
    const std::string before = runs(r).name(other);
    r.frames(2);
    const auto row = r.box(of("row", other)), short_name = r.box(of("name", other));
    const auto room = static_cast<float>(row.x + row.width - short_name.x);
    GUI_CHECK(short_name.width < room - 1); // the word beside it
    std::string name = "run ";
    while (ImGui::CalcTextSize((name + "n").c_str()).x < room)
        name += 'n';
    runs(r).rename(other, name);
    r.frames(3);
    const std::string seen = r.ctx().landmarks.text(of("name", other));
    runs(r).rename(other, before);
    GUI_CHECK(seen == name);
}

} // namespace

std::vector<Case> runs_cases() {
    return {
        {"runs", "RU1 runs stand as a tree, a click looks, a tick compares", a_tree_of_runs},
        {"runs", "TX7 two texts, and where they part", texts_part},
        {"runs", "TX7 the other text goes along with a run that is under way", texts_go_together},
        {"runs", "RU1 the blink key flips two ticked runs at one step", blink},
        {"runs", "RU1 a run is made live again, bit for bit", go_on_from_its_end},
        {"runs", "RU1 names can be edited", names},
        {"runs", "RU1 a long name comes before the word beside it", long_names_come_first},
        {"runs", "RU1 thirty runs, every theme", many_runs},
        {"runs", "RU1 a run is removed by the menu of its row", removed_by_its_menu},
        {"runs", "AT8 the text is tinted by what a step read", attention_tints_the_text},
        {"runs", "RU2 a trace brings its runs along", a_trace_brings_its_runs},
    };
}

} // namespace refreshlab::gui
