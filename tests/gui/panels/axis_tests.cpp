// Axes, their names and the colour bars beside them: nothing lost in small windows, nothing on the frame.
#include "engine/record/recording/recording.h"
#include "tests/gui/panels/plot_marks.h"
#include "tests/gui/robot.h"
#include "ui/scene/axes/signal_choice.h"

#include <cmath>
#include <string>

namespace refreshlab::gui {

namespace {

/// Pixels of the signal's colour in these rows of its plot, between the given shares of its width.
int inked(const Image& seen, const ui::Landmarks::Box& plot, uint32_t ink, float y0, float y1) {
    int count = 0;
    for (float y = y0; y <= y1; y += 1)
        for (float x = plot.x + 2; x < plot.x + plot.width - 2; x += 1)
            count +=
                colour_distance(seen.at(static_cast<double>(x), static_cast<double>(y)), ink) < 90 ? 1 : 0;
    return count;
}

void zero_is_inside_the_frame(Robot& r) {
    // The entropy is near 0 at most steps.
    RunConfig run = r.config();
    run.policy = preset_policy("none");
    r.start(run, 60);
    r.move_away();
    const auto plot = r.box(plot_mark);
    int certain = 0;
    for (int64_t t = 1; t <= 60; ++t)
        certain += r.recording()->step(t).signals[*r.ctx().signal_id("entropy_bits")] < 0.05F ? 1 : 0;
    GUI_CHECK(certain > 10);
    const Image seen = r.look();
    const uint32_t ink = r.ctx().theme.signal("entropy_bits");
    const float frame = plot.y + plot.height;
    GUI_CHECK(inked(seen, plot, ink, frame - 9, frame - 2) > 20);
    GUI_CHECK(inked(seen, plot, ink, frame - 1, frame + 2) == 0);
}

void tops_are_labelled(Robot& r) {
    r.start(r.config(), 60);
    for (const char* signal : {"entropy_bits", "kl_nats", "mc_variance"}) {
        const std::string top = r.ctx().landmarks.text(std::string("signals/top/") + signal);
        GUI_CHECK(!top.empty() && top != "0");
    }
    GUI_CHECK(r.ctx().landmarks.text("timeline/top") != "");
    GUI_CHECK(r.find("signals/x_name"));
}

void gutter_comes_back(Robot& r) {
    r.start(r.config(), 60);
    const auto gutter = [&] { return r.box(plot_mark).x - r.box("panel/Signals").x; };
    r.act("view.fit");
    r.frames(6);
    const float before = gutter();
    for (int i = 0; i < 4; ++i)
        r.act("view.scale_up");
    r.frames(30);
    r.te->WindowFocus("//Signals");
    r.frames(4);
    GUI_CHECK(gutter() > before + 4);
    r.act("view.scale_reset");
    r.frames(30);
    GUI_CHECK(std::abs(gutter() - before) <= 1);
}

void bars_stay_in_small_windows(Robot& r) {
    r.start(r.config(), 60);
    for (int i = 0; i < 8 && r.enabled("view.scale_up"); ++i)
        r.act("view.scale_up");
    r.frames(20);
    r.te->WindowFocus("//Cache");
    r.frames(4);
    const auto panel = r.box("panel/Cache");
    for (const char* part : {"cache/legend/not measured", "cache/legend/student", "cache/legend/age"}) {
        const auto entry = r.box(part);
        GUI_CHECK(entry.x >= panel.x && entry.x + entry.width <= panel.x + panel.width);
        GUI_CHECK(entry.y + entry.height <= panel.y + panel.height);
    }
    /// The bar and the number behind it are whole.
    const auto bar_is_whole = [&](const char* bar, const char* high, const char* of) {
        const auto scale = r.box(bar), around = r.box(of);
        const ImRect end = r.te->ItemInfo(high).RectFull;
        GUI_CHECK(scale.x >= around.x && scale.width > 10);
        GUI_CHECK(end.Min.x >= scale.x + scale.width && end.Max.x <= around.x + around.width);
    };
    bar_is_whole("cache/scale", "//Cache/##high", "panel/Cache");
    r.te->WindowFocus("//Attention");
    r.frames(4);
    bar_is_whole("attention/scale", "//Attention/##high", "panel/Attention");
    r.te->WindowFocus("//Text");
    r.frames(4);
    bar_is_whole("text/scale", "//Text/##high", "panel/Text");
    r.act("view.scale_reset");
    r.frames(20);
}

/// By the menu of a plot; the threshold, its tag and the values come along.
void an_axis_on_the_right(Robot& r) {
    r.start(with_threshold(r, 8), 60);
    r.ctx().views.signals.choose("top1_prob").shown = true;
    r.frames(6);
    const auto menu = [&](const char* plot, const char* item) {
        const auto box = r.box(std::string("signals/plot/") + plot);
        r.move(box.x + box.width * 0.4F, box.y + box.height * 0.3F);
        r.te->MouseClick(1);
        r.frames(3);
        r.te->MenuClick(item);
        r.frames(12);
    };
    menu("top1_prob", "//$FOCUSED/Right axis/Entropy (bits)");
    GUI_CHECK(ui::changed_sides(r.ctx().views.signals).at("entropy_bits") == "top1_prob");
    GUI_CHECK(!r.find(plot_mark)); // no plot of its own
    const auto plot = r.box("signals/right/entropy_bits");
    const auto inside = [&](float y) { return y > plot.y && y < plot.y + plot.height; };
    GUI_CHECK(r.box(std::string("signals/tag/") + key).x >= plot.x + plot.width);
    GUI_CHECK(!r.ctx().landmarks.text("signals/top/entropy_bits").empty());
    r.move_away();
    r.frames(3);
    GUI_CHECK(inked(r.look(), plot, r.ctx().theme.signal("entropy_bits"), plot.y + 2,
                    plot.y + plot.height - 2) > 50);
    // The other plots end where this one does.
    const auto other = r.box("signals/plot/kl_nats");
    GUI_CHECK(std::abs(other.x - plot.x) <= 1 && std::abs(other.width - plot.width) <= 1);
    // The line goes by its own axis.
    GUI_CHECK(inside(middle(r.box(line_mark))));
    r.move(plot.x + plot.width * 0.7F, middle(r.box(line_mark)));
    r.te->MouseDown(0);
    r.drag_by(0, plot.height * 0.3F, 6);
    GUI_CHECK(r.ctx().drafts.edited_key() == key);
    GUI_CHECK(std::abs(middle(r.box(line_mark)) - ImGui::GetIO().MousePos.y) <= 3);
    GUI_CHECK(r.until([&] { return r.find("signals/what_if/entropy_bits").has_value(); }, 200));
    r.te->MouseUp(0);
    r.frames(3);
    const double draft = r.ctx().drafts.number(key).value();
    GUI_CHECK(draft < 8 && draft > 0);
    GUI_CHECK(r.until([&] { return applied_threshold(r) == draft; }));
    // So does its tag.
    const auto tag = r.box(std::string("signals/tag/") + key);
    r.move(tag.x + tag.width / 2, tag.y + tag.height / 2);
    r.te->MouseDown(0);
    r.drag_by(0, -20, 4);
    r.te->MouseUp(0);
    r.frames(3);
    GUI_CHECK(r.ctx().drafts.number(key).value() > draft);
    // The tooltip has both values.
    r.move(plot.x + plot.width * 0.5F, plot.y + 3);
    GUI_CHECK(r.until([&] { return r.shows("Entropy") && r.shows("Top-1 probability"); }, 60));
    r.move_away();
    menu("top1_prob", "//$FOCUSED/Right axis/None");
    GUI_CHECK(r.find(plot_mark) && !r.find("signals/right/entropy_bits"));
    r.ctx().views.signals.choose("top1_prob").shown = false;
    r.frames(6);
}

} // namespace

std::vector<Case> axis_cases() {
    return {
        {"signals", "SG11 a signal on the right-hand axis of another's plot", an_axis_on_the_right},
        {"signals", "SG10 a curve at zero runs above the frame", zero_is_inside_the_frame},
        {"signals", "SG10 the top of every y axis is labelled, and the x axis has its name",
         tops_are_labelled},
        {"signals", "WN3 the plots get their width back at normal size", gutter_comes_back},
        {"signals", "WN3 colour bars and legends stay at twice the size", bars_stay_in_small_windows},
    };
}

} // namespace refreshlab::gui
