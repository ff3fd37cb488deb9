// The figure of attention shows the panel's view: the same cells in the same colours, heads and order.
#include "tests/support/refused.h"
#include "tests/support/seed.h"
#include "tests/ui/figure/drawn_figure.h"
#include "tests/ui/figure/figure_fixture.h"
#include "ui/scene/attention/attention_colours.h"
#include "ui/scene/theme/run_colours.h"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <random>

namespace attention_figure_test {

using namespace refreshlab;
using namespace refreshlab::ui;
using namespace refreshlab::test;
using Catch::Matchers::ContainsSubstring;

namespace {

constexpr int64_t layers = 3, heads = 4, prompt = 5, steps = 20;

/// Random rows of both models at every step. \param evicted  position 2 is gone from layer 1 on, from step 4 on
std::shared_ptr<Recording> random_run(std::mt19937& random, bool evicted) {
    const auto recording = empty_recording(Mode::overfill, prompt, layers, heads);
    CacheEvent grown;
    grown.change = CacheChange::appended;
    grown.origin = Origin::teacher_prefill;
    grown.positions = {{0, prompt}};
    recording->add_cache_event(grown);
    for (int64_t t = 1; t <= steps; ++t) {
        append_step(*recording);
        CacheEvent one;
        one.step = t;
        one.change = CacheChange::appended;
        one.origin = Origin::student;
        one.positions = {{prompt + t - 1, 1}};
        recording->add_cache_event(one);
        if (evicted && t == 4) {
            CacheEvent gone = one;
            gone.change = CacheChange::evicted;
            gone.layer = 1;
            gone.positions = {{2, 1}};
            recording->add_cache_event(gone);
        }
        for (const bool teacher : {false, true}) {
            AttentionRows rows;
            rows.position = prompt + t - 1;
            rows.teacher = teacher;
            rows.heads = heads;
            rows.keys = rows.position + 1;
            rows.layers = {0, 1, 2};
            for (int64_t cell = 0; cell < layers * heads; ++cell)
                for (int64_t key = 0; key < rows.keys; ++key) {
                    const bool unread = evicted && cell / heads == 1 && key == 2 && t >= 4;
                    rows.weights.push_back(float_to_half(
                        unread ? 0.0F : std::uniform_real_distribution<float>(0.001F, 0.3F)(random)));
                }
            recording->add_attention(std::make_shared<const AttentionRows>(rows));
        }
    }
    return recording;
}

/// As the panel colours its grid, on a figure's theme.
struct Panel {
    Panel(const Recording& recording, const AttentionView& view, int64_t step)
        : theme(paper().theme)
        , shown_layers(not_hidden(layers, view.hidden_layers))
        , shown_heads(not_hidden(heads, view.hidden_heads)) {
        const int64_t last = prompt - 1 + step;
        const QueryWindow window = next_window({}, prompt, last, view.rows, true);
        map.update(recording, {view.of, window, shown_layers, shown_heads, 96, 96});
        history.update(recording);
        colours.theme_map = theme.map_amounts;
        colours.signed_map = theme.map_signed;
        colours.show(view, view.of);
        colours.follow(map);
    }
    /// Of one head, by its places among the shown ones.
    [[nodiscard]] std::vector<uint32_t> head(size_t l, size_t h) const {
        const bool marks = !history.all_read() && colours.of() == AttentionOf::student;
        const UnreadMark unread{history, prompt, unread_colour(theme)};
        const auto image = heads_image(map, colours, marks ? &unread : nullptr);
        const auto columns = static_cast<size_t>(map.columns()), rows = static_cast<size_t>(map.rows()),
                   width = columns * shown_heads.size();
        std::vector<uint32_t> cells;
        for (size_t row = 0; row < rows; ++row)
            for (size_t column = 0; column < columns; ++column)
                cells.push_back(image[(l * rows + row) * width + h * columns + column]);
        return cells;
    }

