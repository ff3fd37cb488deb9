// Popups, options, and what stands in panels only for those who look closely.
#include "engine/base/json_file.h"
#include "engine/record/recording/recording.h"
#include "engine/signals/registry.h"
#include "tests/gui/robot.h"
#include "ui/base/format.h"
#include "ui/scene/attention/attention_map.h"
#include "ui/scene/text/token_colours.h"

#include <fmt/format.h>
#include <imgui_internal.h>

#include <cmath>
#include <cstdlib>
#include <set>
#include <string>

namespace refreshlab::gui {

namespace {

namespace fs = std::filesystem;

double at(float v) {
    return static_cast<double>(v);
}

void attention_options(Robot& r) {
    r.start(r.config(), 24);
    const auto option = [&](const std::string& item) {
        r.te->ItemClick("//Attention/Options");
        r.te->ItemClick(("//$FOCUSED/" + item).c_str());
        r.te->KeyPress(ImGuiKey_Escape);
        r.frames(3);
    };
    const auto cut = [&] {
        r.move_away();
        const auto head = r.box("attention/head");
        const Image seen = r.look();
        std::vector<uint32_t> pixels;
        for (int y = static_cast<int>(head.y) + 2; y < static_cast<int>(head.y + head.height) - 2; ++y)
            for (int x = static_cast<int>(head.x) + 2; x < static_cast<int>(head.x + head.width) - 2; ++x)
                pixels.push_back(seen.at(x, y));
        return pixels;
    };
    const auto range = [&] { return r.ctx().landmarks.text("attention/range"); };
    const auto shared = cut();
    GUI_CHECK(range().starts_with("shared"));
    option("0 to 1");
    GUI_CHECK(range() == "fixed, up to 1");
    option("Largest weight of each head");
    GUI_CHECK(range().starts_with("this head"));
    // Another head has another largest weight.
    std::set<std::string> largest;
    for (int head = 0; head < 6; ++head) {
        r.click(r.box("attention/grid/0/" + std::to_string(head)));
        largest.insert(range());
    }
    GUI_CHECK(largest.size() > 1);
    r.click(r.box("attention/grid/0/0"));
    option("Largest weight of all heads");
    GUI_CHECK(range().starts_with("shared"));
    GUI_CHECK(cut() == shared);
    r.te->ItemClick("//Attention/Log");
    r.frames(2);
    GUI_CHECK(cut() != shared); // linear
    r.te->ItemClick("//Attention/Log");
    r.frames(2);
    // Layers and heads that are not wanted are gone, all of them too; the panel then says what to do.
    option("Layers/1");
    GUI_CHECK(!r.find("attention/grid/1/0") && r.find("attention/grid/0/0") && r.find("attention/grid/2/5"));
    option("Heads/5");
    GUI_CHECK(!r.find("attention/grid/2/5") && r.find("attention/grid/2/4"));
    option("Heads/None");
    GUI_CHECK(r.shows("All layers or all heads are hidden"));
    option("Heads/All");
    option("Layers/All");
    GUI_CHECK(r.find("attention/grid/1/0") && r.find("attention/grid/4/5"));
}

std::string after(const std::string& text, const std::string& mark) {
    const size_t at = text.find(mark);
    return at == std::string::npos ? "nan" : text.substr(at + mark.size());
}

void toggle_reading(Robot& r) {
    r.te->ItemClick("//Attention/Options");
    r.te->ItemClick("//$FOCUSED/Read missing rows of the teacher");
    r.te->KeyPress(ImGuiKey_Escape);
    r.frames(2);
}

void rows_are_read_by_themselves(Robot& r) {
    RunConfig run = r.config();
    run.policy = preset_policy("none");
    r.start(run, 20);
    r.engine().send(command::RefreshNow{});
    r.step(1);
    const int64_t prompt = r.recording()->prompt_length();
    const auto read = [&] {
        int64_t rows = 0;
        for (int64_t t = 1; t <= 20; ++t)
            rows += r.recording()->attention(prompt + t - 1, true) ? 1 : 0;
        return rows;
    };
    GUI_CHECK(read() == 0); // of the student alone nothing is asked for
    // One choice, and every row of the map is there.
    r.te->SetRef("//Attention");
    r.te->ComboClick("##model/Difference");
    r.te->SetRef("");
    GUI_CHECK(r.until([&] { return read() == 20; }));
    r.move_away();
    r.frames(3);
    // About 0 the map is the theme's ground, and what is held is seen on it.
    const auto head = r.box("attention/head");
    const Image seen = r.look();
    int dark = 0, all = 0;
    for (int y = static_cast<int>(head.y) + 2; y < static_cast<int>(head.y + head.height) - 2; ++y)
        for (int x = static_cast<int>(head.x) + 2; x < static_cast<int>(head.x + head.width) - 2; ++x, ++all)
            dark += colour_distance(seen.at(x, y), r.ctx().theme.plot_background) < 120 ? 1 : 0;
    GUI_CHECK(dark > all / 4);
    r.te->SetRef("//Attention");
    r.te->ComboClick("##model/Student");
    r.te->SetRef("");
    r.frames(2);
}

void read_all_shown(Robot& r) {
    RunConfig run = r.config();
    run.policy = preset_policy("none");
    r.start(run, 20);
    r.engine().send(command::RefreshNow{}); // the teacher then has read as far as the student
    r.step(1);
    toggle_reading(r);
    r.te->SetRef("//Attention");
    r.te->ComboClick("##model/Teacher");
    r.te->SetRef("");
    r.ctx().select_step(15);
    r.frames(3);
    const int64_t prompt = r.recording()->prompt_length();
    const auto read = [&] {
        int64_t rows = 0;
        for (int64_t t = 1; t <= 15; ++t)
            rows += r.recording()->attention(prompt + t - 1, true) ? 1 : 0;
        return rows;
    };
    GUI_CHECK(read() == 0);
    r.te->ItemClick("//Attention/Read all shown");
    GUI_CHECK(r.until([&] { return read() == 15; }));
    r.frames(3);
    GUI_CHECK(!r.te->ItemExists("//Attention/Read all shown")); // nothing is missing any more
    toggle_reading(r);

    r.te->SetRef("//Attention");
    r.te->ComboClick("##model/Difference");
    r.te->SetRef("");
    r.frames(3);
    const auto strip = r.box("attention/strip");
    r.move(strip.x + strip.width * 0.4F, strip.y + strip.height * 0.5F);
    const std::string told = r.text();
    for (const char* part : {"Key ", "Teacher ", "Student ", "Difference "})
        GUI_CHECK(told.find(part) != std::string::npos);
    r.move_away();
    const double range = std::stod(after(r.ctx().landmarks.text("attention/range"), "up to "));
    double largest = 0;
    for (int64_t q = prompt; q < prompt + r.recording()->steps(); ++q)
        for (int32_t layer = 0; layer < 5; ++layer)
            for (int32_t head = 0; head < 6; ++head) {
                const auto row =
                    ui::attention_row(*r.recording(), q, ui::AttentionOf::difference, layer, head);
                for (size_t k = 1; k < row.size(); ++k)
                    largest = std::max(largest, static_cast<double>(std::abs(row[k])));
            }
    GUI_CHECK(std::abs(range - largest) < 0.01 * largest);
    r.te->SetRef("//Attention");
    r.te->ComboClick("##model/Student");
    r.te->SetRef("");
    r.frames(2);
}

void step_zero_is_harmless(Robot& r) {
    r.start(r.config(), 10);
    for (const int64_t step : {int64_t{0}, int64_t{-5}, int64_t{1} << 40}) {
        r.ctx().select_step(step);
        r.frames(4);
        // Nor has any panel failed before, but the one that is made for it.
        GUI_CHECK(r.count_log_lines("drawing panel") == r.count_log_lines("drawing panel Faulty"));
        GUI_CHECK(r.find("attention/head") && r.find("cache/map") && r.find("timeline/cursor"));
        GUI_CHECK(r.ctx().shown_step() >= 1 && r.ctx().shown_step() <= 10);
    }
    r.act("select.live");
}

void policy_files(Robot& r) {
    r.start(r.config(), 6);
    const fs::path file = r.scratch("policy.json");
    fs::remove(file);
    const RefreshPolicy mine = r.status()->applied.policy;
    const auto menu = [&](const char* item) {
        r.te->ItemClick("//Policy/...##policy file");
        r.te->ItemClick((std::string("//$FOCUSED/") + item).c_str());
        r.frames(2);
    };
    menu("Save policy...");
    r.te->ItemInputValue("//$FOCUSED/##path", file.string().c_str());
    GUI_CHECK(r.until([&] { return fs::exists(file); }, 60));
    GUI_CHECK(policy_from_json(read_json_file(file), "the file") == mine);
    r.engine().send(command::SetPolicy{preset_policy("periodic")});
    GUI_CHECK(r.until([&] { return r.ctx().drafts.policy().name == "periodic"; }));
    menu("Load policy...");
    r.te->ItemInputValue("//$FOCUSED/##path", file.string().c_str());
    GUI_CHECK(r.until([&] { return r.status()->applied.policy == mine; }));
    // A file that is none: one line with its place, and the policy stays.
    write_file(file, "{\n  \"name\": \"x\",\n  \"when\": ]\n}");
    menu("Load policy...");
    r.te->ItemInputValue("//$FOCUSED/##path", file.string().c_str());
    GUI_CHECK(r.until([&] { return r.count_log_lines("policy.json") > 0; }, 60));
    GUI_CHECK(r.count_log_lines("line 3") > 0);
    GUI_CHECK(r.status()->applied.policy == mine);
    r.te->KeyPress(ImGuiKey_Escape);
}

void budget_is_told(Robot& r) {
    RunConfig run = r.config();
    run.policy = preset_policy("periodic");
    set_parameter(run, "periodic.every", "8");
    set_parameter(run, "budget.refreshes", "5");
    set_parameter(run, "budget.per_tokens", "100");
    r.start(run, 20);
    const auto used = static_cast<int64_t>(r.recording()->refreshes().size());
    GUI_CHECK(used == 2);
    GUI_CHECK(r.shows("2 used, 3 left"));
    r.step(30);
    GUI_CHECK(r.recording()->refreshes().size() == 5);
    GUI_CHECK(r.shows("5 used, 0 left") && r.shows("budget used up"));
}

void cache_bytes_are_told(Robot& r) {
    r.start(r.config(), 30);
    const auto status = r.status();
    const int64_t columns = r.recording()->prompt_length() + 30;
    const int64_t column =
        2 * status->student.layers * status->student.kv_heads * status->student.head_dim * 4;
    r.move_away();
    r.frames(2);
    GUI_CHECK(r.box("cache/bytes").width > 10);
    GUI_CHECK(r.ctx().landmarks.text("cache/bytes").find("Student " + ui::format_bytes(column * columns)) ==
              0);
    GUI_CHECK(
        r.ctx().landmarks.text("cache/bytes").find("of " + ui::format_bytes(status->cache_bytes_reserved)) !=
        std::string::npos);
}

void who_wrote_a_token(Robot& r) {
    RunConfig run = r.config();
    run.policy = preset_policy("periodic");
    set_parameter(run, "periodic.every", "10");
    set_parameter(run, "on_fire", "redraw");
    r.start(run, 25);
    GUI_CHECK(r.recording()->info().first_producer == Producer::teacher);
    const ui::Theme& theme = r.ctx().theme;
    const Image seen = r.look();
    const auto above = [&](int64_t token) {
        const auto box = r.box("text/token/" + std::to_string(token));
        return seen.at(at(box.x + box.width / 2), at(box.y - 1));
    };
    const auto below = [&](int64_t token) {
        const auto box = r.box("text/token/" + std::to_string(token));
        return seen.at(at(box.x + box.width / 2), at(box.y + box.height + 4));
    };
    // The teacher's own first token has a line above it, a student's token has none; a token drawn again by a refresh
    // has one below.
    GUI_CHECK(colour_distance(above(1), theme.origin_prefill) < 60);
    GUI_CHECK(colour_distance(above(5), theme.origin_prefill) > 120);
    const RefreshEvent& event = r.recording()->refreshes()[0];
    GUI_CHECK(event.on_fire == OnFire::redraw);
    GUI_CHECK(colour_distance(below(event.step + 1), theme.accent) < 60);
    GUI_CHECK(colour_distance(below(5), theme.accent) > 120);
}

void hovering_anywhere_is_one_step(Robot& r) {
    r.start(r.config(), 40);
    const int64_t prompt = r.recording()->prompt_length();
    const auto over = [&](const char* mark, double x_share, double y_share) {
        const auto box = r.box(mark);
        r.move(box.x + static_cast<float>(x_share) * box.width,
               box.y + static_cast<float>(y_share) * box.height);
        return r.ctx().hovered_step.value_or(-1);
    };
    const double columns = static_cast<double>(prompt + 40);
    GUI_CHECK(over("cache/origin", (static_cast<double>(prompt) + 19.5) / columns, 0.5) == 20);
    GUI_CHECK(r.shows("step 20"));
    const auto bar = r.box("timeline/bar");
    const auto cursor = r.box("timeline/cursor"); // of step 40
    const double share = at(cursor.x + cursor.width / 2 - bar.x) / at(bar.width) / 2;
    GUI_CHECK(std::abs(over("timeline/bar", share, 0.5) - 20) <= 1);
    const int64_t in_map = over("attention/head", 0.1, 0.5);
    GUI_CHECK(in_map >= 15 && in_map <= 25);
    r.move_away();
    GUI_CHECK(!r.ctx().hovered_step);
}

void the_text_says_what_is_right(Robot& r) {
    RunConfig run = r.config();
    run.policy = preset_policy("none"); // no flags of refreshes between the lines
    run.task.kind = "chronicle";
    run.task.almanac = (r.window().assets() / "prompts" / "almanac.json").string();
    r.start(run, 110);
    const size_t score = signal_id("task_score").value();
    r.ctx().views.text.coloured_by = "task_score";
    r.ctx().select_step(40); // the text from its beginning
    r.frames(4);
    r.move_away();
    const Image seen = r.look();
    const std::string told = r.text();
    int64_t right = 0, wrong = 0, scored = 0;
    const ImU32 ground = ImGui::GetColorU32(ImGuiCol_WindowBg) | IM_COL32_A_MASK;
    for (int64_t t = 1; t <= 110; ++t) {
        const float value = r.recording()->signal(t, score);
        if (is_absent(value)) continue;
        (value >= 0.5F ? right : wrong) += 1;
    }
    GUI_CHECK(right + wrong > 10 && wrong > 0);
    GUI_CHECK(told.find(fmt::format("{} right, {} wrong", right, wrong)) != std::string::npos);
    for (int64_t t = 1; t <= 60; ++t) {
        const auto box = r.find("text/token/" + std::to_string(t));
        if (!box || std::abs(t - 41) <= 1) continue; // the frame of the selection lies on these
        const float value = r.recording()->signal(t, score);
        const uint32_t line = seen.at(at(box->x + box->width / 2), at(box->y + box->height + 1));
        if (is_absent(value)) {
            GUI_CHECK(colour_distance(line, ground) < 60); // not scored: no colour at all
        } else {
            GUI_CHECK(colour_distance(line, ui::verdict_colour(value >= 0.5F)) < 60);
            ++scored;
        }
    }
    GUI_CHECK(scored > 5);
    r.ctx().views.text.coloured_by = "entropy_bits";
    r.act("select.live");
}

void narrow_cards_keep_their_cross(Robot& r) {
    RunConfig run = r.config();
    run.policy = preset_policy("mc");
    r.start(run, 8);
    const auto check = [&] {
        r.frames(3);
        const auto cross = r.box("policy/remove/0");
        const auto combo = r.box("policy/comparison/0"), panel = r.box("panel/Policy");
        const ImRect cross_box(cross.x, cross.y, cross.x + cross.width, cross.y + cross.height);
        GUI_CHECK(
            !cross_box.Overlaps(ImRect(combo.x, combo.y, combo.x + combo.width, combo.y + combo.height)));
        GUI_CHECK(cross_box.Max.x <= panel.x + panel.width && combo.x >= panel.x);
    };
    check();
    for (int i = 0; i < 5; ++i) // the same pixels for larger type: the panel becomes narrow
        r.act("view.scale_up");
    check();
    r.act("view.scale_reset");
}

} // namespace

std::vector<Case> option_cases() {
    return {
        {"attention", "AT4 AT5 the options popup: ranges, linear, hidden layers and heads",
         attention_options},
        {"attention", "AT6 the teacher's rows are read by themselves where they are wanted",
         rows_are_read_by_themselves},
        {"attention", "AT1 AT6 read all shown fills every row of the teacher's map; the difference is signed",
         read_all_shown},
        {"attention", "TL1 a step that does not exist shows the nearest that does", step_zero_is_harmless},
        {"policy", "PO2 a policy is saved and loaded as a file, a broken one is named", policy_files},
        {"policy", "PO1 the budget tells what is left", budget_is_told},
        {"policy", "PO1 in narrow panels nothing lies over the cross of a card",
         narrow_cards_keep_their_cross},
        {"cache", "CA2 bytes in use of each model against what is reserved", cache_bytes_are_told},
        {"text", "TX4 lines above and below say who wrote a token", who_wrote_a_token},
        {"text", "TX1 a prompt of a task: right and wrong as two colours and a count",
         the_text_says_what_is_right},
        {"signals", "SG6 cache, timeline and attention are sources of the crosshair too",
         hovering_anywhere_is_one_step},
    };
}

} // namespace refreshlab::gui
