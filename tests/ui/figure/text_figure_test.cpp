// Figures of a text: what stands in the files against what the panel colours.
#include "engine/text/utf8.h"
#include "tests/engine/landscape/random_landscape.h"
#include "tests/support/made_run.h"
#include "tests/support/refused.h"
#include "tests/support/seed.h"
#include "tests/ui/figure/drawn_figure.h"
#include "tests/ui/figure/figure_fixture.h"
#include "ui/scene/landscape/staircases.h"
#include "ui/scene/maps/cache_map.h"
#include "ui/scene/text/rejected_drafts.h"
#include "ui/scene/theme/run_colours.h"
#include "ui/scene/theme/text_hue.h"
#include "ui/scene/views/coloured_text.h"

#include <catch2/catch_approx.hpp>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <algorithm>
#include <cmath>

namespace text_figure_test {

using namespace refreshlab;
using namespace refreshlab::ui;
using namespace refreshlab::test;
using Catch::Approx;
using Catch::Matchers::ContainsSubstring;

namespace {

constexpr int64_t steps = 12, prompt = 4;

/// Letters, each a token: values that differ, the attention of step 9, and a refresh of steps 3 to 5.
std::shared_ptr<Recording> run() {
    const auto recording =
        run_of(steps, [](int64_t t) { return 0.25F * static_cast<float>(t * 5 % 13); }, {6});
    AttentionRows rows;
    rows.position = prompt + 9 - 1;
    rows.heads = 3;
    rows.keys = rows.position + 1;
    rows.layers = {0, 1};
    for (int64_t head = 0; head < 6; ++head)
        for (int64_t key = 0; key < rows.keys; ++key)
            rows.weights.push_back(
                float_to_half(key == 0 ? 0.5F : 0.01F * static_cast<float>((key * (head + 2)) % 7)));
    recording->add_attention(std::make_shared<const AttentionRows>(rows));
    CacheEvent filled;
    filled.change = CacheChange::appended;
    filled.positions = {{0, prompt}};
    filled.origin = Origin::teacher_prefill;
    recording->add_cache_event(filled);
    CacheEvent grown = filled;
    grown.step = 5;
    grown.origin = Origin::student;
    grown.positions = {{prompt, 5}};
    recording->add_cache_event(grown);
    CacheEvent spliced = grown;
    spliced.change = CacheChange::spliced;
    spliced.step = 6;
    spliced.origin = Origin::teacher_refresh;
    spliced.refresh_id = 0;
    spliced.positions = {{prompt, 2}};
    recording->add_cache_event(spliced);
    return recording;
}

/// As the panel has it on the ground of a figure.
struct Shown {
    Shown(const std::shared_ptr<Recording>& recording, const FigureRequest& request,
          std::span<const float> gains = {})
        : theme(paper().theme) {
        text.update(
            recording, recording->steps(), request.views.text,
            {gains, request.step.value_or(recording->steps()), request.head.value_or(std::pair(0, 0))});
        paint.mix(text_hue(theme, text), theme.plot_background | alpha_mask, theme.text);
    }
    [[nodiscard]] TokenLook of(int64_t token) const { return text.look(paint, text.value(token)); }

