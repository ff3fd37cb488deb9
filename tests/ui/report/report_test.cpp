// Reports: what stands in the page, read back by a parser of HTML and of JSON, against the recording itself.
#include "engine/base/error.h"
#include "engine/base/json_file.h"
#include "engine/record/export/blocked_fires.h"
#include "engine/record/export/export.h"
#include "engine/record/notes/run_notes.h"
#include "tests/engine/record/random_recording.h"
#include "tests/support/made_run.h"
#include "ui/report/report.h"
#include "ui/scene/text/step_marks.h"
#include "ui/scene/text/token_label.h"
#include "ui/scene/theme/theme.h"
#include "ui/scene/views/coloured_text.h"

#include <catch2/catch_approx.hpp>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <cmath>
#include <cstdio>
#include <filesystem>
#include <limits>
#include <set>
#include <string>
#include <vector>

namespace report_test {

using namespace refreshlab;
using namespace refreshlab::ui;
using namespace refreshlab::test;
using Catch::Matchers::ContainsSubstring;
using nlohmann::json;

namespace {

const std::filesystem::path report_assets = RL_SOURCE_DIR "/assets";

/// The page as tests/support/parse_report.py reads it.
json parsed(const std::string& html) {
    const TemporaryFolder folder;
    write_file(folder / "report.html", html);
    const std::string command =
        fmt::format("'{}' '{}' '{}'", RL_PYTHON, RL_SOURCE_DIR "/tests/support/parse_report.py",
                    (folder / "report.html").string());
    std::string all;
    FILE* pipe = popen(command.c_str(), "r");
    REQUIRE(pipe != nullptr);
    char buffer[4096];
    while (const size_t n = fread(buffer, 1, sizeof buffer, pipe))
        all.append(buffer, n);
    REQUIRE(pclose(pipe) == 0);
    return json::parse(all);
}

std::string page_of(std::vector<ReportRun> runs) {
    return report_html({"run.rlt", std::move(runs), "refreshlab report run.rlt -o run.html", "1.2.3"},
                       report_assets);
}

json data_of(const std::shared_ptr<const Recording>& recording) {
    return parsed(page_of({{recording}}))["data"]["runs"][0];
}

/// What a reader of the JSON takes for a value.
float value_of(const json& value) {
    if (value.is_null()) return absent();
    if (value == "nan") return std::numeric_limits<float>::quiet_NaN();
    if (value == "inf" || value == "-inf")
        return std::numeric_limits<float>::infinity() * (value == "inf" ? 1.0F : -1.0F);
    return static_cast<float>(value.get<double>());
}

} // namespace

TEST_CASE("a report has every value of every step as it was recorded", "[report]") {
    for (const uint64_t seed : {3U, 4U, 5U}) {
        CAPTURE(seed);
        Grower grower(seed);
        const auto recording = grower.start();
        grower.grow(*recording, 60);
        grower.finish(*recording, seed == 4);
        const json run = data_of(recording);
        CHECK(run["id"] == recording->info().id);
        CHECK(run["steps"] == recording->steps());
        CHECK(run["prompt_tokens"] == recording->prompt_length());
        CHECK(run["prompt"] == recording->info().config.prompt);

        std::set<std::string> told;
        for (const json& signal : run["signals"]) {
            const std::string name = signal["name"];
            CAPTURE(name);
            told.insert(name);
            const auto id = recording->signal_id(name);
            REQUIRE(id);
            CHECK(signal["help"] == recording->signals()[*id].description);
            REQUIRE(signal["values"].size() == static_cast<size_t>(recording->steps()));
            bool equal = true;
            for (int64_t t = 1; t <= recording->steps(); ++t)
                equal = equal && same_bits(value_of(signal["values"][static_cast<size_t>(t - 1)]),
                                           recording->signal(t, *id));
            CHECK(equal);
        }
        for (size_t id = 0; id < recording->signals().size(); ++id) {
            bool measured = false;
            for (int64_t t = 1; t <= recording->steps(); ++t)
                measured = measured || !is_absent(recording->signal(t, id));
            CHECK(measured == told.contains(std::string(recording->signals()[id].name)));
        }

        const auto ids = recording->token_ids();
        CHECK(run["text"]["ids"] == ids);
        CHECK(run["text"]["pieces"].size() == ids.size());
        CHECK(run["text"]["producers"].get<std::string>().size() == ids.size());
        for (int64_t t = 1; t <= recording->steps(); ++t) {
            const StepRecord& record = recording->step(t);
            const json& row = run["candidates"]["rows"][static_cast<size_t>(t - 1)];
            REQUIRE(row.size() == 2U * record.top_k);
            for (size_t k = 0; k < record.top_k; ++k) {
                CHECK(row[2 * k] == record.top_ids[k]);
                CHECK(same_bits(value_of(row[2 * k + 1]), record.top_probs[k]));
                CHECK(run["candidates"]["labels"][std::to_string(record.top_ids[k])] ==
                      token_label(recording->tokens(), record.top_ids[k]));
            }
            if (static_cast<size_t>(t) < ids.size())
                CHECK(run["text"]["producers"].get<std::string>()[static_cast<size_t>(t)] ==
                      (record.next_producer == Producer::teacher ? 't' : 's'));
        }

        int64_t refreshes = 0, blocked = 0;
        for (const json& mark : run["marks"]) {
            if (mark["lane"] == "refresh") {
                const RefreshEvent& event = recording->refreshes()[static_cast<size_t>(refreshes++)];
                CHECK(mark["step"] == event.step);
                CHECK(mark["spliced"] == event.spliced);
                CHECK(mark["letter"] == std::string(1, reason_letter(event.hits)));
            }
            blocked += mark["lane"] == "blocked" ? 1 : 0;
        }
        CHECK(refreshes == static_cast<int64_t>(recording->refreshes().size()));
        CHECK(blocked == static_cast<int64_t>(blocked_fires(*recording).size()));
        std::vector<std::vector<std::string>> numbers;
        for (const SummaryLine& line : summary_lines(*recording))
            numbers.push_back({line.label, line.value});
        CHECK(run["summary"] == numbers);
    }
}

TEST_CASE("pieces of a text are its bytes, character by character, and what is no text says so", "[report]") {
    RunInfo info = made_info(1);
    const ByteTokens tokens;
    // The ids of two bytes that are one character, of a letter, of a newline, and of a special token.
    const auto id_of = [&](std::string_view bytes) {
        for (int32_t id = 0; id < vocab; ++id)
            if (tokens.token_bytes(id) == bytes) return id;
        FAIL("no such token");
        return -1;
    };
    info.first_token = id_of("\xC3");
    const auto recording = std::make_shared<Recording>(info, std::make_shared<ByteTokens>());
    for (const int32_t id : {id_of("\xA9"), id_of("a"), id_of("\n"), id_of(" "), 298, id_of("\xFF"), -1})
        recording->append(next_record(*recording, id));
    const json run = data_of(recording);
    const json expected = json::array({json::array({"escape", "\\xC3"}), "\xC3\xA9", "a", "\n", " ",
                                       json::array({"special", std::string(tokens.token_bytes(298))}),
                                       json::array({"escape", "\\xFF"})});
    CHECK(run["text"]["pieces"] == expected);
}

TEST_CASE("nothing that stands in a trace is read as markup or script", "[report]") {
    const std::string evil =
        "</script><img src=x onerror=document.title='hacked'><!-- <script>{{nonce}}</noscript>\"'&amp;";
    RunInfo info = made_info(1);
    info.config.prompt = info.rendered_prompt = evil;
    info.config.teacher_dir = "/models/" + evil;
    info.config.policy.name = evil;
    info.note = info.device = evil;
    info.versions = {{evil, evil}};
    const auto recording = made_run(info, std::make_shared<MadeTokens>(std::vector<std::string>{
                                              "</script><script>document.title='hacked'</script>{{data}}"}));
    StepRecord record = next_record(*recording, 2);
    record.top_k = 1;
    record.top_ids[0] = 3;
    record.top_probs[0] = 0.5F;
    recording->append(record);
    recording->append(next_record(*recording, -1));
    StepNote note;
    note.text = evil;
    recording->notes()->add(note);
    const Report report{evil + ".rlt", {{recording, {evil, {}}, nullptr, evil}}, evil, evil};
    const json page = parsed(report_html(report, report_assets));

    CHECK(page["elements"]["script"] == 2); // the data and the page's own
    CHECK_FALSE(page["elements"].contains("img"));
    CHECK(page["acting"].empty());
    CHECK(page["still_open"].empty());
    const json& run = page["data"]["runs"][0];
    CHECK(run["prompt"] == evil);
    CHECK(run["name"] == evil);
    CHECK(run["notes"][0]["text"] == evil);
    CHECK(run["text"]["pieces"][0] == "</script><script>document.title='hacked'</script>{{data}}");
    CHECK(page["data"]["trace"] == evil + ".rlt");
    CHECK_THAT(run["again"]["replay"].get<std::string>(), ContainsSubstring("--replay '</script>"));
    CHECK(page["data"]["command_line"] == evil);
    CHECK_THAT(page["plain"].get<std::string>(), ContainsSubstring(evil));
    CHECK_THAT(page["title"].get<std::string>(), ContainsSubstring(evil + ".rlt"));
    // The second wall: scripts run by a word that the trace cannot know.
    const std::string nonce = page["nonces"][1];
    CHECK(nonce.size() == 32);
    CHECK(page["nonces"][0].is_null());
    CHECK_THAT(page["policy"].get<std::string>(), ContainsSubstring("default-src 'none'") &&
                                                      ContainsSubstring("script-src 'nonce-" + nonce + "'") &&
                                                      !ContainsSubstring("unsafe"));
}

TEST_CASE("a text has the scale and the readable share of the window's panel", "[report]") {
    Grower grower(8);
    const auto recording = grower.start();
    grower.grow(*recording, 40);
    const std::string html = page_of({{recording}});
    const json run = parsed(html)["data"]["runs"][0];
    const Theme light = load_theme(report_assets, "light"), dark = load_theme(report_assets, "dark");
    ColouredText text;
    for (const json& signal : run["signals"]) {
        const std::string name = signal["name"];
        CAPTURE(name);
        TextView view;
        view.coloured_by = name;
        text.update(recording, recording->steps(), view, {});
        CHECK(signal["scale"] == json::array({text.range().min, text.range().max}));
        // The colour of the signal on either ground, and as much of it as leaves text readable.
        const std::string variable = "--" + signal["colour"].get<std::string>();
        size_t at = 0;
        for (const Theme* theme : {&light, &dark}) {
            const Colour hue = theme->signal(name);
            const std::string rule =
                fmt::format("{}:{},{},{};", variable, hue & 0xFFU, hue >> 8U & 0xFFU, hue >> 16U & 0xFFU);
            at = html.find(rule, at + 1);
            CAPTURE(rule);
            REQUIRE(at != std::string::npos);
            const size_t most = html.find(variable + "-most:", at);
            REQUIRE(most != std::string::npos);
            const float share = std::stof(html.substr(most + variable.size() + 6));
            CHECK(share > 0.02F);
            CHECK(contrast(mix(theme->plot_background | alpha_mask, hue | alpha_mask, share), theme->text) >=
                  4.49);
        }
    }
}

TEST_CASE("a branch says what it shares, and shows the notes of its parent", "[report]") {
    Grower grower(11);
    const auto parent = grower.start();
    grower.grow(*parent, 30);
    StepNote note;
    note.first_step = 5;
    note.last_step = 28;
    note.text = "two\nlines";
    note.made_at = "2026-01-02T03:04:05Z";
    parent->notes()->add(note);
    const auto branch = parent->fork(20, "00000000000000bb");
    grower.grow(*branch, 10);
    const json page = parsed(page_of({{parent, {"first", {}}}, {branch}}));
    const json &one = page["data"]["runs"][0], &two = page["data"]["runs"][1];
    CHECK(one["name"] == "first");
    CHECK(one["parent"].is_null());
    CHECK(two["parent"] == parent->info().id);
    CHECK(two["fork_step"] == 20);
    CHECK(two["steps"] == 30);
    CHECK(one["changed"] == "policy entropy");
    CHECK(one["notes"][0]["last"] == 28);
    CHECK(one["notes"][0]["run"].is_null());
    CHECK(two["notes"][0]["last"] == 20); // the part that it shares
    CHECK(two["notes"][0]["run"] == parent->info().id);
    CHECK(two["notes"][0]["text"] == "two\nlines");
    CHECK(two["notes"][0]["made_at"] == note.made_at);
}

TEST_CASE("a run without a step has a page, and the same run the same bytes", "[report]") {
    Grower grower(2);
    const auto recording = grower.start();
    const json run = data_of(recording);
    CHECK(run["steps"] == 0);
    CHECK(run["text"]["ids"] == std::vector<int32_t>{recording->info().first_token});
    CHECK(run["signals"].empty());
    grower.grow(*recording, 5);
    CHECK(page_of({{recording}}) == page_of({{recording}}));
}

TEST_CASE("a long run is whole in its page, and the page bounded", "[report]") {
    RunInfo info = made_info(1);
    info.vocab_size = vocab;
    const auto recording = std::make_shared<Recording>(info, std::make_shared<ByteTokens>());
    constexpr int64_t steps = 10'000;
    for (int64_t t = 1; t <= steps; ++t) {
        StepRecord record = next_record(*recording, static_cast<int32_t>(t % 250));
        for (size_t id = 0; id < 20; ++id)
            record.signals[id] = std::sin(static_cast<float>(t) * 0.37F + static_cast<float>(id));
        record.top_k = 8;
        for (size_t k = 0; k < 8; ++k) {
            record.top_ids[k] = static_cast<int32_t>((static_cast<size_t>(t) * 7 + k) % 250);
            record.top_probs[k] = std::exp(-static_cast<float>(k) - 0.001F * static_cast<float>(t % 100));
        }
        recording->append(record);
    }
    const std::string html = page_of({{recording}});
    CHECK(html.size() < 5'000'000); // docs/howto/report.md
    const size_t begin = html.find("id=\"data\">") + 10;
    const json run = json::parse(html.substr(begin, html.find("</script>", begin) - begin))["runs"][0];
    CHECK(run["text"]["ids"].size() == static_cast<size_t>(steps + 1));
    CHECK(run["signals"][0]["values"].size() == static_cast<size_t>(steps));
}

TEST_CASE("assets that are missing are named", "[report][bad-input]") {
    Grower grower(2);
    const TemporaryFolder folder;
    CHECK_THROWS_AS(report_html({"run.rlt", {{grower.start()}}, "", ""}, folder.path()), Error);
}

} // namespace report_test
