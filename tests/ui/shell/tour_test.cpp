// The tour's chapters as data, and where its bubble stands.
#include "engine/base/error.h"
#include "engine/base/json_file.h"
#include "tests/support/seed.h"
#include "ui/tour/bubble_place.h"
#include "ui/tour/chapter.h"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <nlohmann/json.hpp>

#include <filesystem>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace tour_test {

using namespace refreshlab;
using namespace refreshlab::ui;
using Catch::Matchers::ContainsSubstring;

namespace {

const std::filesystem::path bundled = std::filesystem::path(RL_SOURCE_DIR) / "assets" / "tour";

nlohmann::json chapter_with(const nlohmann::json& step) {
    return {{"title", "A chapter"}, {"steps", {step}}};
}

std::string fault_of(const nlohmann::json& chapter) {
    try {
        static_cast<void>(parse_chapter(chapter, "mine.json"));
    } catch (const Error& e) {
        return e.what();
    }
    return {};
}

bool inside(const PixelBox& box, const PixelBox& window) {
    return box.x >= window.x && box.y >= window.y && box.x + box.width <= window.x + window.width &&
           box.y + box.height <= window.y + window.height;
}

} // namespace

TEST_CASE("every bundled chapter is read, and every step says how it is done", "[tour]") {
    std::vector<std::string> problems;
    const auto chapters = read_chapters(bundled, problems);
    CHECK(problems.empty());
    CHECK(chapters.size() >= 3);
    for (const Chapter& chapter : chapters) {
        CAPTURE(chapter.id);
        CHECK_FALSE(chapter.about.empty());
        CHECK(chapter.steps.front().set_up); // it begins wherever the window is
        for (const TourStep& step : chapter.steps) {
            CAPTURE(step.text);
            CHECK_FALSE(step.anchors.empty());
            CHECK(step.until.has_value() == !step.moves.empty());
        }
    }
}

TEST_CASE("a mistake in a chapter is one line that names its place", "[tour]") {
    const nlohmann::json good = {{"text", "Press R."}, {"until", {{"fact", "refreshes"}, {"grows_by", 1}}}};
    CHECK(fault_of(chapter_with(good)).empty());
    const std::pair<nlohmann::json, std::string> bad[] = {
        {{{"title", "x"}, {"steps", nlohmann::json::array()}}, "steps: has no step"},
        {{{"steps", {good}}}, "title: is missing"},
        {chapter_with({{"anchor", "panel/Text"}}), "steps[0].text: is missing"},
        {chapter_with({{"text", "{refershes}"}}), "refreshes"},
        {chapter_with({{"text", "an open { brace"}}), "a { has no }"},
        {chapter_with({{"text", "t"}, {"then", "so"}}), "steps[0].then: needs until"},
        {chapter_with({{"text", "t"}, {"panel", "Txet"}}), "panel"},
        {chapter_with({{"text", "t"}, {"unitl", 1}}), "until"},
        {chapter_with({{"text", "t"}, {"until", {{"fact", "nothing of the kind"}}}}), "steps[0].until.fact"},
        {chapter_with({{"text", "t"}, {"until", {{"fact", "steps"}, {"at_least", "many"}}}}),
         "must be a number"},
        {chapter_with({{"text", "t"}, {"until", {{"fact", "steps"}, {"at_least", 1}, {"is", 2}}}}),
         "one test too many"},
        {chapter_with({{"text", "t"}, {"until", {{"all", {{{"fact", "steqs"}}}}}}}),
         "steps[0].until.all[0].fact"},
        {chapter_with({{"text", "t"}, {"until", {{"fact", "parameter:entropy.treshold"}}}}),
         "names nothing that there is"},
        {chapter_with({{"text", "t"}, {"start", {{"layout", "Nowhere"}}}}), "there is no layout \"Nowhere\""},
        {chapter_with({{"text", "t"}, {"start", {{"run", {{"policy", "entrpy"}}}}}}), "entropy"},
        {chapter_with({{"text", "t"}, {"start", {{"run", {{"set", {{"sed", 1}}}}}}}}), "seed"},
        {chapter_with({{"text", "t"}, {"start", {{"run", {{"student_cache", "h3o"}}}}}}), "h2o"},
        {chapter_with({{"text", "t"}, {"start", {{"plots", "entropy_bitz,,"}}}}), "plots"},
        {chapter_with({{"text", "t"}, {"do", {{{"press", "R"}}}}}), "steps[0].do[0]"},
        {chapter_with({{"text", "t"}, {"do", {{{"click", "a"}, {"wait", 3}}}}}), "one move too many"},
        {nlohmann::json::array(), "mine.json"},
    };
    for (const auto& [json, part] : bad) {
        CAPTURE(json.dump());
        const std::string fault = fault_of(json);
        CHECK_THAT(fault, ContainsSubstring("mine.json"));
        CHECK_THAT(fault, ContainsSubstring(part));
        CHECK(fault.find('\n') == std::string::npos);
    }
}

