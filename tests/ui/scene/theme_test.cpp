#include "engine/base/error.h"
#include "engine/base/json_file.h"
#include "engine/signals/registry.h"
#include "ui/base/colour.h"
#include "ui/scene/maps/colour_maps.h"
#include "ui/scene/theme/theme.h"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <imgui.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <set>

using namespace refreshlab;
using namespace refreshlab::ui;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::MessageMatches;

namespace {

const std::filesystem::path assets = std::filesystem::path(RL_SOURCE_DIR) / "assets";

double luminance(Colour colour) {
    const auto channel = [&](int shift) {
        const double c = static_cast<double>((colour >> shift) & 0xFFU) / 255.0;
        return c <= 0.04045 ? c / 12.92 : std::pow((c + 0.055) / 1.055, 2.4);
    };
    return 0.2126 * channel(0) + 0.7152 * channel(8) + 0.0722 * channel(16);
}

/// WCAG 2 contrast ratio, 1 to 21.
double wcag_contrast(Colour a, Colour b) {
    const double x = luminance(a), y = luminance(b);
    return (std::max(x, y) + 0.05) / (std::min(x, y) + 0.05);
}

/// A folder with one theme file made from the dark one by `change`; removed at the end.
struct ThemeFolder {
    explicit ThemeFolder(const std::string& text) {
        path = std::filesystem::path(RL_BUILD_DIR) / "theme-test";
        std::filesystem::create_directories(path / "themes");
        write_file(path / "themes" / "mine.json", text);
    }
    ~ThemeFolder() { std::filesystem::remove_all(path); }
    std::filesystem::path path;
};

nlohmann::json dark_json() {
    return read_json_file(assets / "themes" / "dark.json");
}

} // namespace

TEST_CASE("dark, light and print come first among the bundled themes", "[ui]") {
    const auto names = theme_names(assets);
    REQUIRE(names.size() >= 3);
    CHECK(names[0] == "dark");
    CHECK(names[1] == "light");
    CHECK(names[2] == "print");
}

TEST_CASE("text of every bundled theme is readable on its background", "[ui]") {
    const std::string name = GENERATE("dark", "light", "print");
    CAPTURE(name);
    const Theme theme = load_theme(assets, name);
    const Colour window = parse_colour(
        read_json_file(assets / "themes" / (name + ".json"))["imgui"]["WindowBg"].get<std::string>(),
        "WindowBg");
    CHECK((luminance(window) < 0.2) == theme.dark);
    // 4.5 is what WCAG 2 asks of text; lines and marks need 3.
    CHECK(wcag_contrast(theme.text, window) > 7);
    CHECK(wcag_contrast(theme.text_muted, window) > 4.5);
    CHECK(wcag_contrast(theme.text_error, window) > 4.5);
    CHECK(wcag_contrast(theme.text_ok, window) > 4.5);
    CHECK(wcag_contrast(theme.accent_ink, window) > 4.5);
    CHECK(wcag_contrast(theme.accent_text, theme.accent) > 4.5);
    for (const char* signal : {"entropy_bits", "kl_nats", "mc_variance", "top1_surprisal_bits"}) {
        CAPTURE(signal);
        CHECK(wcag_contrast(theme.signal(signal), theme.plot_background) > (name == "print" ? 2.2 : 3.0));
    }
}

TEST_CASE("signals that are plotted together have different colours", "[ui]") {
    const std::string name = GENERATE("dark", "light", "print");
    const Theme theme = load_theme(assets, name);
    std::set<Colour> colours;
    for (const char* signal : {"entropy_bits", "kl_nats", "mc_variance"})
        colours.insert(theme.signal(signal));
    CHECK(colours.size() == 3);
    CHECK(theme.marker("entropy_bits", 'E') == theme.signal("entropy_bits"));
    CHECK(theme.marker("", 'H') == theme.manual);
    CHECK(theme.marker("entropy_bits", '+') == theme.several);
}

TEST_CASE("a signal that no theme lists keeps one colour", "[ui]") {
    const Theme dark = load_theme(assets, "dark"), light = load_theme(assets, "light");
    CHECK(dark.signal("a_signal_of_tomorrow") == light.signal("a_signal_of_tomorrow"));
    CHECK((dark.signal("a_signal_of_tomorrow") >> 24) == 0xFF);
}

TEST_CASE("every signal with a trigger letter is listed by every theme", "[ui]") {
    const std::string name = GENERATE("dark", "light", "print");
    const Theme theme = load_theme(assets, name);
    for (const Signal& signal : signals()) {
        if (signal.letter == 0) continue;
        CAPTURE(name, signal.name);
        CHECK(
            std::ranges::any_of(theme.signal_colours, [&](const auto& c) { return c.first == signal.name; }));
    }
}

TEST_CASE("a damaged theme is refused with file and field", "[ui]") {
    nlohmann::json json = dark_json();
    std::string field;
    SECTION("a colour is missing") {
        json["own"].erase("accent");
        field = "own.accent";
    }
    SECTION("a colour is no colour") {
        json["own"]["accent"] = "orange";
        field = "own.accent";
    }
    SECTION("a colour is a number") {
        json["own"]["accent"] = 7;
        field = "own.accent";
    }
    SECTION("a name is misspelt") {
        json["own"]["acent"] = "#FFFFFF";
        field = "own.acent";
    }
    SECTION("a section is missing") {
        json.erase("signals");
        field = "signals";
    }
    const ThemeFolder folder(json.dump());
    CHECK_THROWS_MATCHES(load_theme(folder.path, "mine"), Error,
                         MessageMatches(ContainsSubstring("mine.json") && ContainsSubstring(field)));
}

