#include "engine/record/recording/recording.h"
#include "engine/signals/registry.h"
#include "tests/gui/panels/plot_marks.h"
#include "tests/gui/robot.h"
#include "ui/base/format.h"
#include "ui/scene/runs/run_set.h"

#include <imgui_internal.h>

#include <algorithm>
#include <cmath>

namespace refreshlab::gui {

namespace {

void choose_preset(Robot& r, std::string_view name) {
    const auto preset = std::ranges::find(presets(), name, &Preset::name);
    r.te->SetRef("//Policy");
    r.te->ComboClick(("##preset/" + std::string(preset->label)).c_str());
    r.te->SetRef("");
}

void cards_and_presets(Robot& r) {
    r.start(r.config(), 20);
    GUI_CHECK(r.find("policy/card/0") && !r.find("policy/card/1"));
    GUI_CHECK(r.shows("Entropy gate (modified)"));
    // Another trigger is another card with a line of its own.
    r.te->ItemClick("//Policy/Add trigger");
    const std::string label(signals()[signal_id("kl_nats").value()].label);
    r.te->ItemClick(("//$FOCUSED/" + label).c_str());
    GUI_CHECK(r.until([&] { return r.status()->applied.policy.triggers.size() == 2; }));
    r.frames(3);
    GUI_CHECK(r.find("policy/card/1") && r.find("signals/threshold/kl_nats"));
    r.te->ItemClick("//Policy/all");
    GUI_CHECK(r.until([&] { return r.status()->applied.policy.combine == Combine::all; }));
    r.te->ItemClick("//Policy/any");
    GUI_CHECK(r.until([&] { return r.status()->applied.policy.combine == Combine::any; }));
    // A preset replaces the lot; touching it says "modified"; undo goes back through all of it.
    for (const Preset& preset : presets()) {
        if (preset.name == "none") continue;
        choose_preset(r, preset.name);
        GUI_CHECK(r.until([&] { return r.status()->applied.policy == preset_policy(preset.name); }));
        r.frames(2);
        GUI_CHECK(!r.shows("(modified)"));
    }
    choose_preset(r, "entropy");
    GUI_CHECK(r.until([&] { return r.status()->applied.policy.name == "entropy"; }));
    r.te->ItemInputValue("//Policy/**/threshold/##entry", "4.5");
    GUI_CHECK(r.until([&] { return applied_threshold(r) == 4.5; }));
    GUI_CHECK(r.shows("(modified)"));
    r.act("edit.undo");
    GUI_CHECK(r.until([&] { return r.status()->applied.policy == preset_policy("entropy"); }));
    r.frames(2);
    GUI_CHECK(!r.shows("(modified)"));
    // Costs stand beside what costs: the KL card counts its teacher passes.
    choose_preset(r, "kl");
    GUI_CHECK(r.until([&] { return r.status()->applied.policy.name == "kl"; }));
    r.frames(2);
    GUI_CHECK(r.shows("one teacher pass every"));
}

/// Type 7 of the values at every checked step, as reference/refresh.md has it.
double plain_quantile(Robot& r, int64_t steps, int64_t every, double q) {
    std::vector<double> values;
    const size_t entropy = signal_id("entropy_bits").value();
    for (int64_t t = every; t <= steps; t += every)
        values.push_back(static_cast<double>(r.recording()->signal(t, entropy)));
    std::sort(values.begin(), values.end());
    const double place = q * static_cast<double>(values.size() - 1);
    const auto low = static_cast<size_t>(place);
    return values[low] + (place - static_cast<double>(low)) * (values[low + 1] - values[low]);
}

void a_threshold_is_found(Robot& r) {
    r.start(with_threshold(r, 11.5), 400); // as good as never
    GUI_CHECK(r.recording()->refreshes().size() == 0);
    r.click(r.box("policy/find/0"));
    const std::string first = r.text();
    const double expected = plain_quantile(r, 400, 1, 0.9975);
    GUI_CHECK(first.find("quantile 0.9975 of 400 checks; ") != std::string::npos);
    GUI_CHECK(first.find("at " + ui::format_value(expected, "bits") + ": ") != std::string::npos);
    GUI_CHECK(first.find("(estimate)") != std::string::npos);
    GUI_CHECK(first.find("calibrated on 401 tokens; 2,000 or more are advised") != std::string::npos);
    // Another number, typed: the answer follows while it is typed.
    r.te->KeyCharsReplace("20");
    r.frames(2);
    const double found = plain_quantile(r, 400, 1, 0.98);
    GUI_CHECK(r.shows("quantile 0.98 of 400 checks; "));
    GUI_CHECK(r.shows("Use " + ui::format_value(found, "bits")));
    GUI_CHECK(r.ctx().drafts.number(key) == 11.5 && !r.ctx().drafts.pending(key)); // nothing is sent yet
    // What cannot be answered says why, and offers nothing.
    r.te->KeyCharsReplace("0");
    r.frames(2);
    GUI_CHECK(r.shows("must be above 0"));
    GUI_CHECK((r.te->ItemInfo("//$FOCUSED/###use").ItemFlags & ImGuiItemFlags_Disabled) != 0);
    r.te->KeyCharsReplace("20");
    r.frames(2);
    const auto commands = r.recording()->commands().size();
    r.te->ItemClick("//$FOCUSED/###use");
    GUI_CHECK(r.until([&] { return std::abs(applied_threshold(r) - found) < 1e-9; }));
    GUI_CHECK(r.until([&] { return !r.ctx().drafts.pending(key); }, 50));
    GUI_CHECK(r.recording()->commands().size() == commands + 1);
    GUI_CHECK(!r.shows("refreshes per 1,000 tokens")); // the popup is gone
    // The card shows it with three digits.
    GUI_CHECK(std::abs(static_cast<double>(r.te->ItemReadAsFloat("//Policy/**/threshold/##entry")) - found) <
              0.006);
    // One entry of the undo history, named like any other change of a threshold.
    GUI_CHECK(r.ctx().drafts.undo_label().find("11.5 -> " + ui::format_value(found, "bits")) !=
              std::string::npos);
    r.move_away();
    r.act("edit.undo");
    GUI_CHECK(r.until([&] { return applied_threshold(r) == 11.5; }));
    r.act("edit.redo");
    GUI_CHECK(r.until([&] { return std::abs(applied_threshold(r) - found) < 1e-9; }));
    // The menu of the card leads to the same place, which now has nothing to change; Esc closes it.
    const auto card = r.box("policy/card/0");
    r.move(card.x + card.width / 2, card.y + 2);
    r.te->MouseClick(1);
    r.frames(2);
    r.te->ItemClick("//$FOCUSED/Find threshold...");
    r.frames(3);
    GUI_CHECK(r.shows("quantile 0.98 of 400 checks; "));
    GUI_CHECK((r.te->ItemInfo("//$FOCUSED/###use").ItemFlags & ImGuiItemFlags_Disabled) != 0);
    r.te->KeyPress(ImGuiKey_Escape);
    r.te->KeyPress(ImGuiKey_Escape); // the first one leaves the entry
    r.frames(2);
    GUI_CHECK(!r.shows("refreshes per 1,000 tokens"));
}

/// Arithmetic over signals: what is wrong is said where, what it would have been is counted, and a run goes by it.
void signal_of_ones_own(Robot& r) {
    r.start(r.config(60), 40);
    const auto before = r.ctx().recording;
    r.act("policy.own_signal");
    r.frames(3);
    GUI_CHECK(r.dialog_open("Signal of your own"));
    const auto write = [&](const char* expression) {
        r.te->ItemInputValue("//Signal of your own/##expression", expression);
        r.frames(3);
    };
    write("entropy_bits - maen(entropy_bits, 8)");
    GUI_CHECK(r.shows("column 16: \"maen\" is no function; did you mean mean"));
    r.te->ItemClick("//Signal of your own/Run with it");
    r.frames(3);
    GUI_CHECK(r.dialog_open("Signal of your own") && r.ctx().recording == before); // it cannot be pressed
    write("2 *");
    r.te->ItemClick("//Signal of your own/Signals");
    r.frames(2);
    GUI_CHECK(r.shows("last_kl_nats") && !r.shows("teacher_rank"));
    r.te->ItemClick("//$FOCUSED/top1_prob");
    r.frames(3);
    GUI_CHECK(r.shows("2 * top1_prob") && r.shows("On the shown run from "));
    write("entropy_bits - mean(entropy_bits, 8)");
    GUI_CHECK(r.shows("On the shown run from "));
    r.te->ItemInputValue("//Signal of your own/##threshold", "1");
    r.frames(3);
    GUI_CHECK(r.shows("above 1 at "));
    // Esc keeps what was typed.
    r.te->KeyPress(ImGuiKey_Escape);
    r.frames(2);
    if (r.dialog_open("Signal of your own")) r.te->KeyPress(ImGuiKey_Escape);
    r.frames(2);
    r.act("policy.own_signal");
    r.frames(3);
    GUI_CHECK(r.shows("above 1 at "));
    r.te->ItemClick("//Signal of your own/Run with it");
    GUI_CHECK(r.until([&] { return r.ctx().recording != before && r.ctx().steps > 30; }));
    GUI_CHECK(!r.dialog_open("Signal of your own"));
    const RefreshPolicy& policy = r.ctx().recording->info().config.policy;
    GUI_CHECK(policy.signals.size() == 1 && policy.signals[0].expression &&
              policy.signals[0].expression->text() == "entropy_bits - mean(entropy_bits, 8)");
    const auto id = r.ctx().recording->signal_id("rise");
    GUI_CHECK(id.has_value() && !is_absent(r.ctx().recording->signal(20, *id)));
    GUI_CHECK(r.until([&] { return r.find("signals/plot/rise") || r.find("signals/folded/rise"); }, 60));
    // Its threshold is a line and a card like any other, and it has refreshed.
    GUI_CHECK(r.until([&] { return !r.ctx().recording->refreshes().empty(); }));
    const auto& refreshes = r.ctx().recording->refreshes();
    GUI_CHECK(std::ranges::any_of(refreshes[0].hits, [](const TriggerHit& hit) {
        return hit.signal == "rise" || hit.signal == "entropy_bits";
    }));
    r.ctx().views.signals = ui::first_signal_plots();
    r.ctx().runs.untick_all();
    r.frames(3);
}

/// A recorded run has it from now on, from what it recorded; the live one is left alone.
void signal_of_a_recorded_run(Robot& r) {
    r.start(r.config(), 40);
    const auto recorded = r.recording();
    r.start(r.config(), 10);
    const auto live = r.recording();
    const auto info = [&] { return r.te->ItemInfo("//Signal of your own/Add to the shown run").ItemFlags; };
    r.act("policy.own_signal");
    r.frames(3);
    GUI_CHECK((info() & ImGuiItemFlags_Disabled) != 0);
    r.close_dialog("Signal of your own");
    r.ctx().runs.look_at(r.ctx().runs.tree().find_id(recorded->info().id)->key);
    r.frames(3);
    r.ctx().select_step(12);
    r.frames(2);
    GUI_CHECK(r.ctx().recording == recorded);

    const auto add = [&](const char* name, const char* expression) {
        r.te->ItemClick("//Signals/Choose signals");
        r.frames(2);
        r.te->ItemClick("//$FOCUSED/Signal of your own...");
        r.frames(3);
        GUI_CHECK(r.dialog_open("Signal of your own"));
        r.te->ItemInputValue("//Signal of your own/##name", name);
        r.te->ItemInputValue("//Signal of your own/##expression", expression);
        r.frames(3);
        GUI_CHECK((info() & ImGuiItemFlags_Disabled) == 0);
        r.te->ItemClick("//Signal of your own/Add to the shown run");
        r.frames(2);
        GUI_CHECK(!r.dialog_open("Signal of your own"));
    };
    add("doubled", "2 * entropy_bits");
    GUI_CHECK(r.until([&] { return r.ctx().recording->signal_id("doubled").has_value(); }));
    r.frames(3);
    const auto with = r.ctx().recording;
    const size_t doubled = *with->signal_id("doubled"), entropy = *with->signal_id("entropy_bits");
    for (int64_t t = 1; t <= 40; ++t)
        GUI_CHECK(with->signal(t, doubled) == 2 * recorded->signal(t, entropy));
    GUI_CHECK(with->info().id == recorded->info().id && r.ctx().selection.step == 12);
    GUI_CHECK(
        r.until([&] { return r.find("signals/plot/doubled") || r.find("signals/folded/doubled"); }, 60));
    // What the run did not measure is named, and nothing changes.
    add("unknown", "2 * mc_variance");
    GUI_CHECK(r.until([&] { return r.count_log_lines("did not measure mc_variance") == 1; }));
    GUI_CHECK(r.ctx().recording == with);
    // The live run goes on as it is.
    r.act("file.close_trace");
    r.frames(3);
    GUI_CHECK(r.ctx().recording == live && !live->signal_id("doubled"));
    r.ctx().views.signals = ui::first_signal_plots();
    r.frames(3);
}

} // namespace

std::vector<Case> policy_cases() {
    return {
        {"policy", "PO9 a signal of one's own is written, judged on the shown run, and refreshes",
         signal_of_ones_own},
        {"policy", "PO9 a signal of one's own is given to a recorded run", signal_of_a_recorded_run},
        {"policy", "PO6 a threshold is found from recorded values, taken over and undone",
         a_threshold_is_found},
        {"policy", "PO1 PO2 PO4 cards, any and all, presets, modified, undo, costs", cards_and_presets},
    };
}

} // namespace refreshlab::gui
