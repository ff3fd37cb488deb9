// Cache policies in the window: chosen in Policy, dragged in Signals, seen in Cache, Attention and Text.
#include "engine/policies/cache_policy_config.h"
#include "engine/record/recording/cache_state.h"
#include "engine/record/recording/recording.h"
#include "tests/gui/robot.h"
#include "ui/scene/maps/cache_cells.h"
#include "ui/scene/runs/run_set.h"

#include <imgui_internal.h>
#include <nlohmann/json.hpp>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <string>

namespace refreshlab::gui {

namespace {

RunConfig with_cache(Robot& r, const char* policy,
                     std::initializer_list<std::pair<const char*, double>> values) {
    RunConfig run = r.config();
    run.policy = preset_policy("none");
    run.student_cache = cache_policy_defaults(policy, "a test");
    for (const auto& [key, value] : values)
        run.student_cache.values[key] = value;
    return run;
}

void choose_policy(Robot& r, const char* label) {
    r.te->SetRef("//Policy/student");
    r.te->ComboClick((std::string("##student cache/") + label).c_str());
    r.te->SetRef("");
    r.frames(2);
}

/// Types into the entry of a parameter, and leaves it.
void type_value(Robot& r, const char* key, const char* text) {
    r.te->ItemInputValue((std::string("//Policy/student/") + key + "/##entry").c_str(), text);
    r.frames(3);
}

void chosen_for_the_next_run(Robot& r) {
    r.start(r.config(), 12);
    const auto& drafts = r.ctx().drafts;
    choose_policy(r, "H2O");
    GUI_CHECK(drafts.next_cache(ui::CacheOwner::student).policy == "h2o");
    GUI_CHECK(r.status()->applied.student_cache.is_full()); // the present run goes on as it was
    GUI_CHECK(r.shows("from the next run"));
    // What cannot be is one line, and changes nothing.
    const double before = drafts.next_cache(ui::CacheOwner::student).values.find("budget")->second;
    for (const char* bad : {"0", "24.5", "100000", "many"}) {
        type_value(r, "budget", bad);
        GUI_CHECK(r.find("cache policy/fault"));
        GUI_CHECK(drafts.next_cache(ui::CacheOwner::student).values.find("budget")->second == before);
    }
    type_value(r, "budget", "24");
    GUI_CHECK(!r.find("cache policy/fault"));
    GUI_CHECK(drafts.next_cache(ui::CacheOwner::student).values.find("budget")->second == 24);
    GUI_CHECK(r.shows("H2O, budget 24"));
    // It is one entry of the history.
    r.act("edit.undo");
    GUI_CHECK(drafts.next_cache(ui::CacheOwner::student).values.find("budget")->second == before);
    r.act("edit.redo");
    GUI_CHECK(drafts.next_cache(ui::CacheOwner::student).values.find("budget")->second == 24);
    // One click: the same prompt with it, and the run before stays to be compared.
    const auto first = r.recording();
    r.act("run.with_cache_policy");
    GUI_CHECK(r.until([&] { return r.recording() != first && r.recording()->steps() >= 12; }));
    GUI_CHECK(r.recording()->info().config.student_cache.policy == "h2o");
    GUI_CHECK(r.recording()->info().config.student_cache.values.find("budget")->second == 24);
    GUI_CHECK(r.recording()->info().prompt_ids == first->info().prompt_ids);
    r.frames(3);
    GUI_CHECK(!drafts.cache_waits(ui::CacheOwner::student));
    GUI_CHECK(!r.shows("from the next run"));
    GUI_CHECK(r.ctx().runs.compared().size() == 1);
    // Live parameters act at once.
    type_value(r, "budget", "16");
    GUI_CHECK(r.until([&] { return r.status()->applied.student_cache.values.find("budget")->second == 16; }));
    GUI_CHECK(!drafts.cache_waits(ui::CacheOwner::student));
}

/// One click on a method: the same run under it, and both are seen.
void compared_by_one_click(Robot& r) {
    RunConfig run = r.config(60);
    run.seed = 5;
    run.sampler.temperature = 0.8;
    r.start(run, 30);
    const auto first = r.recording();
    r.act("run.compare_cache");
    GUI_CHECK(r.dialog_open("Compare with cache policy"));
    GUI_CHECK(r.shows("Yardsticks") && r.shows("Full cache")); // families, and what the shown run has
    r.te->ItemClick("//Compare with cache policy/**/###full"); // it has that already
    GUI_CHECK(r.dialog_open("Compare with cache policy") && r.recording() == first);
    r.te->ItemClick("//Compare with cache policy/**/###h2o");
    GUI_CHECK(r.until([&] { return r.recording() != first && r.recording()->steps() >= 30; }));
    const auto second = r.recording();
    // All but the policy is the same.
    RunConfig with = second->info().config;
    GUI_CHECK(with.student_cache.policy == "h2o");
    with.student_cache = first->info().config.student_cache;
    GUI_CHECK(to_json(with) == to_json(first->info().config));
    GUI_CHECK(second->info().prompt_ids == first->info().prompt_ids);
    // Both are shown: text, signals, and the maps of both caches, enlarged so that there is room.
    r.frames(3);
    GUI_CHECK(r.ctx().runs.compared().size() == 1);
    GUI_CHECK(r.ctx().runs.recording(r.ctx().runs.compared()[0]) == first);
    GUI_CHECK(r.find("text/difference"));
    GUI_CHECK(r.find("signals/legend/" + std::to_string(r.ctx().runs.compared()[0])));
    r.te->WindowFocus("//Cache");
    r.act("view.enlarge");
    r.frames(4);
    const auto own = r.box("cache/map"), other = r.box("compared/cache/map");
    GUI_CHECK(other.y > own.y + own.height || other.x > own.x + own.width);
    r.ctx().select_step(25);
    r.frames(3);
    r.move(other.x + other.width * 0.1F, other.y + other.height * 0.5F);
    GUI_CHECK(r.until([&] { return r.shows("attended"); }, 60)); // the full cache has evicted nothing
    r.move_away();
    r.te->ItemClick("//###enlarged/Both");
    r.frames(3);
    GUI_CHECK(!r.find("compared/cache/map"));
    r.act("edit.undo");
    r.frames(3);
    GUI_CHECK(r.find("compared/cache/map"));
    r.act("view.enlarge");
    // By the palette another method, from the run that is shown then.
    r.act("help.palette");
    r.te->ItemInputValue("//Find a command/##query", "compare with cache policy: streamingllm");
    GUI_CHECK(r.until([&] { return r.recording() != second && r.recording()->steps() >= 30; }));
    const auto& third = r.recording()->info().config.student_cache;
    GUI_CHECK(third.policy == "streaming_llm");
    const auto& h2o = second->info().config.student_cache;
    GUI_CHECK(third.values.find("budget")->second == h2o.values.find("budget")->second);
    r.ctx().runs.untick_all();
}

void refused_is_said(Robot& r) {
    r.start(r.config(), 4);
    choose_policy(r, "Oracle"); // it has to know the text
    GUI_CHECK(r.find("cache policy/refusal"));
    GUI_CHECK(r.shows("has to know the text"));
    const auto button = r.te->ItemInfo("//Policy/Run this prompt with it");
    GUI_CHECK((button.ItemFlags & ImGuiItemFlags_Disabled) != 0);
    r.te->ItemClick("//Policy/Discard");
    r.frames(2);
    GUI_CHECK(!r.find("cache policy/refusal"));
    GUI_CHECK(!r.ctx().drafts.cache_waits(ui::CacheOwner::student));
}

void gate_is_named(Robot& r) {
    r.start(r.config(), 4);
    choose_policy(r, "TRIM-KV");
    const auto path = [&] {
        return r.ctx().drafts.next_cache(ui::CacheOwner::student).files.find("gate")->second.path;
    };
    GUI_CHECK(path().empty()); // the one beside the model
    r.te->ItemInputValue("//Policy/student/gate/##path", "none.safetensors");
    r.frames(3);
    GUI_CHECK(path() == "none.safetensors");
    GUI_CHECK(r.shows("gate none.safetensors"));
    const auto first = r.recording();
    r.act("run.with_cache_policy");
    GUI_CHECK(r.until([&] { return r.shows("no such file"); }));
    GUI_CHECK(r.recording() == first); // refused: the run stands
    r.act("edit.undo");
    GUI_CHECK(path().empty());
    // The list of files.
    const std::string file = r.scratch("gate.safetensors").string();
    std::ofstream(file) << "no gate";
    r.te->ItemClick("//Policy/student/gate/...##file");
    r.frames(2);
    r.te->ItemInputValue("//$FOCUSED/##path", file.c_str());
    r.frames(3);
    GUI_CHECK(path() == file);
    r.te->ItemClick("//Policy/Discard");
    r.frames(2);
}

void chosen_with_the_run(Robot& r) {
    r.start(r.config(), 4);
    const auto first = r.recording();
    r.act("run.new");
    r.frames(2);
    r.te->SetRef("//New run/$$1");
    r.te->ComboClick("##student cache/StreamingLLM");
    r.te->SetRef("");
    r.te->ItemClick("//New run/$$1/Parameters");
    r.frames(2);
    r.te->ItemInputValue("//$FOCUSED/budget/##entry", "20");
    r.te->KeyPress(ImGuiKey_Escape); // closes the popup, not the dialog
    r.frames(2);
    GUI_CHECK(r.dialog_open("New run"));
    r.te->ItemClick("//New run/Start");
    GUI_CHECK(r.until([&] { return r.recording() != first && r.recording()->steps() > 0; }));
    GUI_CHECK(r.recording()->info().config.student_cache.policy == "streaming_llm");
    GUI_CHECK(r.recording()->info().config.student_cache.values.find("budget")->second == 20);
    r.frames(3);
    GUI_CHECK(!r.ctx().drafts.cache_waits(ui::CacheOwner::student));
}

void similarity_is_dragged(Robot& r) {
    const ui::SignalPlots before = r.ctx().views.signals;
    r.start(with_cache(r, "refreshkv", {{"partial", 24}, {"check_every", 4}, {"similarity", 0.5}}), 30);
    const std::string line = "signals/threshold/query_similarity";
    GUI_CHECK(r.until([&] { return r.find("signals/plot/query_similarity") && r.find(line); }));
    GUI_CHECK(r.find("signals/plot/full_step")); // a row a layer
    GUI_CHECK(r.ctx().views.signals.of("full_step").layers.strip);
    const auto plot = r.box("signals/plot/query_similarity"), at = r.box(line);
    r.move(plot.x + plot.width * 0.6F, at.y + at.height / 2);
    r.drag_by(0, -plot.height * 0.3F, 6);
    r.te->MouseUp(0);
    r.frames(3);
    const auto applied = [&] { return r.status()->applied.student_cache.values.find("similarity")->second; };
    GUI_CHECK(r.until([&] { return applied() > 0.5; }));
    GUI_CHECK(r.ctx().drafts.number("student_cache.similarity") == applied());
    GUI_CHECK(r.recording()->commands().size() > 0);
    r.act("edit.undo");
    GUI_CHECK(r.until([&] { return applied() == 0.5; }));
    // A full step by hand: every layer, at the next step.
    const size_t full = r.recording()->signal_id("full_step").value();
    const int64_t next = r.recording()->steps() + 1;
    GUI_CHECK(next % 4 != 0); // no check is due
    r.act("run.full_step_now");
    r.step(1);
    for (const float value : r.recording()->layer_values(next, full))
        GUI_CHECK(value == 1.0F);
    r.ctx().views.signals = before;
    r.frames(2);
}

void entries_are_seen(Robot& r) {
    r.start(with_cache(r, "h2o", {{"budget", 24}}), 30);
    const int64_t layers = r.recording()->info().layers;
    r.move_away();
    for (int64_t layer = 0; layer < layers; ++layer)
        GUI_CHECK(r.ctx().landmarks.text("cache/held/" + std::to_string(layer)) == "24");
    const std::string bytes = r.ctx().landmarks.text("cache/bytes");
    GUI_CHECK(bytes.find("of a full cache") != std::string::npos);
    // A click on the name of a layer shows its KV heads. Cells are told apart by colour and by words.
    r.click(r.box("cache/rows"));
    r.move_away();
    const CacheState state = cache_state(*r.recording(), r.recording()->steps(), false);
    const int64_t layer = layers / 2; // the click was in the middle of the names
    const auto map = r.box("cache/map");
    const Image seen = r.look();
    const double column = static_cast<double>(map.width) / static_cast<double>(state.length()),
                 row = static_cast<double>(map.height) / static_cast<double>(state.kv_heads());
    const auto place = [&](int64_t position) {
        return std::pair(static_cast<double>(map.x) + (static_cast<double>(position) + 0.5) * column,
                         static_cast<double>(map.y) + row * 0.5);
    };
    std::optional<int64_t> read, gone; // away from the lines at the prompt's end and between rows
    for (int64_t p = 2; p + 2 < r.recording()->prompt_length(); ++p) {
        const ui::CacheCell cell = ui::cell_of(state.plane(layer, 0), p);
        if (cell == ui::CacheCell::attended && !read) read = p;
        if (cell == ui::CacheCell::evicted && !gone) gone = p;
    }
    GUI_CHECK(read && gone);
    const auto [read_x, read_y] = place(*read);
    const auto [gone_x, gone_y] = place(*gone);
    GUI_CHECK(colour_distance(seen.at(read_x, read_y), seen.at(gone_x, gone_y)) > 100);
    r.move(static_cast<float>(gone_x), static_cast<float>(gone_y));
    GUI_CHECK(r.shows("KV head 0: evicted by H2O"));
    r.move(static_cast<float>(read_x), static_cast<float>(read_y));
    GUI_CHECK(r.shows("KV head 0: attended"));
    r.click(r.box("cache/rows")); // and back
    r.move_away();
}

void what_left_is_dimmed(Robot& r) {
    // A window of 16 with 2 sinks: a token of the text leaves every layer at once.
    r.start(with_cache(r, "streaming_llm", {{"budget", 16}}), 40);
    const auto token = r.box("text/token/3");
    r.move(token.x + token.width / 2, token.y + token.height / 2);
    GUI_CHECK(r.shows("held by no layer since step"));
    const auto newest = r.box("text/token/38");
    r.move(newest.x + newest.width / 2, newest.y + newest.height / 2);
    GUI_CHECK(!r.shows("held by no layer since"));
    // Attention says of such a key that it was not read, which a weight of 0 would not.
    r.move_away();
    r.te->WindowFocus("//Attention");
    r.te->SetRef("//Attention");
    r.te->ComboClick("##model/Student"); // another case may have left the teacher there
    r.te->SetRef("");
    r.frames(4);
    const auto map = r.box("attention/head");
    const auto keys = static_cast<float>(r.recording()->prompt_length() + 40);
    const float x = map.x + map.width * (static_cast<float>(r.recording()->prompt_length()) * 0.5F / keys);
    r.move(x, map.y + map.height - 2);
    GUI_CHECK(r.until([&] { return r.shows("Not read: evicted at step"); }, 60));
    r.move_away();
}

/// At 1280 x 720 every layer of the bundled pair has a row that can be told from the next.
void a_low_panel_has_its_rows(Robot& r) {
    r.start(r.config(), 20);
    const auto resize = [&](int width, int height) {
        r.window().resize(width, height);
        r.frames(60); // the layout is fitted once the size rests
    };
    GUI_CHECK(r.find("cache/legend/age"));
    resize(1280, 720);
    const float map = r.box("cache/map").height;
    const bool legend = r.find("cache/legend/age").has_value();
    resize(1280, 800);
    GUI_CHECK(map >= 3.3F * ImGui::GetFontSize()); // five layers
    GUI_CHECK(!legend);
    GUI_CHECK(r.find("cache/legend/age"));
}

void prompt_is_read_once(Robot& r) {
    r.start(r.config(40), 8);
    const auto first = r.recording();
    const std::string file = r.scratch("prompt.safetensors").string();
    std::filesystem::remove(file);
    r.act("file.save_prompt_cache");
    r.frames(2);
    r.te->ItemClick("//Save the prompt's cache/###exact");
    r.te->ItemInputValue("//Save the prompt's cache/##path", file.c_str());
    GUI_CHECK(r.until([&] { return std::filesystem::exists(file); }));
    GUI_CHECK(r.until([&] { return !r.dialog_open("Save the prompt's cache"); }));
    // Another prompt in between; then the saved one again, from its file.
    RunConfig other = r.config(40);
    other.prompt = "Tell a story about a fox.";
    r.start(other, 4);
    r.act("file.from_prompt_cache");
    r.frames(2);
    r.te->ItemInputValue("//Continue from a saved cache/##path", file.c_str());
    GUI_CHECK(r.until([&] {
        return r.recording() && r.recording()->info().prompt_ids == first->info().prompt_ids &&
               r.recording() != first && r.recording()->steps() >= 3;
    }));
    GUI_CHECK(r.recording()->info().config.prompt_cache == file);
    GUI_CHECK(r.recording()->info().config.prompt == first->info().config.prompt);
    for (int64_t t = 1; t <= 3; ++t)
        GUI_CHECK(r.recording()->token(t) == first->token(t));
    GUI_CHECK(r.until([&] { return !r.dialog_open("Continue from a saved cache"); }));
    GUI_CHECK(r.shows("comes from"));
    // What is none says so in the dialog, and the run stays. (While it goes on the panel changes under the mouse.)
    GUI_CHECK(r.until([&] { return r.status()->state == EngineState::finished; }));
    r.frames(3);
    const auto run = r.recording();
    r.te->ItemClick("//Policy/Load...##prompt cache");
    r.frames(2);
    const std::string none = r.scratch("none.safetensors").string();
    std::ofstream(none) << "not a cache";
    r.te->ItemInputValue("//Continue from a saved cache/##path", none.c_str());
    GUI_CHECK(r.until([&] { return r.shows("safetensors file"); }));
    GUI_CHECK(r.dialog_open("Continue from a saved cache"));
    GUI_CHECK(r.recording() == run);
    r.te->KeyPress(ImGuiKey_Escape);
}

} // namespace

std::vector<Case> cache_policy_cases() {
    return {
        {"policy", "PO7 a cache policy is chosen for the next run, and the same prompt is run with it",
         chosen_for_the_next_run},
        {"policy", "PO7 RB11 a cache policy is chosen in the dialog of a new run", chosen_with_the_run},
        {"policy", "CA4 PO10 one click compares the shown run with another cache policy",
         compared_by_one_click},
        {"policy", "PO7 a cache policy that cannot act says so in one line", refused_is_said},
        {"policy", "PO7 the gate of a cache policy is typed or chosen", gate_is_named},
        {"policy", "PO7 the prompt's cache is saved, and a run goes on from it", prompt_is_read_once},
        {"signals",
         "SG19 the similarity of RefreshKV is dragged, its full steps are a strip, and one is asked for",
         similarity_is_dragged},
        {"cache", "CA1 CA3 entries by layer and KV head, what is held, and who evicted", entries_are_seen},
        {"cache", "CA1 a low panel has room for its rows", a_low_panel_has_its_rows},
        {"text", "TX8 AT9 what no layer holds is dimmed, and what was not read is no zero",
         what_left_is_dimmed},
    };
}

} // namespace refreshlab::gui
