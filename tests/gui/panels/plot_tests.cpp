#include "engine/record/recording/recording.h"
#include "engine/signals/registry.h"
#include "tests/gui/panels/plot_marks.h"
#include "tests/gui/robot.h"
#include "ui/base/format.h"

#include <imgui_internal.h>

#include <cmath>
#include <string>

namespace refreshlab::gui {

namespace {

void markers_stand_at_their_steps(Robot& r) {
    RunConfig run = r.config();
    run.policy = preset_policy("periodic");
    set_parameter(run, "periodic.every", "16");
    r.start(run, 60);
    const auto& refreshes = r.recording()->refreshes();
    GUI_CHECK(refreshes.size() >= 3);
    const auto plot = r.box(plot_mark);
    const auto& view = r.ctx().time;
    for (size_t i = 0; i < refreshes.size(); ++i) {
        GUI_CHECK(reason_letter(refreshes[i].hits) == 'P');
        const auto badge = r.box("signals/marker/" + std::to_string(i));
        const double share =
            (static_cast<double>(refreshes[i].step) - view.x_min) / (view.x_max - view.x_min);
        const float x = plot.x + static_cast<float>(share) * plot.width;
        GUI_CHECK(std::abs(badge.x + badge.width / 2 - x) <= 2);
    }
    // Hovering one tells what happened; clicking it selects its step.
    const auto second = r.box("signals/marker/1");
    r.move(second.x + second.width / 2, second.y + second.height / 2);
    const std::string told = r.text();
    GUI_CHECK(told.find("| Spliced | 16 of 16 tokens") != std::string::npos);
    GUI_CHECK(told.find("ms") != std::string::npos);
    r.te->MouseClick(0);
    r.frames(2);
    GUI_CHECK(r.ctx().selection.step == refreshes[1].step);
}

void plots_follow_until_panned(Robot& r) {
    r.start(r.config(), 60);
    GUI_CHECK(r.ctx().time.follow);
    const auto plot = r.box(plot_mark);
    r.move(plot.x + plot.width * 0.5F, beside_line(r));
    r.te->MouseWheelY(3);
    r.frames(3);
    GUI_CHECK(!r.ctx().time.follow);
    const double low = r.ctx().time.x_min, high = r.ctx().time.x_max;
    GUI_CHECK(high - low < 60);
    r.move_away();
    r.step(40);
    GUI_CHECK(r.ctx().time.x_min == low && r.ctx().time.x_max == high);
    GUI_CHECK(r.shows("40 new steps"));
    r.act("view.follow");
    r.frames(3);
    GUI_CHECK(r.ctx().time.follow && r.ctx().time.x_max >= 100);
    r.act("view.fit");
    r.frames(3);
    GUI_CHECK(r.ctx().time.x_min <= 1 && r.ctx().time.x_max >= 100);
    // Every plot of the stack has the same place for the same step.
    const auto first = r.box(plot_mark);
    for (const char* other : {"signals/plot/kl_nats", "signals/plot/mc_variance"})
        GUI_CHECK(r.box(other).x == first.x && r.box(other).width == first.width);
}

void wheel_on_the_line(Robot& r) {
    r.start(with_threshold(r, 7), 60);
    const auto plot = r.box(plot_mark);
    const double low = r.ctx().time.x_min, width = r.ctx().time.x_max - low;
    r.move(plot.x + plot.width * 0.25F, middle(r.box(line_mark)));
    const double under = low + 0.25 * width;
    turn_wheel(r, 1, 4);
    const double now = r.ctx().time.x_max - r.ctx().time.x_min;
    GUI_CHECK(!r.ctx().time.follow);
    GUI_CHECK(now < 0.6 * width && now > 0.3 * width);
    // What was under the mouse still is, and the threshold is where it was.
    GUI_CHECK(std::abs(r.ctx().time.x_min + 0.25 * now - under) < 0.05 * width);
    GUI_CHECK(r.ctx().drafts.number(key) == 7.0);
    turn_wheel(r, -1, 2);
    GUI_CHECK(r.ctx().time.x_max - r.ctx().time.x_min > now);
    r.act("view.fit");
    r.act("view.follow");
}

void double_click_fits(Robot& r) {
    r.start(r.config(), 60);
    const auto plot = r.box(plot_mark);
    r.move(plot.x + plot.width * 0.5F, beside_line(r));
    turn_wheel(r, 1, 4);
    GUI_CHECK(r.ctx().time.x_max - r.ctx().time.x_min < 50);
    r.te->MouseDoubleClick(0);
    r.frames(3);
    GUI_CHECK(r.ctx().time.x_min <= 1 && r.ctx().time.x_max >= 60);
    GUI_CHECK(r.ctx().live()); // the first of the two clicks selected nothing
}

void words_of_an_empty_plot(Robot& r) {
    // Refresh lines run through all plots, but not through what an empty one says.
    RunConfig run = r.config();
    run.policy = preset_policy("periodic");
    set_parameter(run, "periodic.every", "4");
    r.start(run, 60);
    const auto card = r.box("signals/empty/mc_variance");
    r.move_away();
    const Image seen = r.look();
    const uint32_t ground = r.ctx().theme.plot_background;
    // Along the upper edge of the card, above its words, there is nothing but the ground.
    int other = 0;
    for (float x = card.x + 6; x < card.x + card.width - 6; x += 1)
        other +=
            colour_distance(seen.at(static_cast<double>(x), static_cast<double>(card.y + 1)), ground) > 12
                ? 1
                : 0;
    GUI_CHECK(other == 0);
    const auto plot = r.box("signals/plot/mc_variance");
    int lines = 0; // beside the card they are there
    for (float x = plot.x + 4; x < card.x - 2; x += 1)
        lines +=
            colour_distance(seen.at(static_cast<double>(x), static_cast<double>(card.y + 1)), ground) > 30
                ? 1
                : 0;
    GUI_CHECK(lines > 2);
}

void crosshair_is_shared(Robot& r) {
    r.start(r.config(), 50);
    const auto plot = r.box(plot_mark);
    const auto& view = r.ctx().time;
    const double share = (20 - view.x_min) / (view.x_max - view.x_min);
    r.move(plot.x + static_cast<float>(share) * plot.width, beside_line(r));
    GUI_CHECK(r.ctx().hovered_step == 20);
    GUI_CHECK(r.shows("step 20"));
    // A token hovered in Text is the same step everywhere: y_13 was chosen by step 12.
    const auto token = r.box("text/token/13");
    r.move(token.x + token.width / 2, token.y + token.height / 2);
    GUI_CHECK(r.ctx().hovered_step == 12);
    GUI_CHECK(r.shows("step 12"));
    r.move_away();
    GUI_CHECK(!r.ctx().hovered_step);
}

void tooltips_stay_small(Robot& r) {
    RunConfig run = r.config();
    run.policy = preset_policy("periodic");
    set_parameter(run, "periodic.every", "16");
    r.start(run, 60);
    const auto plot = r.box(plot_mark);
    const auto& view = r.ctx().time;
    r.move(plot.x + static_cast<float>((20 - view.x_min) / (view.x_max - view.x_min)) * plot.width,
           plot.y + plot.height - 4);
    GUI_CHECK(r.ctx().hovered_step == 20);
    const std::string told = r.text();
    // What is plotted, and not the rest.
    GUI_CHECK(told.find("Top-1 surprisal") == std::string::npos);
    const ImGuiWindow* tooltip = ImGui::FindWindowByName("##Tooltip_00");
    GUI_CHECK(tooltip && tooltip->Active && tooltip->Size.y <= 9 * ImGui::GetTextLineHeightWithSpacing());
    r.move_away();
    // The rest is in the Inspector, of the step that is selected.
    r.te->WindowFocus("//Inspector");
    r.ctx().select_step(20);
    r.frames(3);
    const std::string inspected = r.text();
    for (const char* part :
         {"Step 20 of 60", "Token read", "Token chosen", "Top-1 surprisal", "Log-probability", "Caches"})
        GUI_CHECK(inspected.find(part) != std::string::npos);
    const int64_t refreshed = r.recording()->refreshes()[0].step;
    r.ctx().select_step(refreshed);
    r.frames(3);
    GUI_CHECK(r.shows("Refresh at step " + std::to_string(refreshed)));
    r.ctx().select_step(std::nullopt);
    r.te->WindowFocus("//Policy");
    r.frames(2);
}

} // namespace

std::vector<Case> plot_cases() {
    return {
        {"signals", "SG4 refresh markers stand at their steps and tell their story",
         markers_stand_at_their_steps},
        {"signals", "SG5 plots follow until somebody zooms, End follows again", plots_follow_until_panned},
        {"signals", "SG5 the wheel zooms on a threshold line as beside it", wheel_on_the_line},
        {"signals", "SG10 a double click shows the whole run", double_click_fits},
        {"signals", "SG4 refresh lines do not cross the words of an empty plot", words_of_an_empty_plot},
        {"signals", "SG17 tooltips tell what is plotted, the Inspector everything", tooltips_stay_small},
        {"signals", "SG6 the crosshair is the same step in every panel", crosshair_is_shared},
    };
}

} // namespace refreshlab::gui
