// Figures of a landscape: what stands in them against schedules that are searched by trying all.
#include "engine/base/error.h"
#include "engine/landscape/staircase.h"
#include "tests/engine/landscape/random_landscape.h"
#include "tests/support/seed.h"
#include "tests/ui/figure/svg_points.h"
#include "tests/ui/maps/heatmap_recording.h"
#include "ui/figure/figure_file.h"
#include "ui/scene/landscape/cell_pyramid.h"
#include "ui/scene/landscape/landscape_model.h"
#include "ui/scene/landscape/objective_words.h"
#include "ui/scene/theme/stairs_colours.h"

#include <catch2/catch_approx.hpp>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cctype>
#include <cmath>
#include <cstdlib>
#include <map>
#include <regex>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace landscape_figure_test {

using namespace refreshlab;
using namespace refreshlab::ui;
using namespace refreshlab::test;
using Catch::Approx;
using Catch::Matchers::ContainsSubstring;

namespace {

const std::filesystem::path assets = RL_SOURCE_DIR "/assets";
constexpr int64_t tokens = 8;

FigureRequest request_of(const Landscape& landscape, const std::string& panel) {
    const auto run = empty_recording(Mode::overfill, 3);
    append_step(*run);
    FigureRequest request;
    request.panel = panel;
    request.runs.push_back({run, "the run"});
    request.landscape = std::make_shared<Landscape>(landscape);
    request.views.landscape.objective = Objective::loss; // whoever wrote the text
    return request;
}

std::string svg_of(const FigureRequest& request) {
    const FigureFonts fonts(assets);
    return render_figure(*make_figure(request), load_figure_style(assets, "paper"), {}, FigureFormat::svg,
                         figure_origin(request, "refreshlab figure"), fonts);
}

/// Mean loss of every set of boundaries; the least by how many there are.
std::vector<double> least_losses(const Landscape& land) {
    const int64_t boundaries = land.num_rows() - 1;
    std::vector<double> least(static_cast<size_t>(boundaries) + 1, 1e300);
    for (uint32_t set = 0; set < 1U << static_cast<uint32_t>(boundaries); ++set) {
        double sum = 0;
        int64_t row = 0;
        for (int64_t step = 1; step <= land.num_steps(); ++step) {
            sum += land.loss(row, step);
            if (step <= boundaries && (set >> static_cast<uint32_t>(step - 1) & 1U) != 0) row = step;
        }
        double& best = least[static_cast<size_t>(std::popcount(set))];
        best = std::min(best, sum / static_cast<double>(land.num_steps()));
    }
    return least;
}

} // namespace

TEST_CASE("a frontier figure has the best loss of every count, and its curves on one axis", "[figure]") {
    std::mt19937 random(seed(0xF401));
    Landscape land = random_landscape(random, tokens);
    std::vector<double> least = least_losses(land);
    while (std::ranges::min(least) == least[0]) { // refreshes help, on most
        land = random_landscape(random, tokens);
        least = least_losses(land);
    }
    const FigureRequest request = request_of(land, "frontier");
    std::map<std::string, std::vector<std::pair<double, double>>> rows; // refreshes and loss, by curve
    for (const auto& row : make_figure(request)->table().rows)
        rows[row[0]].emplace_back(std::stod(row[2]), std::stod(row[3]));
    // What nobody can go below: a count that may go unused.
    REQUIRE(rows["best"].size() == least.size());
    for (size_t k = 0; k < least.size(); ++k)
        CHECK(rows["best"][k].second ==
              Approx(*std::min_element(least.begin(), least.begin() + static_cast<std::ptrdiff_t>(k) + 1))
                  .epsilon(1e-5));
    for (const auto& row : make_figure(request)->table().rows)
        CHECK(std::stod(row[3]) - std::stod(row[4]) == Approx(land.mean_teacher_loss()).margin(1e-4));

    const std::string svg = svg_of(request);
    for (const char* words : {">refreshes</text>", ">Loss above the teacher (nats)</text>",
                              ">best possible</text>", ">teacher</text>", ">Entropy</text>"})
        CHECK_THAT(svg, ContainsSubstring(words));
    // The line of the best never rises: more refreshes than help need not be made.
    const auto best = points_of(svg, "best");
    REQUIRE(best.size() == least.size());
    double so_far = least[0];
    std::vector<double> at_most;
    for (const double loss : least)
        at_most.push_back(so_far = std::min(so_far, loss));
    REQUIRE(at_most.front() > at_most.back());
    const double per_nat = (best.back().second - best.front().second) / (at_most.back() - at_most.front());
    const double per_refresh = best[1].first - best[0].first;
    CHECK(per_nat < 0); // upwards is more loss
    const auto check = [&](std::pair<double, double> point, double refreshes, double loss) {
        CHECK(point.first == Approx(best[0].first + per_refresh * refreshes).margin(0.03));
        CHECK(point.second == Approx(best[0].second + per_nat * (loss - at_most[0])).margin(0.05));
    };
    for (size_t k = 0; k < best.size(); ++k)
        check(best[k], static_cast<double>(k), at_most[k]);
    REQUIRE(rows.contains("entropy_bits"));
    for (const auto& [curve, values] : rows) {
        if (curve == "best" || curve.find("this ") == 0 || values.size() < 2) continue;
        if (curve == "blind") {
            for (size_t i = 0; i < values.size(); ++i)
                check(points_of(svg, "blind")[i], values[i].first, values[i].second);
            continue;
        }
        const auto points = points_of(svg, "frontier_" + curve);
        REQUIRE(points.size() == values.size());
        for (size_t i = 0; i < points.size(); ++i) {
            check(points[i], values[i].first, values[i].second);
            // Nobody is better than the best of as many.
            CHECK(values[i].second >= least[static_cast<size_t>(values[i].first)] - 1e-9);
        }
    }
}

