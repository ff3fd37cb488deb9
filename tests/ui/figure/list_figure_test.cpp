// Tables as figures: nothing overlaps or is lost at any width, and rows and columns are those of the view.
#include "engine/base/error.h"
#include "tests/support/seed.h"
#include "tests/ui/figure/drawn_figure.h"
#include "ui/figure/paint/list_paint.h"
#include "ui/scene/text/event_table.h"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

namespace list_figure_test {

using namespace refreshlab;
using namespace refreshlab::ui;
using namespace refreshlab::test;
using Catch::Matchers::ContainsSubstring;

namespace {

std::string random_words(std::mt19937& random, int most_words, int longest) {
    std::string text;
    for (int n = 1 + static_cast<int>(random()) % most_words; n > 0; --n) {
        text += text.empty() ? "" : " ";
        for (int letters = 1 + static_cast<int>(random() % static_cast<uint32_t>(longest)); letters > 0;
             --letters)
            text += static_cast<char>('a' + random() % 26);
    }
    return text;
}

/// Where the words of a text lie, from left to right.
FigureRect place_of(const FigureCanvas& canvas, const DrawnText& text) {
    const TextSize size = canvas.measure(text.words, text.style);
    const double left = text.style.align == TextStyle::Align::right    ? text.at.x - size.width
                        : text.style.align == TextStyle::Align::centre ? text.at.x - size.width / 2
                                                                       : text.at.x;
    return {left, text.at.y - text.style.size * 0.8, size.width, text.style.size * 0.8};
}

std::string without_spaces(std::string text) {
    std::erase(text, ' ');
    return text;
}

std::vector<std::string> words_of(const RecordedCanvas& canvas, std::string_view group) {
    std::vector<std::string> words;
    for (const DrawnText& text : canvas.texts_of(group))
        words.push_back(text.words);
    return words;
}

} // namespace

TEST_CASE("the words of a printed table stand apart and in their place at any width", "[figure][list]") {
    std::mt19937 random(seed(0x7AB1));
    const FigureStyle style = paper();
    for (int round = 0; round < 60; ++round) {
        PrintedTable table;
        const size_t columns = 1 + random() % 7;
        for (size_t i = 0; i < columns; ++i)
            table.columns.push_back({random_words(random, 2, 6),
                                     static_cast<TextStyle::Align>(random() % 2 * 2), random() % 2 == 0});
        std::string all;
        for (size_t r = random() % 9; r > 0; --r) {
            std::vector<PrintedTable::Cell> row;
            for (size_t i = 0; i < columns; ++i) {
                PrintedTable::Cell cell{random_words(random, table.columns[i].wraps ? 7 : 1, 8)};
                if (table.columns[i].align == TextStyle::Align::left && random() % 3 == 0)
                    cell.box = PrintedTable::Box{0xFF0000FFU, false, "E"};
                all += cell.words;
                row.push_back(std::move(cell));
            }
            table.rows.push_back(std::move(row));
        }
        const double width = 150 + static_cast<double>(random() % 400);
        RecordedCanvas canvas;
        const FigurePen pen{canvas, style};
        const FigureRect place{10, 20, width, table_height(pen, width, table)};
        paint_table(pen, place, table);
        CAPTURE(round, width, columns);
        const std::vector<DrawnText> texts = canvas.texts;
        std::string shown;
        for (size_t i = 0; i < texts.size(); ++i) {
            const FigureRect at = place_of(canvas, texts[i]);
            REQUIRE(at.x >= place.x - 0.1);
            REQUIRE(at.right() <= place.right() + 0.1);
            REQUIRE(at.y >= place.y - 0.1);
            REQUIRE(at.bottom() <= place.bottom() + 0.1);
            for (size_t k = 0; k < i; ++k) {
                const FigureRect other = place_of(canvas, texts[k]);
                const bool apart = at.x >= other.right() - 0.1 || other.x >= at.right() - 0.1 ||
                                   at.y >= other.bottom() - 0.1 || other.y >= at.bottom() - 0.1;
                INFO(texts[i].words << " and " << texts[k].words);
                REQUIRE(apart);
            }
        }
        // Nothing was cut where the letters are not at their smallest.
        const auto rows = canvas.texts_of("rows");
        if (rows.empty() || rows.front().style.size < style.small_pt * 0.66) continue;
        for (const DrawnText& text : rows)
            if (text.words != "E" || text.style.align != TextStyle::Align::centre) shown += text.words;
        std::string wanted = without_spaces(all), have = without_spaces(shown);
        std::ranges::sort(wanted);
        std::ranges::sort(have);
        REQUIRE(have == wanted);
    }
}

TEST_CASE("a table of events has the kinds, columns and order of the view", "[figure][list]") {
    const auto run = run_of(40, [](int64_t) { return 5.0F; }, {9, 30, 17});
    FigureRequest request = request_of(run, "events");
    RecordedCanvas all = drawn(request);
    CHECK(words_of(all, "headings").front() == "Step");
    CHECK(all.says("Spliced"));
    const DataTable numbers = make_figure(request)->table();
    REQUIRE(numbers.rows.size() == 3);
    CHECK(numbers.rows[0][0] == "9");
    request.views.events.table = {
        .hidden = {"spliced", "ms", "token_read", "before", "after", "value", "threshold"},
        .sorted_by = "step",
        .descending = true};
    const RecordedCanvas two = drawn(request);
    CHECK(words_of(two, "headings") == std::vector<std::string>{"Step", "Reason"});
    std::vector<std::string> steps;
    for (const std::string& word : words_of(two, "rows"))
        if (std::isdigit(static_cast<unsigned char>(word[0])) != 0) steps.push_back(word);
    CHECK(steps == std::vector<std::string>{"30", "17", "9"});
    CHECK(words_of(two, "rows")[1] == "E"); // the badge of the reason
    request.from = 10;
    request.to = 20;
    CHECK(make_figure(request)->table().rows.size() == 1);
    request.views.events.hidden[static_cast<size_t>(MarkLane::refresh)] = true;
    CHECK_THROWS_AS(make_figure(request), Error);
    request.views.events = {};
    for (const std::string_view key : event_column_keys())
        request.views.events.table.hidden.emplace_back(key);
    CHECK_THROWS_AS(drawn(request), Error);
}

TEST_CASE("a long table prints its first rows and counts the others", "[figure][list]") {
    std::vector<int64_t> refreshes;
    for (int64_t t = 1; t <= 260; ++t)
        refreshes.push_back(t);
    const auto run = run_of(
        260, [](int64_t) { return 5.0F; }, refreshes);
    const FigureRequest request = request_of(run, "events");
    const RecordedCanvas canvas = drawn(request);
    CHECK(canvas.says("and 60 more rows, in the file of numbers"));
    CHECK(canvas.says("200"));
    CHECK_FALSE(canvas.says("201"));
    CHECK(make_figure(request)->table().rows.size() == 260);
}

TEST_CASE("a table of runs has their numbers and colours, sorted as the panel sorts", "[figure][list]") {
    const auto few = run_of(20, [](int64_t) { return 4.0F; }, {9}),
               many = run_of(30, [](int64_t) { return 2.0F; }, {5, 9, 12});
    FigureRequest request = request_of(few, "runs");
    request.runs.front().name = "few";
    request.runs.push_back({many, "many"});
    const auto names = [&] {
        std::vector<std::string> found;
        for (const auto& row : make_figure(request)->table().rows)
            found.push_back(row[0]);
        return found;
    };
    CHECK(names() == std::vector<std::string>{"few", "many"});
    request.views.runs.set_order("entropy_bits");
    CHECK(names() == std::vector<std::string>{"many", "few"});
    request.views.runs.hidden = {"change", "added_percent"};
    const RecordedCanvas canvas = drawn(request);
    const auto headings = words_of(canvas, "headings");
    CHECK(std::ranges::find(headings, "Run") != headings.end());
    CHECK(std::ranges::find(headings, "Change") == headings.end());
    const auto boxes = canvas.rectangles_of("rows");
    REQUIRE(boxes.size() == 2);
    CHECK(boxes[0].fill != boxes[1].fill);
    const auto rows = words_of(canvas, "rows");
    CHECK(std::vector(rows.begin(), rows.begin() + 4) == std::vector<std::string>{"many", "30", "3", "2"});
}

} // namespace list_figure_test
