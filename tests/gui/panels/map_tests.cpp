#include "engine/record/recording/recording.h"
#include "tests/gui/robot.h"
#include "ui/scene/attention/attention_map.h"

#include <imgui_internal.h>

#include <algorithm>
#include <cmath>
#include <string>

namespace refreshlab::gui {

namespace {

void enlarge_a_head(Robot& r) {
    r.start(r.config(), 30);
    const int64_t layers = r.recording()->info().layers, heads = r.recording()->info().heads;
    GUI_CHECK(layers == 5 && heads == 6);
    for (int64_t l = 0; l < layers; ++l)
        for (int64_t h = 0; h < heads; ++h)
            GUI_CHECK(r.find("attention/grid/" + std::to_string(l) + "/" + std::to_string(h)));
    r.click(r.box("attention/grid/2/5"));
    GUI_CHECK(r.ctx().selection.layer == 2 && r.ctx().selection.head == 5);
    r.move_away();
    const auto head = r.box("attention/head");
    const auto cut = [&](const Image& image) {
        std::vector<uint32_t> part;
        for (int y = static_cast<int>(head.y) + 2; y < static_cast<int>(head.y + head.height) - 2; ++y)
            for (int x = static_cast<int>(head.x) + 2; x < static_cast<int>(head.x + head.width) - 2; ++x)
                part.push_back(image.at(x, y));
        return part;
    };
    const auto first = cut(r.look());
    r.click(r.box("attention/grid/0/1"));
    GUI_CHECK(r.ctx().selection.layer == 0 && r.ctx().selection.head == 1);
    r.move_away();
    const auto second = cut(r.look());
    size_t different = 0;
    for (size_t i = 0; i < std::min(first.size(), second.size()); ++i)
        different += first[i] != second[i] ? 1 : 0;
    GUI_CHECK(different > first.size() / 20); // another head, another picture
}

void refresh_changes_its_columns_only(Robot& r) {
    RunConfig run = r.config();
    run.policy = preset_policy("none");
    r.start(run, 24);
    r.engine().send(command::RefreshNow{});
    r.step(1);
    r.step(12);
    GUI_CHECK(r.recording()->refreshes().size() == 1);
    const RefreshEvent event = r.recording()->refreshes()[0];
    GUI_CHECK(event.step == 25 && event.spliced > 0);
    const int64_t prompt = r.recording()->prompt_length();
    const ui::Theme& theme = r.ctx().theme;
    const auto check = [&](int64_t step) {
        r.ctx().select_step(step);
        r.frames(3);
        r.move_away();
        const auto lane = r.box("cache/origin");
        const Image seen = r.look();
        const int64_t length = prompt + step; // columns after boundary `step`: y_1 .. y_step are fed
        const double width = static_cast<double>(lane.width) / static_cast<double>(length);
        GUI_CHECK(width >= 2);
        for (int64_t p = 0; p < length; ++p) {
            const bool refreshed =
                step >= event.step && p >= event.first_pos && p < event.first_pos + event.spliced;
            const uint32_t expected = p < prompt  ? theme.origin_prefill
                                      : refreshed ? theme.origin_refresh
                                                  : theme.origin_student;
            // Upper and lower half, left and right of the middle: thin lines cross the lane at some columns.
            int best = 765;
            for (const double share : {0.35, 0.5, 0.65})
                best = std::min(
                    best, colour_distance(expected, seen.at(static_cast<double>(lane.x) +
                                                                (static_cast<double>(p) + share) * width,
                                                            static_cast<double>(lane.y + lane.height / 2))));
            GUI_CHECK(best < 40);
        }
    };
    check(24); // before: everything after the prompt is the student's
    check(25); // the refresh: exactly its columns
    check(37); // later: those stay, the new ones are the student's again
    r.ctx().select_step(std::nullopt);
    // And the drift of the same columns was measured, layer by layer.
    GUI_CHECK(r.recording()->drifts().size() == 1);
    GUI_CHECK(r.recording()->drifts()[0]->first_pos == event.first_pos);
}

void lines_keep_off_the_words(Robot& r) {
    // The end of the prompt, the step under the mouse and a held position run through the empty drift map, but not
    // through what it says.
    RunConfig run = r.config();
    run.policy = preset_policy("none");
    r.start(run, 40);
    const auto map = r.box("cache/map"), card = r.box("cache/no drift");
    const auto length = static_cast<float>(r.recording()->prompt_length() + 40);
    const float middle_of_words = card.x + card.width / 2;
    const auto held = static_cast<int64_t>((middle_of_words - map.x) / map.width * length);
    const uint32_t ground = r.ctx().theme.plot_background;
    const auto other_than_ground = [&](const Image& seen) {
        int other = 0; // along the card's upper edge, above its words
        for (float x = card.x + 8; x < card.x + card.width - 8; x += 1)
            other +=
                colour_distance(seen.at(static_cast<double>(x), static_cast<double>(card.y + 2)), ground) > 12
                    ? 1
                    : 0;
        return other;
    };
    r.move_away();
    const Image before = r.look();
    GUI_CHECK(other_than_ground(before) == 0);
    r.ctx().selection.key_position = held;
    r.frames(2);
    const Image seen = r.look();
    GUI_CHECK(other_than_ground(seen) == 0);
    // Above the card the line is there.
    const double column = static_cast<double>(map.width) / static_cast<double>(length);
    const double x = static_cast<double>(map.x) + (static_cast<double>(held) + 0.5) * column,
                 y = static_cast<double>(card.y - 3);
    int change = 0;
    for (const double dx : {-1.0, 0.0, 1.0})
        change = std::max(change, colour_distance(seen.at(x + dx, y), before.at(x + dx, y)));
    GUI_CHECK(change > 60);
    r.ctx().selection.key_position.reset();
}

void hold_a_cell(Robot& r) {
    r.start(r.config(), 30);
    const auto map = r.box("attention/head");
    r.move(map.x + map.width * 0.3F, map.y + map.height * 0.6F);
    const std::string told = r.text();
    for (const char* part : {"Query ", "Key ", "Weight ", "position"})
        GUI_CHECK(told.find(part) != std::string::npos);
    r.te->MouseClick(0);
    r.frames(2);
    GUI_CHECK(r.ctx().selection.key_position.has_value());
    const int64_t key = *r.ctx().selection.key_position;
    const int64_t keys = r.recording()->prompt_length() + 30;
    GUI_CHECK(key > keys / 8 && key < keys / 2); // about three tenths of the way
    r.move_away();
    GUI_CHECK(r.ctx().selection.key_position == key); // held while the mouse is elsewhere
}

void order_heads(Robot& r, const char* order) {
    r.te->ItemClick("//Attention/Options");
    r.frames(2);
    r.te->SetRef(r.te->WindowInfo("//$FOCUSED").Window);
    r.te->ComboClick((std::string("##order/") + order).c_str());
    r.te->SetRef("");
    r.te->KeyPress(ImGuiKey_Escape);
    r.te->KeyPress(ImGuiKey_Escape);
    r.frames(4);
}

void heads_are_ranked(Robot& r) {
    r.start(r.config(), 30);
    order_heads(r, "Lowest entropy");
    GUI_CHECK(r.until([&] { return !r.ctx().landmarks.text("attention/rank/11").empty(); }));
    // The first one is the one of all heads whose rows have the least entropy on the average.
    const auto& recording = *r.recording();
    std::string best;
    double least = 1e9;
    for (int32_t layer = 0; layer < 5; ++layer)
        for (int32_t head = 0; head < 6; ++head) {
            double sum = 0;
            for (int64_t q = recording.prompt_length(); q < recording.prompt_length() + 30; ++q)
                for (const float w : ui::attention_row(recording, q, ui::AttentionOf::student, layer, head))
                    if (w > 0) sum -= static_cast<double>(w) * std::log2(static_cast<double>(w));
            if (sum < least) best = std::to_string(layer) + "/" + std::to_string(head);
            least = std::min(least, sum);
        }
    GUI_CHECK(r.ctx().landmarks.text("attention/rank/0") == best);
    GUI_CHECK(r.ctx().landmarks.text("attention/order").find("bits") != std::string::npos);
    GUI_CHECK(r.ctx().landmarks.text("attention/rank/12").empty());
    // A click enlarges a head as in the grid.
    r.click(r.box("attention/grid/" + best));
    GUI_CHECK(std::to_string(r.ctx().selection.layer) + "/" + std::to_string(r.ctx().selection.head) == best);
    order_heads(r, "By layer");
    GUI_CHECK(r.find("attention/grid/0/0") && r.find("attention/grid/4/5"));
}

/// A double click on the tab of a docked panel.
void double_click_tab(Robot& r, const char* panel) {
    const ImGuiWindow* window = ImGui::FindWindowByName(panel);
    GUI_CHECK(window != nullptr);
    const ImVec2 tab = window->DC.DockTabItemRect.GetCenter();
    r.move(tab.x, tab.y);
    r.te->MouseDoubleClick(0);
    r.frames(4);
}

void a_tab_enlarges_its_panel(Robot& r) {
    r.start(r.config(), 30);
    for (const char* panel : {"Attention", "Signals", "Policy"}) {
        const std::string mark = std::string("panel/") + panel;
        const auto before = r.box(mark), other = r.box("panel/Timeline");
        const auto cell = r.find("attention/grid/0/0");
        double_click_tab(r, panel);
        const auto large = r.box(mark);
        GUI_CHECK(large.width > 1.5F * before.width && large.height > before.height);
        GUI_CHECK(large.width >= other.width);
        GUI_CHECK(!r.find("panel/Timeline")); // nothing else is drawn
        if (mark == "panel/Attention") {
            GUI_CHECK(cell && r.box("attention/grid/0/0").width > cell->width);
            // There is room for tokens on both axes now.
            GUI_CHECK(r.find("attention/step tokens") && r.find("attention/key tokens"));
        }
        if (mark == "panel/Signals") { // once more on its title
            r.move(large.x + large.width * 0.3F, large.y + 8);
            r.te->MouseDoubleClick(0);
        } else {
            r.move_away();
            r.te->KeyPress(ImGuiKey_Escape);
        }
        r.frames(4);
        const auto after = r.box(mark);
        GUI_CHECK(std::abs(after.width - before.width) < 1 && std::abs(after.x - before.x) < 1);
        GUI_CHECK(r.find("panel/Timeline"));
    }
    // The same by key, for the panel that was clicked last.
    const auto before = r.box("panel/Cache");
    r.move(before.x + before.width / 2, before.y + before.height - 16);
    r.te->MouseClick(0);
    r.frames(2);
    r.te->KeyPress(ImGuiKey_F11);
    r.frames(4);
    GUI_CHECK(r.box("panel/Cache").width > 1.5F * before.width && !r.find("panel/Timeline"));
    r.act("view.enlarge");
    r.frames(4);
    GUI_CHECK(std::abs(r.box("panel/Cache").width - before.width) < 1 && r.find("panel/Timeline"));
}

void maps_on_paper_are_grey(Robot& r) {
    RunConfig run = r.config();
    run.policy = preset_policy("periodic");
    set_parameter(run, "periodic.every", "16");
    r.start(run, 60);
    r.act("view.theme.print");
    r.frames(4);
    r.move_away();
    const Image seen = r.look();
    for (const char* map : {"attention/head", "cache/map"}) {
        const auto box = r.box(map);
        int coloured = 0, all = 0;
        for (int y = static_cast<int>(box.y) + 3; y < static_cast<int>(box.y + box.height) - 3; ++y)
            for (int x = static_cast<int>(box.x) + 3; x < static_cast<int>(box.x + box.width) - 3;
                 ++x, ++all) {
                const uint32_t pixel = seen.at(x, y);
                const auto red = static_cast<int>(pixel & 0xFFU),
                           blue = static_cast<int>(pixel >> 16U & 0xFFU);
                coloured += std::abs(red - blue) > 40 ? 1 : 0;
            }
        GUI_CHECK(all > 500 && coloured < all / 20); // the ends of refreshes are lines in the accent colour
    }
    r.act("view.theme.dark");
    r.frames(4);
}

void performance_tells_its_numbers(Robot& r) {
    r.start(r.config(), 20);
    r.te->WindowFocus("//Performance");
    r.frames(2);
    const std::string told = r.text();
    for (const char* part : {"Frame CPU", "p99", "Queue", "Not yet drawn", "Memory"})
        GUI_CHECK(told.find(part) != std::string::npos);
    GUI_CHECK(!r.shows("Temperature: 0.25"));
    r.engine().send(command::SetParameter{"sampler.temperature", "0.25"});
    r.step(1);
    r.te->WindowFocus("//Log");
    r.frames(2);
    GUI_CHECK(r.shows("step 21: Temperature: 0.25"));
    r.te->WindowFocus("//Performance");
    r.frames(2);
}

} // namespace

std::vector<Case> map_cases() {
    return {
        {"attention", "AT1 AT2 click a cell of the grid: that head is enlarged", enlarge_a_head},
        {"attention", "AT7 heads are ranked by the entropy of their rows", heads_are_ranked},
        {"window", "WN7 a double click on a tab enlarges its panel, Esc or another goes back",
         a_tab_enlarges_its_panel},
        {"attention", "WN2 maps are grey in theme print", maps_on_paper_are_grey},
        {"attention", "AT3 hover tells query, key and weight; a click holds the cell", hold_a_cell},
        {"cache", "CA1 a refresh changes exactly its columns", refresh_changes_its_columns_only},
        {"cache", "CA1 no line crosses the words of an empty drift map", lines_keep_off_the_words},
        {"performance", "PF1 performance and log tell what happened", performance_tells_its_numbers},
    };
}

} // namespace refreshlab::gui
