// Signals with a value per layer, and those that a run's components publish, in the Signals panel.
#include "engine/record/recording/recording.h"
#include "engine/signals/layer_values.h"
#include "engine/signals/registry.h"
#include "tests/gui/robot.h"
#include "ui/base/value_format.h"

#include <imgui_internal.h>

#include <cmath>

namespace refreshlab::gui {

namespace {

const std::string layered = "attention_entropy_bits", layered_mark = "signals/plot/" + layered;

RunConfig with_attention_entropy(Robot& r) {
    RunConfig run = r.config();
    set_parameter(run, "capture.attention_entropy", "true");
    return run;
}

/// Through the list of signals.
void show(Robot& r, const std::string& signal) {
    if (r.ctx().views.signals.of(signal).shown) return;
    r.te->ItemClick("//Signals/Choose signals");
    r.frames(2);
    const size_t id = r.ctx().signal_id(signal).value();
    const Signal& info = r.ctx().signals()[id];
    r.te->SetRef(r.te->WindowInfo("//$FOCUSED").Window);
    r.te->ItemClick(("$$" + std::to_string(id) + "/" + ui::with_unit(info.label, info.unit)).c_str());
    r.te->SetRef("");
    r.te->KeyPress(ImGuiKey_Escape);
    r.frames(3);
}

void choose_layers(Robot& r, const char* item) {
    r.te->ItemClick("//Signals/Choose signals");
    r.frames(2);
    const size_t id = signal_id(layered).value();
    r.te->SetRef(r.te->WindowInfo("//$FOCUSED").Window);
    r.te->ItemClick(("$$" + std::to_string(id) + "/##layers").c_str());
    r.te->ItemClick((std::string("//$FOCUSED/") + item).c_str());
    r.te->SetRef("");
    r.te->KeyPress(ImGuiKey_Escape);
    r.te->KeyPress(ImGuiKey_Escape);
    r.frames(3);
    r.move_away();
}

/// Puts the mouse on a step of the plot. \param y  from the top, a share of the height
void hover(Robot& r, int64_t step, float y) {
    const auto plot = r.box(layered_mark);
    const auto& view = r.ctx().time;
    const double share = (static_cast<double>(step) - view.x_min) / (view.x_max - view.x_min);
    r.move(plot.x + static_cast<float>(share) * plot.width, plot.y + y * plot.height);
}

void layers_as_curve_and_strip(Robot& r) {
    const ui::SignalPlots before = r.ctx().views.signals;
    r.start(with_attention_entropy(r), 40);
    show(r, layered);
    GUI_CHECK(r.ctx().views.signals.of(layered).shown && r.find(layered_mark));
    const size_t id = signal_id(layered).value();
    const auto values = [&](int64_t step) { return r.recording()->layer_values(step, id); };
    const auto layers = static_cast<int64_t>(values(20).size());
    GUI_CHECK(layers == r.recording()->info().layers && layers > 1);
    const auto told = [&](float value) { return ui::format_signal(value, "bits"); };
    // One number of the layers: the plot's tooltip and its header read it.
    hover(r, 20, 0.9F);
    GUI_CHECK(r.ctx().hovered_step == 20);
    GUI_CHECK(r.shows(told(layer_mean(values(20)))));
    choose_layers(r, "max");
    hover(r, 20, 0.9F);
    GUI_CHECK(r.shows(told(reduce_layers(values(20), Reduction::max))));
    choose_layers(r, "layer 1");
    GUI_CHECK(r.ctx().views.signals.of(layered).layers.layer == 1);
    hover(r, 20, 0.9F);
    GUI_CHECK(r.shows(told(values(20)[1])));
    // All of them: a strip, layer 0 at the top, with the value of the cell under the mouse.
    choose_layers(r, "strip");
    GUI_CHECK(r.ctx().views.signals.of(layered).layers.strip);
    for (int64_t layer = 0; layer < layers; ++layer) {
        hover(r, 20, (static_cast<float>(layer) + 0.5F) / static_cast<float>(layers));
        GUI_CHECK(r.ctx().hovered_step == 20);
        GUI_CHECK(
            r.shows("layer " + std::to_string(layer) + ": " + told(values(20)[static_cast<size_t>(layer)])));
    }
    r.move_away();
    // Cells of unlike values have unlike colours.
    const auto plot = r.box(layered_mark);
    const auto& view = r.ctx().time;
    const Image image = r.look();
    const auto cell = [&](int64_t step, int64_t layer) {
        const double x = (static_cast<double>(step) - view.x_min) / (view.x_max - view.x_min);
        const double y = (static_cast<double>(layer) + 0.5) / static_cast<double>(layers);
        return image.at(static_cast<double>(plot.x) + x * static_cast<double>(plot.width),
                        static_cast<double>(plot.y) + y * static_cast<double>(plot.height));
    };
    float low = values(1)[0], high = low;
    int64_t low_step = 1, low_layer = 0, high_step = 1, high_layer = 0;
    for (int64_t step = 1; step <= 38; ++step)
        for (int64_t layer = 0; layer < layers; ++layer) {
            const float v = values(step)[static_cast<size_t>(layer)];
            if (v < low) low = v, low_step = step, low_layer = layer;
            if (v > high) high = v, high_step = step, high_layer = layer;
        }
    GUI_CHECK(high > low);
    GUI_CHECK(colour_distance(cell(low_step, low_layer), cell(high_step, high_layer)) > 200);
    r.ctx().views.signals = before;
    r.frames(2);
}

void trigger_on_one_number(Robot& r) {
    const ui::SignalPlots before = r.ctx().views.signals;
    r.start(with_attention_entropy(r), 30);
    show(r, layered);
    choose_layers(r, "max");
    const auto plot = r.box(layered_mark);
    r.move(plot.x + plot.width * 0.5F, plot.y + plot.height - 4);
    r.te->MouseClick(1);
    r.frames(2);
    r.te->ItemClick("//$FOCUSED/Add a threshold");
    r.frames(3);
    const auto trigger_of = [&]() -> const Trigger* {
        for (const Trigger& trigger : r.status()->applied.policy.triggers)
            if (trigger.signal == layered) return &trigger;
        return nullptr;
    };
    GUI_CHECK(r.until([&] { return trigger_of() != nullptr; }));
    GUI_CHECK(trigger_of()->reduce == Reduction::max);
    GUI_CHECK(r.find("signals/threshold/" + layered));
    // Another number of the layers is another curve: the line is not on it.
    choose_layers(r, "min");
    GUI_CHECK(!r.find("signals/threshold/" + layered));
    choose_layers(r, "max");
    GUI_CHECK(r.find("signals/threshold/" + layered));
    // Dragged below every value it fires, for this reason.
    const auto line = r.box("signals/threshold/" + layered);
    r.move(plot.x + plot.width * 0.7F, line.y + line.height / 2);
    r.drag_by(0, plot.y + plot.height - (line.y + line.height / 2) - 2, 6);
    r.te->MouseUp(0);
    r.frames(2);
    const size_t id = signal_id(layered).value();
    const double threshold = r.ctx().drafts.policy().triggers.back().threshold;
    GUI_CHECK(r.until([&] { return trigger_of()->threshold == threshold; }));
    r.step(60);
    int fired = 0;
    const auto& refreshes = r.recording()->refreshes();
    for (size_t i = 0; i < refreshes.size(); ++i)
        for (const TriggerHit& hit : refreshes[i].hits) {
            if (hit.signal != layered) continue;
            GUI_CHECK(hit.reduce == Reduction::max);
            ++fired;
            const auto values = r.recording()->layer_values(refreshes[i].step, id);
            GUI_CHECK(static_cast<double>(reduce_layers(values, Reduction::max)) > threshold);
        }
    GUI_CHECK(fired > 0);
    // Back through all of it: threshold, numbers of layers, trigger.
    for (int i = 0; i < 10 && trigger_of() != nullptr && r.enabled("edit.undo"); ++i) {
        r.act("edit.undo");
        r.frames(5);
    }
    GUI_CHECK(trigger_of() == nullptr);
    r.ctx().views.signals = before;
    r.frames(2);
}

/// What the card offers for the layers reaches the engine, and is taken back.
void card_chooses_layers(Robot& r) {
    RunConfig run = with_attention_entropy(r);
    run.policy.triggers = {Trigger{.signal = layered, .threshold = 9}};
    r.start(run, 5);
    const auto trigger = [&]() -> Trigger { return r.status()->applied.policy.triggers.at(0); };
    GUI_CHECK(trigger().reduce == Reduction::mean);
    for (const char* choice : {"max", "min", "layer"}) {
        r.frames(2);
        r.click(r.box("policy/layers/0"));
        r.frames(2);
        r.te->ItemClick((std::string("//$FOCUSED/") + choice).c_str());
        GUI_CHECK(r.until([&] { return to_string(trigger().reduce) == choice; }, 60));
    }
    r.frames(3);
    r.te->ItemInputValue("//Policy/**/layer/##entry", "1");
    GUI_CHECK(r.until([&] { return trigger().layer == 1; }, 60));
    GUI_CHECK(r.ctx().drafts.undo_label() ==
              std::string(signals()[*signal_id(layered)].label) + " layer 0 -> 1");
    r.move_away();
    r.act("edit.undo");
    GUI_CHECK(r.until([&] { return trigger().layer == 0 && trigger().reduce == Reduction::layer; }, 60));
    r.act("edit.undo");
    GUI_CHECK(r.until([&] { return trigger().reduce == Reduction::min; }, 60));
    for (int i = 0; i < 2; ++i)
        r.act("edit.undo");
    GUI_CHECK(r.until([&] { return trigger().reduce == Reduction::mean; }, 60));
}

void published_signals_are_listed(Robot& r) {
    const ui::SignalPlots before = r.ctx().views.signals;
    r.start(r.config(), 40);
    const auto id = r.recording()->signal_id("teacher_unread");
    GUI_CHECK(id && *id >= signals().size());
    show(r, "teacher_unread");
    GUI_CHECK(r.find("signals/plot/teacher_unread"));
    const auto plot = r.box("signals/plot/teacher_unread");
    const auto& view = r.ctx().time;
    r.move(plot.x + static_cast<float>((30 - view.x_min) / (view.x_max - view.x_min)) * plot.width,
           plot.y + plot.height - 4);
    GUI_CHECK(r.shows(ui::format_signal(r.recording()->signal(30, *id), r.recording()->signals()[*id].unit)));
    r.move_away();
    r.ctx().views.signals = before;
    r.frames(2);
}

} // namespace

std::vector<Case> layer_cases() {
    return {
        {"signals", "SG15 a layered signal as the curve of one number, and as a strip of all layers",
         layers_as_curve_and_strip},
        {"signals", "SG15 PO1 a threshold compares the number of the layers that its plot shows",
         trigger_on_one_number},
        {"signals", "SG15 PO1 a card chooses the number of the layers", card_chooses_layers},
        {"signals", "SG15 PO3 signals that a run publishes are listed and plotted",
         published_signals_are_listed},
    };
}

} // namespace refreshlab::gui