    Theme theme;
    std::vector<int32_t> shown_layers, shown_heads;
    AttentionMap map;
    ReadHistory history;
    AttentionColours colours;
};

FigureRequest attention_of(const std::shared_ptr<Recording>& run, const AttentionView& view) {
    FigureRequest request = request_of(run, "attention");
    request.views.attention = view;
    return request;
}

} // namespace

TEST_CASE("all heads of a figure have the panel's cells, colours and ranges", "[figure][attention]") {
    std::mt19937 random(test::seed(281));
    const auto run = random_run(random, true);
    int unread_seen = 0;
    for (const AttentionOf of : {AttentionOf::student, AttentionOf::teacher, AttentionOf::difference})
        for (const AttentionRange range :
             {AttentionRange::unit, AttentionRange::shared, AttentionRange::per_head})
            for (const bool log : {false, true})
                for (const bool without_first : {false, true}) {
                    AttentionView view{.of = of, .range = range, .log = log, .without_first = without_first};
                    view.hidden_layers = random() % 2 == 0 ? std::vector<int32_t>{0} : std::vector<int32_t>{};
                    view.hidden_heads =
                        random() % 2 == 0 ? std::vector<int32_t>{1, 3} : std::vector<int32_t>{};
                    view.map = random() % 2 == 0 ? "cividis" : "";
                    view.rows = random() % 2 == 0 ? 16 : 64;
                    FigureRequest request = attention_of(run, view);
                    request.step = 18;
                    CAPTURE(to_string(of), to_string(range), log, without_first, view.rows);
                    const RecordedCanvas canvas = drawn(request);
                    const Panel panel(*run, view, 18);
                    CHECK(canvas.images.size() >= panel.shown_layers.size() * panel.shown_heads.size());
                    for (size_t l = 0; l < panel.shown_layers.size(); ++l)
                        for (size_t h = 0; h < panel.shown_heads.size(); ++h) {
                            const auto images = canvas.images_of(
                                fmt::format("head_{}_{}", panel.shown_layers[l], panel.shown_heads[h]));
                            REQUIRE(images.size() == 1);
                            REQUIRE(images[0].rgba == panel.head(l, h));
                            unread_seen += static_cast<int>(
                                std::ranges::count(images[0].rgba, unread_colour(panel.theme)));
                        }
                    // What was not read is named where it is marked: in the model that decodes alone.
                    CHECK(canvas.says("not read") == (of == AttentionOf::student));
                    CHECK(canvas.says("symlog") == (log && of == AttentionOf::difference));
                    CHECK(canvas.says(", log") == (log && of != AttentionOf::difference));
                }
    CHECK(unread_seen > 0);
}

TEST_CASE("one head of a figure has its colours in the panel's grid", "[figure][attention]") {
    std::mt19937 random(test::seed(282));
    const auto run = random_run(random, false);
    for (const AttentionRange range :
         {AttentionRange::unit, AttentionRange::shared, AttentionRange::per_head}) {
        AttentionView view{.range = range};
        view.rows = 16;
        FigureRequest request = attention_of(run, view);
        request.head = std::pair(1, 2);
        const RecordedCanvas canvas = drawn(request);
        const Panel panel(*run, view, steps);
        const auto images = canvas.images_of("map");
        REQUIRE(images.size() == 1);
        // The same weights at their own size: 16 queries and all keys, a cell each.
        AttentionMap one;
        one.update(*run, {AttentionOf::student, panel.map.shape().window, {1}, {2}, 2048, 1024});
        std::vector<uint32_t> expected(one.cells(0, 0).size());
        panel.colours.colour(one.cells(0, 0), panel.colours.scale(1, 2), expected);
        CHECK(images[0].rgba == expected);
        CHECK_FALSE(canvas.says("not read"));
    }
}

TEST_CASE("colours of a figure go as far as those of the panel have come", "[figure][attention]") {
    std::mt19937 random(test::seed(285));
    const auto run = random_run(random, false);
    for (const AttentionRange range : {AttentionRange::shared, AttentionRange::per_head}) {
        AttentionView view{.range = range};
        view.rows = 16;
        Panel panel(*run, view, steps);
        AttentionScales wide = panel.colours.scales();
        wide.shared *= 2;
        for (double& top : wide.heads)
            top *= 3;
        panel.colours.widen(wide, wide.heads.size());
        view.scales = wide;
        const RecordedCanvas canvas = drawn(attention_of(run, view));
        const auto images = canvas.images_of("head_1_2");
        REQUIRE(images.size() == 1);
        CHECK(images[0].rgba == panel.head(1, 2));
        view.scales->heads.pop_back(); // of other heads: what fits
        const auto fitted = drawn(attention_of(run, view)).images_of("head_1_2");
        CHECK(fitted[0].rgba == Panel(*run, {.range = range, .rows = 16}, steps).head(1, 2));
        CHECK(fitted[0].rgba != images[0].rgba);
    }
}

TEST_CASE("a ranking of heads is a figure of its first, best first", "[figure][attention]") {
    std::mt19937 random(test::seed(283));
    const auto run = random_run(random, false);
    for (const HeadOrder order :
         {HeadOrder::focused, HeadOrder::spread, HeadOrder::off_sink, HeadOrder::differing}) {
        AttentionView view{.order = order, .best = 4};
        view.hidden_layers = {2};
        const FigureRequest request = attention_of(run, view);
        const DataTable table = make_figure(request)->table();
        REQUIRE(table.rows.size() == 4);
        CHECK(table.columns.back() == to_string(order));
        HeadRanking ranking;
        const QueryWindow window = next_window({}, prompt, prompt - 1 + steps, view.rows, true);
        while (ranking.update(*run, {order, false, {0, 1}, {0, 1, 2, 3}}, window, window.rows())) {
        }
        const RecordedCanvas canvas = drawn(request);
        for (size_t rank = 0; rank < 4; ++rank) {
            const RankedHead& head = ranking.ranked()[rank];
            CHECK(table.rows[rank][0] == std::to_string(head.layer_index));
            CHECK(table.rows[rank][1] == std::to_string(head.head_index));
            CHECK(canvas.images[canvas.images.size() - 4 + rank].group ==
                  fmt::format("head_{}_{}", head.layer_index, head.head_index));
        }
        CHECK(canvas.says(head_order_label(order)));
    }
}

TEST_CASE("a figure of attention refuses what is not there", "[figure][attention]") {
    std::mt19937 random(test::seed(284));
    const auto run = random_run(random, false);
    AttentionView view;
    view.hidden_layers = {0, 1, 2};
    CHECK_THAT(refused([&] { static_cast<void>(make_figure(attention_of(run, view))); }),
               ContainsSubstring("all layers or all heads are hidden"));
    const auto without = empty_recording(Mode::overfill, prompt, layers, heads);
    append_step(*without);
    CHECK_THAT(refused([&] { static_cast<void>(make_figure(attention_of(without, {}))); }),
               ContainsSubstring("no attention of the student"));
}

TEST_CASE("a view of attention from a file becomes one that the controls offer", "[ui][attention]") {
    AttentionView view;
    view.rows = 1'000'000;
    view.best = -3;
    view.map = "rainbow";
    view.hidden_layers = {4, -1, 2, 4};
    const AttentionView back = sane(view);
    CHECK(back.rows == 256);
    CHECK(back.best == 4);
    CHECK(back.map.empty());
    CHECK(back.hidden_layers == std::vector<int32_t>{2, 4});
    view.map = "rdbu"; // about a middle: not of weights
    CHECK(sane(view).map.empty());
    CHECK(sane(AttentionView{}) == AttentionView{});

    CHECK(not_hidden(4, {1, 9}) == std::vector<int32_t>{0, 2, 3});
    CHECK(visible_head({5, 1}, {0, 2, 3}, {2, 3}) == std::pair(3, 2));
    CHECK(visible_head({1, 3}, {0, 2, 3}, {2, 3}) == std::pair(0, 3));
    std::vector<int32_t> hidden{2};
    set_hidden(hidden, 0, true);
    set_hidden(hidden, 2, true);
    CHECK(hidden == std::vector<int32_t>{0, 2});
    set_hidden(hidden, 2, false);
    set_hidden(hidden, 7, false);
    CHECK(hidden == std::vector<int32_t>{0});
    AttentionView teacher{.of = AttentionOf::difference};
    CHECK(shown_attention(teacher, Mode::student) == AttentionOf::student);
    CHECK(shown_attention(teacher, Mode::overfill) == AttentionOf::difference);
}

} // namespace attention_figure_test