TEST_CASE("the page about chapters names every fact, and its example is one", "[tour]") {
    const std::string page =
        read_file(std::filesystem::path(RL_SOURCE_DIR) / "docs/development/tour-chapters.md", 1 << 20);
    // Its example is a chapter.
    const std::string open = "```json\n";
    const size_t begin = page.find(open) + open.size();
    const Chapter example =
        parse_chapter(nlohmann::json::parse(page.substr(begin, page.find("```", begin) - begin)), "the page");
    CHECK(example.steps.size() == 1);
    CHECK(example.steps[0].moves.size() == 2);
    CHECK(fact_names().size() > 20);
    for (const auto& [name, help] : fact_names()) {
        CAPTURE(name, help);
        CHECK_FALSE(help.empty());
        const std::string shown = name.ends_with(":...") ? name.substr(0, name.size() - 3) : name + "`";
        CHECK_THAT(page, ContainsSubstring("`" + shown));
    }
}

TEST_CASE("a broken chapter of one's own leaves the others", "[tour]") {
    const std::filesystem::path folder = std::filesystem::path(RL_BUILD_DIR) / "tour-test";
    std::filesystem::remove_all(folder);
    std::filesystem::create_directories(folder);
    write_file(folder / "a.json", chapter_with({{"text", "Read this."}}).dump());
    write_file(folder / "b.json", "{ no json");
    write_file(folder / "notes.txt", "no chapter");
    std::vector<std::string> problems;
    const auto chapters = read_chapters(folder, problems);
    REQUIRE(chapters.size() == 1);
    CHECK(chapters[0].id == "a");
    REQUIRE(problems.size() == 1);
    CHECK_THAT(problems[0], ContainsSubstring("b.json"));
    CHECK(read_chapters(folder / "nowhere", problems).empty());
    CHECK(problems.size() == 1); // nobody has written one: no mistake
    std::filesystem::remove_all(folder);
}

TEST_CASE("the bubble stands beside what it speaks of, whole in the window", "[tour]") {
    const PixelBox window{0, 20, 1280, 780};
    std::mt19937 rng(test::seed(71));
    const auto number = [&](float low, float high) {
        return std::uniform_real_distribution<float>(low, high)(rng);
    };
    int fits = 0;
    for (int i = 0; i < 2000; ++i) {
        const PixelBox anchor{number(-50, 1250), number(0, 780), number(1, 900), number(1, 700)};
        const float width = number(150, 400), height = number(80, 300), gap = 12;
        CAPTURE(anchor.x, anchor.y, anchor.width, anchor.height, width, height);
        const PixelBox box = place_bubble(anchor, width, height, window, gap);
        CHECK(inside(box, window));
        CHECK(box.width == width);
        CHECK(box.height == height);
        const bool room = anchor.x - 2 * gap >= width || 1280 - 2 * gap - anchor.x - anchor.width >= width ||
                          anchor.y - 20 - 2 * gap >= height ||
                          800 - 2 * gap - anchor.y - anchor.height >= height;
        fits += room ? 1 : 0;
        if (room) CHECK(overlap(box, anchor) == 0);
        // It stays where it is as long as it covers nothing.
        const PixelBox again = place_bubble(anchor, width, height, window, gap, {}, box);
        CHECK((overlap(box, anchor) > 0 || (again.x == box.x && again.y == box.y)));
        // An open dialog is left free too where a corner is.
        const PixelBox dialog{400, 130, 480, 300};
        const PixelBox beside = place_bubble({}, width, height, window, gap, dialog);
        CHECK(inside(beside, window));
        CHECK((width > 380 || overlap(beside, dialog) == 0));
    }
    CHECK(fits > 500);
    const PixelBox corner = place_bubble({}, 300, 100, window, 10);
    CHECK(corner.x == 970);
    CHECK(corner.y == 690);
}

} // namespace tour_test
