#include "engine/record/recording/recording.h"
#include "engine/signals/registry.h"
#include "tests/gui/painted.h"
#include "tests/gui/robot.h"
#include "ui/scene/text/token_label.h"

#include <algorithm>
#include <cmath>
#include <map>

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
    const bool teacher = r.recording()->step(high).next_producer == Producer::teacher;
    GUI_CHECK(told.find(teacher ? "by the teacher, position" : "by the student, position") !=
              std::string::npos);
    // Another signal colours by its own values.
    r.move_away();
    r.ctx().views.text.coloured_by = "top1_prob";
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
    r.ctx().views.text.coloured_by = "entropy_bits";
}

void a_colour_range_of_ones_own(Robot& r) {
    r.start(r.config(), 40);
    r.ctx().views.text.ranges.clear();
    r.ctx().views.attention.ranges.clear();
    r.frames(3);
    const auto own = [&] { return ui::own_range(r.ctx().views.text.ranges, "entropy_bits"); };
    // Typed, taken back, dragged, and automatic again by a double click.
    r.te->ItemInputValue("//Text/##high", "3");
    r.frames(3);
    GUI_CHECK(own() && own()->max == 3);
    r.act("edit.undo");
    r.frames(2);
    GUI_CHECK(!own());
    const auto bar = r.box("text/scale");
    r.move(bar.x + bar.width - 2, bar.y + bar.height / 2);
    r.drag_by(-bar.width * 0.4F, 0, 6);
    r.te->MouseUp(0);
    r.frames(3);
    GUI_CHECK(own() && own()->min < own()->max);
    const double dragged = own()->max;
    GUI_CHECK(dragged < 9);
    // Another signal has its own.
    r.ctx().views.text.coloured_by = "logprob";
    r.frames(3);
    GUI_CHECK(own()->max == dragged && r.ctx().views.text.ranges.size() == 1);
    r.ctx().views.text.coloured_by = "entropy_bits";
    r.frames(3);
    r.move(bar.x + bar.width / 2, bar.y + bar.height / 2);
    r.te->MouseDoubleClick(0);
    r.frames(3);
    GUI_CHECK(!own());
    // Attention's begins at 0: one end moves.
    r.te->WindowFocus("//Attention");
    r.frames(3);
    const auto weights = r.box("attention/scale");
    const auto words = [&] { return r.ctx().landmarks.text("attention/range"); };
    GUI_CHECK(words().starts_with("shared"));
    r.move(weights.x + 2, weights.y + weights.height / 2);
    r.drag_by(-weights.width * 0.3F, 0, 6);
    r.te->MouseUp(0);
    r.frames(3);
    const auto chosen = ui::own_range(r.ctx().views.attention.ranges, "weight");
    GUI_CHECK(chosen && chosen->min == 0 && chosen->max < 1);
    GUI_CHECK(words().starts_with("own"));
    r.ctx().views.attention.ranges.clear();
    r.move_away();
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

/// A draft grows behind the text while it goes on, and is no part of it until it is judged.
void a_draft_is_shown_until_it_is_judged(Robot& r) {
    RunConfig config = r.config(200);
    config.policy = preset_policy("speculative");
    config.policy.triggers[0].threshold = 64;
    config.prompt = "Write a tale.";
    r.start(config, 1);
    const int64_t steps = r.recording()->steps();
    // What the first draft left settled comes out before another begins.
    r.engine().send(command::SetPace{20});
    r.engine().send(command::Resume{});
    GUI_CHECK(r.until([&] { return r.status()->draft && r.status()->draft->tokens.size() >= 6; }, 20000));
    r.engine().send(command::Pause{});
    GUI_CHECK(r.until([&] { return r.status()->state == EngineState::paused; }));
    const auto draft = r.status()->draft;
    GUI_CHECK(draft && draft->tokens.size() < 64);
    const RecordedCanvas canvas = painted(r);
    GUI_CHECK(r.recording()->steps() >= steps);
    GUI_CHECK(r.ctx().landmarks.text("text/drafted") == std::to_string(draft->tokens.size()));
    GUI_CHECK(!canvas.texts_of("draft").empty() && !canvas.rectangles_of("draft").empty());
    GUI_CHECK(canvas.says("not yet settled"));
    std::string words, wanted;
    for (const auto& text : canvas.texts_of("draft"))
        words += text.words;
    for (const OpenDraft::Token& token : draft->tokens)
        wanted += std::string(r.recording()->tokens().token_bytes(token.id));
    std::erase_if(words, [](char c) { return c == ' '; });
    std::erase_if(wanted, [](char c) { return c == ' '; });
    if (wanted.find_first_of("\n\t") == std::string::npos) GUI_CHECK(words == wanted);
    // No step: the newest token is the pending one.
    GUI_CHECK(!r.find("text/token/" + std::to_string(r.recording()->steps() + 2)));
    // Judged, it is gone from there.
    r.engine().send(command::SetPace{0});
    r.step(1);
    GUI_CHECK(!r.status()->draft);
    GUI_CHECK(r.recording()->drafts().size() > 0);
    GUI_CHECK(painted(r).texts_of("draft").empty());
    GUI_CHECK(r.ctx().landmarks.text("text/drafted") == "0");
}

} // namespace

std::vector<Case> text_cases() {
    return {
        {"text", "TX9 a draft that goes on stands behind the text, paler and with dots, until it is judged",
         a_draft_is_shown_until_it_is_judged},
        {"text", "TX5 TL1 click a token: every panel shows the step that chose it", click_a_token},
        {"text", "TX1 TX2 TX4 tokens are coloured by a signal and tell their candidates on hover",
         tokens_are_coloured_and_explained},
        {"text", "TX1 a colour range of one's own in Text and Attention", a_colour_range_of_ones_own},
        {"text", "TX1 the colour bar shows the colours of the tokens in every theme",
         the_bar_shows_what_tokens_show},
    };
}

} // namespace refreshlab::gui
