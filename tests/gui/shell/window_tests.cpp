#include "engine/record/recording/recording.h"
#include "tests/gui/robot.h"
#include "ui/scene/axes/signal_choice.h"
#include "ui/state/shell_state.h"

#include <cmath>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

namespace refreshlab::gui {

namespace {

void themes(Robot& r) {
    r.start(r.config(), 20);
    const Image dark = r.look();
    GUI_CHECK(r.checked("view.theme.dark"));
    const auto plot = r.box("signals/plot/entropy_bits");
    const auto corner = [&](const Image& image) {
        return image.at(static_cast<double>(plot.x + 3), static_cast<double>(plot.y + plot.height - 3));
    };
    GUI_CHECK(colour_distance(corner(dark), r.ctx().theme.plot_background) < 30);
    for (const char* name : {"light", "print"}) {
        const std::string id = std::string("view.theme.") + name;
        r.act(id);
        r.frames(2);
        GUI_CHECK(r.ctx().theme.name == name && r.checked(id) && !r.checked("view.theme.dark"));
        GUI_CHECK(!r.ctx().theme.dark);
        r.move_away();
        const Image seen = r.look();
        GUI_CHECK(colour_distance(corner(seen), r.ctx().theme.plot_background) < 30);
        GUI_CHECK(colour_distance(corner(seen), corner(dark)) > 300); // paper instead of night
    }
    r.act("view.theme.dark");
    r.frames(2);
    r.move_away();
    GUI_CHECK(corner(r.look()) == corner(dark));
}

void layouts(Robot& r) {
    r.start(r.config(), 20);
    const auto seen = [&](const char* panel) { return r.find(std::string("panel/") + panel).has_value(); };
    for (const char* panel : {"Text", "Signals", "Policy", "Attention", "Cache", "Performance", "Timeline"})
        GUI_CHECK(seen(panel));
    GUI_CHECK(!r.ctx().present_mode);
    const float signals = r.box("panel/Signals").height;
    r.act("view.layout.tune");
    r.frames(3);
    GUI_CHECK(r.checked("view.layout.tune"));
    GUI_CHECK(seen("Text") && seen("Signals") && seen("Policy") && !seen("Attention") && !seen("Cache"));
    GUI_CHECK(r.box("panel/Signals").height > signals);
    const float button = r.box("runbar/step").height;
    r.act("view.layout.present");
    r.frames(3);
    GUI_CHECK(r.ctx().present_mode);
    GUI_CHECK(seen("Text") && seen("Signals") && !seen("Policy") && !seen("Timeline"));
    GUI_CHECK(r.box("runbar/step").height > button * 1.3F); // larger type
    GUI_CHECK(r.box("panel/Run bar").y == 0);               // no menus
    // The label of the last tick is centred on it, so its half beyond the plot needs room.
    const auto plot = r.box("signals/plot/entropy_bits"), panel = r.box("panel/Signals");
    GUI_CHECK(plot.x + plot.width + ImGui::CalcTextSize("100").x / 2 <=
              panel.x + panel.width - ImGui::GetStyle().WindowPadding.x + 0.5F);
    r.act("run.step"); // keys still work
    GUI_CHECK(r.until([&] { return r.recording()->steps() == 21; }));
    r.act("view.layout.explore");
    r.frames(3);
    GUI_CHECK(!r.ctx().present_mode && seen("Attention"));

    // A panel that was closed is back after "Reset layout", and what was moved by hand stays when layouts change.
    r.te->MenuClick("//##MainMenuBar/View/Panels/Attention");
    r.frames(3);
    GUI_CHECK(!seen("Attention"));
    r.act("view.layout.tune");
    r.frames(2);
    r.act("view.layout.explore");
    r.frames(3);
    GUI_CHECK(!seen("Attention"));
    r.act("view.layout.reset");
    r.frames(3);
    GUI_CHECK(seen("Attention"));
    // The tabs that the layout has in front are in front again, whoever had the keyboard.
    for (const char* behind : {"//Sampling", "//Log"})
        r.te->WindowFocus(behind);
    r.frames(2);
    GUI_CHECK(seen("Sampling") && seen("Log") && !seen("Policy") && !seen("Performance"));
    r.te->WindowFocus("//Sampling");
    r.act("view.layout.reset");
    const auto in_front = [&] {
        return seen("Policy") && seen("Performance") && !seen("Sampling") && !seen("Log");
    };
    GUI_CHECK(r.until(in_front, 30)); // a tab takes a few frames
    r.frames(10);
    GUI_CHECK(in_front());
    GUI_CHECK(!r.checked("view.layout.lock"));
    r.act("view.layout.lock");
    GUI_CHECK(r.checked("view.layout.lock"));
    r.act("view.layout.lock");
    GUI_CHECK(!r.checked("view.layout.lock"));
}

/// Docked panels paint no ground: the frame begins with their colour. One that floats lies on others.
void a_floating_panel(Robot& r) {
    r.start(r.config(), 20);
    const auto ground = ImGui::GetColorU32(ImGuiCol_WindowBg);
    const auto corner = [&](float inset) { // bottom right
        const auto box = r.box("panel/Cache");
        return r.look().at(static_cast<double>(box.x + box.width - inset),
                           static_cast<double>(box.y + box.height - inset));
    };
    GUI_CHECK(corner(4) == ground);
    const auto plot = r.box("signals/plot/entropy_bits");
    r.te->UndockWindow("//Cache");
    r.te->WindowMove("//Cache", ImVec2(plot.x + plot.width - 20, plot.y + plot.height - 20), ImVec2(1, 1));
    r.frames(2);
    r.move_away();
    const auto floating = r.box("panel/Cache");
    GUI_CHECK(plot.x < floating.x + floating.width - 4 && floating.x + floating.width < plot.x + plot.width);
    GUI_CHECK(corner(4) == ground); // and not the plot's, which is behind it
    GUI_CHECK(corner(0.5F) != ground);
    r.act("view.layout.reset");
    r.frames(3);
    r.move_away();
    GUI_CHECK(r.box("panel/Cache").x != floating.x);
    GUI_CHECK(corner(4) == ground);
}

void user_scale(Robot& r) {
    r.start(r.config(), 5);
    const float normal = r.box("runbar/step").height;
    r.act("view.scale_up");
    r.frames(2);
    const float larger = r.box("runbar/step").height;
    GUI_CHECK(larger > normal);
    r.act("view.scale_reset");
    r.frames(2);
    GUI_CHECK(r.box("runbar/step").height == normal);
    r.act("view.scale_down");
    r.frames(2);
    GUI_CHECK(r.box("runbar/step").height < normal);
    while (r.enabled("view.scale_down"))
        r.act("view.scale_down");
    GUI_CHECK(!r.action("view.scale_down").reason(r.ctx()).empty());
    // Small type has its borders still, and words keep off those of their card.
    r.te->WindowFocus("//Policy");
    r.frames(3);
    const auto card = r.box("policy/card/0"), words = r.box("policy/result/0");
    GUI_CHECK(ImGui::GetStyle().ChildBorderSize >= 1);
    GUI_CHECK(words.x > card.x + ImGui::GetFontSize() / 2);
    r.act("view.scale_reset");
    r.frames(2);
    GUI_CHECK(r.box("runbar/step").height == normal);
}

void large_text_folds_the_layout(Robot& r) {
    r.start(r.config(), 20);
    const auto seen = [&](const char* panel) { return r.find(std::string("panel/") + panel).has_value(); };
    const auto scale_up_to_the_end = [&] {
        for (int i = 0; i < 20 && r.enabled("view.scale_up"); ++i)
            r.act("view.scale_up");
        r.frames(15); // tabs are brought to the front one by one
    };
    const auto signals = r.box("panel/Signals"), cache = r.box("panel/Cache");
    scale_up_to_the_end();
    // Nothing but the most important panel and the timeline, the others are its tabs.
    GUI_CHECK(seen("Signals") && seen("Timeline") && !seen("Cache") && !seen("Attention") && !seen("Text"));
    GUI_CHECK(r.box("panel/Signals").width > 1000);
    r.act("view.scale_reset");
    r.frames(15);
    for (const char* panel : {"Text", "Signals", "Policy", "Attention", "Cache", "Performance", "Timeline"})
        GUI_CHECK(seen(panel));
    GUI_CHECK(std::abs(r.box("panel/Signals").width - signals.width) <= 2);
    GUI_CHECK(std::abs(r.box("panel/Cache").height - cache.height) <= 2);
    // An arrangement of the person's own stays, however little room it leaves: here one without Text.
    r.te->MenuClick("//##MainMenuBar/View/Panels/Text");
    r.frames(3);
    GUI_CHECK(!seen("Text"));
    scale_up_to_the_end();
    GUI_CHECK(!seen("Text") && seen("Cache") && seen("Attention"));
    r.act("view.scale_reset");
    r.frames(3);
    r.act("view.layout.reset");
    r.frames(10);
    GUI_CHECK(seen("Text"));
}

void resizing_fits_the_layout(Robot& r) {
    r.start(r.config(), 20);
    const auto seen = [&](const char* panel) { return r.find(std::string("panel/") + panel).has_value(); };
    const auto resize = [&](int width, int height) {
        r.window().resize(width, height);
        r.frames(60); // a third of a second at rest, then tabs come to the front one by one
    };
    const auto signals = r.box("panel/Signals"), cache = r.box("panel/Cache");
    // The tab that somebody chose is the one that comes back.
    r.te->WindowFocus("//Log");
    r.frames(2);
    // While the border is dragged nothing jumps: panels scale with the window only.
    for (int width = 1280; width > 700; width -= 40) {
        r.window().resize(width, 520);
        r.frames(1);
        GUI_CHECK(seen("Text") && seen("Cache") && seen("Policy"));
    }
    resize(640, 480);
    GUI_CHECK(seen("Signals") && seen("Policy") && seen("Timeline") && !seen("Cache") && !seen("Text"));
    GUI_CHECK(r.box("panel/Signals").height > 300); // nothing is left below it but the timeline
    resize(1280, 800);
    for (const char* panel : {"Text", "Signals", "Policy", "Attention", "Cache", "Log", "Timeline"})
        GUI_CHECK(seen(panel));
    GUI_CHECK(!seen("Performance"));
    GUI_CHECK(std::abs(r.box("panel/Signals").width - signals.width) <= 2);
    GUI_CHECK(std::abs(r.box("panel/Cache").height - cache.height) <= 2);
    // What comes of it is what "Reset layout" makes at that size.
    resize(1900, 1000);
    const auto larger = r.box("panel/Signals"), beside = r.box("panel/Policy");
    GUI_CHECK(larger.width > signals.width * 1.2F);
    r.act("view.layout.reset");
    r.frames(15);
    GUI_CHECK(std::abs(r.box("panel/Signals").width - larger.width) <= 2);
    GUI_CHECK(std::abs(r.box("panel/Policy").width - beside.width) <= 2);
    resize(1280, 800);
    // An arrangement of the person's own stays: here one without Text.
    r.te->MenuClick("//##MainMenuBar/View/Panels/Text");
    r.frames(3);
    resize(640, 480);
    GUI_CHECK(!seen("Text") && seen("Cache") && seen("Attention"));
    resize(1280, 800);
    r.act("view.layout.reset");
    r.frames(10);
    GUI_CHECK(seen("Text"));
}

/// Every part of the run bar is in the strip, whole and beside the others, or in the popup of its "..." button.
void check_run_bar(Robot& r) {
    constexpr const char* parts[] = {"play_pause", "step", "refresh_now", "rewind", "step_n", "live"};
    const auto inside = [&](const ui::Landmarks::Box& box) {
        return box.x >= 0 && box.y >= 0 && box.x + box.width <= ImGui::GetIO().DisplaySize.x + 0.5F &&
               box.y + box.height <= ImGui::GetIO().DisplaySize.y + 0.5F;
    };
    std::vector<ui::Landmarks::Box> strip;
    std::vector<std::string> rest;
    for (const char* part : parts) {
        const auto box = r.find(std::string("runbar/") + part);
        if (!box) {
            rest.emplace_back(part);
            continue;
        }
        GUI_CHECK(inside(*box));
        strip.push_back(*box);
    }
    GUI_CHECK(r.find("runbar/play_pause") && r.find("runbar/live"));
    const auto more = r.find("runbar/more");
    if (more) strip.push_back(*more);
    for (size_t i = 0; i < strip.size(); ++i)
        for (size_t j = 0; j < i; ++j)
            GUI_CHECK(strip[i].x + strip[i].width <= strip[j].x || strip[j].x + strip[j].width <= strip[i].x);
    if (rest.empty()) return;
    GUI_CHECK(more && inside(*more));
    r.click(*more);
    for (const std::string& part : rest)
        GUI_CHECK(inside(r.box("runbar/" + part)));
    r.te->KeyPress(ImGuiKey_Escape);
    r.frames(2);
    r.move_away();
}

void the_run_bar_is_reachable(Robot& r) {
    r.start(r.config(), 20);
    const auto scale = [&](int percent) {
        r.ctx().run_action("view.scale_reset");
        r.frames(2);
        const std::pair<int, int> times[] = {{100, 0}, {150, 3}, {200, 5}, {300, 7}};
        for (const auto& [size, steps] : times)
            for (int i = 0; size == percent && i < steps; ++i)
                r.ctx().run_action("view.scale_up");
        r.frames(20);
    };
    for (const auto& [width, height] : {std::pair(900, 600), std::pair(1280, 800)}) {
        r.window().resize(width, height);
        for (const int percent : {100, 150, 200, 300}) {
            if (width == 900 && percent == 300) continue;
            scale(percent);
            check_run_bar(r);
        }
    }
    // At 300 % what went into the popup works there.
    GUI_CHECK(!r.find("runbar/rewind"));
    r.ctx().select_step(8);
    r.frames(2);
    r.click(r.box("runbar/more"));
    GUI_CHECK(r.shows("Step 8")); // of Live's button, the strip's last
    r.act_by_item("run.rewind", "//$FOCUSED/###run.rewind");
    GUI_CHECK(r.until([&] { return r.ctx().steps == 8 && r.ctx().live(); }));
    r.te->KeyPress(ImGuiKey_Escape);
    r.act("view.layout.present");
    r.frames(20);
    check_run_bar(r);
    r.act("view.layout.explore");
    scale(100);
    GUI_CHECK(r.find("runbar/rewind") && r.find("runbar/step_n"));
}

/// Chooses a line of the palette by its id.
void choose(Robot& r, const char* id) {
    r.act("help.palette");
    r.te->SetRef(r.te->WindowInfo("//Find a command/hits").Window);
    r.te->ItemClick((std::string("###") + id).c_str());
    r.te->SetRef("");
    r.frames(3);
}

std::string undo_words(Robot& r) {
    return r.ctx().drafts.undo_label();
}

void two_panels_of_a_kind(Robot& r) {
    r.start(r.config(), 40);
    r.te->WindowFocus("//Policy");
    r.frames(2);
    GUI_CHECK(r.action("view.another").reason(r.ctx()) == "Two panels Policy would show the same");
    r.te->WindowFocus("//Signals");
    r.frames(2);
    const auto alone = r.box("panel/Signals");
    r.act("view.another");
    GUI_CHECK(r.until([&] { return r.find("panel/Signals 2").has_value(); }, 30));
    r.frames(5);
    const auto left = r.box("panel/Signals"), right = r.box("panel/Signals 2");
    GUI_CHECK(right.x >= left.x + left.width && right.y == left.y && right.height == left.height);
    GUI_CHECK(std::abs(left.width - right.width) < 0.1F * alone.width &&
              left.width + right.width > 0.95F * alone.width);
    GUI_CHECK(r.find("signals/plot/entropy_bits") && r.find("2/signals/plot/entropy_bits"));

    // The palette chooses for the one that was used last, and only for that.
    r.te->WindowFocus("//Signals 2");
    choose(r, "plot.entropy_bits");
    GUI_CHECK(r.find("signals/plot/entropy_bits") && !r.find("2/signals/plot/entropy_bits"));
    GUI_CHECK(undo_words(r) == "Signals 2: hide Entropy");
    r.te->WindowFocus("//Signals");
    choose(r, "plot.top1_prob");
    GUI_CHECK(r.find("signals/plot/top1_prob") && !r.find("2/signals/plot/top1_prob"));
    GUI_CHECK(
        r.ctx().views.signals.of("entropy_bits").shown); // the context is the first one's between frames

    // Undo goes back in the order of the changes, whatever panel has the keyboard.
    r.act("edit.undo");
    r.frames(3);
    GUI_CHECK(!r.find("signals/plot/top1_prob") && !r.find("2/signals/plot/entropy_bits"));
    r.act("edit.undo");
    r.frames(3);
    GUI_CHECK(r.find("2/signals/plot/entropy_bits"));
    r.act("edit.redo");
    r.frames(3);
    GUI_CHECK(!r.find("2/signals/plot/entropy_bits") && r.find("signals/plot/entropy_bits"));

    // A line dragged in the second one is the same threshold in the first.
    choose(r, "plot.entropy_bits"); // of the first, which was used last: gone there
    r.te->WindowFocus("//Signals 2");
    choose(r, "plot.entropy_bits");
    GUI_CHECK(!r.find("signals/plot/entropy_bits") && r.find("2/signals/threshold/entropy_bits"));
    const double before = *r.ctx().drafts.number("entropy.threshold");
    const auto line = r.box("2/signals/threshold/entropy_bits");
    r.move(line.x + line.width / 2, line.y + line.height / 2);
    r.drag_by(0, -15, 4);
    r.te->MouseUp(0);
    r.frames(2);
    GUI_CHECK(*r.ctx().drafts.number("entropy.threshold") > before);

    // What is exported is what the panel in use shows.
    r.act("export.figure");
    r.frames(2);
    GUI_CHECK(r.dialog_open("Export figure") && r.shows("Signals over steps"));
    const auto path = r.scratch("second.svg");
    std::filesystem::remove(path);
    r.te->ItemInputValue("//Export figure/##path", path.string().c_str());
    GUI_CHECK(r.until([&] { return !r.dialog_open("Export figure"); }, 2000));
    std::ifstream svg(path);
    const std::string text((std::istreambuf_iterator<char>(svg)), {});
    GUI_CHECK(text.find("Entropy") != std::string::npos); // which the first one does not show

    // A third, and no fourth; the layout's own places have one.
    r.te->WindowFocus("//Signals 2");
    r.act("view.another");
    GUI_CHECK(r.until([&] { return r.find("panel/Signals 3").has_value(); }, 30));
    r.frames(3);
    GUI_CHECK(r.find("3/signals/plot/entropy_bits").has_value());
    GUI_CHECK(r.action("view.another").reason(r.ctx()) == "3 of them are open");
    r.te->WindowClose("//Signals 3");
    r.frames(5);
    GUI_CHECK(!r.find("panel/Signals 3") && r.find("panel/Signals 2"));
    // Opened anew it begins with the other's view as it is now, which is no change of its own.
    r.te->WindowFocus("//Signals 2");
    choose(r, "plot.kl_nats");
    const std::string last = undo_words(r);
    r.act("view.another");
    GUI_CHECK(r.until([&] { return r.find("panel/Signals 3").has_value(); }, 30));
    r.frames(5);
    GUI_CHECK(!r.find("3/signals/plot/kl_nats") && undo_words(r) == last &&
              last == "Signals 2: hide KL teacher || student");
    r.act("view.layout.reset");
    r.frames(5);
    GUI_CHECK(!r.find("panel/Signals 2") && !r.find("panel/Signals 3"));
    GUI_CHECK(std::abs(r.box("panel/Signals").width - alone.width) <= 1);
    r.ctx().views.signals = ui::first_signal_plots();
    // One of another kind shows another thing beside its first.
    r.te->WindowFocus("//Text");
    r.frames(2);
    r.act("view.another");
    GUI_CHECK(r.until([&] { return r.find("panel/Text 2").has_value(); }, 30));
    r.frames(5);
    GUI_CHECK(r.find("2/text/token/5") && r.find("text/token/5"));
    r.click(r.box("2/text/token/5")); // what is selected is selected everywhere
    GUI_CHECK(r.ctx().selection.step == 4);
    r.act("view.layout.reset");
    r.frames(3);
}

void a_choice_is_taken_back(Robot& r) {
    r.start(r.config(), 30);
    r.ctx().views = {};
    r.frames(3);
    // Where several controls change at once, one entry; a drag of a parameter keeps its place among them.
    r.ctx().views.cache.log = true;
    r.frames(2);
    GUI_CHECK(undo_words(r) == "Cache: logarithmic");
    r.ctx().drafts.edit(r.engine(), "entropy.threshold", "5");
    r.ctx().views.text.coloured_by = "kl_nats";
    r.ctx().views.text.origins = true;
    r.frames(2);
    GUI_CHECK(undo_words(r) == "Text: colours, ...");
    r.act("edit.undo");
    GUI_CHECK(r.ctx().views.text.coloured_by == "entropy_bits" && !r.ctx().views.text.origins);
    GUI_CHECK(r.ctx().views.cache.log);
    GUI_CHECK(undo_words(r).starts_with("Entropy threshold"));
    r.act("edit.undo");
    GUI_CHECK(*r.ctx().drafts.number("entropy.threshold") == 6);
    r.act("edit.undo");
    GUI_CHECK(!r.ctx().views.cache.log);
    for (int i = 0; i < 3; ++i)
        r.act("edit.redo");
    GUI_CHECK(r.ctx().views.cache.log && r.ctx().views.text.origins &&
              *r.ctx().drafts.number("entropy.threshold") == 5);
    GUI_CHECK(!r.enabled("edit.redo"));
    // What a panel sets by itself is nothing to take back.
    r.ctx().views.cache.top = 0.25;
    r.frames(2);
    GUI_CHECK(undo_words(r) == "Text: colours, ...");
    r.ctx().views = {};
    r.frames(2);
}

} // namespace

std::vector<Case> window_cases() {
    return {
        {"window", "WN2 themes change every colour and back", themes},
        {"window", "WN1 layouts, closed panels, reset, lock", layouts},
        {"window", "WN8 two panels of a kind show each its own", two_panels_of_a_kind},
        {"window", "WN9 what a person has chosen to see is taken back like a parameter",
         a_choice_is_taken_back},
        {"window", "WN1 a panel that floats has a ground and an edge", a_floating_panel},
        {"window", "WN3 the user's scale", user_scale},
        {"window", "WN1 a window of another size has its layout fitted once it rests",
         resizing_fits_the_layout},
        {"window", "RB1 WN3 every part of the run bar is reachable at any size", the_run_bar_is_reachable},
        {"window", "WN3 WN1 large text folds a layout that nobody has changed", large_text_folds_the_layout},
    };
}

} // namespace refreshlab::gui