TEST_CASE("a missing theme and one that is no JSON are refused", "[ui]") {
    CHECK_THROWS_AS(load_theme(assets, "no such theme"), Error);
    const ThemeFolder folder("{\"dark\": true,\n  \"own\": [}");
    CHECK_THROWS_MATCHES(load_theme(folder.path, "mine"), Error, MessageMatches(ContainsSubstring("line 2")));
}

TEST_CASE("colours are read with and without opacity, and mixed by share", "[ui]") {
    CHECK(parse_colour("#F0A30A", "x") == IM_COL32(0xF0, 0xA3, 0x0A, 255));
    CHECK(parse_colour("#F0A30A80", "x") == IM_COL32(0xF0, 0xA3, 0x0A, 0x80));
    for (const char* wrong : {"", "#", "#FFF", "F0A30A", "#GGGGGG", "#F0A30A8", "#F0A30A800"})
        CHECK_THROWS_AS(parse_colour(wrong, "x"), Error);
    const Colour a = IM_COL32(0, 100, 200, 0), b = IM_COL32(200, 0, 100, 255);
    CHECK(mix(a, b, 0) == a);
    CHECK(mix(a, b, 1) == b);
    CHECK(mix(a, b, 0.5F) == IM_COL32(100, 50, 150, 128));
    CHECK(with_alpha(b, 0) == IM_COL32(200, 0, 100, 0));
}

namespace {

/// CIE L*a*b* under D65: distances in it are about those that people see.
std::array<double, 3> lab(Colour colour) {
    const auto channel = [&](int shift) {
        const double c = static_cast<double>((colour >> shift) & 0xFFU) / 255.0;
        return c <= 0.04045 ? c / 12.92 : std::pow((c + 0.055) / 1.055, 2.4);
    };
    const double r = channel(0), g = channel(8), b = channel(16);
    const auto f = [](double t) { return t > 0.008856 ? std::cbrt(t) : 7.787 * t + 16.0 / 116.0; };
    const double x = f((0.4124 * r + 0.3576 * g + 0.1805 * b) / 0.95047),
                 y = f(0.2126 * r + 0.7152 * g + 0.0722 * b),
                 z = f((0.0193 * r + 0.1192 * g + 0.9505 * b) / 1.08883);
    return {116 * y - 16, 500 * (x - y), 200 * (y - z)};
}

double seen_distance(Colour a, Colour b) {
    const auto x = lab(a), y = lab(b);
    return std::hypot(x[0] - y[0], x[1] - y[1], x[2] - y[2]);
}

} // namespace

TEST_CASE("no two signals share a colour, in any theme", "[ui]") {
    const std::string name = GENERATE("dark", "light", "print");
    const Theme theme = load_theme(assets, name);
    for (const Signal& a : signals()) {
        CAPTURE(name, a.name);
        CHECK(std::ranges::any_of(theme.signal_colours, [&](const auto& c) { return c.first == a.name; }));
        CHECK(wcag_contrast(theme.signal(a.name), theme.plot_background) > 2.2);
        for (const Signal& b : signals()) {
            if (a.name >= b.name) continue;
            CAPTURE(b.name);
            CHECK(seen_distance(theme.signal(a.name), theme.signal(b.name)) > 16);
        }
    }
}

TEST_CASE("the hatch of what was not measured can be seen, and does not shout", "[ui]") {
    const std::string name = GENERATE("dark", "light", "print");
    CAPTURE(name);
    const Theme theme = load_theme(assets, name);
    CHECK(wcag_contrast(theme.absent_a, theme.absent_b) > 1.35);
    CHECK(wcag_contrast(theme.absent_a, theme.absent_b) < 3);
}

TEST_CASE("the words of a tag have one colour, and are readable on the ground of every signal", "[ui]") {
    const std::string name = GENERATE("dark", "light", "print");
    const Theme theme = load_theme(assets, name);
    CAPTURE(name);
    for (const auto& [signal, colour] : theme.signal_colours) {
        CAPTURE(signal);
        CHECK(wcag_contrast(theme.tag(colour), theme.tag_text) >= 4.5);
        // A colour that is readable already stays as it is.
        if (wcag_contrast(colour, theme.tag_text) >= 4.5) CHECK(theme.tag(colour) == colour);
    }
    for (const Colour other : {theme.manual, theme.several, theme.accent, theme.tag_text, rgba(0, 0, 0)})
        CHECK(wcag_contrast(theme.tag(other), theme.tag_text) >= 4.5);
}

TEST_CASE("maps of a theme exist, are grey on paper, and an unknown one is refused", "[ui]") {
    const std::string name = GENERATE("dark", "light", "print");
    const Theme theme = load_theme(assets, name);
    for (const std::string& map : {theme.map_amounts, theme.map_ages, theme.map_signed})
        CHECK(colour_map(map).size() == 256);
    if (name == "print") CHECK((theme.map_amounts == "greys" && theme.map_ages == "greys"));
    // The middle of a signed map is the ground: dark in a dark theme, light on paper.
    CHECK((luminance(colour_map(theme.map_signed)[127]) < 0.1) == theme.dark);
    nlohmann::json wrong = dark_json();
    wrong["maps"]["amounts"] = "jet";
    const ThemeFolder folder(wrong.dump());
    CHECK_THROWS_MATCHES(load_theme(folder.path, "mine"), Error,
                         MessageMatches(ContainsSubstring("amounts") && ContainsSubstring("jet")));
}