    Theme theme;
    ColouredText text;
    TokenPaint paint;
};

/// Boxes of tokens alone: underlines and strokes through are lower than a letter.
std::vector<SvgBox> tall(const std::vector<SvgBox>& boxes) {
    std::vector<SvgBox> found;
    std::ranges::copy_if(boxes, std::back_inserter(found), [](const SvgBox& box) { return box.height > 5; });
    return found;
}

/// Every token that the panel colours has its box in that colour, in the order of the text; no other has one.
void check_tokens(const std::string& svg, const Shown& shown, int64_t first, int64_t last) {
    const auto boxes = tall(boxes_of(group_of(svg, "tokens")));
    size_t at = 0;
    for (int64_t token = first; token <= last; ++token) {
        const TokenLook look = shown.of(token);
        if (look.background == 0) continue;
        INFO(token);
        REQUIRE(at < boxes.size());
        CHECK(boxes[at++].fill == hex_of(look.background));
    }
    CHECK(at == boxes.size());
}

} // namespace

TEST_CASE("tokens of a figure have the colours of the panel, whatever part is drawn", "[figure][text]") {
    const auto recording = run();
    FigureRequest request = request_of(recording, "text");
    const Shown shown(recording, request);
    CHECK(shown.text.range() == ValueRange{0, 3});
    check_tokens(file_of(request, FigureFormat::svg), shown, 1, steps);
    CHECK(file_of(request, FigureFormat::svg).find(">3</text>") != std::string::npos); // the top of the scale
    // The scale is that of the whole run: a part keeps its colours.
    request.from = 2;
    request.to = 4; // without the largest value
    check_tokens(file_of(request, FigureFormat::svg), shown, 2, 4);
    // The line under a token is that of the panel too.
    const auto boxes = boxes_of(group_of(file_of(request, FigureFormat::svg), "tokens"));
    std::vector<std::string> lines, wanted;
    for (const SvgBox& box : boxes)
        if (box.height < 5) lines.push_back(box.fill);
    for (int64_t token = 2; token <= 4; ++token)
        if (const uint32_t line = shown.of(token).underline) wanted.push_back(hex_of(line));
    CHECK(!wanted.empty());
    CHECK(lines == wanted);
}

TEST_CASE("a signal of yes and no has two colours and words, and what is wrong is struck through",
          "[figure][text]") {
    const auto recording = run();
    const size_t hit = signal_id("top1_hit").value();
    std::vector<float> values;
    for (int64_t t = 1; t <= steps; ++t)
        values.push_back(t % 3 == 0 ? 0.0F : 1.0F);
    recording->back_fill(hit, 1, values);
    FigureRequest request = request_of(recording, "text");
    request.views.text.coloured_by = "top1_hit";
    const Shown shown(recording, request);
    const std::string svg = file_of(request, FigureFormat::svg);
    check_tokens(svg, shown, 1, steps);
    CHECK_THAT(svg, ContainsSubstring("first choice"));
    size_t struck = 0;
    const TokenLook wrong = shown.text.look(shown.paint, 0.0F);
    CHECK(wrong.struck);
    for (const SvgBox& box : boxes_of(group_of(svg, "tokens")))
        struck += box.height < 0.8 && box.fill == hex_of(wrong.underline) ? 1 : 0;
    size_t expected = 0;
    for (int64_t token = 1; token <= steps; ++token)
        expected += shown.of(token).struck ? 1 : 0;
    CHECK(expected >= 3);
    CHECK(struck == expected);
}

TEST_CASE("a text is coloured by how much a step read each token, the prompt's among them",
          "[figure][text]") {
    const auto recording = run();
    FigureRequest request = request_of(recording, "text");
    request.step = 9;
    const auto [by, head] =
        GENERATE(std::pair(mean_colouring, std::pair(0, 0)), std::pair(head_colouring, std::pair(1, 2)),
                 std::pair(head_colouring, std::pair(0, 1)));
    request.views.text.coloured_by = by;
    request.head = head;
    const Shown shown(recording, request);
    const std::string svg = file_of(request, FigureFormat::svg);
    check_tokens(svg, shown, 1, steps); // tokens after step 9 are not coloured
    const auto boxes = tall(boxes_of(group_of(svg, "prompt")));
    REQUIRE(boxes.size() == static_cast<size_t>(prompt));
    for (int64_t position = 0; position < prompt; ++position)
        CHECK(boxes[static_cast<size_t>(position)].fill ==
              hex_of(shown.text.look(shown.paint, shown.text.prompt_value(position)).background));
    // Position 0 has half of it and does not set the scale.
    CHECK(shown.text.range().max < 0.1);
    CHECK_THAT(svg, ContainsSubstring(by == mean_colouring
                                          ? "mean of all heads"
                                          : fmt::format("layer {} head {}", head.first, head.second)));
    const DataTable table = make_figure(request)->table();
    REQUIRE(table.rows.size() == static_cast<size_t>(prompt + steps));
    CHECK(table.rows[0][2] == "0.5");
    CHECK(table.rows[2][4] == "2");
    CHECK(std::stod(table.rows[static_cast<size_t>(prompt) + 2][2]) ==
          Approx(static_cast<double>(shown.text.value(3))).margin(1e-6));
    // Of a part of the text the prompt is none.
    request.from = 2;
    CHECK(group_of(file_of(request, FigureFormat::svg), "prompt").empty());
    request.step = 8;
    CHECK_THAT(refused([&] { static_cast<void>(make_figure(request)); }),
               ContainsSubstring("attention of step 8 is not recorded"));
}

TEST_CASE("the token that a finished run never read colours by the step before it", "[figure][text]") {
    const auto recording = run();
    recording->append(next_record(*recording, -1));
    AttentionRows rows = *recording->attention(prompt + 9 - 1, false);
    rows.position = prompt + steps - 1;
    recording->add_attention(std::make_shared<const AttentionRows>(rows));
    FigureRequest request = request_of(recording, "text");
    request.views.text.coloured_by = mean_colouring;
    CHECK_THAT(file_of(request, FigureFormat::svg), ContainsSubstring("Read by step 12, mean of all heads"));
}

TEST_CASE("a text is coloured by what a refresh would have gained", "[figure][text]") {
    std::mt19937 random(seed(0xF410));
    const auto recording = run_of(steps, [](int64_t) { return 1.0F; });
    FigureRequest request = request_of(recording, "text");
    request.views.text.coloured_by = gain_colouring;
    request.views.landscape.objective = Objective::loss;
    CHECK_THAT(refused([&] { static_cast<void>(make_figure(request)); }), ContainsSubstring("no landscape"));
    std::vector<float> gains;
    // Of the run's own text, so that its refreshes have a way through it. In one draw of ten no refresh gains anything.
    while (std::ranges::none_of(gains, [](float gain) { return gain > 0.1F; })) {
        const Landscape land = random_landscape(random, steps);
        LandscapeInfo info = land.info();
        info.tokens.clear();
        for (int64_t t = 1; t <= steps; ++t)
            info.tokens.push_back(recording->token(t));
        Landscape own(std::move(info));
        for (const int64_t row : land.rows())
            own.put_row(land.row(row));
        request.landscape = std::make_shared<const Landscape>(std::move(own));
        const ShownStairs stairs =
            stairs_of_run(*request.landscape, refreshes_of(*recording, steps), {}, Objective::loss);
        REQUIRE(stairs.there());
        gains = gains_along(*request.landscape, stairs.stairs, Objective::loss);
    }
    const Shown shown(recording, request, gains);
    REQUIRE(shown.text.range().max > 0.1);
    const std::string svg = file_of(request, FigureFormat::svg);
    check_tokens(svg, shown, 1, steps);
    CHECK_THAT(svg, ContainsSubstring("Gain of a refresh before (nats)"));
    const DataTable table = make_figure(request)->table();
    CHECK(table.columns[2] == "gain_nats");
    for (int64_t token = 2; token <= steps; ++token)
        if (!is_absent(gains[static_cast<size_t>(token) - 2]))
            CHECK(std::stof(table.rows[static_cast<size_t>(token) - 1][2]) ==
                  gains[static_cast<size_t>(token) - 2]);
}

TEST_CASE("tokens of a figure are underlined by who wrote their entries", "[figure][text]") {
    const auto recording = run();
    FigureRequest request = request_of(recording, "text");
    request.views.text.origins = true;
    request.step = 6;
    const std::string svg = file_of(request, FigureFormat::svg);
    const Theme theme = paper().theme;
    std::vector<std::string> lines;
    for (const SvgBox& box : boxes_of(group_of(svg, "tokens")))
        if (box.height < 5) lines.push_back(box.fill);
    const std::string refreshed = hex_of(origin_colour(theme, Origin::teacher_refresh)),
                      own = hex_of(origin_colour(theme, Origin::student));
    const std::string chosen = hex_of(theme.origin_prefill); // above y_1, which the teacher's prefill chose
    CHECK(lines == std::vector<std::string>{refreshed, chosen, refreshed, own, own, own});
    CHECK_THAT(svg, ContainsSubstring(">refreshed</text>") && ContainsSubstring(">student</text>"));
    const DataTable table = make_figure(request)->table();
    CHECK(table.columns.back() == "origin");
    CHECK(table.rows[0].back() == "refreshed");
    CHECK(table.rows[2].back() == "student");
    CHECK(table.rows[7].back().empty()); // not fed by then
}

TEST_CASE("drafted tokens that verification rejected are struck out on request", "[figure][text]") {
    const auto recording = run();
    // A draft of y_4 to y_6: the second is rejected, so the third went too; another one that stays whole.
    DraftEvent cut;
    cut.step = 5;
    cut.first_pos = prompt + 3;
    cut.tokens = {{.token_id = 1, .stays = true}, {.token_id = 2}, {.token_id = 3}};
    cut.instead = 7;
    recording->add_draft(cut);
    DraftEvent whole;
    whole.step = 8;
    whole.first_pos = prompt + 6;
    whole.tokens = {{.token_id = 1, .stays = true}};
    recording->add_draft(whole);
    RejectedDrafts rejected;
    CHECK(rejected.update(*recording) == 5);
    CHECK_FALSE(rejected.update(*recording));
    CHECK(rejected.before(5).size() == 2);
    CHECK(rejected.before(4).empty());

    FigureRequest request = request_of(recording, "text");
    const auto words_of = [](const RecordedCanvas& canvas, std::string_view group) {
        std::vector<std::string> words;
        for (const DrawnText& text : canvas.texts_of(group))
            words.push_back(text.words);
        return words;
    };
    const RecordedCanvas without = drawn(request);
    CHECK(without.texts_of("rejected").empty());
    CHECK_FALSE(without.says("rejected draft"));
    request.views.text.rejected = true;
    const RecordedCanvas with = drawn(request);
    const auto& tokens = recording->tokens();
    CHECK(words_of(with, "rejected") ==
          std::vector{std::string(tokens.token_bytes(2)), std::string(tokens.token_bytes(3))});
    CHECK(with.rectangles_of("rejected").size() == 2); // each is struck out
    CHECK(words_of(with, "tokens") == words_of(without, "tokens"));
    CHECK(with.says("rejected draft"));
    // They stand in their place, whatever part is drawn.
    request.from = 5;
    CHECK(words_of(drawn(request), "rejected").size() == 2);
    request.from = 6;
    CHECK(words_of(drawn(request), "rejected").empty());
    CHECK(make_figure(request)->table().rows.size() == static_cast<size_t>(steps - 5));
}

TEST_CASE("a text figure of two runs has both texts, with what differs", "[figure][text]") {
    const auto first = run(), second = run();
    FigureRequest request = request_of(first, "text");
    request.runs.push_back({second, "the other"});
    const RecordedCanvas same = drawn(request);
    CHECK(same.texts_of("tokens").size() == same.texts_of("compared").size());
    CHECK(same.says("the other"));
    CHECK(same.rectangles_of("differs").empty());
    CHECK(same.rectangles_of("parts").empty());
    const DataTable table = make_figure(request)->table();
    CHECK(table.columns.back() == "differs");
    CHECK(table.rows.front().back() == "0");
}

TEST_CASE("notes have their numbers at their steps, and their words below", "[figure][notes]") {
    const auto recording = run();
    const auto write = [&](int64_t first, int64_t last, uint32_t colour, const char* words) {
        StepNote note;
        note.first_step = first;
        note.last_step = last;
        note.colour = colour;
        note.text = words;
        recording->notes()->add(note);
    };
    write(2, 2, 1, "before the part that is drawn");
    write(3, 5, 3, "the middle");
    write(6, 6, 4, "");
    const auto numbers = [](const RecordedCanvas& canvas, const char* group) {
        std::vector<std::string> found;
        for (const DrawnText& text : canvas.texts_of(group))
            found.push_back(text.words);
        return found;
    };
    using Words = std::vector<std::string>;
    const char* const panel = GENERATE("signals", "text");
    INFO(panel);
    FigureRequest request = request_of(recording, panel);
    CHECK(!drawn(request).says("the middle")); // nobody asked
    const auto without_notes = make_figure(request)->table().columns;
    CHECK(std::ranges::find(without_notes, "notes") == without_notes.end());
    request.notes = true;
    // y_{t+1} is chosen at step t: tokens 4 to 7 are of steps 3 to 6.
    const bool text = request.panel == "text";
    request.from = text ? 4 : 3;
    request.to = text ? 7 : 6;
    const RecordedCanvas canvas = drawn(request);
    CHECK(numbers(canvas, text ? "note_marks" : "note_numbers") == Words{"2", "3"});
    CHECK(numbers(canvas, "notes") == Words{"2", "steps 3 to 5: the middle", "3", "step 6"});
    // The bars over three tokens, or over the steps, have the note's colour.
    const auto bars = canvas.rectangles_of(text ? "note_marks" : "note_spans");
    const Colour third = run_colour(paper().theme, 3);
    const auto coloured = std::ranges::count_if(bars, [&](const DrawnRectangle& bar) {
        return (bar.fill & ~alpha_mask) == (third & ~alpha_mask) && bar.rect.height < 3;
    });
    CHECK(coloured == (text ? 3 : 1));
    if (!text) {
        const auto bands = canvas.rectangles_of("note_bands");
        REQUIRE(bands.size() == 1); // of steps 3 to 5, of 3 to 6 in sight
        CHECK(bands[0].rect.width == Approx(0.75 * canvas.frames.front().rect.width));
        CHECK(canvas.lines_of("note_bands").size() == 1);
    }
    const DataTable table = make_figure(request)->table();
    const auto column =
        static_cast<size_t>(std::ranges::find(table.columns, "notes") - table.columns.begin());
    REQUIRE(column < table.columns.size());
    Words cells;
    for (const auto& row : table.rows)
        cells.push_back(row.at(column));
    CHECK(cells == Words{"2", "2", "2", "3"});
    // The list takes room of its own.
    const FigureStyle style = paper();
    RecordedCanvas measured;
    const FigurePen pen{measured, style};
    FigureRequest without = request;
    without.notes = false;
    CHECK(make_figure(request)->height(pen, 240) > make_figure(without)->height(pen, 240) + style.small_pt);
}

TEST_CASE("a long note is broken between words and cut with an ellipsis", "[figure][notes]") {
    RecordedCanvas canvas;
    const FigureStyle style = paper();
    const FigurePen pen{canvas, style};
    const TextStyle font = pen.small();
    const double width = canvas.width_of("twelve chars", font);
    using Words = std::vector<std::string>;
    CHECK(pen.wrapped("one two", font, width, 9) == Words{"one two"});
    CHECK(pen.wrapped("", font, width, 9).empty());
    CHECK(pen.wrapped("one\n\ntwo", font, width, 9) == Words{"one", "", "two"});
    for (const std::string& line :
         pen.wrapped("a few words that are longer than one line of twelve", font, width, 99))
        CHECK(canvas.width_of(line, font) <= width);
    // Nothing is lost or doubled between words.
    std::string all;
    for (const std::string& line : pen.wrapped("a few words that are longer than one line", font, width, 99))
        all += (all.empty() ? "" : " ") + line;
    CHECK(all == "a few words that are longer than one line");
    // A word that is wider than a line is broken within it, never within a character.
    all.clear();
    for (const std::string& line : pen.wrapped("ähnlichähnlichähnlichähnlich", font, width, 99)) {
        CHECK(canvas.width_of(line, font) <= width);
        CHECK(!first_invalid_utf8(line));
        all += line;
    }
    CHECK(all == "ähnlichähnlichähnlichähnlich");
    const auto cut = pen.wrapped(std::string(1 << 20, 'x'), font, width, 3);
    REQUIRE(cut.size() == 3);
    CHECK(cut.back().ends_with("…"));
    CHECK(canvas.width_of(cut.back(), font) <= width + 1e-9);
}

TEST_CASE("notes are refused where a figure has none", "[figure][notes][bad-input]") {
    FigureRequest request = request_of(run(), "cache");
    request.notes = true;
    CHECK_THAT(refused([&] { return make_figure(request); }), ContainsSubstring("cache shows no notes"));
    request.panel = "signals";
    request.runs.push_back(request.runs.front());
    CHECK_THAT(refused([&] { return make_figure(request); }), ContainsSubstring("of one run"));
}

} // namespace text_figure_test
