#include "ui/panels/panel.h"
#include "ui/state/layout.h"

#include <catch2/catch_test_macros.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace places_test {

using namespace refreshlab::ui;

namespace {

using Titles = std::vector<std::string>;

bool has(const Titles& titles, const std::string& title) {
    return std::ranges::find(titles, title) != titles.end();
}

/// What a layout is about: never behind another panel.
std::string subject_of(const std::string& layout) {
    return layout == "Landscape" ? "Landscape" : "Signals";
}

void collect_tabs(const Place& place, std::vector<Place>& into) {
    if (place.parts.empty()) into.push_back(place);
    for (const Place& part : place.parts)
        collect_tabs(part, into);
}

/// The places that have tabs.
std::vector<Place> groups(const Place& place) {
    std::vector<Place> all;
    collect_tabs(place, all);
    return all;
}

} // namespace

TEST_CASE("every bundled layout opens known panels, each once, one of each group in front", "[ui]") {
    Titles known;
    for (const PanelKind& kind : panel_kinds())
        known.emplace_back(kind.title);
    CHECK(layout_names() == Titles{"Explore", "Tune", "Present", "Landscape"});
    for (const std::string& name : layout_names()) {
        CAPTURE(name);
        Titles open = panels_of(bundled_layout(name));
        CHECK(open.size() >= 2);
        for (const std::string& title : open)
            CHECK(has(known, title));
        for (const Place& group : groups(bundled_layout(name)))
            CHECK(has(group.tabs, group.front));
        std::ranges::sort(open);
        CHECK(std::ranges::adjacent_find(open) == open.end());
    }
    CHECK(same_places(bundled_layout("no such layout"), bundled_layout("Explore")));
}

TEST_CASE(
    "a bundled layout keeps its shares where there is room, and its panels readable where there is little",
    "[ui][WN1]") {
    // As they were drawn up, without bars and with them.
    const std::map<std::string, std::map<std::string, std::array<float, 2>>> drawn = {
        {"Explore",
         {{"Text", {420, 500}}, {"Cache", {372, 328}}, {"Policy", {344, 828}}, {"Timeline", {1600, 96}}}},
        {"Tune",
         {{"Signals", {1236, 600}}, {"Text", {720, 228}}, {"Log", {516, 228}}, {"Inspector", {364, 828}}}},
        {"Present", {{"Text", {620, 924}}, {"Signals", {980, 924}}}},
        {"Landscape", {{"Landscape", {1236, 540}}, {"Text", {420, 288}}, {"Signals", {816, 288}}}}};
    for (const std::string& name : layout_names()) {
        CAPTURE(name);
        const Place& layout = bundled_layout(name);
        const auto sizes = sizes_of(fitted(layout, 1600, 924, 15), 1600, 924);
        for (const auto& [panel, size] : drawn.at(name)) {
            CAPTURE(panel);
            CHECK(std::abs(sizes.at(panel)[0] - size[0]) <= 2);
            CHECK(std::abs(sizes.at(panel)[1] - size[1]) <= 2);
        }
        for (const auto& [width, height, em] :
             {std::tuple{900.0F, 540.0F, 15.0F}, std::tuple{1280.0F, 740.0F, 15.0F},
              std::tuple{3840.0F, 2100.0F, 15.0F}, std::tuple{1280.0F, 710.0F, 22.5F},
              std::tuple{640.0F, 300.0F, 30.0F}}) {
            CAPTURE(width, height, em);
            const Place place = fitted(layout, width, height, em);
            CHECK(has(fronts_of(place), subject_of(name)));
            const auto fit = sizes_of(place, width, height);
            for (const auto& [panel, size] : fit) {
                CAPTURE(panel);
                CHECK(size[0] >= 1);
                CHECK(size[1] >= 1);
                CHECK(size[0] <= width);
                CHECK(size[1] <= height);
            }
            if (fit.contains("Policy") && width >= em * 60) {
                CHECK(fit.at("Policy")[0] >= 17 * em - 1);
                CHECK(fit.at("Policy")[0] <= 30 * em + 1);
                CHECK(fit.at("Timeline")[1] >= 5 * em - 1);
                CHECK(fit.at("Timeline")[1] <= 8 * em + 1);
                // Side by side they fill the width.
                CHECK(std::abs(fit.at("Timeline")[0] - width) <= 1);
            }
        }
    }
}