TEST_CASE("figures of a landscape show what the panel shows: staircases, colours, the part in sight",
          "[figure]") {
    std::mt19937 random(seed(0xF405));
    const Landscape land = random_landscape(random, tokens);
    const Theme theme = load_figure_style(assets, "paper").theme;
    const auto hex = [&](StairsOf of) {
        const uint32_t c = stairs_colour(theme, of);
        return fmt::format("#{:02x}{:02x}{:02x}", c & 0xFFU, c >> 8 & 0xFFU, c >> 16 & 0xFFU);
    };
    const auto group = [](const std::string& svg, const std::string& id) {
        const size_t at = svg.find("<g id=\"" + id + "\"");
        return at == std::string::npos ? std::string() : svg.substr(at, svg.find("</g>", at) - at);
    };
    const auto lower = [](std::string text) {
        std::ranges::transform(text, text.begin(), [](unsigned char c) { return std::tolower(c); });
        return text;
    };
    RefreshPolicy policy = preset_policy("none");
    policy.at = {2, 5};
    FigureRequest request = request_of(land, "landscape");
    request.policy = policy;
    const char* ids[] = {"run", "policy", "blind", "best"};
    for (const StairsOf hidden : {StairsOf::run, StairsOf::policy, StairsOf::blind, StairsOf::best}) {
        request.views.landscape.stairs = {true, true, true, true};
        request.views.landscape.stairs[static_cast<size_t>(hidden)] = false;
        const std::string svg = svg_of(request);
        for (const StairsOf of : {StairsOf::run, StairsOf::policy, StairsOf::blind, StairsOf::best}) {
            const std::string id = ids[static_cast<size_t>(of)];
            INFO(id);
            const std::string drawn = group(svg, "staircase_" + id);
            if (of == hidden)
                CHECK(drawn.empty());
            else
                CHECK_THAT(lower(drawn), ContainsSubstring(hex(of)));
        }
    }
    // The policy's two refreshes, and as many by the best: the model of the panel says what they lose.
    const auto run = request.runs.front().recording;
    const LandscapeModel model =
        make_landscape_model(request.landscape, refreshes_of(*run, run->steps()), policy, Objective::loss);
    REQUIRE(model.of(StairsOf::policy).refreshes() == 2);
    REQUIRE(model.of(StairsOf::best).refreshes() == 2);
    request.panel = "frontier";
    const std::string fitted = svg_of(request);
    for (const StairsOf of : {StairsOf::run, StairsOf::policy, StairsOf::blind, StairsOf::best})
        CHECK_THAT(lower(group(fitted, std::string("point_") + ids[static_cast<size_t>(of)])),
                   ContainsSubstring(hex(of)));
    CHECK_THAT(lower(group(fitted, "best")), ContainsSubstring(hex(StairsOf::best)));
    CHECK_THAT(lower(group(fitted, "blind")), ContainsSubstring(hex(StairsOf::blind)));
    // A part of the frontier that a person has zoomed to.
    const FrontierRange fit = fitted_frontier(land, &model.best, model.stairs, Objective::loss);
    request.views.landscape.frontier = FrontierRange{{0, fit.refreshes.max / 2}, fit.loss};
    const auto whole = points_of(fitted, "best"), part = points_of(svg_of(request), "best");
    REQUIRE(whole.size() == part.size());
    CHECK((part[1].first - part[0].first) / (whole[1].first - whole[0].first) ==
          Approx(fit.refreshes.span() / (fit.refreshes.max / 2)).epsilon(1e-3));
    CHECK(part[1].second == Approx(whole[1].second).margin(0.05)); // the same losses at the same height
}

