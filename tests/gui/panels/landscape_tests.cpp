// The panel Landscape: computed, drawn, dragged, clicked, run for real, opened from a file, refused.
#include "engine/landscape/best_schedule.h"
#include "engine/landscape/landscape_store.h"
#include "engine/landscape/objective.h"
#include "engine/landscape/staircase.h"
#include "engine/record/recording/recording.h"
#include "engine/record/trace/trace_store.h"
#include "engine/results/scope_map_store.h"
#include "tests/gui/painted.h"
#include "tests/gui/robot.h"
#include "ui/context/figure_request.h"
#include "ui/figure/figure.h"
#include "ui/scene/landscape/cell_values.h"
#include "ui/scene/landscape/objective_words.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <set>
#include <sstream>
#include <string>
#include <vector>

namespace refreshlab::gui {

namespace {

constexpr const char* policy_row = "landscape/row/1";
constexpr const char* best_row = "landscape/row/3";

std::string row(Robot& r, const char* name) {
    r.frames(2);
    return r.ctx().landmarks.text(name);
}

/// Layout Landscape, in small type: the window of the tests is small.
void show_panel(Robot& r) {
    while (r.enabled("view.scale_down")) {
        r.ctx().run_action("view.scale_down");
        r.frames(2);
    }
    r.act("view.layout.landscape");
    r.frames(8);
}

/// A finished run of `tokens` in layout Landscape, and its landscape, judged by the loss unless another is chosen.
void compute(Robot& r, int32_t tokens = 40, std::optional<Objective> objective = Objective::loss) {
    r.ctx().views.landscape.objective = objective;
    RunConfig config = r.config(tokens);
    config.shadow = !objective; // the teacher reads every step: KL of all of them is recorded
    config.policy = preset_policy("entropy");
    config.policy.triggers[0].threshold = 2;
    config.policy.triggers[0].cooldown = 0;
    config.policy.triggers[0].every = 1;
    r.start(config, tokens - 4);
    show_panel(r);
    r.engine().send(command::Resume{});
    GUI_CHECK(r.until([&] { return r.status()->state == EngineState::finished; }));
    GUI_CHECK(r.until([&] { return r.enabled("landscape.compute"); }, 60)); // the window has seen it too
    r.act("landscape.compute");
    GUI_CHECK(r.until(
        [&] {
            const auto& state = r.status()->landscape;
            return state && !state->computing && state->landscape && state->landscape->complete() &&
                   state->run_id == r.recording()->info().id && r.ctx().landscape == state->landscape;
        },
        20000));
    r.frames(4);
}

void go_back(Robot& r) {
    r.ctx().views.landscape = {};
    r.act("view.layout.explore");
    r.frames(4);
}

std::string told(const Staircase& stairs, const Landscape& landscape) {
    return fmt::format("{} {:+.3f}", stairs.refreshes.size(), stairs.loss - landscape.mean_teacher_loss());
}

void is_computed_and_drawn(Robot& r) {
    compute(r);
    GUI_CHECK(r.shows("What refreshes are worth on the 40 tokens of this text"));
    const auto map = r.box("landscape/map");
    GUI_CHECK(map.width > 200 && map.height > 150);
    r.move_away();
    // Above the diagonal the picture, below it the ground.
    const Image seen = r.look();
    std::set<uint32_t> colours;
    for (double x = 0.1; x < 0.98; x += 0.01) {
        const auto at = [&](double y) {
            return seen.at(static_cast<double>(map.x) + x * static_cast<double>(map.width),
                           static_cast<double>(map.y) + y * static_cast<double>(map.height));
        };
        colours.insert(at(x * 0.3));
        if (x < 0.9) GUI_CHECK(colour_distance(at(x + 0.08), r.ctx().theme.plot_background) < 12);
    }
    GUI_CHECK(colours.size() > 10);
    // The numbers are those of the engine's own functions.
    const Landscape& landscape = *r.ctx().landscape;
    GUI_CHECK(row(r, policy_row) == told(walk_policy(landscape, r.ctx().drafts.policy()), landscape));
    // Hover tells, a click selects everywhere.
    r.move(map.x + map.width * 0.51F, map.y + map.height * 0.1F);
    GUI_CHECK(r.shows("Last refresh at step") && r.shows("Above the teacher"));
    r.te->MouseClick(0);
    r.frames(2);
    GUI_CHECK(r.ctx().selection.step == 20);
    // Zoomed by the wheel, and whole again.
    r.te->MouseWheelY(4);
    r.frames(2);
    GUI_CHECK(r.shows("Whole"));
    r.te->ItemClick("//Landscape/Whole");
    r.frames(2);
    GUI_CHECK(!r.shows("Whole"));
    // Another value.
    r.te->SetRef("//Landscape");
    r.te->ComboClick("##value/Entropy (bits)");
    r.frames(3);
    GUI_CHECK(r.ctx().landmarks.text("landscape/value") == "Entropy");
    r.te->ComboClick("##value/Loss above the teacher (nats)");
    r.te->SetRef("");
    // The text is coloured by what a refresh would have gained.
    r.ctx().views.text.coloured_by = std::string(ui::gain_colouring);
    r.frames(3);
    GUI_CHECK(r.shows("Gain of a refresh before"));
    GUI_CHECK(r.ctx().refresh_gains.size() == 39);
    r.ctx().views.text.coloured_by = "entropy_bits";
    r.ctx().select_step(std::nullopt);
    go_back(r);
}

void a_dragged_line_moves_its_staircase(Robot& r) {
    compute(r);
    const Landscape& landscape = *r.ctx().landscape;
    const std::string before = row(r, policy_row);
    const auto line = r.box("signals/threshold/entropy_bits");
    r.move(line.x + line.width * 0.4F, line.y + line.height / 2);
    r.drag_by(0, -r.box("signals/plot/entropy_bits").height * 0.6F, 6);
    GUI_CHECK(!r.ctx().drafts.edited_key().empty());
    // While it is held: exactly what the planner does with the value of this frame.
    const std::string held = row(r, policy_row);
    GUI_CHECK(held == told(walk_policy(landscape, r.ctx().drafts.policy()), landscape));
    GUI_CHECK(held != before);
    r.te->MouseUp(0);
    r.frames(3);
    go_back(r);
}

/// A point of the policy's own curve sets its threshold; the staircase is that point then.
void a_point_of_the_frontier_is_taken(Robot& r) {
    compute(r);
    const auto plot = r.box("landscape/frontier");
    GUI_CHECK(plot.width > 80 && plot.height > 50);
    const auto point = [&](int p) { return r.ctx().landmarks.find(fmt::format("landscape/point/{}", p)); };
    GUI_CHECK(r.until([&] { return point(0).has_value(); }, 200));
    const std::string before = row(r, policy_row), own = r.ctx().drafts.value("entropy.threshold").value();
    // The second point in the picture: at most one of them is the policy as it stands.
    int inside = 0;
    for (int p = 0; inside < 2 && point(p); ++p) {
        const auto at = *point(p);
        if (at.x < plot.x + 4 || at.x > plot.x + plot.width - 4 || at.y < plot.y + 4 ||
            at.y > plot.y + plot.height - 4)
            continue;
        ++inside;
        r.move(at.x, at.y);
    }
    GUI_CHECK(inside == 2);
    r.frames(2);
    GUI_CHECK(r.shows("A click sets this threshold"));
    r.te->MouseClick(0);
    r.frames(4);
    // The staircase of the policy is that point now.
    const std::string after = row(r, policy_row);
    GUI_CHECK(after != before);
    GUI_CHECK(r.ctx().drafts.value("entropy.threshold").value() != own);
    GUI_CHECK(after == told(walk_policy(*r.ctx().landscape, r.ctx().drafts.policy()), *r.ctx().landscape));
    go_back(r);
}

/// Numbers of a landmark's text.
std::vector<double> numbers(Robot& r, const char* landmark) {
    std::istringstream words(row(r, landmark));
    std::vector<double> found;
    for (double number = 0; words >> number;)
        found.push_back(number);
    return found;
}

/// LA8: the bar's ends by mouse and by keyboard, the way back, and the figure with the same range.
void the_colour_range_is_chosen(Robot& r) {
    r.ctx().views.landscape.cells = {};
    compute(r);
    r.move_away();
    const auto own = [&] { return r.ctx().views.landscape.cells.own_range(Objective::loss); };
    const auto map = r.box("landscape/map");
    /// Cells of the picture, above the diagonal and away from its staircases.
    const auto cells = [&] {
        r.move_away();
        const Image seen = r.look();
        std::vector<uint32_t> found;
        for (double x = 0.3; x < 0.98; x += 0.02)
            found.push_back(seen.at(static_cast<double>(map.x) + x * static_cast<double>(map.width),
                                    static_cast<double>(map.y) + x * 0.4 * static_cast<double>(map.height)));
        return found;
    };
    GUI_CHECK(!own());
    const std::string automatic = row(r, "landscape/range");
    GUI_CHECK(automatic.find(" of cells within ") != std::string::npos);
    const auto picture = cells();
    const auto bar = r.box("landscape/scale");
    // The right half is taken to the left: its end goes along, the colours reach it sooner.
    r.move(bar.x + bar.width - 2, bar.y + bar.height / 2);
    GUI_CHECK(r.shows(automatic));
    r.drag_by(-bar.width * 0.3F, 0, 6);
    GUI_CHECK(own().has_value());
    const ui::ValueRange held = *own();
    r.te->MouseUp(0);
    r.frames(3);
    GUI_CHECK(own() == held);
    GUI_CHECK(row(r, "landscape/range") != automatic);
    const auto dragged = cells();
    GUI_CHECK(dragged != picture);
    // Esc while it is held gives back what was there.
    r.move(bar.x + bar.width - 2, bar.y + bar.height / 2);
    r.drag_by(-bar.width * 0.3F, 0, 6);
    GUI_CHECK(own() != held);
    r.te->KeyPress(ImGuiKey_Escape);
    r.te->MouseUp(0);
    r.frames(3);
    GUI_CHECK(own() == held);
    // Typed; what leaves no range is refused, and changes nothing.
    r.te->ItemInputValue("//Landscape/##high", "4.5");
    r.frames(3);
    GUI_CHECK(own() && own()->max == 4.5);
    const bool signs = own()->min == -4.5;
    const int refused = r.count_log_lines("setting the colour range");
    r.te->ItemInputValue("//Landscape/##high", signs ? "0" : "-100");
    r.frames(3);
    GUI_CHECK(own() && own()->max == 4.5);
    GUI_CHECK(r.count_log_lines("setting the colour range") == refused + 1);
    r.ctx().toasts.dismiss_all();
    // It belongs to this value alone.
    r.te->SetRef("//Landscape");
    r.te->ComboClick("##value/Entropy (bits)");
    r.frames(3);
    GUI_CHECK(!own());
    r.te->ComboClick("##value/Loss above the teacher (nats)");
    r.te->SetRef("");
    r.frames(3);
    GUI_CHECK(own() && own()->max == 4.5);
    // The figure on paper says the same of its colours.
    const std::string words = row(r, "landscape/range");
    r.te->WindowFocus("//Landscape");
    r.act("export.figure");
    r.frames(3);
    GUI_CHECK(r.shows("Landscape: what every refresh is worth"));
    const auto line = [&](const char* item) { return r.te->ItemInfo(item).RectFull; };
    GUI_CHECK(line("//Export figure/##of").Max.y <= line("//Export figure/##width").Min.y);
    const auto file = Robot::scratch("landscape.svg");
    std::filesystem::remove(file);
    r.te->ItemInputValue("//Export figure/##path", file.string().c_str());
    GUI_CHECK(r.until([&] { return !r.dialog_open("Export figure"); }, 2000));
    std::ifstream svg(file);
    const std::string drawn{std::istreambuf_iterator<char>(svg), {}};
    GUI_CHECK(drawn.find(words) != std::string::npos);
    std::filesystem::remove(file);
    // Back to the automatic one, by a double click on the bar.
    r.move(bar.x + bar.width / 3, bar.y + bar.height / 2);
    r.te->MouseDoubleClick(0);
    r.frames(3);
    GUI_CHECK(!own());
    GUI_CHECK(row(r, "landscape/range") == automatic);
    GUI_CHECK(cells() == picture);
    go_back(r);
}

void is_printed_as_it_is_painted(Robot& r) {
    compute(r);
    ui::LandscapeView& view = r.ctx().views.landscape;
    const ui::LandscapeView before = view;
    for (const ui::CellValue& value : ui::cell_values(*r.ctx().landscape, Objective::loss))
        for (const bool hidden : {false, true}) {
            view.cells.value = value;
            view.stairs = {true, !hidden, true, true};
            GUI_CHECK(r.until([&] { return !r.ctx().unfinished; }, 200));
            const RecordedCanvas screen = painted(r), paper = printed(r, "landscape");
            GUI_CHECK(same_cells(screen, paper, "triangle"));
            for (const char* stairs :
                 {"staircase_run", "staircase_policy", "staircase_blind", "staircase_best"}) {
                const auto a = screen.lines_of(stairs), b = paper.lines_of(stairs);
                GUI_CHECK(a.size() == b.size());
                for (size_t i = 0; i < a.size(); ++i)
                    GUI_CHECK(a[i].points.size() == b[i].points.size() &&
                              a[i].stroke.colour == b[i].stroke.colour);
            }
            GUI_CHECK(screen.lines_of("staircase_policy").empty() == hidden);
            GUI_CHECK(!screen.lines_of("staircase_best").empty());
        }
    const RecordedCanvas screen = painted(r), paper = printed(r, "frontier");
    std::set<std::string> curves;
    for (const auto& line : screen.lines) {
        if (!line.group.starts_with("frontier_") && line.group != "best" && line.group != "blind") continue;
        curves.insert(line.group);
        const auto other = paper.lines_of(line.group);
        GUI_CHECK(!other.empty() && other[0].points.size() == line.points.size() &&
                  other[0].stroke.colour == line.stroke.colour);
    }
    GUI_CHECK(curves.size() > 3);
    const auto all = words(screen, "legend"), own = words(paper, "legend"); // other panels have legends too
    GUI_CHECK(!own.empty() && std::search(all.begin(), all.end(), own.begin(), own.end()) != all.end());
    view = before;
    go_back(r);
}

/// LA9: wheel, drag, box, double click; a click on a point of what is in sight still sets its threshold.
void the_frontier_zooms(Robot& r) {
    compute(r);
    const auto plot = r.box("landscape/frontier");
    const auto point = [&](int p) { return r.ctx().landmarks.find(fmt::format("landscape/point/{}", p)); };
    GUI_CHECK(r.until([&] { return point(0).has_value(); }, 200));
    GUI_CHECK(r.until([&] { return !r.ctx().unfinished; }, 200)); // what fits hangs on the best schedules too
    const auto view = [&] { return numbers(r, "landscape/frontier"); }; // refreshes from, to; loss from, to
    const auto fitted = view();
    GUI_CHECK(fitted.size() == 4);
    const auto width = [](const std::vector<double>& v) { return v[1] - v[0]; };
    const auto height = [](const std::vector<double>& v) { return v[3] - v[2]; };
    GUI_CHECK(!r.te->ItemExists("//Landscape/Fit"));
    // The wheel, about the mouse.
    r.move(plot.x + plot.width / 2, plot.y + plot.height / 2);
    for (int notch = 0; notch < 3; ++notch) {
        r.te->MouseWheelY(1);
        r.frames(2);
    }
    const auto closer = view();
    GUI_CHECK(width(closer) < 0.9 * width(fitted) && height(closer) < 0.9 * height(fitted));
    GUI_CHECK(r.te->ItemExists("//Landscape/Fit"));
    // On an axis, that axis alone.
    r.move(plot.x + plot.width / 2, plot.y + plot.height + 6);
    r.te->MouseWheelY(-1);
    r.frames(2);
    const auto wider = view();
    GUI_CHECK(width(wider) > width(closer) && height(wider) == height(closer));
    // A drag pans; nothing is clicked by it.
    const std::string policy = row(r, policy_row);
    r.move(plot.x + plot.width * 0.6F, plot.y + plot.height / 2);
    r.drag_by(-plot.width * 0.2F, 0, 5);
    r.te->MouseUp(0);
    const auto panned = view();
    GUI_CHECK(panned[0] > wider[0] && std::abs(width(panned) - width(wider)) < 0.05 * width(wider));
    GUI_CHECK(row(r, policy_row) == policy);
    // A double click fits; on an axis there is no point that its first click could take.
    r.move(plot.x + plot.width / 2, plot.y + plot.height + 6);
    r.te->MouseDoubleClick(0);
    r.frames(3);
    GUI_CHECK(view() == fitted);
    GUI_CHECK(!r.te->ItemExists("//Landscape/Fit"));
    // A box with the right button shows what is in it.
    r.move(plot.x + plot.width * 0.02F, plot.y + plot.height * 0.05F);
    const ImVec2 corner = ImGui::GetIO().MousePos;
    r.te->MouseDown(1);
    r.frames(1);
    for (const float share : {0.3F, 0.6F, 0.9F}) {
        r.te->MouseMoveToPos({corner.x + plot.width * share, corner.y + plot.height * share});
        r.frames(1);
    }
    r.te->MouseUp(1);
    const auto boxed = view();
    GUI_CHECK(std::abs(width(boxed) - 0.9 * width(fitted)) < 0.05 * width(fitted));
    GUI_CHECK(std::abs(height(boxed) - 0.9 * height(fitted)) < 0.05 * height(fitted));
    // A click on a point in sight sets its threshold, and leaves the view as it is.
    const std::string own = r.ctx().drafts.value("entropy.threshold").value();
    bool taken = false;
    for (int p = 0; !taken && point(p); ++p) {
        const auto at = *point(p);
        if (at.x < plot.x + 4 || at.x > plot.x + plot.width - 4 || at.y < plot.y + 4 ||
            at.y > plot.y + plot.height - 4)
            continue;
        r.move(at.x, at.y);
        if (!r.shows("A click sets this threshold")) continue;
        r.te->MouseClick(0);
        r.frames(4);
        taken = r.ctx().drafts.value("entropy.threshold").value() != own;
    }
    GUI_CHECK(taken);
    GUI_CHECK(row(r, policy_row) ==
              told(walk_policy(*r.ctx().landscape, r.ctx().drafts.policy()), *r.ctx().landscape));
    GUI_CHECK(view() == boxed);
    // The button in the corner.
    r.te->ItemClick("//Landscape/Fit");
    r.frames(3);
    GUI_CHECK(!r.te->ItemExists("//Landscape/Fit"));
    go_back(r);
}

/// What the table says of the best is what the run then does.
void the_best_schedule_wins(Robot& r) {
    compute(r);
    const auto landscape = r.ctx().landscape;
    GUI_CHECK(r.until([&] { return r.ctx().best_schedule.has_value(); }, 200));
    const Schedule best = *r.ctx().best_schedule;
    const Staircase policy = walk_policy(*landscape, r.ctx().drafts.policy());
    GUI_CHECK(best.steps.size() == policy.refreshes.size());
    const auto finished = [&](const std::shared_ptr<const Recording>& before) {
        return r.until(
            [&] {
                return r.recording() != before && r.status()->state == EngineState::finished &&
                       r.ctx().recording == r.recording();
            },
            20000);
    };
    const auto first = r.recording();
    r.act("landscape.run_best");
    GUI_CHECK(finished(first));
    r.frames(4);
    GUI_CHECK(r.recording()->token_ids() == landscape->info().tokens);
    GUI_CHECK(r.recording()->refreshes().size() == best.steps.size());
    GUI_CHECK(r.ctx().landscape == landscape); // the same text: the same landscape
    GUI_CHECK(r.ctx().landmarks.text("landscape/measured") ==
              fmt::format("best {} {} {:.9f}", best.steps.size(), best.steps.size(), best.loss));
    // And the policy of before, for real: it does no better.
    const auto second = r.recording();
    r.act("landscape.run_policy");
    GUI_CHECK(finished(second));
    r.frames(4);
    GUI_CHECK(r.recording()->refreshes().size() == policy.refreshes.size());
    GUI_CHECK(r.ctx().landmarks.text("landscape/measured") ==
              fmt::format("entropy {} {:.9f}", policy.refreshes.size(), policy.loss));
    GUI_CHECK(best.loss <= policy.loss);
    go_back(r);
}

/// LA10: what schedules are judged by is the text's until a person chooses; all numbers, labels and the file follow.
void is_judged_by_what_is_chosen(Robot& r) {
    compute(r, 40, std::nullopt);
    const Landscape& landscape = *r.ctx().landscape;
    GUI_CHECK(r.until([&] { return !r.ctx().unfinished; }, 200));
    const auto policy = [&] { return r.ctx().drafts.policy(); };
    const auto said = [&](Objective objective) {
        const Staircase walk = walk_policy(landscape, policy(), objective);
        const auto count = static_cast<int64_t>(walk.refreshes.size());
        return fmt::format(
            "{} {}", count,
            ui::told_number(objective, ui::told_value(objective, teacher_value(landscape, objective),
                                                      walk.loss, landscape.num_steps(), count)));
    };
    // The student wrote this text.
    GUI_CHECK(row(r, "landscape/objective").starts_with("kl: the student wrote the text"));
    GUI_CHECK(r.shows("Judged by kl, KL(teacher || student): the student wrote the text"));
    GUI_CHECK(row(r, policy_row) == said(Objective::kl));
    GUI_CHECK(r.ctx().landmarks.text("landscape/value") == "KL(teacher || student)");
    const Schedule by_kl = r.ctx().best_schedule.value();
    for (const Objective objective : {Objective::rejection, Objective::tokens_a_pass, Objective::loss}) {
        r.te->SetRef("//Landscape");
        r.te->ComboClick(fmt::format("##objective/{}: {} ({})", to_string(objective), label_of(objective),
                                     unit_of(objective))
                             .c_str());
        r.te->SetRef("");
        GUI_CHECK(r.until([&] { return !r.ctx().unfinished; }, 200));
        GUI_CHECK(r.ctx().views.landscape.objective == objective);
        GUI_CHECK(row(r, policy_row) == said(objective));
        GUI_CHECK(r.ctx().gains_objective == objective);
        const size_t k = r.ctx().best_schedule.value().steps.size();
        GUI_CHECK(r.ctx().best_schedule->steps ==
                  best_schedules(landscape, static_cast<int64_t>(k), objective)[k].steps);
        GUI_CHECK(r.shows(ui::told_label(objective)));
        // On paper as on screen.
        const RecordedCanvas screen = painted(r), paper = printed(r, "landscape");
        GUI_CHECK(same_cells(screen, paper, "triangle"));
        const auto a = screen.lines_of("staircase_best"), b = paper.lines_of("staircase_best");
        GUI_CHECK(!a.empty() && a.size() == b.size() && a[0].points.size() == b[0].points.size());
        // The cell under the mouse in the words of the objective.
        const auto map = r.box("landscape/map");
        r.move(map.x + map.width * 0.51F, map.y + map.height * 0.1F);
        if (objective != Objective::loss)
            GUI_CHECK(
                r.shows(label_of(ui::CellValue{ui::CellValue::Kind::above_teacher, {}, objective}) + " "));
        r.move_away();
    }
    // A choice is taken back like any other.
    r.act("edit.undo");
    r.frames(3);
    GUI_CHECK(r.ctx().views.landscape.objective == Objective::tokens_a_pass);
    r.te->SetRef("//Landscape");
    r.te->ComboClick("##objective/as the text asks for: kl");
    r.te->SetRef("");
    GUI_CHECK(r.until([&] { return !r.ctx().unfinished; }, 200));
    GUI_CHECK(!r.ctx().views.landscape.objective);
    GUI_CHECK(r.ctx().best_schedule.value().steps == by_kl.steps);
    // The same text read again is the student's all the same, and its records say what was promised.
    const auto before = r.recording();
    r.act("landscape.run_best");
    GUI_CHECK(r.until(
        [&] {
            return r.recording() != before && r.status()->state == EngineState::finished &&
                   r.ctx().recording == r.recording();
        },
        20000));
    GUI_CHECK(row(r, "landscape/objective").starts_with("kl: the student wrote the text"));
    const std::string measured = row(r, "landscape/measured");
    GUI_CHECK(measured.starts_with(fmt::format("best {0} {0} ", by_kl.steps.size())));
    GUI_CHECK(std::abs(std::stod(measured.substr(measured.rfind(' '))) - by_kl.loss) < 1e-5);
    go_back(r);
}

/// LA11: a policy that verifies has its way, and marks where drafts would end; on screen and on paper.
void shows_where_drafts_would_end(Robot& r) {
    compute(r, 40);
    RefreshPolicy policy = preset_policy("speculative");
    policy.triggers[0].threshold = 5;
    r.ctx().drafts.set_policy(r.engine(), policy);
    GUI_CHECK(r.until([&] { return !r.ctx().unfinished; }, 200));
    const Staircase walk = walk_policy(*r.ctx().landscape, policy);
    GUI_CHECK(walk.drafts.size() == 8);
    GUI_CHECK(row(r, policy_row) == told(walk, *r.ctx().landscape));
    GUI_CHECK(r.shows("8 drafts: " + ui::draft_words(walk.drafts)));
    const RecordedCanvas screen = painted(r), paper = printed(r, "landscape");
    const auto a = screen.lines_of("drafts_policy"), b = paper.lines_of("drafts_policy");
    GUI_CHECK(a.size() >= 2 * walk.drafts.size() && !b.empty()); // two strokes a mark
    // Nothing can be judged of a text that is given.
    GUI_CHECK(!r.enabled("landscape.run_policy") && r.enabled("landscape.run_best"));
    policy.verify.rule = VerifyRule::greedy;
    r.ctx().drafts.set_policy(r.engine(), policy);
    GUI_CHECK(row(r, policy_row).find("rule greedy") != std::string::npos);
    GUI_CHECK(painted(r).lines_of("drafts_policy").empty());
    go_back(r);
}

/// A finished run with refreshes, beside the panel.
void finish_periodic_run(Robot& r) {
    RunConfig config = r.config(48);
    config.policy = preset_policy("periodic");
    config.policy.triggers[0].threshold = 12;
    r.start(config, 44);
    show_panel(r);
    r.engine().send(command::Resume{});
    GUI_CHECK(r.until([&] { return r.status()->state == EngineState::finished; }));
}

/// SC1: scopes are measured on the run's text, shown, cancelled; a click refreshes that part alone, from the next refresh on.
void scopes_are_measured_and_taken(Robot& r) {
    finish_periodic_run(r);
    r.te->ItemClick("//Landscape/##tabs/Scope");
    r.frames(3);
    GUI_CHECK(r.shows("Which layers, KV heads, keys or values of a refresh are worth sending?"));
    GUI_CHECK(!r.find("scope/map"));
    GUI_CHECK(r.until([&] { return r.enabled("landscape.compute_scope"); }, 60));
    r.act("landscape.compute_scope");
    GUI_CHECK(r.until([&] { return r.status()->scope && r.status()->scope->map; }, 20000));
    GUI_CHECK(r.until([&] { return !r.ctx().unfinished && r.find("scope/map"); }, 2000));
    const auto map = r.status()->scope->map;
    GUI_CHECK(r.shows(fmt::format("{} refreshes, 16 tokens behind each", map->refreshes.size())));
    GUI_CHECK(r.shows("left out") && r.shows("greedy order"));
    // The second layer's values: the third column of its row.
    const auto box = r.box("scope/map");
    const auto columns = static_cast<float>(3 + map->kv_heads + map->blocks),
               layers = static_cast<float>(map->layers);
    r.move(box.x + box.width * 2.5F / columns, box.y + box.height * 1.5F / layers);
    GUI_CHECK(r.shows("layer 1, values") && r.shows("A click refreshes it alone"));
    r.te->MouseClick(0);
    r.frames(4);
    const RefreshScope taken = r.ctx().drafts.policy().scope;
    GUI_CHECK(taken.parts == ScopeParts::values && taken.has(1, 0) && !taken.has(0, 0));
    GUI_CHECK(r.ctx().landmarks.text("scope/drafted") == "layers 1, values" ||
              r.ctx().landmarks.text("scope/drafted") == "layer 1, values");
    // It is the policy of the engine, as a control of Policy would set it, and undone like one.
    GUI_CHECK(r.until([&] { return r.status()->applied.policy.scope == taken; }, 600));
    r.act("edit.undo");
    GUI_CHECK(r.until([&] { return r.status()->applied.policy.scope.whole(); }, 600));
    // A measuring that is cancelled leaves what was there.
    r.engine().send(command::ComputeScope{.every = 1, .horizon = 16});
    GUI_CHECK(r.until([&] { return r.status()->scope->computing; }, 2000));
    r.frames(2);
    GUI_CHECK(!r.enabled("landscape.compute_scope"));
    r.te->ItemClick("//Landscape/Cancel");
    GUI_CHECK(r.until([&] { return !r.status()->scope->computing; }, 6000));
    GUI_CHECK(r.status()->scope->map == map);
    GUI_CHECK(r.status()->state == EngineState::finished);
    r.te->ItemClick("//Landscape/##tabs/Refreshes");
    go_back(r);
}

/// SC2: the map is saved with its run, and comes back with it; what it shows is a view, and is undone; a figure shows the same.
void scope_map_stays(Robot& r) {
    namespace fs = std::filesystem;
    finish_periodic_run(r);
    r.engine().send(command::ComputeScope{.every = 12, .horizon = 8, .keep = 0.5});
    GUI_CHECK(r.until([&] { return r.ctx().scope_map != nullptr; }, 20000));
    const auto map = r.ctx().scope_map;
    const fs::path path = Robot::scratch("scope.rlt");
    fs::remove(path);
    r.act("file.save_trace");
    r.te->ItemInputValue("//Save trace/##path", path.string().c_str());
    GUI_CHECK(r.until([&] { return r.count_log_lines("Trace saved as " + path.string()) > 0; }));
    GUI_CHECK(load_scope_maps(path).size() == 1 && *load_scope_maps(path)[0].map == *map);
    // Another run has none; the file brings it along, and its models need not be there.
    RunConfig another = r.config(12);
    another.prompt = "Write a chronicle of 2 companies.";
    r.start(another, 5);
    GUI_CHECK(!r.ctx().scope_map);
    show_panel(r);
    r.window().shell().open_trace(path);
    GUI_CHECK(r.until([&] { return r.ctx().scope_map && *r.ctx().scope_map == *map; }, 2000));
    r.te->ItemClick("//Landscape/##tabs/Scope");
    GUI_CHECK(r.until([&] { return !r.ctx().unfinished && r.find("scope/map"); }, 2000));
    // Which share a cell shows is kept with the views.
    r.te->SetRef("//Landscape");
    r.te->ComboClick("##measure/missed without the part");
    r.te->SetRef("");
    r.frames(3);
    GUI_CHECK(r.ctx().views.landscape.scope == ui::ScopeMeasure::missed);
    const auto request = ui::figure_request(
        r.ctx(), *std::ranges::find(ui::figure_kinds(), std::string_view("scope"), &ui::FigureKind::name),
        false);
    GUI_CHECK(request.scope_map == r.ctx().scope_map);
    const DataTable table = ui::make_figure(request)->table();
    GUI_CHECK(table.rows.front().front() == "without");
    r.act("edit.undo");
    r.frames(3);
    GUI_CHECK(r.ctx().views.landscape.scope == ui::ScopeMeasure::alone);
    // A click on the curve takes the KV heads up to there: at its right end all of the greedy order.
    const auto curve = r.box("scope/curve");
    r.move(curve.x + curve.width - 2, curve.y + curve.height / 2);
    GUI_CHECK(
        r.shows(fmt::format("{} KV head{} keep", map->taken.size(), map->taken.size() == 1 ? "" : "s")));
    r.te->MouseClick(0);
    r.frames(4);
    GUI_CHECK(r.ctx().drafts.policy().scope == scope_of_taken(*map, map->taken.size()));
    r.act("edit.undo");
    r.te->ItemClick("//Landscape/##tabs/Refreshes");
    r.act("file.close_trace");
    r.frames(3);
    GUI_CHECK(!r.ctx().scope_map);
    fs::remove(path);
    go_back(r);
}

void stays_with_a_saved_run(Robot& r) {
    namespace fs = std::filesystem;
    compute(r, 24);
    const auto landscape = r.ctx().landscape;
    const fs::path path = Robot::scratch("landscape.rlt");
    fs::remove(path);
    r.act("file.save_trace");
    r.te->ItemInputValue("//Save trace/##path", path.string().c_str());
    GUI_CHECK(r.until([&] { return r.count_log_lines("Trace saved as " + path.string()) > 0; }));
    const auto stored = load_landscapes(path);
    GUI_CHECK(stored.size() == 1 && stored[0].landscape->rows() == landscape->rows());
    // Another run has no landscape; the file brings it along.
    RunConfig another = r.config();
    another.prompt = "Write a chronicle of 2 companies.";
    r.start(another, 5);
    GUI_CHECK(!r.ctx().landscape);
    show_panel(r);
    GUI_CHECK(r.shows("Compute the landscape"));
    r.window().shell().open_trace(path);
    GUI_CHECK(r.until([&] { return r.ctx().landscape != nullptr; }, 2000));
    r.frames(3);
    GUI_CHECK(r.find("landscape/map"));
    GUI_CHECK(r.shows("What refreshes are worth on the 24 tokens"));
    r.act("file.close_trace");
    r.frames(3);
    GUI_CHECK(!r.ctx().landscape);
    fs::remove(path);
    go_back(r);
}

void what_cannot_be_is_said(Robot& r) {
    compute(r, 24);
    // A windowed policy has no staircase, and says why.
    RefreshPolicy windowed = preset_policy("window");
    r.ctx().drafts.set_policy(r.engine(), windowed);
    r.frames(3);
    GUI_CHECK(row(r, policy_row).find("windowed") != std::string::npos);
    GUI_CHECK(!row(r, best_row).empty());
    // One model alone.
    RunConfig alone = r.config(12);
    alone.mode = Mode::teacher;
    alone.policy = RefreshPolicy{};
    alone.seed = 5;
    alone.sampler.temperature = 1;
    r.start(alone, 6);
    show_panel(r);
    GUI_CHECK(!r.enabled("landscape.compute"));
    GUI_CHECK(r.shows("It takes a teacher and a student"));
    GUI_CHECK(!r.enabled("landscape.run_best") && !r.enabled("landscape.run_policy"));
    // A landscape of another text is not shown with this one.
    GUI_CHECK(!r.ctx().landscape);
    GUI_CHECK(r.shows("The landscape that is here is"));
    go_back(r);
}

void is_cancelled(Robot& r) {
    RunConfig config = r.config(400);
    r.start(config, 120);
    show_panel(r);
    r.act("landscape.compute");
    GUI_CHECK(r.until(
        [&] {
            const auto& state = r.status()->landscape;
            return state && state->computing && state->landscape && state->run_id == r.recording()->info().id;
        },
        5000));
    r.frames(2);
    r.te->ItemClick("//Landscape/Cancel");
    GUI_CHECK(r.until([&] { return !r.status()->landscape->computing; }, 2000));
    GUI_CHECK(r.status()->state == EngineState::paused);
    GUI_CHECK(!r.status()->landscape->landscape->complete());
    r.frames(3);
    GUI_CHECK(r.shows("rows are computed") && r.shows("Compute the rest"));
    GUI_CHECK(r.find("landscape/map"));
    go_back(r);
}

} // namespace

std::vector<Case> landscape_cases() {
    return {
        {"landscape", "LA1 computed for a run's text, drawn, told, selected", is_computed_and_drawn},
        {"landscape", "LA2 a dragged entropy line moves its staircase and its number",
         a_dragged_line_moves_its_staircase},
        {"landscape", "LA3 a point of the frontier sets its threshold", a_point_of_the_frontier_is_taken},
        {"landscape", "LA4 the best schedule is run, and wins by what was said", the_best_schedule_wins},
        {"landscape", "LA5 a saved run keeps its landscape, and brings it along", stays_with_a_saved_run},
        {"landscape", "LA6 windowed policies, one model, another text: refused with the reason",
         what_cannot_be_is_said},
        {"landscape", "LA7 a landscape is cancelled and its rows stay", is_cancelled},
        {"landscape", "LA8 the colour range is dragged, typed, given back, and the figure's",
         the_colour_range_is_chosen},
        {"landscape", "LA1 EX2 picture and frontier are printed as they are painted",
         is_printed_as_it_is_painted},
        {"landscape", "SC1 scopes are measured, shown and taken", scopes_are_measured_and_taken},
        {"landscape", "SC2 a scope map stays with its run", scope_map_stays},
        {"landscape", "LA11 drafts of a policy that verifies, and where they would end",
         shows_where_drafts_would_end},
        {"landscape", "LA10 what judges is chosen, and all that is shown follows",
         is_judged_by_what_is_chosen},
        {"landscape", "LA9 the frontier zooms, pans and fits, and its points are still taken",
         the_frontier_zooms},
    };
}

} // namespace refreshlab::gui