TEST_CASE("where there is no room for all, panels share a place instead of being cut", "[ui][WN1]") {
    const Place& explore = bundled_layout("Explore");
    // With room they all stay where they are.
    const Place roomy = fitted(explore, 1280, 710, 15);
    CHECK(panels_of(roomy) == panels_of(explore));
    CHECK(groups(roomy).size() == groups(explore).size());
    CHECK(fronts_of(roomy) == fronts_of(explore));
    // Least widths and heights in ems, as on the panels themselves at any scale.
    const std::map<std::string, std::pair<float, float>> least = {
        {"Text", {15, 10}},  {"Signals", {26, 17}},     {"Policy", {17, 10}}, {"Attention", {17, 12}},
        {"Cache", {13, 12}}, {"Performance", {11, 10}}, {"Timeline", {20, 5}}};
    int shared = 0;
    for (const std::string& name : layout_names()) {
        const Place& layout = bundled_layout(name);
        for (const float em : {15.0F, 22.5F, 30.0F, 37.5F, 45.0F})
            for (const auto& [width, height] : {std::pair{1280.0F, 800.0F}, std::pair{1600.0F, 1000.0F},
                                                std::pair{1920.0F, 1080.0F}, std::pair{1280.0F, 2000.0F}}) {
                CAPTURE(name, em, width, height);
                const Place place = fitted(layout, width, height - 5 * em, em);
                Titles open = panels_of(place), all = panels_of(layout);
                CHECK(std::ranges::is_permutation(open, all));
                shared += groups(place).size() < groups(layout).size() ? 1 : 0;
                // One in front of each place, which was in front before; what the layout is about always, wherever it is.
                for (const Place& group : groups(place)) {
                    CHECK(has(group.tabs, group.front));
                    CHECK(has(fronts_of(layout), group.front));
                }
                CHECK(has(fronts_of(place), subject_of(name)));
                // No panel is squeezed by more than a little, as long as the window has room for Signals beside Policy.
                if (width < 48 * em || height < 28 * em) continue;
                for (const auto& [panel, size] : sizes_of(place, width, height - 5 * em)) {
                    CAPTURE(panel, size[0], size[1]);
                    const auto need = least.find(panel);
                    if (need == least.end()) continue;
                    CHECK(size[0] >= 0.89F * need->second.first * em);
                    CHECK(size[1] >= 0.96F * need->second.second * em);
                }
            }
    }
    CHECK(shared > 10);
    // 150 % in a small window: three columns, the lower row behind Text.
    const auto columns = groups(fitted(explore, 1280, 710, 22.5F));
    CHECK(columns.size() == 4);
    CHECK(std::ranges::any_of(columns, [](const Place& place) { return place.tabs == Titles{"Signals"}; }));
    // 200 % in a small window: Signals and Policy beside each other, the rest behind them.
    const Place tight = fitted(explore, 1280, 650, 30);
    CHECK(groups(tight).size() == 3);
    CHECK(fronts_of(tight) == Titles{"Signals", "Policy", "Timeline"});
}

TEST_CASE("places are the same until somebody moves a panel or a border", "[ui][WN1]") {
    const Place place = fitted(bundled_layout("Explore"), 1280, 710, 15);
    CHECK(same_places(place, place));
    Place other = place;
    other.share += 0.01F; // a pixel lost
    std::ranges::reverse(other.parts[0].parts[1].tabs);
    other.parts[0].parts[1].front = "Sampling";
    CHECK(same_places(place, other));
    // A border dragged, a panel elsewhere, another way to share, folded places, another layout.
    other = place;
    other.parts[0].share += 0.05F;
    CHECK_FALSE(same_places(place, other));
    other = place;
    other.parts[1].tabs.push_back("Log");
    CHECK_FALSE(same_places(place, other));
    other = place;
    other.split = Place::Split::beside;
    CHECK_FALSE(same_places(place, other));
    CHECK_FALSE(same_places(place, fitted(bundled_layout("Explore"), 1280, 710, 30)));
    CHECK_FALSE(same_places(place, bundled_layout("Tune")));
    CHECK_FALSE(same_places(place, Place{}));
}

TEST_CASE("a refit keeps the tab that a person has brought to the front of its place", "[ui][WN1]") {
    const Place& explore = bundled_layout("Explore");
    const Titles bundled = fronts_of(explore);
    CHECK(fronts_of(keep_front(explore, bundled)) == bundled);
    // The others were folded behind: nobody chose among them.
    CHECK(fronts_of(keep_front(explore, {"Signals", "Timeline"})) == bundled);
    Titles drawn = bundled, expected = bundled;
    std::ranges::replace(drawn, "Performance", "Log");
    std::ranges::replace(expected, "Performance", "Log");
    CHECK(fronts_of(keep_front(explore, drawn)) == expected);
    CHECK(same_places(keep_front(explore, drawn), explore));
}

} // namespace places_test
