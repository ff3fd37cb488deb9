// `refreshlab report`, as somebody who sends a run to a colleague: the file, what is refused, and what a browser makes of it.
#include "engine/base/error.h"
#include "engine/base/json_file.h"
#include "engine/record/trace/trace_store.h"
#include "tests/app/program.h"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <regex>
#include <string>
#include <vector>

#if REFRESHLAB_UI
#include "ui/scene/views/coloured_text.h"

namespace report_test {

namespace fs = std::filesystem;
using namespace refreshlab;
using namespace refreshlab::test;
using Catch::Matchers::ContainsSubstring;
using nlohmann::json;

namespace {

constexpr const char* evil = "</script><img src=x onerror=\"document.title='hacked'\">";

void succeeds(const std::vector<std::string>& arguments) {
    const Outcome outcome = refreshlab_cli(arguments);
    CAPTURE(arguments, outcome.err);
    REQUIRE(outcome.status == 0);
}

/// A gated run with a refresh by hand, a moved threshold, a token by hand, a budget, and three notes.
void record_gated(const Scratch& scratch, const std::string& trace) {
    write_file(scratch / "steps.json", R"([{"step": 20, "command": {"command": "refresh_now"}},
        {"step": 30, "command": {"command": "set_parameter", "key": "entropy.threshold", "value": "4.5"}},
        {"step": 50, "command": {"command": "give_tokens", "text": " slate"}}])");
    succeeds({"run",
              "--prompt",
              "Write a chronicle of 6 companies.",
              "--max-tokens",
              "120",
              "--policy",
              "entropy",
              "--set",
              "entropy.every=1",
              "--set",
              "entropy.threshold=5",
              "--set",
              "budget.refreshes=3",
              "--set",
              "budget.per_tokens=60",
              "--set",
              "on_fire=redraw",
              "--set",
              "capture.attention=false",
              "--shadow",
              "--commands",
              scratch / "steps.json",
              "--record",
              trace});
    succeeds({"note", trace, "--step", "10-25", "--text", "the names\nare lost", "--colour", "2"});
    succeeds({"note", trace, "--step", "40", "--text", evil});
    succeeds({"note", trace, "--step", "90"});
}

json data_of(const std::string& page) {
    const std::string html = read_file(page), begin = "<script type=\"application/json\" id=\"data\">";
    const size_t at = html.find(begin) + begin.size();
    return json::parse(html.substr(at, html.find("</script>", at) - at));
}

/// A Chromium that runs without a window; empty where there is none. Where one is required its absence is a failure.
std::string browser() {
    for (const char* name : {"chromium-headless-shell", "chromium"})
        for (const char* folder : {"/usr/bin", "/usr/local/bin"})
            if (fs::exists(fs::path(folder) / name)) return (fs::path(folder) / name).string();
    if (std::getenv("REFRESHLAB_REQUIRE_BROWSER") != nullptr)
        FAIL("there is no Chromium here (Debian: chromium-headless-shell), and REFRESHLAB_REQUIRE_BROWSER is "
             "set");
    return {};
}

/// The page as the browser has it when its scripts have run.
std::string shown_by(const std::string& program, const std::string& page, const std::string& link,
                     const std::string& size) {
    const std::string dom = page + ".dom";
    // Its own sandbox needs rights that a container seldom has; the page is ours.
    const std::string command = "'" + program +
                                "' --headless --no-sandbox --disable-gpu --disable-dev-shm-usage "
                                "--virtual-time-budget=5000 --window-size=" +
                                size + " --dump-dom 'file://" + page + link + "' > '" + dom + "' 2> '" + dom +
                                ".err'";
    const int state = std::system(command.c_str());
    INFO(command << "\n" << read_file(dom + ".err"));
    REQUIRE(state == 0);
    return read_file(dom);
}

/// What stands in an output element that a script left.
json output_of(const std::string& dom, const std::string& id) {
    const std::string begin = "<output id=\"" + id + "\"";
    const size_t at = dom.find('>', dom.find(begin)), end = dom.find("</output>", at);
    REQUIRE(end != std::string::npos);
    std::string text = dom.substr(at + 1, end - at - 1);
    for (const auto& [mark, character] :
         {std::pair{"&lt;", "<"}, {"&gt;", ">"}, {"&nbsp;", " "}, {"&amp;", "&"}})
        for (size_t i = 0; (i = text.find(mark, i)) != std::string::npos; ++i)
            text.replace(i, std::string(mark).size(), character);
    return json::parse(text);
}
json selftest_of(const std::string& dom) {
    return output_of(dom, "selftest");
}

std::vector<std::smatch> matches(const std::string& text, const std::string& pattern) {
    const std::regex expression(pattern);
    return {std::sregex_iterator(text.begin(), text.end(), expression), {}};
}

} // namespace

