#include "engine/base/error.h"
#include "engine/base/json_file.h"
#include "engine/control/command.h"
#include "tests/support/seed.h"
#include "ui/base/format.h"
#include "ui/base/fuzzy.h"
#include "ui/context/toasts.h"
#include "ui/dialogs/prompt_files.h"
#include "ui/scene/policy/command_words.h"
#include "ui/state/action.h"
#include "ui/state/layout.h"
#include "ui/state/settings.h"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/generators/catch_generators_range.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <limits>
#include <map>
#include <random>
#include <tuple>
#include <utility>

namespace shell_parts_test {

using namespace refreshlab;
using namespace refreshlab::ui;
using Catch::Matchers::ContainsSubstring;

namespace {

const std::filesystem::path assets = std::filesystem::path(RL_SOURCE_DIR) / "assets";

struct Folder {
    Folder()
        : path(std::filesystem::path(RL_BUILD_DIR) / "shell-test") {
        std::filesystem::remove_all(path);
    }
    ~Folder() { std::filesystem::remove_all(path); }
    std::filesystem::path path;
};

} // namespace

TEST_CASE("numbers have three significant digits", "[ui]") {
    CHECK(format_number(5.2) == "5.2");
    CHECK(format_number(5.2, true) == "5.20");
    CHECK(format_number(0) == "0");
    CHECK(format_number(0.03124) == "0.0312");
    CHECK(format_number(9.996) == "10");
    CHECK(format_number(9.996, true) == "10.0");
    CHECK(format_number(99.95, true) == "100");
    CHECK(format_number(1234.4) == "1234");
    CHECK(format_number(-2.5) == "-2.5");
    CHECK(format_number(1.2e-5) == "1.2e-05");
    CHECK(format_number(5e-5) == "5e-05");
    CHECK(format_number(-2e9) == "-2e+09");
    CHECK(format_number(1.2e-5, true) == "1.20e-05");
    CHECK(format_number(std::numeric_limits<double>::quiet_NaN()) == "nan");
    CHECK(format_number(-std::numeric_limits<double>::infinity()) == "-inf");
    CHECK(format_value(5.2, "bits") == "5.2 bits");
    CHECK(format_value(5.2, "") == "5.2");
    CHECK(format_bytes(620000) == "620 kB");
    CHECK(format_bytes(5200000) == "5.2 MB");
    CHECK(format_count(7460000) == "7.46 M");
    CHECK(format_count(12) == "12");
}

TEST_CASE("a rounded number is within half a unit of its third digit, and an exact one is exact", "[ui]") {
    const auto seed = test::seed(GENERATE(range(1U, 4U)));
    CAPTURE(seed);
    std::mt19937_64 random(seed);
    std::uniform_real_distribution<double> exponent(-2.9, 5.9);
    for (int i = 0; i < 2000; ++i) {
        const double value = std::pow(10.0, exponent(random)) * (i % 2 ? 1 : -1);
        CAPTURE(value);
        const double error = std::abs(std::stod(format_number(value)) - value);
        CHECK(error <= 0.5001 * std::pow(10.0, std::floor(std::log10(std::abs(value))) - 2));
        CHECK(std::stod(exact_number(value)) == value);
    }
}

TEST_CASE("the same message again counts up instead of filling the log", "[ui]") {
    Toasts toasts;
    toasts.add(Toasts::Level::error, "disk full", 1);
    toasts.add(Toasts::Level::info, "run finished", 2);
    toasts.add(Toasts::Level::error, "disk full", 3);
    REQUIRE(toasts.lines().size() == 2);
    CHECK(toasts.lines().back().text == "disk full");
    CHECK(toasts.lines().back().repeats == 2);
    CHECK(toasts.lines().back().time_s == 3);
    toasts.add(Toasts::Level::warning, "disk full", 4); // another level is another message
    CHECK(toasts.lines().size() == 3);
    toasts.dismiss_all();
    CHECK(toasts.dismissed_before() == 4);
    toasts.add(Toasts::Level::info, "later", 5);
    CHECK(toasts.lines().back().time_s > toasts.dismissed_before());
}

TEST_CASE("the log does not grow for ever", "[ui]") {
    Toasts toasts;
    for (int i = 0; i < 20000; ++i)
        toasts.add(Toasts::Level::info, std::to_string(i), i, false);
    CHECK(toasts.lines().size() <= 5000);
    CHECK(toasts.lines().back().text == "19999");
    CHECK_FALSE(toasts.lines().back().shown_as_toast);
}

TEST_CASE("settings come back as they were stored", "[ui]") {
    const Folder folder;
    Settings settings;
    settings.theme = "light";
    settings.layout = "Tune";
    settings.user_scale = 1.5F;
    settings.layout_locked = true;
    settings.hints_seen = true;
    settings.steps_at_once = 7;
    SignalPlots& signals = settings.views.signals;
    signals = parse_plots("entropy_bits+kept_positions", "a test");
    set_axes(signals, {{"mc_variance", "log"}, {"logprob", "symlog"}});
    set_layers(signals, {{"attention_entropy_bits", "layer 3"}});
    settings.views.text = {.coloured_by = "attention:head", .origins = true, .rejected = true};
    settings.views.attention = {.of = AttentionOf::difference,
                                .range = AttentionRange::per_head,
                                .log = false,
                                .without_first = false,
                                .map = "cividis",
                                .rows = 128,
                                .order = HeadOrder::off_sink,
                                .best = 24,
                                .read_missing = false,
                                .hidden_layers = {1, 4},
                                .hidden_heads = {0}};
    settings.views.cache = {
        .map = CacheMap::entries, .rows = {3}, .quantity = DriftQuantity::values_max, .log = true};
    settings.views.events.hidden = {false, true, true, true};
    settings.views.distribution = {
        .signal = "kl_nats", .other = "mc_variance", .in_sight = true, .log = false};
    const StoredLandscapeView landscape{"gain", {{"gain", {-1.5, 1.5}}, {"entropy_bits", {0, 3}}}, {"blind"}};
    settings.views.landscape = landscape_view(landscape);
    settings.pace = 0; // as fast as it goes
    store_settings(folder.path, settings);
    std::string problem;
    const Settings back = load_settings(folder.path, problem);
    CHECK(problem.empty());
    CHECK(back.theme == "light");
    CHECK(back.layout == "Tune");
    CHECK(back.user_scale == 1.5F);
    CHECK(back.layout_locked);
    CHECK(back.hints_seen);
    CHECK(back.steps_at_once == 7);
    CHECK(shown_signals(back.views.signals) == std::vector<std::string>{"entropy_bits", "kept_positions"});
    CHECK(changed_axes(back.views.signals) == changed_axes(signals));
    CHECK(changed_layers(back.views.signals) == changed_layers(signals));
    CHECK(changed_sides(back.views.signals) == changed_sides(signals));
    CHECK(changed_axes(signals).size() == 2);
    CHECK(back.views.text == settings.views.text);
    CHECK(back.views.distribution == settings.views.distribution);
    CHECK(back.views.attention == settings.views.attention);
    CHECK(back.views.cache == settings.views.cache);
    CHECK(back.views.events == settings.views.events);
    const LandscapeView& view = back.views.landscape;
    CHECK(view.cells.value == CellValue{CellValue::Kind::gain, {}});
    CHECK(view.cells.own_range() == ValueRange{-1.5, 1.5});
    CHECK((view.shows(StairsOf::run) && !view.shows(StairsOf::blind)));
    CHECK(stored(view) == landscape);
    CHECK(back.pace == 0);
    // A file that says nothing of views has the usual ones.
    write_file(folder.path / "settings.json", "{\"theme\": \"light\"}");
    CHECK(load_settings(folder.path, problem).views == Views{});
    CHECK(load_settings(folder.path, problem).theme == "light");
    // Nor do words of another version change one.
    write_file(folder.path / "settings.json", "{\"cache\": {\"map\": \"of tomorrow\", \"quantity\": "
                                              "\"sum\"}, \"attention\": {\"of\": \"nobody\"}}");
    CHECK(load_settings(folder.path, problem).views == Views{});
}

TEST_CASE("damaged settings give the defaults and one line that names the file", "[ui]") {
    const Folder folder;
    std::filesystem::create_directories(folder.path);
    const std::string text = GENERATE("{", "{\"theme\": 7}", "[]x", "{\"landscape_ranges\": {\"gain\": 3}}");
    write_file(folder.path / "settings.json", text);
    std::string problem;
    const Settings settings = load_settings(folder.path, problem);
    CHECK(settings.theme == "dark");
    CHECK_THAT(problem, ContainsSubstring("settings.json"));
    CHECK(problem.find('\n') == std::string::npos);
}

TEST_CASE("absent settings are no problem, and absurd ones are brought into range", "[ui]") {
    const Folder folder;
    std::string problem;
    CHECK(load_settings(folder.path, problem).layout == "Explore");
    CHECK(load_settings({}, problem).layout == "Explore");
    CHECK(problem.empty());
    std::filesystem::create_directories(folder.path);
    write_file(folder.path / "settings.json", "{\"user_scale\": 90, \"steps_at_once\": -4}");
    const Settings settings = load_settings(folder.path, problem);
    CHECK(settings.user_scale == max_user_scale);
    CHECK(settings.steps_at_once == 1);
}

TEST_CASE("the pace doubles and halves between one token a second and as fast as it goes", "[ui]") {
    CHECK(Settings().pace == 20);
    CHECK(next_pace(20, true) == 40);
    CHECK(next_pace(160, true) == 200);
    CHECK(next_pace(200, true) == 0);
    CHECK(next_pace(0, true) == 0);
    CHECK(next_pace(0, false) == 200);
    CHECK(next_pace(20, false) == 10);
    CHECK(next_pace(1.5, false) == 1);
    CHECK(next_pace(1, false) == 1);
    CHECK(pace_text(0) == "max");
    CHECK(pace_text(12.5) == "12.5 a second");
}

TEST_CASE("the scale walks from 75 to 300 percent and back", "[ui]") {
    float scale = min_user_scale;
    int steps = 0;
    for (; scale < max_user_scale; ++steps) {
        const float next = next_scale(scale, true);
        REQUIRE(next > scale);
        CHECK(next_scale(next, false) == scale);
        scale = next;
    }
    CHECK(steps >= 8);
    CHECK(next_scale(max_user_scale, true) == max_user_scale);
    CHECK(next_scale(min_user_scale, false) == min_user_scale);
}

TEST_CASE("every bundled layout opens known panels and docks each of them", "[ui]") {
    for (const std::string& name : layout_names()) {
        CAPTURE(name);
        const Layout layout = read_layout(bundled_layout(assets, name));
        CHECK(layout.open_panels.size() >= 2);
        for (const std::string& panel : layout.open_panels) {
            CAPTURE(panel);
            CHECK_THAT(layout.ini, ContainsSubstring("[Window][" + panel + "]"));
        }
        CHECK_THAT(layout.ini, ContainsSubstring("DockSpace"));
        CHECK_THAT(layout.ini, !ContainsSubstring("RefreshLab"));
        const Layout again = parse_layout(layout_text(layout));
        CHECK(again.open_panels == layout.open_panels);
        CHECK(again.front_panels == layout.front_panels);
        CHECK_THAT(again.ini, ContainsSubstring(layout.ini));
        // One panel of each group of tabs is in front, and it is open.
        std::map<std::string, int> in_front;
        for (const std::string& panel : layout.open_panels) {
            const size_t window = layout.ini.find("[Window][" + panel + "]");
            const size_t dock = layout.ini.find("DockId=", window);
            REQUIRE(dock != std::string::npos);
            const std::string node = layout.ini.substr(dock, layout.ini.find(',', dock) - dock);
            in_front[node] += std::ranges::count(layout.front_panels, panel) > 0 ? 1 : 0;
        }
        for (const auto& [node, count] : in_front) {
            CAPTURE(node);
            CHECK(count == 1);
        }
        for (const std::string& panel : layout.front_panels)
            CHECK(std::ranges::count(layout.open_panels, panel) == 1);
    }
    CHECK_THROWS_AS(read_layout(bundled_layout(assets, "no such layout")), Error);
}

namespace {

/// What a layout is about: never behind another panel.
std::string subject_of(const std::string& layout) {
    return layout == "Landscape" ? "Landscape" : "Signals";
}

/// Size of each docked panel, pixels, as fit_layout wrote it: by the SizeRef of the node that its window names.
std::map<std::string, std::pair<float, float>> fitted_sizes(const Layout& layout, const std::string& ini) {
    std::map<std::string, std::pair<float, float>> sizes;
    for (const std::string& panel : layout.open_panels) {
        const size_t window = ini.find("[Window][" + panel + "]"), dock = ini.find("DockId=", window);
        const std::string id = ini.substr(dock + 7, ini.find(',', dock) - dock - 7);
        const size_t node = ini.find(" ID=" + id + " "), size = ini.find("SizeRef=", node);
        REQUIRE(size != std::string::npos);
        float x = 0, y = 0;
        REQUIRE(std::sscanf(ini.c_str() + size, "SizeRef=%f,%f", &x, &y) == 2);
        sizes[panel] = {x, y};
    }
    return sizes;
}

} // namespace

TEST_CASE(
    "a bundled layout keeps its shares where there is room, and its panels readable where there is little",
    "[ui][WN1]") {
    for (const std::string& name : layout_names()) {
        CAPTURE(name);
        const Layout layout = read_layout(bundled_layout(assets, name));
        // At the size it was drawn for nothing moves by more than rounding.
        const auto drawn = fitted_sizes(layout, layout.ini);
        const bool bars = layout.ini.find("Size=1600,924") != std::string::npos;
        for (const auto& [panel, size] :
             fitted_sizes(layout, fit_layout(layout, 1600, bars ? 924 : 950, 15).ini)) {
            CAPTURE(panel);
            CHECK(std::abs(size.first - drawn.at(panel).first) <= 2);
            CHECK(std::abs(size.second - drawn.at(panel).second) <= 2);
        }
        for (const auto& [width, height, em] :
             {std::tuple{900.0F, 540.0F, 15.0F}, std::tuple{1280.0F, 740.0F, 15.0F},
              std::tuple{3840.0F, 2100.0F, 15.0F}, std::tuple{1280.0F, 710.0F, 22.5F},
              std::tuple{640.0F, 300.0F, 30.0F}}) {
            CAPTURE(width, height, em);
            const Layout fitted = fit_layout(layout, width, height, em);
            // What the layout is about is never behind another panel.
            CHECK(std::ranges::count(fitted.front_panels, name == "Landscape" ? "Landscape" : "Signals") ==
                  1);
            const auto sizes = fitted_sizes(layout, fitted.ini);
            for (const auto& [panel, size] : sizes) {
                CAPTURE(panel);
                CHECK(size.first >= 1);
                CHECK(size.second >= 1);
                CHECK(size.first <= width);
                CHECK(size.second <= height);
            }
            if (sizes.contains("Policy") && width >= em * 60) {
                CHECK(sizes.at("Policy").first >= 17 * em - 1);
                CHECK(sizes.at("Policy").first <= 30 * em + 1);
                CHECK(sizes.at("Timeline").second >= 5 * em - 1);
                CHECK(sizes.at("Timeline").second <= 8 * em + 1);
                // Side by side they fill the width.
                CHECK(std::abs(sizes.at("Timeline").first - width) <= 1);
            }
        }
    }
    for (const std::string& odd : {std::string("no docking here\n"),
                                   std::string("[Docking][Data]\nDockNode ID=0x1 Parent=0x9 SizeRef=1,2\n")})
        CHECK(fit_layout({{"Text"}, {"Text"}, odd}, 900, 600, 15).ini == odd);
}

namespace {

/// Panels by the dock node that their windows name, in the order of their tabs.
std::map<std::string, std::vector<std::string>> places_of(const Layout& layout) {
    std::map<std::string, std::map<int, std::string>> tabs;
    for (const std::string& panel : layout.open_panels) {
        const size_t window = layout.ini.find("[Window][" + panel + "]"),
                     dock = layout.ini.find("DockId=", window), comma = layout.ini.find(',', dock);
        const std::string id = layout.ini.substr(dock + 7, comma - dock - 7);
        CHECK(layout.ini.find(" ID=" + id + " ") != std::string::npos); // a place that there is
        CHECK(tabs[id].emplace(std::stoi(layout.ini.substr(comma + 1)), panel).second);
    }
    std::map<std::string, std::vector<std::string>> places;
    for (const auto& [id, panels] : tabs)
        for (const auto& [tab, panel] : panels) {
            CHECK(tab == static_cast<int>(places[id].size()));
            places[id].push_back(panel);
        }
    return places;
}

} // namespace

TEST_CASE("where there is no room for all, panels share a place instead of being cut", "[ui][WN1]") {
    const Layout explore = read_layout(bundled_layout(assets, "Explore"));
    // With room they all stay where they are.
    CHECK(places_of(fit_layout(explore, 1280, 710, 15)) == places_of(explore));
    CHECK(fit_layout(explore, 1280, 710, 15).front_panels == explore.front_panels);
    // Least widths and heights in ems, as on the panels themselves at any scale.
    const std::map<std::string, std::pair<float, float>> least = {
        {"Text", {15, 10}},  {"Signals", {26, 17}},     {"Policy", {17, 10}}, {"Attention", {17, 12}},
        {"Cache", {13, 12}}, {"Performance", {11, 10}}, {"Timeline", {20, 5}}};
    int shared = 0;
    for (const std::string& name : layout_names()) {
        const Layout layout = read_layout(bundled_layout(assets, name));
        for (const float em : {15.0F, 22.5F, 30.0F, 37.5F, 45.0F})
            for (const auto& [width, height] : {std::pair{1280.0F, 800.0F}, std::pair{1600.0F, 1000.0F},
                                                std::pair{1920.0F, 1080.0F}, std::pair{1280.0F, 2000.0F}}) {
                CAPTURE(name, em, width, height);
                const Layout fitted = fit_layout(layout, width, height - 5 * em, em);
                CHECK(fitted.open_panels == layout.open_panels);
                const auto sizes = fitted_sizes(fitted, fitted.ini);
                // One in front of each place that had one; what the layout is about always, wherever it is.
                const auto places = places_of(fitted);
                shared += places.size() < places_of(layout).size() ? 1 : 0;
                for (const auto& [id, panels] : places) {
                    const auto in_front = std::ranges::count_if(panels, [&](const std::string& panel) {
                        return std::ranges::find(fitted.front_panels, panel) != fitted.front_panels.end();
                    });
                    CHECK(in_front == 1);
                }
                CHECK(std::ranges::count(fitted.front_panels, subject_of(name)) == 1);
                // No panel is squeezed by more than a little, as long as the window has room for Signals beside Policy.
                if (width < 48 * em || height < 28 * em) continue;
                for (const auto& [panel, size] : sizes) {
                    CAPTURE(panel, size.first, size.second);
                    const auto need = least.find(panel);
                    if (need == least.end()) continue;
                    CHECK(size.first >= 0.89F * need->second.first * em);
                    CHECK(size.second >= 0.96F * need->second.second * em);
                }
            }
    }
    CHECK(shared > 10);
    // 150 % in a small window: three columns, the lower row behind Text.
    const auto columns = places_of(fit_layout(explore, 1280, 710, 22.5F));
    CHECK(columns.size() == 4);
    CHECK(std::ranges::any_of(
        columns, [](const auto& place) { return place.second == std::vector<std::string>{"Signals"}; }));
    // 200 % in a small window: Signals and Policy beside each other, the rest behind them.
    const Layout tight = fit_layout(explore, 1280, 650, 30);
    const auto places = places_of(tight);
    CHECK(places.size() == 3);
    CHECK(tight.front_panels == std::vector<std::string>{"Signals", "Policy", "Timeline"});
}

TEST_CASE("an arrangement is the same until somebody moves a panel or a border", "[ui][WN1]") {
    const Layout explore = read_layout(bundled_layout(assets, "Explore"));
    const std::string ini = fit_layout(explore, 1280, 710, 15).ini;
    CHECK(same_arrangement(ini, ini));
    const auto with = [&](const std::string& from, const std::string& to) {
        std::string other = ini;
        const size_t at = other.find(from);
        REQUIRE(at != std::string::npos);
        return other.replace(at, from.size(), to);
    };
    // As Dear ImGui writes it: other places of windows, a selected tab, a pixel lost.
    CHECK(same_arrangement(ini, with("Pos=0,76\nSize=420,500", "Pos=3,80\nSize=400,480")));
    CHECK(same_arrangement(ini, with(" Split=Y\n", " Split=Y Selected=0x123\n")));
    // A panel elsewhere, a border dragged, another window's shares, folded places, nothing at all.
    CHECK_FALSE(same_arrangement(ini, with("DockId=0x52460005,0", "DockId=0x52460006,1")));
    CHECK_FALSE(same_arrangement(
        ini, with("ID=0x5246000C Parent=0x52460002 SizeRef=", "ID=0x5246000C Parent=0x52460002 SizeRef=9")));
    CHECK_FALSE(same_arrangement(ini, fit_layout(explore, 1280, 710, 30).ini));
    CHECK_FALSE(same_arrangement(ini, read_layout(bundled_layout(assets, "Tune")).ini));
    CHECK_FALSE(same_arrangement("", ""));
}

TEST_CASE("a refit keeps the tab that a person has brought to the front of its place", "[ui][WN1]") {
    const Layout explore = read_layout(bundled_layout(assets, "Explore"));
    const auto fronts = [&](const std::vector<std::string>& drawn) {
        auto kept = keep_front(explore, drawn).front_panels;
        std::ranges::sort(kept);
        return kept;
    };
    auto bundled = explore.front_panels;
    std::ranges::sort(bundled);
    CHECK(fronts(explore.front_panels) == bundled);
    CHECK(fronts({"Signals", "Timeline"}) ==
          bundled); // the others were folded behind: nobody chose among them
    std::vector<std::string> drawn = explore.front_panels, expected = bundled;
    std::ranges::replace(drawn, "Performance", "Log");
    std::ranges::replace(expected, "Performance", "Log");
    std::ranges::sort(expected);
    CHECK(fronts(drawn) == expected);
    CHECK(keep_front(explore, drawn).ini == explore.ini);
    CHECK(keep_front({{"Text"}, {"Text"}, "no docking"}, {"Log"}).front_panels ==
          std::vector<std::string>{"Text"});
}

TEST_CASE("a layout text without our section is kept as it is", "[ui]") {
    const Layout layout = parse_layout("[Window][Text]\r\nPos=1,2\n");
    CHECK(layout.open_panels.empty());
    CHECK(layout.ini == "[Window][Text]\nPos=1,2\n");
    CHECK(parse_layout("").ini.empty());
}

TEST_CASE("fuzzy search wants the letters in order and prefers beginnings of words", "[ui]") {
    CHECK(fuzzy_score("", "Refresh now") == 0);
    CHECK(fuzzy_score("rn", "Refresh now").has_value());
    CHECK(fuzzy_score("REF", "Refresh now").has_value());
    CHECK_FALSE(fuzzy_score("nr", "Refresh now").has_value());
    CHECK_FALSE(fuzzy_score("x", "").has_value());
    CHECK(fuzzy_score("ref now", "Refresh now") > fuzzy_score("ref now", "Run: prefer no words"));
    CHECK(fuzzy_score("step", "Run: Step") > fuzzy_score("step", "Starts the epoch"));
}

TEST_CASE("the bundled prompts are found, each file's own, and no line of them is broken", "[ui]") {
    const auto groups = read_bundled_prompts(assets / "prompts", 5);
    REQUIRE(groups.size() >= 8);
    for (const PromptGroup& group : groups) {
        INFO(group.file);
        CHECK(group.prompts.size() <= 5);
        CHECK_FALSE(group.prompts.empty());
        CHECK_FALSE(std::ranges::any_of(group.prompts, &std::string::empty));
        CHECK_FALSE(group.line.empty()); // tasks.json names every bundled file
        CHECK(group.title.find('_') == std::string::npos);
    }
    CHECK(groups[0].title == "Chronicle");
    CHECK(std::ranges::count(groups[0].prompts, "Write a chronicle of 6 companies.") == 1);
    CHECK(read_bundled_prompts(assets / "no such folder").empty());
}

TEST_CASE("a prompt file of one's own is listed by its name, after those that the list of tasks names",
          "[ui]") {
    const Folder folder;
    std::filesystem::create_directories(folder.path);
    write_file(folder.path / "my_own.jsonl", "{\"prompt\": \"a\"}\n");
    write_file(folder.path / "zoo.jsonl", "{\"prompt\": \"b\"}\n");
    write_file(folder.path / "tasks.json", R"({"zoo": {"title": "Animals", "line": 3}, "gone": {}})");
    const auto groups = read_bundled_prompts(folder.path);
    REQUIRE(groups.size() == 2);
    CHECK(groups[0].title == "Animals");
    CHECK(groups[0].line.empty());
    CHECK(groups[1].title == "My own");
    write_file(folder.path / "tasks.json", "[1, 2");
    CHECK_THROWS_AS(read_bundled_prompts(folder.path), Error);
}

TEST_CASE("a broken line of a prompt file is named", "[ui]") {
    const Folder folder;
    std::filesystem::create_directories(folder.path);
    write_file(folder.path / "mine.jsonl", "{\"prompt\": \"a\"}\n\n{\"prompt\": \n");
    try {
        static_cast<void>(read_bundled_prompts(folder.path));
        FAIL("nothing was thrown");
    } catch (const Error& e) {
        CHECK_THAT(e.what(), ContainsSubstring("mine.jsonl:3"));
    }
}

TEST_CASE("the check of an action table finds each kind of fault", "[ui]") {
    const auto good = [] {
        return Action{"run.step", "Run", "Step", "Makes one step.", ImGuiKey_Period, [](UiContext&) {}};
    };
    CHECK(check_actions({good()}).empty());
    const auto problem = [&](const Action& action) {
        const auto problems = check_actions({good(), action});
        return problems.empty() ? std::string() : problems.front();
    };
    Action other = good();
    other.shortcut = 0;
    CHECK_THAT(problem(other), ContainsSubstring("listed twice"));
    other.id = "run.other";
    CHECK(problem(other).empty());
    other.shortcut = ImGuiKey_Period;
    CHECK_THAT(problem(other), ContainsSubstring("same shortcut as run.step"));
    other.shortcut = ImGuiMod_Shift | ImGuiKey_Period;
    CHECK(problem(other).empty());
    other.label = "step";
    CHECK_THAT(problem(other), ContainsSubstring("capital"));
    other.label = "Step.";
    CHECK_THAT(problem(other), ContainsSubstring("full stop"));
    other.label = "Step...";
    CHECK(problem(other).empty());
    bool there = false;
    other.why_not = unless([&](const UiContext&) { return there; }, "Nothing is there");
    const UiContext* none = nullptr; // which this condition does not read
    CHECK(other.reason(*none) == "Nothing is there");
    CHECK_FALSE(other.enabled(*none));
    there = true;
    CHECK(other.enabled(*none));
}

TEST_CASE("applied commands are logged in words, and unknown ones as they stand", "[ui]") {
    const auto line = [](const Command& command) { return describe({7, to_json(command).dump()}); };
    CHECK(line(command::SetParameter{"entropy.threshold", "5.2"}) == "step 7: Entropy threshold: 5.2 bits");
    CHECK(line(command::RefreshNow{}) == "step 7: refresh by hand");
    CHECK(line(command::SetPolicy{preset_policy("kl")}) == "step 7: policy kl");
    CHECK(describe({7, "{\"of\": \"tomorrow\"}"}) == "step 7: {\"of\": \"tomorrow\"}");
    CHECK(describe({7, "not json"}) == "step 7: not json");
}

} // namespace shell_parts_test