TEST_CASE("a landscape figure has a cell for every possible refresh, in the colour of its loss", "[figure]") {
    std::mt19937 random(seed(0xF402));
    const Landscape land = random_landscape(random, tokens);
    FigureRequest request = request_of(land, "landscape");
    request.policy = preset_policy("none");
    request.policy->at = {3};
    // The colours that a window shows: by themselves, or a range of one's own.
    const CellColours automatic = cell_colours({}, CellPyramid(request.landscape, {}).spread(), {});
    const bool own = GENERATE(false, true);
    if (own)
        request.views.landscape.cells.set_own_range(
            Objective::loss, ValueRange{-automatic.range.max / 3, automatic.range.max / 3});
    const CellColours shown = own ? cell_colours({}, CellPyramid(request.landscape, {}).spread(),
                                                 request.views.landscape.cells.own_range(Objective::loss))
                                  : automatic;
    if (own) CHECK(shown.above);
    const auto table = make_figure(request)->table();
    CHECK(table.rows.size() == (tokens - 1) * tokens / 2);
    for (const auto& row : table.rows) {
        const int64_t j = std::stoll(row[0]), i = std::stoll(row[1]);
        CHECK(std::stod(row[2]) == Approx(land.loss(j, i) - land.teacher_loss(i)).margin(1e-5));
    }

    const std::string svg = svg_of(request);
    for (const std::string& words :
         {std::string(">step</text>"), std::string(">step of the last refresh</text>"),
          std::string(">Loss above the teacher (nats)</text>"), words_of(shown)})
        CHECK_THAT(svg, ContainsSubstring(words));
    const size_t group = svg.find("<g id=\"triangle\">");
    REQUIRE(group != std::string::npos);
    const std::string triangle = svg.substr(group, svg.find("</g>", group) - group);
    const auto attribute = [&](const std::string& name) {
        std::smatch found;
        const std::regex pattern(" " + name + "=\"([-0-9.]+)\"");
        REQUIRE(std::regex_search(triangle, found, pattern));
        return std::stod(found[1]);
    };
    const double x = attribute("x"), y = attribute("y"), width = attribute("width"),
                 height = attribute("height");
    // Its pixels, away from the borders and the middles of cells, where staircases run.
    const FigureFonts fonts(assets);
    const FigureStyle style = load_figure_style(assets, "paper");
    constexpr double density = 4;
    const auto image = preview_figure(*make_figure(request), style, {}, density, fonts);
    const ColourScale scale{colour_map(shown.has_signs ? style.theme.map_signed : style.theme.map_amounts),
                            shown.range.min, shown.range.max, false};
    const auto n = static_cast<double>(land.num_steps());
    for (int64_t j = 0; j < land.num_rows(); ++j)
        for (int64_t i = j + 1; i <= land.num_steps(); ++i) {
            const double at_x = x + (static_cast<double>(i) - 0.75) / n * width,
                         at_y = y + (static_cast<double>(j) + 0.25) / n * height;
            const auto pixel = image.rgba[static_cast<size_t>(
                static_cast<int64_t>(at_y * density) * image.width + static_cast<int64_t>(at_x * density))];
            const uint32_t want = scale(land.loss(j, i) - land.teacher_loss(i));
            INFO("cell " << j << ", " << i);
            for (const uint32_t shift : {0U, 8U, 16U})
                CHECK(std::abs(static_cast<int>(pixel >> shift & 0xFFU) -
                               static_cast<int>(want >> shift & 0xFFU)) <= 3);
        }
    // The best staircase runs within the triangle from its first row to its last column.
    const auto stair = points_of(svg, "staircase_best");
    REQUIRE(stair.size() >= 2);
    CHECK(stair.front().second == Approx(y + height / n / 2).margin(height / n / 2 + 0.1));
    CHECK(stair.back().first == Approx(x + width).margin(width / n + 0.1));
    for (size_t i = 1; i < stair.size(); ++i) {
        CHECK(stair[i].first >= stair[i - 1].first - 0.01);
        CHECK(stair[i].second >= stair[i - 1].second - 0.01);
    }
}

TEST_CASE("a landscape figure shows any value of its cells, and refuses one that it does not have",
          "[figure]") {
    std::mt19937 random(seed(0xF404));
    const Landscape land = random_landscape(random, tokens);
    FigureRequest request = request_of(land, "landscape");
    request.views.landscape.cells.value = {CellValue::Kind::signal, "entropy_bits"};
    const auto table = make_figure(request)->table();
    CHECK(table.columns.back() == "entropy_bits");
    for (const auto& row : table.rows)
        CHECK(std::stof(row[2]) == land.cell(1, std::stoll(row[0]), std::stoll(row[1])));
    CHECK_THAT(svg_of(request), ContainsSubstring(">Entropy (bits)</text>"));
    request.views.landscape.cells.value.signal = "drift";
    CHECK_THROWS_WITH(make_figure(request), ContainsSubstring("drift") && ContainsSubstring("entropy_bits"));
}