TEST_CASE("the command in a report makes the run again, bit for bit, a branch too", "[report][again]") {
    const Scratch scratch("report-again");
    const std::string trace = scratch / "run.rlt";
    record_gated(scratch, trace);
    succeeds({"run", "--branch", trace + "@40", "--policy", "periodic", "--seed", "5", "--temperature", "0.8",
              "--record", trace});
    succeeds({"report", trace, "-o", scratch / "run.html"});
    const json data = data_of(scratch / "run.html");
    REQUIRE(data["runs"].size() == 2);
    for (size_t i = 0; i < 2; ++i) {
        const json& run = data["runs"][i];
        CHECK(run["again"]["lacks"] == "");
        for (const json& file : run["again"]["files"])
            write_file(scratch / file["name"].get<std::string>(), file["text"].get<std::string>());
        std::string line = run["again"]["line"];
        REQUIRE(line.starts_with("refreshlab run "));
        line.replace(0, 10, "'" RL_BUILD_DIR "/refreshlab'");
        line = "cd '" + (scratch / ".") + "' && " + line + " --record again.rlt > again.txt 2>&1";
        CAPTURE(line);
        REQUIRE(std::system(line.c_str()) == 0);
        succeeds({"report", scratch / "again.rlt", "-o", scratch / "again.html"});
        const json again = data_of(scratch / "again.html")["runs"][0];
        for (const char* part : {"text", "signals", "candidates"})
            CHECK(again[part] == run[part]);
        if (i == 0)
            CHECK_FALSE(first_difference(*load_trace(trace).at(0), *load_trace(scratch / "again.rlt").at(0)));
        // The other way, with the trace.
        CHECK(run["again"]["replay"] ==
              "refreshlab run --replay run.rlt --run " + run["id"].get<std::string>());
    }
}

TEST_CASE("a report of several runs has a section for each, or for the chosen ones", "[report]") {
    const Scratch scratch("report-runs");
    const std::string trace = scratch / "run.rlt", page = scratch / "run.html";
    succeeds({"run", "--prompt", "Once", "--max-tokens", "24", "--ignore-stop", "--record", trace});
    succeeds({"run", "--branch", trace + "@9", "--policy", "periodic", "--set", "periodic.every=4",
              "--record", trace});
    write_file(page, "what stood there before");
    const Outcome all = refreshlab_cli({"report", trace, "-o", page});
    CHECK(all.status == 0);
    CHECK(all.out.empty());
    CHECK_THAT(all.err, ContainsSubstring("wrote " + page + ": 2 runs, 48 steps, "));
    const auto runs = load_trace(trace);
    json data = data_of(page);
    REQUIRE(data["runs"].size() == 2);
    CHECK(data["trace"] == "run.rlt");
    CHECK_THAT(data["command_line"].get<std::string>(), ContainsSubstring("report " + trace));
    for (size_t i = 0; i < 2; ++i) {
        CHECK(data["runs"][i]["id"] == runs[i]->info().id);
        CHECK(data["runs"][i]["text"]["ids"] == runs[i]->token_ids());
    }
    CHECK(data["runs"][1]["parent"] == runs[0]->info().id);
    CHECK(data["runs"][1]["fork_step"] == 8);
    CHECK_FALSE(data["runs"][1]["marks"].empty());
    succeeds({"report", trace, "-o", page, "--run", runs[1]->info().id});
    data = data_of(page);
    REQUIRE(data["runs"].size() == 1);
    CHECK(data["runs"][0]["id"] == runs[1]->info().id);
}

TEST_CASE("reports that cannot be", "[report][bad-input]") {
    const Scratch scratch("no-report");
    const std::string trace = scratch / "run.rlt", out = scratch / "x.html";
    succeeds({"run", "--prompt", "Once", "--max-tokens", "4", "--ignore-stop", "--record", trace});
    const std::string bytes = read_file(trace);
    const auto refused = [&](std::vector<std::string> arguments, const std::string& part) {
        arguments.insert(arguments.begin(), "report");
        refused_with(arguments, part);
    };
    refused({trace}, "--out");
    refused({trace, "-o", ""}, "empty");
    refused({scratch / "none.rlt", "-o", out}, "no such file");
    refused({trace, "-o", trace}, "overwrite what TRACE names");
    refused({trace, "-o", "/no/such/folder/x.html"}, "/no/such/folder");
    refused({trace, "-o", scratch / "."}, scratch / ".");
    refused({trace, "-o", out, "--run", "nobody"}, "no run nobody");
    write_file(scratch / "text.rlt", "no trace");
    refused({scratch / "text.rlt", "-o", out}, "not a RefreshLab trace");
    CHECK_FALSE(fs::exists(out));
    CHECK(read_file(trace) == bytes);
}

