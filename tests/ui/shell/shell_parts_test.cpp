#include "engine/base/error.h"
#include "engine/base/json_file.h"
#include "engine/control/command.h"
#include "tests/support/seed.h"
#include "tests/ui/changed_views.h"
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
#include <filesystem>
#include <limits>
#include <random>

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
    settings.autosave_megabytes = 300;
    settings.keys = {{"run.refresh_now", "Ctrl+J"}, {"run.step", ""}};
    settings.views = test::changed_views();
    SignalPlots& signals = settings.views.signals;
    signals = parse_plots("entropy_bits+kept_positions", "a test");
    signals.rejected = true;
    set_axes(signals, {{"mc_variance", "log"}, {"logprob", "symlog"}});
    set_layers(signals, {{"attention_entropy_bits", "layer 3"}});
    Views second;
    second.signals = parse_plots("kl_nats", "a test");
    settings.more_panels = {{"Signals 2", second}};
    settings.tour = {{"find-the-drift", 3}};
    settings.pace = 0; // as fast as it goes
    settings.colours["dark"].signals = {{"entropy_bits", rgba(0x12, 0x34, 0x56)}};
    settings.colours["paper"].map_amounts = "greys";
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
    CHECK(back.autosave_megabytes == 300);
    CHECK(back.keys == settings.keys);
    CHECK(back.colours == settings.colours);
    CHECK(shown_signals(back.views.signals) == std::vector<std::string>{"entropy_bits", "kept_positions"});
    CHECK(changed_axes(back.views.signals) == changed_axes(signals));
    CHECK(changed_layers(back.views.signals) == changed_layers(signals));
    CHECK(changed_sides(back.views.signals) == changed_sides(signals));
    CHECK(changed_axes(signals).size() == 2);
    CHECK(back.views.signals.rejected);
    CHECK(back.views.text == settings.views.text);
    CHECK(back.views.distribution == settings.views.distribution);
    CHECK(back.views.attention == settings.views.attention);
    CHECK(back.views.cache == settings.views.cache);
    CHECK(back.views.events == settings.views.events);
    CHECK(back.views.runs == settings.views.runs);
    const LandscapeView& view = back.views.landscape;
    CHECK(view.cells.value == CellValue{CellValue::Kind::gain, {}});
    CHECK(view.cells.own_range(Objective::loss) == ValueRange{-1.5, 1.5});
    CHECK((view.shows(StairsOf::run) && !view.shows(StairsOf::blind)));
    CHECK(view.objective == Objective::rejection);
    CHECK(stored(view) == stored(settings.views.landscape));
    CHECK(back.pace == 0);
    CHECK(back.tour == settings.tour);
    REQUIRE(back.more_panels.size() == 1);
    CHECK(shown_signals(back.more_panels.at("Signals 2").signals) == std::vector<std::string>{"kl_nats"});
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
    const std::string text =
        GENERATE("{", "{\"theme\": 7}", "[]x", "{\"landscape_ranges\": {\"gain\": 3}}",
                 R"({"colours": {"dark": 7}})", R"({"colours": {"dark": {"signals": {"a": "red"}}}})",
                 R"({"colours": {"dark": {"maps": {"ages": "jet"}}}})");
    write_file(folder.path / "settings.json", text);
    std::string problem;
    const Settings settings = load_settings(folder.path, problem);
    CHECK(settings.theme == "dark");
    CHECK_THAT(problem, ContainsSubstring("settings.json"));
    CHECK(problem.find('\n') == std::string::npos);
    CHECK_THAT(problem, ContainsSubstring("kept as settings.json.bad"));
    CHECK(read_file(folder.path / "settings.json.bad") == text);
    problem.clear();
    CHECK(load_settings(folder.path, problem).layout == "Explore"); // once
    CHECK(problem.empty());
}

TEST_CASE("chosen colours stand in the place of the theme's, and change its look", "[ui]") {
    Theme theme = load_theme(RL_SOURCE_DIR "/assets", "dark");
    const Theme usual = theme;
    ColoursOfThemes chosen;
    chosen["light"].map_ages = "greys";
    use_colours(chosen, "dark", theme);
    CHECK((theme.look == "dark" && theme.map_ages == usual.map_ages));
    chosen["dark"].signals = {{"entropy_bits", 0x00563412U}, {"of_my_own", rgba(1, 2, 3)}};
    chosen["dark"].map_signed = "rdbu";
    use_colours(chosen, "dark", theme);
    CHECK(theme.signal("entropy_bits") == rgba(0x12, 0x34, 0x56)); // opaque
    CHECK(theme.signal("of_my_own") == rgba(1, 2, 3));
    CHECK(theme.signal("kl_nats") == usual.signal("kl_nats"));
    CHECK((theme.map_signed == "rdbu" && theme.map_amounts == usual.map_amounts));
    const std::string look = theme.look;
    chosen["dark"].map_signed = "greys";
    use_colours(chosen, "dark", theme);
    CHECK((theme.look != look && look != usual.look));
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

TEST_CASE("an arrangement's text has our section on top, and one without it is kept as it is", "[ui]") {
    const Arrangement own{{"Text", "Signals 2"}, {"Text"}, "[Window][Text]\nPos=1,2\n"};
    const Arrangement again = parse_arrangement(arrangement_text(own));
    CHECK(again.open_panels == own.open_panels);
    CHECK(again.front_panels == own.front_panels);
    CHECK_THAT(again.ini, ContainsSubstring(own.ini));
    CHECK_THAT(again.ini, !ContainsSubstring("RefreshLab"));
    const Arrangement plain = parse_arrangement("[Window][Text]\r\nPos=1,2\n");
    CHECK(plain.open_panels.empty());
    CHECK(plain.ini == "[Window][Text]\nPos=1,2\n");
    CHECK(parse_arrangement("").ini.empty());
    CHECK_THROWS_AS(read_arrangement(assets / "no such file"), Error);
    CHECK(arrangement_file("u", "Explore") == std::filesystem::path("u") / "layout-explore.ini");
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
