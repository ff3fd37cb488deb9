#include "engine/record/recording/recording.h"
#include "engine/signals/registry.h"
#include "tests/gui/robot.h"
#include "ui/scene/axes/time_view.h"
#include "ui/scene/text/token_label.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

namespace refreshlab::gui {

namespace {

float centre_x(const ui::Landmarks::Box& box) {
    return box.x + box.width / 2;
}

void click_a_token(Robot& r) {
    r.start(r.config(), 50);
    GUI_CHECK(r.ctx().live());
    const float newest = centre_x(r.box("timeline/cursor"));
    r.click(r.box("text/token/21"));
    // y_21 was chosen by step 20.
    GUI_CHECK(r.ctx().selection.step == 20);
    const float at_20 = centre_x(r.box("timeline/cursor"));
    r.click(r.box("text/token/11"));
    GUI_CHECK(r.ctx().selection.step == 10);
    const float at_10 = centre_x(r.box("timeline/cursor"));
    // Other panels follow: the timeline's cursor moves in proportion, the numbers are that step's.
    GUI_CHECK(std::abs((newest - at_10) - 4 * (at_20 - at_10)) <= 4);
    GUI_CHECK(r.shows("step 10"));
    GUI_CHECK(r.find("attention/head") && r.find("cache/map"));
    // y_1 was chosen by the prefill: the step that read it stands for it.
    r.click(r.box("text/token/1"));
    GUI_CHECK(r.ctx().selection.step == 1);
    r.move_away();
    r.act("select.live");
    GUI_CHECK(r.ctx().live());
    GUI_CHECK(std::abs(centre_x(r.box("timeline/cursor")) - newest) <= 1);
}

void arrows_walk(Robot& r) {
    r.start(r.config(), 30);
    r.act("select.previous");
    GUI_CHECK(r.ctx().selection.step == 29);
    // A token clicked and Esc pressed: the keys still walk through the steps.
    r.click(r.box("text/token/12"));
    const int64_t clicked = r.ctx().selection.step.value_or(0);
    GUI_CHECK(clicked > 5);
    r.te->KeyPress(ImGuiKey_Escape);
    r.act("select.previous");
    GUI_CHECK(r.ctx().selection.step == clicked - 1);
    r.ctx().select_step(29);
    r.frames(2);
    // Again and again: the keys must not end up in the controls.
    r.act("select.previous");
    r.act("select.previous");
    GUI_CHECK(r.ctx().selection.step == 27);
    r.act("select.next");
    GUI_CHECK(r.ctx().selection.step == 28);
    r.act("select.next");
    r.act("select.next");
    GUI_CHECK(r.ctx().live()); // past the newest step is live again
    r.ctx().select_step(1);
    r.frames(2);
    r.act("select.previous");
    GUI_CHECK(r.ctx().selection.step == 1);
    r.click(r.box("runbar/live"));
    GUI_CHECK(r.ctx().live());
    // While text is typed, keys are letters.
    r.ctx().select_step(12);
    r.frames(2);
    r.te->ItemClick("//Run bar/##steps at once");
    r.te->KeyPress(ImGuiKey_L);
    r.te->KeyPress(ImGuiKey_R);
    GUI_CHECK(r.ctx().selection.step == 12);
    GUI_CHECK(r.recording()->refreshes().size() == 0 || r.recording()->steps() == 30);
    r.te->KeyPress(ImGuiKey_Escape);
    r.frames(2);
}

void timeline_scrubs(Robot& r) {
    r.start(r.config(), 80);
    const auto bar = r.box("timeline/bar");
    r.ctx().select_step(20);
    r.frames(2);
    const float x20 = centre_x(r.box("timeline/cursor"));
    r.ctx().select_step(60);
    r.frames(2);
    const float x60 = centre_x(r.box("timeline/cursor"));
    r.move(x20, bar.y + bar.height / 2);
    r.te->MouseDown(0);
    r.frames(2);
    GUI_CHECK(std::abs(r.ctx().selection.step.value_or(-100) - 20) <= 1);
    for (int i = 1; i <= 4; ++i) {
        r.te->MouseMoveToPos(ImVec2(x20 + (x60 - x20) * static_cast<float>(i) / 4, bar.y + bar.height / 2));
        r.frames(2);
        GUI_CHECK(std::abs(r.ctx().selection.step.value_or(-100) - (20 + 10 * i)) <= 1);
    }
    // Past the newest step it is live again.
    r.te->MouseMoveToPos(ImVec2(bar.x + bar.width - 1, bar.y + bar.height / 2));
    r.frames(2);
    GUI_CHECK(r.ctx().live());
    r.te->MouseUp(0);
    r.ctx().select_step(33);
    r.frames(2);
    r.click(r.box("timeline/live"));
    GUI_CHECK(r.ctx().live() && r.ctx().time.follow);
}

void the_run_is_played_back(Robot& r) {
    r.start(r.config(), 60);
    r.te->SetRef("//Timeline");
    r.te->ItemClick("...##play back options");
    r.te->SetRef("//$FOCUSED");
    r.te->ItemClick("5");
    r.te->KeyPress(ImGuiKey_Escape);
    r.te->SetRef("");
    r.click(r.box("timeline/play_back"));
    GUI_CHECK(r.ctx().playback.playing() && r.ctx().playback.steps_per_second == 5.0);
    GUI_CHECK(r.ctx().selection.step.has_value()); // from the newest step: from the beginning
    int64_t before = *r.ctx().selection.step;
    GUI_CHECK(before < 60);
    r.ctx().playback.steps_per_second = 200;
    GUI_CHECK(r.until([&] {
        const int64_t now = r.ctx().selection.step.value_or(0);
        GUI_CHECK(now >= before);
        before = now;
        return !r.ctx().playback.playing();
    }));
    GUI_CHECK(r.ctx().selection.step == 60);

    // In a loop: the steps in sight, over and over; another step chosen by hand ends it.
    ui::set_time_range(r.ctx().time, 20, 28, r.ctx().steps);
    r.frames(2);
    r.te->SetRef("//Timeline");
    r.te->ItemClick("...##play back options");
    r.te->SetRef("//$FOCUSED");
    r.te->ItemCheck("Loop over the steps in sight");
    r.te->KeyPress(ImGuiKey_Escape);
    r.te->SetRef("");
    r.act("select.play_back");
    GUI_CHECK(r.until([&] { return r.ctx().playback.playing(); }, 5));
    int rounds = 0;
    before = 0;
    GUI_CHECK(r.until([&] {
        const int64_t now = r.ctx().selection.step.value_or(0);
        GUI_CHECK(now >= 20 && now <= 28);
        rounds += now < before ? 1 : 0;
        before = now;
        return rounds == 3;
    }));
    r.ctx().select_step(5);
    r.frames(3);
    GUI_CHECK(!r.ctx().playback.playing() && r.ctx().selection.step == 5);
    r.ctx().playback = ui::Playback{};
    r.act("select.live");
}

void tokens_are_coloured_and_explained(Robot& r) {
    r.start(r.config(), 40);
    // Two tokens with very different entropies have different backgrounds.
    const size_t entropy = signal_id("entropy_bits").value();
    int64_t low = 1, high = 1;
    for (int64_t t = 2; t <= 40; ++t) {
        if (r.recording()->signal(t, entropy) < r.recording()->signal(low, entropy)) low = t;
        if (r.recording()->signal(t, entropy) > r.recording()->signal(high, entropy)) high = t;
    }
    const Image seen = r.look();
    const auto background = [&](int64_t step) {
        const auto token = r.box("text/token/" + std::to_string(step + 1));
        return seen.at(static_cast<double>(token.x + 1), static_cast<double>(token.y + token.height - 1.5F));
    };
    GUI_CHECK(colour_distance(background(low), background(high)) > 60);
    // Hover: who wrote it, the candidates and what they are.
    const auto token = r.box("text/token/" + std::to_string(high + 1));
    r.move(token.x + token.width / 2, token.y + token.height / 2);
    const std::string told = r.text();
    GUI_CHECK(told.find("before temperature and filters") != std::string::npos);
    GUI_CHECK(told.find(ui::token_label(r.recording()->tokens(), r.recording()->token(high + 1))) !=
              std::string::npos);
    GUI_CHECK(told.find("tudent") != std::string::npos || told.find("eacher") != std::string::npos);
    // Another signal colours by its own values.
    r.move_away();
    r.ctx().coloured_signal = "top1_prob";
    r.frames(3);
    const Image other = r.look();
    int changed = 0;
    for (int64_t step = 1; step < 40; ++step) {
        const auto box = r.find("text/token/" + std::to_string(step + 1));
        if (!box) continue;
        const double x = static_cast<double>(box->x + 1),
                     y = static_cast<double>(box->y + box->height - 1.5F);
        changed += colour_distance(seen.at(x, y), other.at(x, y)) > 30 ? 1 : 0;
    }
    GUI_CHECK(changed > 10);
    r.ctx().coloured_signal = "entropy_bits";
}

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
        const int64_t length = prompt + step; // columns behind boundary `step`: y_1 .. y_step are fed
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
    check(24); // before: everything behind the prompt is the student's
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

void the_bar_shows_what_tokens_show(Robot& r) {
    r.start(r.config(), 60);
    const size_t entropy = signal_id("entropy_bits").value();
    for (const char* theme : {"light", "print", "dark"}) {
        r.act(std::string("view.theme.") + theme);
        r.frames(2);
        r.move_away();
        const Image seen = r.look();
        const auto scale = r.box("text/scale"), panel = r.box("panel/Text");
        const float text_top = scale.y + scale.height + 8, text_bottom = panel.y + panel.height - 40;
        std::vector<uint32_t> colours;
        for (float x = scale.x; x < scale.x + scale.width; x += 1)
            colours.push_back(
                seen.at(static_cast<double>(x), static_cast<double>(scale.y + scale.height / 2)));
        // The background of every token stands on the bar, to the steps of the bar's pieces.
        int tokens = 0;
        for (int64_t step = 1; step < 60; ++step) {
            const auto token = r.find("text/token/" + std::to_string(step + 1));
            if (!token || token->width < 4 || is_absent(r.recording()->signal(step, entropy))) continue;
            if (token->y < text_top || token->y + token->height > text_bottom) continue; // scrolled away
            std::map<uint32_t, int> counts; // the most frequent one is the background
            for (float y = token->y + 1; y < token->y + token->height - 1; y += 1)
                for (float x = token->x + 1; x < token->x + token->width - 1; x += 1)
                    ++counts[seen.at(static_cast<double>(x), static_cast<double>(y))];
            const uint32_t shown =
                std::ranges::max_element(counts, {}, [](const auto& count) { return count.second; })->first;
            int best = 765;
            for (const uint32_t colour : colours)
                best = std::min(best, colour_distance(colour, shown));
            GUI_CHECK(best <= 8);
            ++tokens;
        }
        GUI_CHECK(tokens > 20);
    }
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

void performance_tells_its_numbers(Robot& r) {
    r.start(r.config(), 20);
    r.te->WindowFocus("//Performance");
    r.frames(2);
    const std::string told = r.text();
    for (const char* part : {"Frame CPU", "p99", "Queue", "Not yet drawn", "Memory"})
        GUI_CHECK(told.find(part) != std::string::npos);
    r.te->WindowFocus("//Log");
    r.frames(2);
    GUI_CHECK(r.shows("steps asked for") || r.shows("policy entropy"));
    r.te->WindowFocus("//Performance");
    r.frames(2);
}

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
    r.te->ComboClick("##signal/MC-dropout variance (logit^2)");
    r.te->SetRef("//Distribution");
    r.te->ComboClick("##range/whole run");
    r.frames(2);
    GUI_CHECK(r.shows("0, 0 %"));
    r.te->ComboClick("##signal/Entropy (bits)");
    r.te->WindowFocus("//Performance");
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
    run.mc.stride = 2;
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
    r.te->ComboClick("##against/MC-dropout variance (logit^2)");
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
    GUI_CHECK(r.ctx().drafts.edited_key() == "trigger/1/threshold" ||
              r.ctx().drafts.edited_key() == "mc.threshold");
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
    r.te->ComboClick("##signal/MC-dropout variance (logit^2)");
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

std::vector<Case> panel_cases() {
    return {
        {"text", "TX5 TL1 click a token: every panel shows the step that chose it", click_a_token},
        {"text", "TX1 TX2 TX4 tokens are coloured by a signal and tell their candidates on hover",
         tokens_are_coloured_and_explained},
        {"timeline", "TL1 arrow keys walk, Live returns, typing keeps its keys", arrows_walk},
        {"timeline", "TL1 the timeline scrubs, past the newest step is live", timeline_scrubs},
        {"timeline", "TL2 the run is played back, and in a loop over the steps in sight",
         the_run_is_played_back},
        {"attention", "AT1 AT2 click a cell of the grid: that head is enlarged", enlarge_a_head},
        {"attention", "AT3 hover tells query, key and weight; a click holds the cell", hold_a_cell},
        {"cache", "CA1 a refresh changes exactly its columns", refresh_changes_its_columns_only},
        {"cache", "CA1 no line crosses the words of an empty drift map", lines_keep_off_the_words},
        {"text", "TX1 the colour bar shows the colours of the tokens in every theme",
         the_bar_shows_what_tokens_show},
        {"distribution", "SG12 SG14 a histogram with the threshold in it, over the run or the steps in sight",
         the_distribution_counts},
        {"distribution",
         "SG12 SG1 SG2 a threshold is dragged in the histogram, and it is the same value everywhere",
         a_line_is_dragged_in_the_distribution},
        {"distribution", "SG12 two signals against each other, with the thresholds of both",
         two_signals_in_the_distribution},
        {"performance", "PF1 performance and log tell what happened", performance_tells_its_numbers},
    };
}

} // namespace refreshlab::gui