TEST_CASE("figures of a landscape are judged by the objective that is asked for, in words, numbers and lines",
          "[figure]") {
    std::mt19937 random(seed(0xF406));
    const Landscape land = random_landscape(random, tokens, 1, true);
    for (const Objective objective : objectives) {
        INFO(to_string(objective));
        FigureRequest request = request_of(land, "frontier");
        request.policy = preset_policy("none");
        request.policy->at = {2, 5};
        request.views.landscape.objective = objective;
        const auto best = best_schedules(land, land.num_rows(), objective);
        const DataTable table = make_figure(request)->table();
        size_t k = 0;
        for (const auto& row : table.rows) {
            if (row[0] != "best") continue;
            const double loss = best_of_at_most(best, k).loss;
            CHECK(
                std::stod(row[3]) ==
                Approx(shown_value(objective, loss, land.num_steps(), static_cast<int64_t>(k))).margin(1e-5));
            CHECK(std::stod(row[4]) == Approx(loss - teacher_value(land, objective)).margin(1e-5));
            ++k;
        }
        CHECK(k == best.size());
        CHECK(table.columns[3] == loss_column(objective));
        const std::string axis = axis_label(objective);
        CHECK_THAT(svg_of(request), ContainsSubstring(axis.substr(0, axis.find('|'))));
        request.panel = "landscape";
        const DataTable cells = make_figure(request)->table();
        CellCosts costs(land, objective);
        costs.enter(2);
        for (const auto& row : cells.rows) {
            if (row[0] != "2") continue;
            const int64_t step = std::stoll(row[1]);
            const double teacher =
                objective == Objective::loss ? land.teacher_loss(step) : teacher_value(land, objective);
            CHECK(std::stod(row[2]) == Approx(costs.next(step) - teacher).margin(1e-5));
        }
        CHECK_THAT(svg_of(request), ContainsSubstring(std::string(told_unit(objective)) + "</text>"));
    }
    // Unless one is asked for it is the text's: a run that wrote by itself is judged by KL.
    FigureRequest request = request_of(land, "frontier");
    request.views.landscape.objective.reset();
    CHECK(make_figure(request)->table().columns[3] == "kl_nats");
    request.landscape = std::make_shared<Landscape>(random_landscape(random, tokens));
    request.views.landscape.objective = Objective::rejection;
    CHECK_THROWS_WITH(make_figure(request),
                      ContainsSubstring("acceptance") && ContainsSubstring("--objective rejection"));
}

TEST_CASE("a policy that verifies has a mark where each of its drafts is expected to end", "[figure]") {
    std::mt19937 random(seed(0xF407));
    const Landscape land = random_landscape(random, tokens, 1, true);
    FigureRequest request = request_of(land, "landscape");
    request.policy = preset_policy("speculative");
    request.policy->triggers[0].threshold = 3;
    const Staircase walk = walk_policy(land, *request.policy);
    REQUIRE(walk.drafts.size() == 3);
    const std::string svg = svg_of(request);
    CHECK_THAT(svg, ContainsSubstring("drafted tokens expected to stay"));
    const auto way = points_of(svg, "staircase_policy"); // from column 0, row 0 to the last column
    const double left = way.front().first,
                 across = (way.back().first - left) / static_cast<double>(land.num_steps());
    const size_t at = svg.find("<g id=\"drafts_policy\"");
    REQUIRE(at != std::string::npos);
    const std::string marks = svg.substr(at, svg.find("</g>", at) - at);
    for (const ExpectedDraft& draft : walk.drafts) {
        const double x = left + across * (static_cast<double>(draft.first) + draft.expected);
        bool found = false;
        const std::regex number("x1=\"([-0-9.]+)\"|M([-0-9.]+)");
        for (std::sregex_iterator one(marks.begin(), marks.end(), number), none; one != none; ++one) {
            const std::string text = (*one)[1].matched ? (*one)[1].str() : (*one)[2].str();
            found = found || std::abs(std::stod(text) - x) < 0.05;
        }
        INFO("a draft from " << draft.first << " to " << draft.last);
        CHECK(found);
    }
    request.policy->on_fire = OnFire::keep;
    CHECK_THAT(svg_of(request), !ContainsSubstring("drafts_policy"));
}

TEST_CASE("a figure of a landscape needs one", "[figure][bad-input]") {
    std::mt19937 random(seed(0xF403));
    for (const char* panel : {"landscape", "frontier"}) {
        FigureRequest request = request_of(random_landscape(random, tokens), panel);
        request.landscape = nullptr;
        CHECK_THROWS_AS(make_figure(request), Error);
    }
}

} // namespace landscape_figure_test