TEST_CASE("a landscape that a trace holds stands in its report as figures", "[report]") {
    const Scratch scratch("report-landscape");
    const std::string trace = scratch / "land.rlt";
    write_file(scratch / "answer.txt", "The fox ran home. It was late, and nobody was there to see it.");
    succeeds({"landscape", "--prompt", "Tell a story about a fox.", "--given-file", scratch / "answer.txt",
              "-o", trace});
    succeeds({"report", trace, "-o", scratch / "land.html"});
    const json figures = data_of(scratch / "land.html")["runs"][0]["figures"];
    REQUIRE(figures.size() == 2);
    for (const json& figure : figures)
        for (const char* ground : {"light", "dark"})
            CHECK_THAT(figure[ground].get<std::string>(), ContainsSubstring("<svg") &&
                                                              ContainsSubstring("</svg>") &&
                                                              !ContainsSubstring("<script"));
    CHECK(figures[0]["light"] != figures[0]["dark"]);
    if (const std::string program = browser(); !program.empty())
        CHECK(selftest_of(shown_by(program, scratch / "land.html", "", "1200,900"))["figures"] == 2);
}

TEST_CASE("a browser draws a report as the run was", "[report][browser]") {
    const std::string program = browser();
    if (program.empty())
        SKIP("there is no Chromium here (Debian: chromium-headless-shell): the report's page is not drawn");
    const Scratch scratch("report-browser");
    const std::string trace = scratch / "run.rlt", page = scratch / "run.html";
    record_gated(scratch, trace);
    succeeds({"report", trace, "-o", page});
    const json run = data_of(page)["runs"][0];
    const auto recording = load_trace(trace).at(0);

    const std::string dom = shown_by(program, page, "#run1-step45", "1200,900");
    const json found = selftest_of(dom);
    CAPTURE(found.dump());
    CHECK(found["errors"].empty());
    CHECK(found["runs"] == 1);
    CHECK(found["tokens"] == recording->num_tokens());
    CHECK(found["notes"] == 3);
    CHECK(found["events"] == run["marks"].size());
    CHECK(found["thresholds"] == 2); // before and behind the change by hand
    const auto plotted =
        std::ranges::count_if(run["signals"], [](const json& s) { return s["plotted"].get<bool>(); });
    CHECK(found["curves"] == plotted);
    CHECK(found["badges"].get<int>() >= 5);
    CHECK(found["overflows"] == false);

    // A curve has a point for each value that was measured. The first is the entropy.
    const auto curve = matches(dom, "<path class=\"curve\"[^>]* d=\"([^\"]*)\"");
    REQUIRE(static_cast<int64_t>(curve.size()) == plotted);
    const std::string path = curve.front()[1];
    const size_t entropy = recording->signal_id("entropy_bits").value();
    int64_t measured = 0;
    for (int64_t t = 1; t <= recording->steps(); ++t)
        measured += std::isfinite(recording->signal(t, entropy)) ? 1 : 0;
    CHECK(std::ranges::count(path, 'M') + std::ranges::count(path, 'L') == measured);
    // Its height is the value: the highest point is the largest value.
    const auto points = matches(path, "[ML]([-0-9.]+),([-0-9.]+)");
    size_t highest = 0;
    for (size_t i = 0; i < points.size(); ++i)
        if (std::stod(points[i][2]) < std::stod(points[highest][2])) highest = i;
    for (int64_t t = 1; t <= recording->steps(); ++t)
        CHECK_FALSE(recording->signal(t, entropy) >
                    recording->signal(static_cast<int64_t>(highest) + 1, entropy) + 0.1F);

    // Tokens are coloured as the window's panel colours them.
    ui::ColouredText text;
    text.update(recording, recording->steps(), {}, {});
    const auto tokens =
        matches(dom, "<span class=\"token([^\"]*)\" data-step=\"([0-9]+)\"(?: style=\"([^\"]*)\")?");
    REQUIRE(static_cast<int64_t>(tokens.size()) == recording->num_tokens());
    for (const auto& token : tokens) {
        const int64_t step = std::stoll(token[2]);
        CAPTURE(step);
        const float value = text.value(step + 1);
        const std::string style = token[3];
        std::smatch share;
        const bool coloured = std::regex_search(style, share, std::regex("--share: ?([0-9.]+)"));
        REQUIRE(coloured == std::isfinite(value));
        if (coloured)
            CHECK(std::abs(std::stod(share[1]) -
                           (static_cast<double>(value) - text.range().min) / text.range().span()) < 1e-4);
        CHECK((token[1].str().find("selected") != std::string::npos) == (step == 45)); // by the link
        CHECK((token[1].str().find("refreshed") != std::string::npos) ==
              (recording->refresh_at(step) != nullptr));
        CHECK((token[1].str().find("noted") != std::string::npos) ==
              ((step >= 10 && step <= 25) || step == 40 || step == 90));
    }
    CHECK_THAT(dom, ContainsSubstring("Candidates for the next token"));
    // The text of the note is text.
    CHECK(dom.find("<title>hacked") == std::string::npos);
    CHECK(dom.find("<img") == std::string::npos);
    CHECK_THAT(dom, ContainsSubstring("&lt;/script&gt;&lt;img src=x"));

    // On a phone nothing is wider than the screen.
    CHECK(selftest_of(shown_by(program, page, "", "390,800"))["overflows"] == false);
}

