#include "engine/control/command.h"
#include "engine/control/parameters.h"
#include "engine/record/recording/recording.h"
#include "engine/signals/registry.h"
#include "tests/gui/panels/plot_marks.h"
#include "tests/gui/robot.h"
#include "ui/base/format.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>

namespace refreshlab::gui {

namespace {

void drag_the_entropy_line(Robot& r) {
    r.start(with_threshold(r, 9), 40);
    GUI_CHECK(r.recording()->refreshes().size() == 0);
    const auto plot = r.box(plot_mark);
    const float before = middle(r.box(line_mark));
    grab_line(r);
    r.drag_by(0, plot.height * 0.62F, 8);
    GUI_CHECK(r.ctx().drafts.edited_key() == key);
    const float mouse = ImGui::GetIO().MousePos.y;
    GUI_CHECK(std::abs(middle(r.box(line_mark)) - mouse) <= 3); // the line is where the mouse is
    // While it is held: the count of what it would have done, from recorded values.
    GUI_CHECK(r.until([&] { return r.find("signals/what_if/entropy_bits").has_value(); }, 200));
    r.te->MouseUp(0);
    r.frames(3);
    GUI_CHECK(r.ctx().drafts.edited_key().empty());
    const double draft = r.ctx().drafts.number(key).value();
    GUI_CHECK(draft < 6 && draft > 0);
    GUI_CHECK(middle(r.box(line_mark)) > before + plot.height * 0.4F);
    // The engine has the last value, and the recording tells from which step on.
    GUI_CHECK(r.until([&] { return applied_threshold(r) == draft; }));
    GUI_CHECK(r.until([&] { return !r.ctx().drafts.pending(key); }, 50));
    GUI_CHECK(r.recording()->commands().size() > 0);
    GUI_CHECK(r.recording()->commands()[r.recording()->commands().size() - 1].step == 41);
    // Refreshes follow, for this reason and no other.
    r.step(60);
    const auto& refreshes = r.recording()->refreshes();
    GUI_CHECK(refreshes.size() > 0);
    const size_t entropy = signal_id("entropy_bits").value();
    for (size_t i = 0; i < refreshes.size(); ++i) {
        GUI_CHECK(refreshes[i].automatic && refreshes[i].step > 40);
        GUI_CHECK(reason_letter(refreshes[i].hits) == 'E');
        GUI_CHECK(static_cast<double>(r.recording()->signal(refreshes[i].step, entropy)) > draft);
    }
    // The card in Policy has the same number.
    GUI_CHECK(std::abs(static_cast<double>(r.te->ItemReadAsFloat("//Policy/**/threshold/##entry")) - draft) <
              1e-4);
}

void drag_sends_only_the_last_value(Robot& r) {
    r.start(with_threshold(r, 8), 30);
    const size_t commands = r.recording()->commands().size();
    grab_line(r);
    r.drag_by(0, 60, 12);
    r.te->MouseUp(0);
    r.frames(2);
    const double draft = r.ctx().drafts.number(key).value();
    GUI_CHECK(draft != 8);
    GUI_CHECK(r.until([&] { return applied_threshold(r) == draft; }));
    r.step(10);
    // Whatever was passed on the way: the last setting is the draft, and nothing was set after it.
    const auto& log = r.recording()->commands();
    GUI_CHECK(log.size() > commands && log[log.size() - 1].step == 31);
    RunConfig felt;
    felt.policy = preset_policy("entropy");
    const auto last = command_from_json(nlohmann::json::parse(log[log.size() - 1].json), "the last command");
    GUI_CHECK(std::get<command::SetParameter>(last).key == key);
    set_parameter(felt, key, std::get<command::SetParameter>(last).value);
    GUI_CHECK(felt.policy.triggers.at(0).threshold == draft);
    GUI_CHECK(applied_threshold(r) == draft);
    for (size_t i = 0; i < r.recording()->refreshes().size(); ++i)
        for (const TriggerHit& hit : r.recording()->refreshes()[i].hits)
            if (r.recording()->refreshes()[i].step > 30) GUI_CHECK(hit.threshold == draft);
}

/// The tag left of the plot is a handle as well.
void drag_by_the_tag(Robot& r) {
    r.start(with_threshold(r, 7), 30);
    const auto plot = r.box(plot_mark), tag = r.box("signals/tag/" + key);
    r.move(tag.x + tag.width / 2, middle(tag) - 3); // not its middle: nothing jumps
    r.frames(2);
    GUI_CHECK(ImGui::GetMouseCursor() == ImGuiMouseCursor_ResizeNS);
    r.drag_by(0, 0, 1);
    GUI_CHECK(r.ctx().drafts.number(key) == 7.0);
    r.te->MouseUp(0);
    r.frames(2);
    r.drag_by(0, plot.height * 0.4F, 8);
    GUI_CHECK(std::abs(middle(r.box(line_mark)) - (ImGui::GetIO().MousePos.y + 3)) <= 3);
    r.te->MouseUp(0);
    r.frames(3);
    const double draft = r.ctx().drafts.number(key).value();
    GUI_CHECK(draft < 5 && draft > 1);
    GUI_CHECK(r.until([&] { return applied_threshold(r) == draft; }));
    // Esc gives the value back that it had.
    const auto moved = r.box("signals/tag/" + key);
    r.move(moved.x + moved.width / 2, middle(moved));
    r.drag_by(0, -30, 4);
    r.te->KeyPress(ImGuiKey_Escape);
    r.te->MouseUp(0);
    r.frames(3);
    GUI_CHECK(r.ctx().drafts.number(key) == draft);
}

void escape_restores(Robot& r) {
    r.start(with_threshold(r, 7), 30);
    const float before = middle(r.box(line_mark));
    const std::string undo = r.ctx().drafts.undo_label();
    grab_line(r);
    r.drag_by(0, 50, 6);
    GUI_CHECK(r.ctx().drafts.number(key) != 7.0);
    r.te->KeyPress(ImGuiKey_Escape);
    r.frames(2);
    GUI_CHECK(r.ctx().drafts.number(key) == 7.0);
    // The button is still down: what the mouse does now no longer counts.
    r.te->MouseMoveToPos(ImVec2(ImGui::GetIO().MousePos.x, ImGui::GetIO().MousePos.y + 25));
    r.frames(2);
    GUI_CHECK(r.ctx().drafts.number(key) == 7.0);
    r.te->MouseUp(0);
    r.frames(2);
    GUI_CHECK(r.until([&] { return applied_threshold(r) == 7.0 && !r.ctx().drafts.pending(key); }));
    GUI_CHECK(std::abs(middle(r.box(line_mark)) - before) <= 1);
    GUI_CHECK(r.ctx().drafts.undo_label() == undo); // a drag given up is no change
}

void one_undo_entry_per_drag(Robot& r) {
    r.start(with_threshold(r, 7), 30);
    grab_line(r);
    r.drag_by(0, 45, 9);
    r.te->MouseUp(0);
    r.frames(2);
    const double dragged = r.ctx().drafts.number(key).value();
    GUI_CHECK(dragged < 7);
    GUI_CHECK(r.ctx().drafts.undo_label().find("7 ->") != std::string::npos);
    r.move_away();
    r.act("edit.undo");
    GUI_CHECK(r.until([&] { return applied_threshold(r) == 7.0; }));
    GUI_CHECK(r.ctx().drafts.number(key) == 7.0);
    r.act("edit.redo");
    GUI_CHECK(r.until([&] { return applied_threshold(r) == dragged; }));
    // A number typed on the card is the line's number too, in the same unit.
    r.te->ItemInputValue("//Policy/**/threshold/##entry", "0.5");
    GUI_CHECK(r.until([&] { return applied_threshold(r) == 0.5; }));
    r.frames(3);
    const float typed = middle(r.box(line_mark));
    r.te->ItemInputValue("//Policy/**/threshold/##entry", "7");
    GUI_CHECK(r.until([&] { return applied_threshold(r) == 7.0; }));
    r.frames(3);
    GUI_CHECK(middle(r.box(line_mark)) < typed - 5);
    // And so is what the slider says.
    r.te->ItemDragWithDelta("//Policy/**/slider/##slider", ImVec2(-25, 0));
    r.frames(2);
    const double slid = r.ctx().drafts.number(key).value();
    GUI_CHECK(slid != 7.0);
    GUI_CHECK(r.until([&] { return applied_threshold(r) == slid; }));
    GUI_CHECK(std::abs(static_cast<double>(r.te->ItemReadAsFloat("//Policy/**/threshold/##entry")) - slid) <
              1e-4);
}

void right_drag_leaves_the_line(Robot& r) {
    r.start(with_threshold(r, 7), 60);
    const std::string undo = r.ctx().drafts.undo_label();
    const auto untouched = [&] {
        return r.ctx().drafts.edited_key().empty() && r.ctx().drafts.number(key) == 7.0 &&
               applied_threshold(r) == 7.0 && r.ctx().drafts.undo_label() == undo;
    };
    const auto right_drag_to = [&](float x, float y) {
        const ImVec2 from = ImGui::GetIO().MousePos;
        r.te->MouseDown(1);
        r.frames(1);
        for (int i = 1; i <= 6; ++i) {
            const float share = static_cast<float>(i) / 6;
            r.te->MouseMoveToPos(ImVec2(from.x + (x - from.x) * share, from.y + (y - from.y) * share));
            r.frames(1);
            GUI_CHECK(untouched());
        }
        r.te->MouseUp(1);
        r.frames(3);
        GUI_CHECK(untouched());
    };
    const auto plot = r.box(plot_mark);
    grab_line(r);
    right_drag_to(plot.x + plot.width * 0.4F, plot.y + plot.height * 0.9F);
    // From below the line across it: the box zooms time, the line stays.
    r.act("view.fit");
    r.frames(3);
    const double width = r.ctx().time.x_max - r.ctx().time.x_min;
    r.move(plot.x + plot.width * 0.3F, beside_line(r));
    right_drag_to(plot.x + plot.width * 0.7F, plot.y + 4);
    const double now = r.ctx().time.x_max - r.ctx().time.x_min;
    GUI_CHECK(now > 0.3 * width && now < 0.5 * width);
    r.act("view.fit");
    r.act("view.follow");
    // A right click on it asks for the plot's menu, where the line is locked.
    grab_line(r);
    r.te->MouseClick(1);
    r.frames(2);
    GUI_CHECK(r.te->ItemExists("//$FOCUSED/Lock the threshold line"));
    r.te->ItemClick("//$FOCUSED/Lock the threshold line");
    r.frames(2);
    grab_line(r);
    r.drag_by(0, 40, 5);
    r.te->MouseUp(0);
    r.frames(2);
    GUI_CHECK(untouched());
    // Unlocked again for the next test, beside the line: a locked one takes no mouse.
    r.te->MouseClick(1);
    r.frames(2);
    r.te->ItemClick("//$FOCUSED/Lock the threshold line");
    r.frames(2);
    r.act("view.fit");
    r.act("view.follow");
}

void zoom_box_on_the_line(Robot& r) {
    // The right button means the zoom wherever it goes down, on a threshold line as well.
    r.start(with_threshold(r, 7), 60);
    const std::string undo = r.ctx().drafts.undo_label();
    const auto plot = r.box(plot_mark);
    const double low = r.ctx().time.x_min, width = r.ctx().time.x_max - low;
    const auto right_drag = [&](float from, float to, bool escape) {
        r.move(plot.x + plot.width * from, middle(r.box(line_mark)));
        r.te->MouseDown(1);
        r.frames(1);
        for (int i = 1; i <= 5; ++i) {
            const float share = from + (to - from) * static_cast<float>(i) / 5;
            r.te->MouseMoveToPos(ImVec2(plot.x + plot.width * share, plot.y + plot.height * 0.6F));
            r.frames(1);
        }
        GUI_CHECK(r.ctx().drafts.edited_key().empty());
        const auto box = r.box("signals/zoom_box");
        GUI_CHECK(std::abs(box.x - (plot.x + plot.width * std::min(from, to))) <= 2);
        GUI_CHECK(std::abs(box.width - plot.width * std::abs(to - from)) <= 3);
        if (escape) r.te->KeyPress(ImGuiKey_Escape);
        r.te->MouseUp(1);
        r.frames(3);
    };
    right_drag(0.2F, 0.5F, true); // given up: nothing has changed
    GUI_CHECK(r.ctx().time.follow && r.ctx().time.x_max - r.ctx().time.x_min == width);
    right_drag(0.2F, 0.5F, false);
    GUI_CHECK(!r.ctx().time.follow);
    GUI_CHECK(std::abs(r.ctx().time.x_min - (low + 0.2 * width)) < 0.02 * width);
    GUI_CHECK(std::abs(r.ctx().time.x_max - (low + 0.5 * width)) < 0.02 * width);
    GUI_CHECK(!r.find("signals/zoom_box"));
    r.act("view.fit");
    r.frames(3);
    right_drag(0.8F, 0.4F, false); // and backwards
    GUI_CHECK(std::abs(r.ctx().time.x_min - (low + 0.4 * width)) < 0.02 * width);
    GUI_CHECK(r.ctx().drafts.number(key) == 7.0 && r.ctx().drafts.undo_label() == undo);
    r.act("view.fit");
    r.act("view.follow");
}

void choose_axis(Robot& r, const char* label) {
    const auto plot = r.box(plot_mark);
    r.move(plot.x + plot.width * 0.9F, plot.y + plot.height - 4);
    r.te->MouseClick(1);
    r.frames(2);
    r.te->ItemClick((std::string("//$FOCUSED/") + label).c_str());
    r.frames(3);
    r.move_away();
}

void logarithmic_axes(Robot& r) {
    r.start(with_threshold(r, 4), 80);
    const size_t entropy = signal_id("entropy_bits").value();
    const auto plot = r.box(plot_mark);
    const float linear = middle(r.box(line_mark));
    const auto share = [&] { return (plot.y + plot.height - middle(r.box(line_mark))) / plot.height; };
    const float linear_share = share();
    choose_axis(r, "Logarithmic y axis");
    GUI_CHECK(r.ctx().views.signals.of("entropy_bits").scale == ui::AxisScale::log);
    // 4 of some 8 bits is in the upper part of the decades, and the line is still the same value.
    GUI_CHECK(share() > linear_share + 0.1F && share() < 1);
    GUI_CHECK(r.ctx().drafts.number(key) == 4.0);
    // The line is dragged as ever: down by half the plot is far less than half the bits.
    grab_line(r);
    r.drag_by(0, plot.height * 0.4F, 6);
    const float mouse = ImGui::GetIO().MousePos.y;
    GUI_CHECK(std::abs(middle(r.box(line_mark)) - mouse) <= 3);
    r.te->MouseUp(0);
    r.frames(2);
    const double dragged = r.ctx().drafts.number(key).value();
    GUI_CHECK(dragged > 0 && dragged < 2);
    GUI_CHECK(r.until([&] { return applied_threshold(r) == dragged; }));
    r.move_away();
    r.act("edit.undo");
    GUI_CHECK(r.until([&] { return applied_threshold(r) == 4.0; }));
    // 0 has no place there: the tag alone stays, and nothing can be grabbed.
    r.te->ItemInputValue("//Policy/**/threshold/##entry", "0");
    GUI_CHECK(r.until([&] { return applied_threshold(r) == 0.0; }));
    r.frames(3);
    GUI_CHECK(!r.find(line_mark));
    choose_axis(r, "Symlog y axis");
    GUI_CHECK(r.ctx().views.signals.of("entropy_bits").scale == ui::AxisScale::symlog);
    GUI_CHECK(r.find(line_mark)); // here it has one
    r.act("edit.undo");           // what was done last: the axis
    GUI_CHECK(r.ctx().views.signals.of("entropy_bits").scale == ui::AxisScale::log);
    r.act("edit.undo");
    GUI_CHECK(r.until([&] { return applied_threshold(r) == 4.0; }));
    choose_axis(r, "Symlog y axis");
    r.frames(3);
    GUI_CHECK(share() > linear_share);
    // Hover reads the recorded value, whatever the axis makes of it.
    const auto& view = r.ctx().time;
    const auto now = r.box(plot_mark); // longer labels take room from it
    r.move(now.x + static_cast<float>((20 - view.x_min) / (view.x_max - view.x_min)) * now.width,
           now.y + now.height - 4);
    GUI_CHECK(r.ctx().hovered_step == 20);
    GUI_CHECK(r.shows(ui::format_number(static_cast<double>(r.recording()->signal(20, entropy)))));
    r.move_away();
    // The list of signals offers the same choice.
    r.te->ItemClick("//Signals/Choose signals");
    r.frames(2);
    r.te->SetRef(r.te->WindowInfo("//$FOCUSED").Window);
    r.te->ItemClick(("$$" + std::to_string(entropy) + "/##axis").c_str());
    r.te->ItemClick("//$FOCUSED/linear");
    r.te->SetRef("");
    r.te->KeyPress(ImGuiKey_Escape);
    r.frames(3);
    GUI_CHECK(r.ctx().views.signals.of("entropy_bits").scale == ui::AxisScale::linear);
    r.move_away();
    GUI_CHECK(std::abs(middle(r.box(line_mark)) - linear) <= 2);
}

void threshold_has_a_history(Robot& r) {
    r.start(with_threshold(r, 9), 40);
    GUI_CHECK(!r.find("signals/stair/entropy_bits") && !r.find("signals/change/0"));
    r.te->ItemInputValue("//Policy/**/threshold/##entry", "5");
    GUI_CHECK(r.until([&] { return applied_threshold(r) == 5.0; }));
    r.step(40);
    // The stair stands where the line was; line and tag are the present value.
    const auto plot = r.box(plot_mark);
    const float was = middle(r.box("signals/stair/entropy_bits")), is = middle(r.box(line_mark));
    GUI_CHECK(was < is - plot.height * 0.1F); // 9 is above 5
    // A tick tells the change, in Signals and in the Timeline, at the step that felt it first.
    for (const std::string panel : {"signals", "timeline"}) {
        const auto tick = r.box(panel + "/change/0");
        r.move(tick.x + tick.width / 2, tick.y + tick.height / 2);
        GUI_CHECK(r.shows("From step 41: Entropy threshold: 5 bits"));
        r.move_away();
    }
    const auto tick = r.box("signals/change/0");
    const auto& view = r.ctx().time;
    const auto now = r.box(plot_mark); // longer labels take room from it
    const double at = (40.5 - view.x_min) / (view.x_max - view.x_min) * static_cast<double>(now.width);
    GUI_CHECK(std::abs(tick.x + tick.width / 2 - now.x - static_cast<float>(at)) <= 2);
    // The stair is still there when the line is dragged; one drag is one line of the log.
    const int told = r.count_log_lines("Entropy threshold");
    grab_line(r);
    r.drag_by(0, plot.height * 0.2F, 8);
    r.te->MouseUp(0);
    r.frames(2);
    const double draft = r.ctx().drafts.number(key).value();
    GUI_CHECK(draft < 5);
    GUI_CHECK(r.until([&] { return applied_threshold(r) == draft; }));
    r.step(1);
    GUI_CHECK(r.until([&] { return r.count_log_lines("Entropy threshold") > told; }));
    r.frames(10);
    GUI_CHECK(r.count_log_lines("Entropy threshold") == told + 1);
}

} // namespace

std::vector<Case> threshold_cases() {
    return {
        {"signals", "SG1 SG3 PO1 the entropy line is dragged: draft, engine, card and refreshes agree",
         drag_the_entropy_line},
        {"signals", "SG16 a threshold has a history, and live changes are ticks", threshold_has_a_history},
        {"signals", "SG1 a drag leaves its last value and nothing else behind",
         drag_sends_only_the_last_value},
        {"signals", "SG2 the tag of a threshold is a handle of its line", drag_by_the_tag},
        {"signals", "SG2 Esc in a drag gives the old threshold back", escape_restores},
        {"signals", "SG2 PO5 line, typed number and slider are one value; one undo entry per drag",
         one_undo_entry_per_drag},
        {"signals", "SG13 a right drag leaves the threshold line alone, a right click on it opens the menu",
         right_drag_leaves_the_line},
        {"signals", "SG13 a zoom by the right button begins on a threshold line as beside it",
         zoom_box_on_the_line},
        {"signals", "SG11 SG1 a logarithmic axis: the line is the same value, 0 is a tag, hover is raw",
         logarithmic_axes},
    };
}

} // namespace refreshlab::gui
