#include "engine/record/recording/recording.h"
#include "engine/signals/registry.h"
#include "tests/gui/robot.h"
#include "ui/base/value_format.h"
#include "ui/scene/axes/time_view.h"
#include "ui/scene/runs/run_set.h"

#include <cmath>
#include <set>

namespace refreshlab::gui {

namespace {

void the_distribution_counts(Robot& r) {
    r.start(r.config(), 120);
    r.te->WindowFocus("//Distribution");
    r.frames(2);
    const auto above = [&](double threshold, int64_t first, int64_t last) {
        int64_t n = 0;
        for (int64_t t = first; t <= last; ++t)
            n +=
                static_cast<double>(r.recording()->signal(t, *signal_id("entropy_bits"))) > threshold ? 1 : 0;
        return std::to_string(n);
    };
    const auto told = [&] { return r.ctx().landmarks.text("distribution/beyond/0"); };
    GUI_CHECK(told() == above(6, 1, 120));
    const auto plot = r.box("distribution/plot"), line = r.box("distribution/threshold/0");
    GUI_CHECK((line.x > plot.x && line.x < plot.x + plot.width));
    // The line of the Signals plot, the card and this one are one value.
    r.ctx().drafts.edit(r.engine(), "entropy.threshold", 2.5);
    r.frames(3);
    GUI_CHECK(told() == above(2.5, 1, 120));
    GUI_CHECK(told() != above(6, 1, 120));
    GUI_CHECK(r.box("distribution/threshold/0").x < line.x);
    // The steps that Signals shows, and no others.
    r.te->SetRef("//Distribution");
    r.te->ComboClick("##range/steps in sight");
    ui::set_time_range(r.ctx().time, 30, 69, r.ctx().steps);
    r.frames(3);
    GUI_CHECK(r.shows("30 to 69"));
    GUI_CHECK(told() == above(2.5, 30, 69));
    // Bars are drawn, and another signal says that it was not measured.
    const Image seen = r.look();
    std::set<uint32_t> colours;
    for (float x = plot.x + 2; x < plot.x + plot.width - 2; x += 1)
        colours.insert(seen.at(static_cast<double>(x), static_cast<double>(plot.y + plot.height - 3)));
    GUI_CHECK(colours.size() > 2);
    r.te->ComboClick("##signal/MC-dropout variance (logit²)");
    r.te->SetRef("//Distribution");
    r.te->ComboClick("##range/whole run");
    r.frames(2);
    GUI_CHECK(r.shows("0, 0 %"));
    r.te->ComboClick("##signal/Entropy (bits)");
    r.te->WindowFocus("//Performance");
    r.frames(2);
}

/// What is chosen is a name: another run, which has not published it, shows the signal that decides; back in the first it is there.
void the_signal_is_a_name(Robot& r) {
    const ui::DistributionView before = r.ctx().views.distribution;
    r.start(r.config(), 30);
    const auto with = r.recording();
    const auto id = with->signal_id("teacher_unread");
    GUI_CHECK(id && *id >= signals().size());
    r.te->WindowFocus("//Distribution");
    r.frames(2);
    const Signal& unread = with->signals()[*id];
    r.te->SetRef("//Distribution");
    r.te->ComboClick(("##signal/" + ui::with_unit(unread.label, unread.unit)).c_str());
    r.te->SetRef("");
    r.frames(2);
    GUI_CHECK(r.ctx().views.distribution.signal == "teacher_unread");
    const std::string shown = ui::with_unit(unread.label, unread.unit);
    GUI_CHECK(r.shows(shown));
    RunConfig alone = r.config();
    alone.mode = Mode::student;
    r.start(alone, 30);
    GUI_CHECK(!r.recording()->signal_id("teacher_unread"));
    r.te->WindowFocus("//Distribution");
    r.frames(3);
    GUI_CHECK(!r.shows(shown));
    const RunNode* node = r.ctx().runs.tree().find_id(with->info().id);
    GUI_CHECK(node != nullptr);
    r.ctx().runs.look_at(node->key);
    GUI_CHECK(r.until([&] { return r.ctx().recording == with; }, 10));
    r.te->WindowFocus("//Distribution");
    r.frames(3);
    GUI_CHECK(r.shows(shown));
    r.act("file.close_trace");
    r.ctx().views.distribution = before;
    r.frames(2);
}

void a_line_is_dragged_in_the_distribution(Robot& r) {
    r.start(r.config(), 120);
    r.te->WindowFocus("//Distribution");
    r.frames(2);
    const std::string mark = "distribution/threshold/0", key = "entropy.threshold";
    const auto applied = [&] { return r.status()->applied.policy.triggers.at(0).threshold; };
    const auto at = [&] { return r.box(mark).x + r.box(mark).width / 2; };
    const auto grab = [&] {
        const auto line = r.box(mark);
        r.move(line.x + line.width / 2, line.y + line.height * 0.3F);
    };
    const std::string undo = r.ctx().drafts.undo_label();
    const float before = at(), width = r.box("distribution/plot").width;
    // Esc gives the old value back, here as there.
    grab();
    r.drag_by(-width * 0.2F, 0, 6);
    GUI_CHECK(r.ctx().drafts.edited_key() == key && r.ctx().drafts.number(key).value() < 6);
    r.te->KeyPress(ImGuiKey_Escape);
    r.frames(2);
    r.te->MouseUp(0);
    r.frames(2);
    GUI_CHECK(r.until([&] { return applied() == 6.0 && !r.ctx().drafts.pending(key); }));
    GUI_CHECK(r.ctx().drafts.undo_label() == undo && std::abs(at() - before) <= 1);
    // A drag to its end: the line of Signals moves along, with the count of what it would have done.
    const auto signals = r.box("signals/threshold/entropy_bits");
    grab();
    r.drag_by(-width * 0.25F, 0, 8);
    GUI_CHECK(std::abs(at() - ImGui::GetIO().MousePos.x) <= 3);
    GUI_CHECK(r.box("signals/threshold/entropy_bits").y > signals.y + 3);
    GUI_CHECK(r.until([&] { return r.find("signals/what_if/entropy_bits").has_value(); }, 200));
    const double held = r.ctx().drafts.number(key).value();
    int64_t beyond = 0;
    for (int64_t t = 1; t <= 120; ++t)
        beyond += static_cast<double>(r.recording()->signal(t, *signal_id("entropy_bits"))) > held ? 1 : 0;
    GUI_CHECK(r.ctx().landmarks.text("distribution/beyond/0") == std::to_string(beyond));
    r.te->MouseUp(0);
    r.frames(2);
    GUI_CHECK(r.ctx().drafts.edited_key().empty());
    GUI_CHECK(r.until([&] { return applied() == held; }));
    GUI_CHECK(r.ctx().drafts.undo_label().find("6 ->") != std::string::npos);
    r.move_away();
    r.act("edit.undo"); // one entry for the whole drag
    GUI_CHECK(r.until([&] { return applied() == 6.0; }));
    // Beyond the edge the range grows, so that any value can be reached.
    grab();
    r.drag_by(width * 2, 0, 4);
    r.frames(40);
    GUI_CHECK(r.ctx().drafts.number(key).value() > 12);
    r.te->MouseUp(0);
    r.frames(2);
    r.move_away();
    r.act("edit.undo");
    GUI_CHECK(r.until([&] { return applied() == 6.0; }));
    r.te->WindowFocus("//Performance");
    r.frames(2);
}

void two_signals_in_the_distribution(Robot& r) {
    RunConfig run = r.config();
    run.mc.measure = true;
    run.mc.every = 2;
    run.mc.samples = 4;
    Trigger variance;
    variance.signal = "mc_variance";
    variance.threshold = 0.5;
    variance.every = 2; // so it is measured at every second step and nowhere else
    run.policy.triggers.push_back(variance);
    r.start(run, 120);
    r.te->WindowFocus("//Distribution");
    r.frames(2);
    r.te->SetRef("//Distribution");
    r.te->ComboClick("##against/MC-dropout variance (logit²)");
    r.te->SetRef("");
    r.frames(3);
    const size_t x = *signal_id("entropy_bits"), y = *signal_id("mc_variance");
    const auto told = [&](const char* what) {
        return r.ctx().landmarks.text(std::string("distribution/") + what);
    };
    const auto beyond = [&](double entropy_above, double variance_above) {
        int64_t n = 0;
        for (int64_t t = 1; t <= r.recording()->steps(); ++t)
            n += static_cast<double>(r.recording()->signal(t, x)) > entropy_above &&
                         static_cast<double>(r.recording()->signal(t, y)) > variance_above
                     ? 1
                     : 0;
        return std::to_string(n);
    };
    GUI_CHECK(told("pairs") == "60"); // at every second step
    GUI_CHECK(told("beyond_both") == beyond(6, 0.5));
    GUI_CHECK(beyond(3, 0.2) != beyond(6, 0.5));
    // Each signal has its thresholds across its own axis, and both are dragged.
    const auto plot = r.box("distribution/plot"), upright = r.box("distribution/threshold/0"),
               level = r.box("distribution/threshold/1");
    GUI_CHECK(upright.height > upright.width && level.width > level.height);
    r.move(plot.x + plot.width * 0.9F, level.y + 1);
    r.drag_by(0, plot.height * 0.15F, 5);
    GUI_CHECK(r.ctx().drafts.edited_key() == "mc.threshold");
    GUI_CHECK(std::abs(r.box("distribution/threshold/1").y + 1 - ImGui::GetIO().MousePos.y) <= 3);
    GUI_CHECK(std::abs(r.box("distribution/threshold/0").x - upright.x) <= 1);
    r.te->MouseUp(0);
    r.frames(2);
    const auto applied = [&] { return r.status()->applied.policy.triggers.at(1).threshold; };
    GUI_CHECK(r.until([&] { return applied() < 0.5; }));
    r.frames(3);
    GUI_CHECK(told("beyond_both") == beyond(6, applied()));
    // Cells are coloured where there are steps, and the plot is not full of them.
    r.move_away();
    const Image seen = r.look();
    const auto now = r.box("distribution/plot");
    int cells = 0, ground = 0;
    for (float py = now.y + 3; py < now.y + now.height - 3; py += 1)
        for (float px = now.x + 3; px < now.x + now.width - 3; px += 1)
            (colour_distance(seen.at(static_cast<double>(px), static_cast<double>(py)),
                             r.ctx().theme.plot_background) > 40
                 ? cells
                 : ground) += 1;
    GUI_CHECK(cells > 50 && ground > cells);
    // The same signal twice is one signal.
    r.te->SetRef("//Distribution");
    r.te->ComboClick("##signal/MC-dropout variance (logit²)");
    r.te->SetRef("");
    r.frames(3);
    GUI_CHECK(told("pairs").empty());
    r.te->SetRef("//Distribution");
    r.te->ComboClick("##signal/Entropy (bits)");
    r.te->SetRef("");
    r.te->WindowFocus("//Performance");
    r.frames(2);
}

} // namespace

std::vector<Case> distribution_cases() {
    return {
        {"distribution", "SG12 the signal of a distribution is a name, not a number", the_signal_is_a_name},
        {"distribution", "SG12 SG14 a histogram with the threshold in it, over the run or the steps in sight",
         the_distribution_counts},
        {"distribution",
         "SG12 SG1 SG2 a threshold is dragged in the histogram, and it is the same value everywhere",
         a_line_is_dragged_in_the_distribution},
        {"distribution", "SG12 two signals against each other, with the thresholds of both",
         two_signals_in_the_distribution},
    };
}

} // namespace refreshlab::gui