TEST_CASE("mouse and keys move through a report", "[report][browser]") {
    const std::string program = browser();
    if (program.empty())
        SKIP("there is no Chromium here (Debian: chromium-headless-shell): nobody can click");
    const Scratch scratch("report-hand");
    const std::string trace = scratch / "run.rlt", page = scratch / "run.html";
    record_gated(scratch, trace);
    succeeds({"report", trace, "-o", page});
    const auto recording = load_trace(trace).at(0);
    std::string html = read_file(page);
    const std::string nonce = matches(html, "<script nonce=\"([0-9a-f]+)\">").at(0)[1];
    html.insert(html.rfind("</body>"), "<script nonce=\"" + nonce + "\">" +
                                           read_file(RL_SOURCE_DIR "/tests/support/report_hand.js") +
                                           "</script>");
    write_file(page, html);
    const json hand = output_of(shown_by(program, page, "", "1200,900"), "hand");
    CAPTURE(hand.dump(1));
    CHECK(hand["errors"].empty());
    CHECK_THAT(hand["tip"].get<std::string>(), ContainsSubstring("Step 33: read") &&
                                                   ContainsSubstring("Entropy") &&
                                                   !ContainsSubstring("Log-probability"));
    CHECK(hand["tip_gone"] == true);
    CHECK(hand["dragged"] == "steps 31 to 60 of 120");
    CHECK(hand["whole"] == "steps 1 to 120");
    CHECK(hand["clicked"][0] == 77);
    CHECK_THAT(hand["clicked"][1].get<std::string>(), ContainsSubstring("Step 77: read"));
    CHECK(hand["clicked"][2] == "steps 1 to 120"); // a click is no drag
    CHECK(hand["arrow"] == 78);
    CHECK_THAT(hand["plus"].get<std::string>(), ContainsSubstring(" of 120"));
    CHECK(hand["double_click"] == "steps 1 to 120");
    CHECK(hand["home"][0] == 0);
    CHECK_THAT(hand["home"][1].get<std::string>(), ContainsSubstring("Prefill, chose"));
    CHECK(hand["end"] == recording->num_tokens() - 1);
    CHECK(hand["note"] == 10);
    CHECK(hand["event"] == data_of(page)["runs"][0]["marks"][0]["step"]);
    CHECK(hand["badge"] == 10);
    CHECK_THAT(hand["token_tip"].get<std::string>(), ContainsSubstring("Step 12") &&
                                                         ContainsSubstring("Note 1: the names") &&
                                                         ContainsSubstring("Candidates"));
    // Right and wrong of the tokens that were drawn.
    const size_t hit = recording->signal_id("top1_hit").value();
    int64_t yes = 0, no = 0;
    for (int64_t t = 1; t <= recording->steps(); ++t)
        if (const float value = recording->signal(t, hit); std::isfinite(value)) ++(value >= 0.5F ? yes : no);
    CHECK(hand["verdicts"] == json{yes, no});
    CHECK(hand["curves_more"] == 1);
}

} // namespace report_test

#endif
