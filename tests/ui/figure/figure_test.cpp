// Figures: what stands in the files, read back from them.
#include "engine/base/json_file.h"
#include "engine/control/command.h"
#include "engine/signals/layer_values.h"
#include "tests/support/made_run.h"
#include "tests/support/refused.h"
#include "tests/ui/figure/figure_fixture.h"
#include "ui/base/png_text.h"
#include "ui/base/value_format.h"
#include "ui/figure/run_names.h"

#include <catch2/catch_approx.hpp>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <regex>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace figure_test {

using namespace refreshlab;
using namespace refreshlab::ui;
using namespace refreshlab::test;
using Catch::Approx;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::EndsWith;
using Catch::Matchers::StartsWith;
namespace fs = std::filesystem;

namespace {

fs::path scratch(const std::string& name) {
    const fs::path folder = fs::path(RL_BUILD_DIR) / "figure-test-files";
    fs::create_directories(folder);
    return folder / name;
}

std::string output_of(const std::string& command) {
    std::string all;
    FILE* pipe = popen(command.c_str(), "r");
    REQUIRE(pipe != nullptr);
    char buffer[4096];
    while (const size_t n = fread(buffer, 1, sizeof buffer, pipe))
        all.append(buffer, n);
    REQUIRE(pclose(pipe) == 0);
    return all;
}

} // namespace

TEST_CASE("runs without a name are told apart by what they are", "[figure][EX2]") {
    const auto of = [](const std::function<void(RunConfig&)>& change) {
        RunInfo info = made_info(4);
        info.config.policy = preset_policy("entropy");
        change(info.config);
        return made_run(info);
    };
    const auto none = [](RunConfig&) {};
    std::vector<FigureRun> runs;
    for (const auto& run :
         {of(none), of([](RunConfig& run) { run.student_cache = cache_policy_defaults("h2o", "a test"); }),
          of([](RunConfig& run) { run.sampler.temperature = 0.5; }), of(none),
          of([](RunConfig& run) { run.mode = Mode::teacher; })})
        runs.push_back({run, ""});
    runs.push_back({of(none), "mine"});
    name_runs(runs);
    CHECK(runs[0].name == "entropy, seed 0");
    CHECK_THAT(runs[1].name, StartsWith("entropy, H2O, budget ") && EndsWith(", seed 0"));
    CHECK_THAT(runs[2].name, StartsWith("entropy, seed 0, ") && ContainsSubstring("0.5"));
    CHECK(runs[3].name == "entropy, seed 0 (2)");
    CHECK(runs[4].name == "teacher alone, seed 0");
    CHECK(runs[5].name == "mine");
}

TEST_CASE("a curve stands where its values are, in points of the page", "[figure][EX2]") {
    // A ramp: equal steps are equal distances, and the axis' ticks say which.
    const auto run = run_of(60, [](int64_t t) { return static_cast<float>(t) / 10; }, {20, 40});
    const std::string svg = file_of(request_of(run), FigureFormat::svg);
    const auto points = points_of(svg, "curve_entropy_bits_1");
    REQUIRE(points.size() == 60);
    const double dx = points[1].first - points[0].first, dy = points[1].second - points[0].second;
    CHECK(dx > 0);
    CHECK(dy < 0); // y goes down on the page
    for (size_t i = 1; i < points.size(); ++i) {
        CHECK(points[i].first == Approx(points[0].first + static_cast<double>(i) * dx).margin(0.04));
        CHECK(points[i].second == Approx(points[0].second + static_cast<double>(i) * dy).margin(0.04));
    }
    // The label "20" of the x axis stands under step 20.
    std::smatch label;
    REQUIRE(std::regex_search(svg, label, std::regex("<text class=\"r\" x=\"([0-9.]+)\"[^>]*>20</text>")));
    CHECK(std::stod(label[1]) == Approx(points[19].first).margin(0.05));
    // Refreshes are lines at their steps, with a letter over each.
    const auto letters = all_matches(svg, "<text class=\"b\" x=\"([0-9.]+)\"[^>]*>E</text>");
    REQUIRE(letters.size() >= 2);
    std::set<int> places;
    for (const std::string& x : letters)
        places.insert(static_cast<int>(std::lround(std::stod(x))));
    for (const size_t step : {size_t{20}, size_t{40}})
        CHECK(places.contains(static_cast<int>(std::lround(points[step - 1].first))));
    CHECK_THAT(svg, ContainsSubstring("Entropy (bits)"));
    CHECK_THAT(svg, ContainsSubstring(">threshold</text>"));
    CHECK_THAT(svg, ContainsSubstring("width=\"84mm\""));
}

TEST_CASE("an SVG figure carries its origin and its font, and the same figure is the same bytes",
          "[figure][EX5]") {
    const auto run = run_of(30, [](int64_t) { return 1.0F; });
    const FigureRequest request = request_of(run);
    const std::string svg = file_of(request, FigureFormat::svg);
    CHECK(svg == file_of(request, FigureFormat::svg));
    const size_t begin = svg.find("<metadata>") + 10;
    std::string json = svg.substr(begin, svg.find("</metadata>") - begin);
    for (const auto& [mark, character] :
         {std::pair{"&quot;", "\""}, {"&lt;", "<"}, {"&gt;", ">"}, {"&amp;", "&"}})
        for (size_t at = 0; (at = json.find(mark, at)) != std::string::npos; ++at)
            json.replace(at, std::string(mark).size(), character);
    const auto origin = nlohmann::json::parse(json);
    CHECK(origin["command_line"] == "refreshlab figure");
    CHECK(origin["runs"][0]["seed"] == 7);
    CHECK(origin["runs"][0]["policy"]["name"] == "entropy");
    CHECK(origin["runs"][0]["teacher"] == "large");
    CHECK(origin["runs"][0]["student"] == "small");
    CHECK(origin["runs"][0]["prompt"] == "Why <is> the \"sky\" & blue?");
    CHECK_THAT(svg, ContainsSubstring("@font-face{font-family:'RefreshLab-r';src:url(data:font/ttf;base64,"));
    // Without it browsers widen small letters, and words that were measured to fit are cut.
    CHECK_THAT(svg, ContainsSubstring(".r{text-rendering:geometricPrecision;font-family:'RefreshLab-r'"));
    // A subset: the whole font has 170 kB.
    CHECK(svg.size() < 60000);
    CHECK(svg.find("<script") == std::string::npos);
}

TEST_CASE("pages of PDF are read by others: text, fonts, size", "[figure][EX2]") {
    if (std::system("command -v pdftotext > /dev/null && command -v pdffonts > /dev/null") != 0)
        SKIP("poppler-utils is not installed");
    const auto run = run_of(60, [](int64_t t) { return static_cast<float>(t) / 10; }, {20});
    const FigureRequest request = request_of(run);
    const fs::path file = scratch("figure.pdf");
    const std::string pdf = file_of(request, FigureFormat::pdf, parse_figure_size("174x80mm"));
    CHECK(pdf == file_of(request, FigureFormat::pdf, parse_figure_size("174x80mm")));
    write_file(file, pdf);
    const std::string quoted = "'" + file.string() + "'";
    const std::string words = output_of("pdftotext -layout " + quoted + " -");
    for (const char* word : {"Entropy (bits)", "threshold", "refresh: Entropy", "step", "60"})
        CHECK_THAT(words, ContainsSubstring(word));
    const std::string used = output_of("pdffonts " + quoted);
    CHECK_THAT(used, ContainsSubstring("Roboto-Regular"));
    const auto embedded = all_matches(used, "TrueType\\s+\\S+\\s+(yes|no)");
    CHECK(embedded.size() >= 1);
    CHECK(std::ranges::count(embedded, "no") == 0);
    const std::string about = output_of("pdfinfo " + quoted);
    CHECK_THAT(about, ContainsSubstring("493.2")); // 174 mm in points
    CHECK_THAT(about, ContainsSubstring("policy entropy, seed 7"));
    // The page has ink, and it is the colour of the signal.
    static_cast<void>(output_of("pdftoppm -r 72 " + quoted + " '" + scratch("page").string() + "'"));
    std::ifstream ppm(scratch("page-1.ppm"), std::ios::binary);
    REQUIRE(ppm);
    const std::string pixels{std::istreambuf_iterator<char>(ppm), {}};
    CHECK(pixels.size() > 493 * 226 * 3 / 2);
    CHECK(std::ranges::count(pixels, '\xFF') < static_cast<int64_t>(pixels.size()));
}

TEST_CASE("a figure as PNG says where it comes from", "[figure][EX1][EX5]") {
    const auto run = run_of(40, [](int64_t t) { return t % 2 == 0 ? 1.0F : 3.0F; });
    const std::string png = file_of(request_of(run), FigureFormat::png);
    const auto origin = png_text(png, "RefreshLab");
    REQUIRE(origin);
    CHECK(nlohmann::json::parse(*origin)["runs"][0]["id"] == "00000000000000aa");
    // 84 mm at 300 dpi; width is at byte 16 of a PNG.
    const auto byte = [&](size_t i) { return static_cast<int>(static_cast<unsigned char>(png[i])); };
    CHECK(std::abs((byte(16) << 24 | byte(17) << 16 | byte(18) << 8 | byte(19)) - 992) <= 1);
}

TEST_CASE("a map of a figure has hard cells of its own colours alone", "[figure][EX2]") {
    const auto run = run_of(10, [](int64_t) { return 1.0F; });
    auto drift = std::make_shared<DriftMap>();
    drift->step = 10;
    drift->first_pos = 4;
    drift->positions = 8;
    drift->layers = 2;
    for (int i = 0; i < 16; ++i) {
        drift->k.push_back(static_cast<float>(i) / 16);
        drift->v.push_back(static_cast<float>(i) / 16);
        drift->k_max.push_back(1);
        drift->v_max.push_back(1);
    }
    CacheEvent filled, grown;
    filled.change = grown.change = CacheChange::appended;
    filled.positions = {{0, 4}};
    filled.origin = Origin::teacher_prefill;
    grown.step = 10;
    grown.positions = {{4, 8}};
    grown.origin = Origin::student;
    run->add_cache_event(filled);
    run->add_cache_event(grown);
    run->add_drift(drift);
    FigureRequest request = request_of(run, "cache");
    const std::string svg = file_of(request, FigureFormat::svg);
    // Two scales of colours, origin, age, and the map.
    CHECK(all_matches(svg, "(<image )").size() == 5);
    CHECK(all_matches(svg, "(image-rendering:pixelated)").size() == 5);
    for (const char* word :
         {"teacher prefill", "student", "origin", "age", "L0", "L1", "cache position, after step 10"})
        CHECK_THAT(svg, ContainsSubstring(word));
    // As pixels: the map's row is eight cells of exactly the scale's colours.
    const auto figure = make_figure(request);
    const auto image = preview_figure(*figure, paper(), {}, 4, fonts());
    const ColourScale scale{colour_map("viridis"), 0, 15.0 / 16, false};
    std::set<uint32_t> seen(image.rgba.begin(), image.rgba.end());
    for (int i = 0; i < 16; ++i)
        CHECK(seen.contains(scale(static_cast<double>(static_cast<float>(i) / 16)) | alpha_mask));
    const DataTable table = figure->table();
    CHECK(table.columns.size() == 6);
    CHECK(table.rows.size() == 12);
    CHECK(table.rows[4][4] == "0");
    CHECK(table.rows[5][4] == "0.0625");
    CHECK(table.rows[0][4].empty()); // not measured is not 0
}

TEST_CASE("a figure of attention that is kept in bins says what a weight is", "[figure]") {
    const auto run = run_of(6, [](int64_t) { return 1.0F; });
    for (const int64_t bin : {1, 4}) {
        AttentionRows rows;
        rows.position = run->prompt_length() + 5 - 1;
        rows.step = 5;
        rows.heads = 3;
        rows.keys = rows.position + 1;
        rows.edges = bin_edges(rows.keys, bin);
        rows.layers = {0, 1};
        rows.weights.assign(static_cast<size_t>(2 * rows.heads * rows.numbers()), float_to_half(0.25F));
        run->add_attention(std::make_shared<const AttentionRows>(rows)); // in the place of those before
        FigureRequest request = request_of(run, "attention");
        request.step = 5;
        for (const bool one : {false, true}) {
            if (one) request.head = {1, 2};
            CAPTURE(bin, one);
            const std::string svg = file_of(request, FigureFormat::svg);
            CHECK((svg.find("bins of up to 4 keys") != std::string::npos) == (bin == 4));
        }
    }
}

TEST_CASE("a figure has the axes on the right that the plots have", "[figure][SG11]") {
    const auto run = run_of(50, [](int64_t t) { return static_cast<float>(t % 7); }, {10});
    const size_t top1 = signal_id("top1_prob").value(), logprob = signal_id("logprob").value();
    for (int64_t t = 1; t <= 50; ++t) {
        run->back_fill(top1, t, std::vector<float>{0.02F * static_cast<float>(t)});
        run->back_fill(logprob, t, std::vector<float>{-0.1F * static_cast<float>(t)});
    }
    FigureRequest request = request_of(run);
    request.views.signals = parse_plots("entropy_bits+top1_prob,logprob", "--signals");
    const std::string svg = file_of(request, FigureFormat::svg);
    // Two plots, three curves; the one on the right lies in the plot of its host, with values of its own at the right.
    CHECK(all_matches(svg, "<g id=\"(plot_[a-z0-9_]+)\"").size() == 2);
    for (const char* curve : {"curve_entropy_bits_1", "curve_top1_prob_1", "curve_logprob_1"})
        CHECK(points_of(svg, curve).size() == 50);
    const auto left = points_of(svg, "curve_entropy_bits_1"), right = points_of(svg, "curve_top1_prob_1");
    for (size_t i = 0; i < left.size(); ++i)
        REQUIRE(left[i].first == Approx(right[i].first));
    // Its values are a line over the steps: equal distances on its own axis.
    for (size_t i = 2; i < right.size(); ++i)
        REQUIRE(right[i].second - right[i - 1].second ==
                Approx(right[1].second - right[0].second).margin(0.02));
    CHECK(make_figure(request)->table().columns ==
          std::vector<std::string>{"step", "entropy_bits", "logprob", "top1_prob", "refreshed", "reason",
                                   "held_back", "draft_cut", "changes"});
    // The same by --right, which names the first plot's partner.
    FigureRequest by_option = request_of(run);
    by_option.views.signals = parse_plots("entropy_bits,logprob", "--signals");
    by_option.right_axis = "top1_prob";
    CHECK(points_of(file_of(by_option, FigureFormat::svg), "curve_top1_prob_1") == right);
    by_option.views.signals = parse_plots("top1_prob", "--signals");
    CHECK_THAT(refused([&] { static_cast<void>(make_figure(by_option)); }),
               ContainsSubstring("no plot of another signal"));
}

TEST_CASE("what rejected drafts had stands in a figure on request, fainter and on the same axis",
          "[figure]") {
    const auto run = run_of(50, [](int64_t t) { return static_cast<float>(t % 7); });
    const size_t logprob = signal_id("logprob").value();
    for (int64_t t = 1; t <= 50; ++t)
        run->back_fill(logprob, t, std::vector<float>{-0.01F * static_cast<float>(t)});
    DraftEvent cut;
    cut.step = 20;
    cut.first_pos = run->prompt_length() + 19;
    cut.tokens = {{.token_id = 1, .stays = false, .p_teacher = 0.5F, .p_student = 0.01F, .expected = 0.4F},
                  {.token_id = 2, .stays = false, .p_teacher = 0.5F, .p_student = 0.02F, .expected = 0.4F}};
    cut.instead = 3;
    run->add_draft(cut);
    FigureRequest request = request_of(run);
    request.views.signals = parse_plots("entropy_bits,logprob", "--signals");
    const std::string without = file_of(request, FigureFormat::svg);
    CHECK_THAT(without, !ContainsSubstring("rejected"));
    request.views.signals.rejected = true;
    const std::string with = file_of(request, FigureFormat::svg);
    CHECK_THAT(with, ContainsSubstring(">rejected drafts</text>"));
    CHECK_THAT(with, !ContainsSubstring("rejected_entropy_bits")); // nothing is kept of it
    const auto kept = points_of(with, "curve_logprob_1"), gone = points_of(with, "rejected_logprob_1");
    REQUIRE(kept.size() == 50);
    REQUIRE(gone.size() == 2);
    // At their steps, and where the kept curve's own scale puts their values.
    CHECK(gone[0].first == Approx(kept[19].first).margin(0.02));
    CHECK(gone[1].first == Approx(kept[20].first).margin(0.02));
    const double per_nat = (kept[49].second - kept[0].second) / -0.49;
    CHECK(gone[0].second == Approx(kept[0].second + per_nat * (std::log(0.01) + 0.01)).margin(0.1));
    const DataTable table = make_figure(request)->table();
    CHECK(table.columns[3] == "logprob_rejected");
    CHECK(table.rows[18][3].empty());
    CHECK(std::stod(table.rows[20][3]) == Approx(std::log(0.02)).epsilon(1e-5));
    CHECK(kept[49].second !=
          Approx(points_of(without, "curve_logprob_1")[49].second)); // the axis reaches to them
}

TEST_CASE("compared runs keep their colours where they have some", "[figure]") {
    const auto run = run_of(20, [](int64_t t) { return static_cast<float>(t % 7); });
    const auto ramp = run_of(20, [](int64_t t) { return static_cast<float>(t); });
    const FigureStyle style = paper();
    const auto colours_of = [&](std::vector<std::optional<uint32_t>> wanted) {
        FigureRequest request = request_of(run, "compare");
        request.runs.clear();
        for (size_t i = 0; i < wanted.size(); ++i)
            request.runs.push_back({i % 2 == 0 ? run : ramp, "run", wanted[i]});
        const std::string svg = file_of(request, FigureFormat::svg);
        std::vector<size_t> places;
        for (size_t i = 0; i < wanted.size(); ++i) {
            const size_t at = svg.find("<g id=\"curve_entropy_bits_" + std::to_string(i + 1) + "\">");
            REQUIRE(at != std::string::npos);
            const std::string curve = svg.substr(at, svg.find("</g>", at) - at);
            for (size_t c = 0; c < style.runs.size(); ++c) {
                const std::string hex =
                    fmt::format("#{:02X}{:02X}{:02X}", style.runs[c] & 0xFFU, style.runs[c] >> 8U & 0xFFU,
                                style.runs[c] >> 16U & 0xFFU);
                std::string upper = curve;
                std::ranges::transform(upper, upper.begin(),
                                       [](unsigned char b) { return static_cast<char>(std::toupper(b)); });
                if (upper.find(hex) != std::string::npos) places.push_back(c);
            }
        }
        return places;
    };
    using Places = std::vector<size_t>;
    CHECK(colours_of({{}, {}, {}}) == Places{0, 1, 2});
    CHECK(colours_of({4, {}, 0}) == Places{4, 1, 0});   // the second has the first one that nobody has
    CHECK(colours_of({3, 3, {}}) == Places{3, 0, 1});   // of two with one colour the first keeps it
    CHECK(colours_of({1, 1000, 2}) == Places{1, 0, 2}); // a colour that the style does not have
}

TEST_CASE("crowded refreshes are a rug, and live changes are marked", "[figure][SG16]") {
    std::vector<int64_t> every;
    for (int64_t t = 4; t <= 120; t += 4)
        every.push_back(t);
    const auto run = run_of(
        120, [](int64_t t) { return static_cast<float>(t % 5); }, every);
    const std::string plain = file_of(request_of(run), FigureFormat::svg);
    const size_t rug = plain.find("<g id=\"rug\">");
    REQUIRE(rug != std::string::npos);
    const std::string ticks = plain.substr(rug, plain.find("</g>", rug) - rug);
    CHECK(all_matches(ticks, "<(path|line) ").size() == every.size());
    CHECK(plain.find("<g id=\"changes\">") == std::string::npos);
    const auto few = run_of(120, [](int64_t t) { return static_cast<float>(t % 5); }, {10, 50});
    few->add_command({60, to_json(Command(command::SetParameter{"entropy.threshold", "4"})).dump()});
    const std::string marked = file_of(request_of(few), FigureFormat::svg);
    CHECK(marked.find("<g id=\"rug\">") == std::string::npos);
    CHECK(marked.find("<g id=\"changes\">") != std::string::npos);
    CHECK_THAT(marked, ContainsSubstring("changed by hand"));
    const DataTable table = make_figure(request_of(few))->table();
    CHECK(table.rows[9] == std::vector<std::string>{"10", "0", "1", "E", "", "", ""});
    CHECK_THAT(table.rows[59].back(), ContainsSubstring("4"));
}

TEST_CASE("a figure marks where a limit held a refresh back, as the window does", "[figure][SG4]") {
    const auto plain = run_of(60, [](int64_t t) { return t % 10 == 0 ? 7.0F : 1.0F; });
    RunInfo info = plain->info();
    info.config.policy = preset_policy("entropy");
    info.config.policy.triggers.at(0).threshold = 6;
    info.config.policy.triggers.at(0).every = 1;
    info.config.policy.triggers.at(0).cooldown = 0;
    info.config.policy.budget = {0, 100};
    const auto run = std::make_shared<Recording>(info, plain->token_table());
    for (int64_t t = 1; t <= plain->steps(); ++t)
        run->append(plain->step(t));
    FigureRequest request = request_of(run);
    const std::string svg = file_of(request, FigureFormat::svg);
    const size_t at = svg.find("<g id=\"held_back\">");
    REQUIRE(at != std::string::npos);
    const std::string ticks = svg.substr(at, svg.find("</g>", at) - at);
    // At 10, 20, ... 50; the last step's choice is one that nothing follows.
    CHECK(all_matches(ticks, "<(path|line) ").size() == 5);
    CHECK_THAT(svg, ContainsSubstring("prevented by a limit"));
    const DataTable table = make_figure(request)->table();
    CHECK(table.rows[9] == std::vector<std::string>{"10", "7", "0", "", "the budget", "", ""});
    CHECK(table.rows[10] == std::vector<std::string>{"11", "1", "0", "", "", "", ""});
    CHECK(file_of(request_of(plain), FigureFormat::svg).find("held_back") == std::string::npos);
}

TEST_CASE("all layers of a signal are a strip of a figure", "[figure][SG15]") {
    const auto run = run_of(0, [](int64_t) { return 1.0F; });
    const size_t id = signal_id("attention_entropy_bits").value();
    for (int64_t t = 1; t <= 20; ++t) {
        StepRecord record = next_record(*run, 2);
        LayerValues layers;
        layers.set(id, std::vector<float>{static_cast<float>(t), absent()});
        record.signals[id] = static_cast<float>(t);
        run->append(record, layers);
    }
    FigureRequest request = request_of(run);
    request.views.signals = parse_plots("attention_entropy_bits.strip", "--signals");
    const std::string svg = file_of(request, FigureFormat::svg);
    const auto cells = all_matches(svg, "<image [^>]*width=\"([0-9.]+)\"");
    CHECK(cells.size() >= 2); // the strip and its scale of colours
    CHECK_THAT(svg, ContainsSubstring(">L0<") && ContainsSubstring(">L1<"));
    const DataTable table = make_figure(request)->table();
    CHECK(table.columns.back() == "attention_entropy_bits_layer1");
    CHECK(table.rows[4][table.columns.size() - 2] == "5");
    CHECK(table.rows[4].back().empty());
}

TEST_CASE("two runs are told apart, and their difference is plotted", "[figure][RU1]") {
    const auto first = run_of(50, [](int64_t) { return 2.0F; });
    const auto second = run_of(40, [](int64_t t) { return t < 20 ? 2.0F : 5.0F; });
    FigureRequest request = request_of(first, "compare");
    request.runs[0].name = "with refresh";
    request.runs.push_back({second, "without"});
    const std::string svg = file_of(request, FigureFormat::svg);
    CHECK_THAT(svg, ContainsSubstring(">with refresh</text>"));
    CHECK_THAT(svg, ContainsSubstring(">without</text>"));
    CHECK_THAT(svg, ContainsSubstring("difference to the first"));
    CHECK_THAT(svg, ContainsSubstring(">(a)</text>"));
    CHECK_THAT(svg, ContainsSubstring(">(b)</text>"));
    const DataTable table = make_figure(request)->table();
    REQUIRE(table.columns.size() == 4);
    CHECK(table.columns[3] == "without: entropy_bits_minus_first");
    CHECK(table.rows.at(9)[3] == "0");
    CHECK(table.rows.at(29)[3] == "3");
    CHECK(table.rows.at(45)[2].empty()); // the second run has ended
    request.runs.pop_back();
    CHECK_THAT(refused([&] { static_cast<void>(make_figure(request)); }), ContainsSubstring("two runs"));
}

TEST_CASE("text, distribution and spikes show the numbers of the run", "[figure]") {
    const auto run = run_of(60, [](int64_t t) { return static_cast<float>(t % 4); }, {30});
    const std::string text = file_of(request_of(run, "text"), FigureFormat::svg);
    CHECK(all_matches(text, "(<rect )").size() >= 50); // a box a token, and the page
    const DataTable tokens = make_figure(request_of(run, "text"))->table();
    REQUIRE(tokens.rows.size() == 60);
    CHECK(tokens.rows[1][2] == "1");  // token 2 was chosen from the row of step 1
    CHECK(tokens.rows[30][3] == "1"); // the refresh of step 30 came before token 31
    CHECK(tokens.rows[29][3] == "0");
    const DataTable values = make_figure(request_of(run, "distribution"))->table();
    CHECK(values.rows.size() == 60);
    CHECK_THAT(file_of(request_of(run, "distribution"), FigureFormat::svg),
               ContainsSubstring("60 values, mean 1.5"));
    const DataTable spikes = make_figure(request_of(run, "spikes"))->table();
    REQUIRE(spikes.rows.size() == 1);
    CHECK(spikes.rows[0] == std::vector<std::string>{"30", "30", "3", "1", "0", "2"});
}

TEST_CASE("a distribution figure shows what the panel shows: its scale, thresholds, a signal against",
          "[figure]") {
    // 40 steps of 1 and 20 of 3.
    const auto run = run_of(60, [](int64_t t) { return t <= 40 ? 1.0F : 3.0F; });
    const size_t kl = signal_id("kl_nats").value();
    std::vector<float> values(50, 0.5F); // steps 11 to 60
    values.back() = 2.5F;
    run->back_fill(kl, 11, values);
    FigureRequest request = request_of(run, "distribution");
    const auto group = [](const std::string& svg, const std::string& id) {
        const size_t at = svg.find("<g id=\"" + id + "\"");
        return at == std::string::npos ? std::string() : svg.substr(at, svg.find("</g>", at) - at);
    };
    const auto heights = [&] {
        std::vector<double> found;
        for (const std::string& bar :
             all_matches(group(file_of(request, FigureFormat::svg), "bars"), " height=\"([0-9.]+)\""))
            found.push_back(std::stod(bar));
        return found;
    };
    request.views.distribution = {.signal = "entropy_bits", .other = "", .in_sight = false, .log = false};
    REQUIRE(heights().size() == 2);
    CHECK(heights()[0] / heights()[1] == Approx(2).epsilon(0.01));
    request.views.distribution.log = true;
    CHECK(heights()[0] / heights()[1] == Approx(std::log(40 / 0.5) / std::log(20 / 0.5)).epsilon(0.01));
    // Thresholds that stand in the panel: of this signal; of a trigger that is off it is pale, and fires on no bar.
    const auto lines = [&](const char* id) {
        return all_matches(group(file_of(request, FigureFormat::svg), id), "(<path )").size();
    };
    request.policy = preset_policy("entropy");
    request.policy->triggers.at(0).threshold = 2;
    CHECK(lines("thresholds") == 1);
    const auto opacities = [&](const char* id) {
        const auto found =
            all_matches(group(file_of(request, FigureFormat::svg), id), "opacity=\"([0-9.]+)\"");
        return std::vector<std::string>(found.begin(), found.end());
    };
    CHECK(opacities("thresholds").empty());
    CHECK(opacities("bars") == std::vector<std::string>{"0.322", "0.322", "0.749"}); // the upper bar fires
    request.policy->triggers.at(0).enabled = false;
    CHECK(lines("thresholds") == 1);
    CHECK(opacities("thresholds") == std::vector<std::string>{"0.451"});
    CHECK(opacities("bars") == std::vector<std::string>{"0.322", "0.322"});
    request.policy->triggers.at(0).enabled = true;
    // Against another signal: the pairs of both, in cells, with the thresholds of both.
    request.views.distribution.other = "kl_nats";
    Trigger second = preset_policy("kl").triggers.at(0);
    second.threshold = 1;
    request.policy->triggers.push_back(second);
    CHECK(lines("thresholds") == 1);
    CHECK(lines("thresholds_of_other") == 1);
    const DataTable pairs = make_figure(request)->table();
    REQUIRE(pairs.columns == std::vector<std::string>{"entropy_bits", "kl_nats"});
    REQUIRE(pairs.rows.size() == 50);
    CHECK(pairs.rows.front() == std::vector<std::string>{"1", "0.5"});
    CHECK(pairs.rows.back() == std::vector<std::string>{"3", "2.5"});
    const std::string svg = file_of(request, FigureFormat::svg);
    // (1, 0.5), (3, 0.5) and (3, 2.5): 30, 19 and 1 steps, each in the colour of its count.
    const auto cells = all_matches(group(svg, "cells"), "fill=\"#([0-9a-fA-F]{6})\"");
    CHECK(cells.size() == 3);
    CHECK(std::set<std::string>(cells.begin(), cells.end()).size() == 3);
    CHECK_THAT(svg, ContainsSubstring("50 steps, correlation "));
    CHECK_THAT(svg, ContainsSubstring(with_unit(signals()[kl].label, signals()[kl].unit)));
    request.views.distribution.other = "no_such_signal";
    CHECK_THAT(refused([&] { static_cast<void>(make_figure(request)); }),
               ContainsSubstring("no_such_signal"));
}

TEST_CASE("sizes, names and requests that cannot be", "[figure]") {
    CHECK(parse_figure_size("84mm").width == Approx(238.11).margin(0.01));
    CHECK(parse_figure_size("84x60mm").height.value() == Approx(170.08).margin(0.01));
    CHECK(parse_figure_size("3.5in").width == Approx(252));
    CHECK(parse_figure_size("240pt").width == Approx(240));
    for (const char* size :
         {"", "mm", "84 mm", "84xmm", "-84mm", "nanmm", "0mm", "5mm", "2000mm", "84x", "84x60x3mm", "1e9km"})
        CHECK_THAT(refused([&] { static_cast<void>(parse_figure_size(size)); }), ContainsSubstring("--size"));
    CHECK(figure_format("a/b.SVG") == FigureFormat::svg);
    for (const char* name : {"figure", "figure.gif", ".svg", "figure.svg.gz"})
        CHECK_THAT(refused([&] { static_cast<void>(figure_format(name)); }),
                   ContainsSubstring(".svg, .pdf or .png"));
    const auto run = run_of(20, [](int64_t) { return 1.0F; });
    const auto no = [&](const std::function<void(FigureRequest&)>& spoil) {
        FigureRequest request = request_of(run);
        spoil(request);
        return refused([&] { static_cast<void>(make_figure(request)); });
    };
    CHECK_THAT(no([](auto& r) { r.panel = "signal"; }), ContainsSubstring("there are signals, compare"));
    CHECK_THAT(no([](auto& r) { r.from = 21; }), ContainsSubstring("steps 1 to 20, not 21"));
    CHECK_THAT(no([](auto& r) { r.from = 9, r.to = 8; }), ContainsSubstring("comes after"));
    CHECK_THAT(no([](auto& r) { r.panel = "cache", r.step = 0; }), ContainsSubstring("not 0"));
    CHECK_THAT(no([](auto& r) {
                   r.panel = "attention", r.head = {2, 0};
               }),
               ContainsSubstring("2 layers and 3 heads"));
    CHECK_THAT(no([](auto& r) { r.panel = "attention"; }), ContainsSubstring("no attention of the student"));
    CHECK_THAT(no([](auto& r) { r.panel = "spikes"; }), ContainsSubstring("no refresh"));
    CHECK_THAT(no([](auto& r) { r.panel = "landscape"; }), ContainsSubstring("no landscape"));
    CHECK_THAT(no([](auto& r) { r.panel = "text", r.views.text.coloured_by = "entropy"; }),
               ContainsSubstring("entropy_bits"));
    CHECK_THAT(
        no([](auto& r) { r.views.signals = parse_plots("mc_variance", "--signals"), r.all_signals = true; }),
        ContainsSubstring("was not measured"));
    CHECK_THAT(refused([&] {
                   static_cast<void>(
                       file_of(request_of(run), FigureFormat::svg, parse_figure_size("84x20mm")));
               }),
               ContainsSubstring("too low"));
    FigureRequest nothing = request_of(run_of(0, [](int64_t) { return 0.0F; }));
    CHECK_THAT(refused([&] { static_cast<void>(make_figure(nothing)); }), ContainsSubstring("no steps"));
}

TEST_CASE("a style of one's own replaces what it names, and nothing else is taken", "[figure][EX3]") {
    const fs::path file = scratch("style.json");
    write_file(
        file,
        R"({"text_pt": 9, "signals": {"entropy_bits": "#112233"}, "maps": {"amounts": "greys"}, "runs": ["#010203"]})");
    const FigureStyle style = load_figure_style(assets, "paper", file);
    CHECK(style.text_pt == 9);
    CHECK(style.small_pt == paper().small_pt);
    CHECK(style.theme.signal("entropy_bits") == rgba(0x11, 0x22, 0x33));
    CHECK(style.theme.map_amounts == "greys");
    CHECK(style.theme.map_ages == "cividis");
    CHECK(style.runs == std::vector<Colour>{rgba(1, 2, 3)});
    CHECK(paper().theme.plot_background == rgba(255, 255, 255));
    for (const auto& [json, words] : {std::pair{R"({"txt_pt": 9})", "text_pt"},
                                      {R"({"text_pt": 99})", "from 4 to 24"},
                                      {R"({"maps": {"amounts": "jet"}})", "viridis"},
                                      {R"({"runs": []})", "list of colours"},
                                      {R"({"signals": {"entropy_bits": 3}})", "colour"},
                                      {R"({"theme": "pink"})", "dark, light, print"},
                                      {"[1]", "style.json"}}) {
        INFO(json);
        write_file(file, json);
        CHECK_THAT(refused([&] { static_cast<void>(load_figure_style(assets, "paper", file)); }),
                   ContainsSubstring(words));
    }
    CHECK_THAT(refused([&] { static_cast<void>(load_figure_style(assets, "pink")); }),
               ContainsSubstring("paper, dark, light, print"));
}

TEST_CASE("tables quote what must be quoted", "[figure]") {
    CHECK(to_csv({{"a", "b,c"}, {{"1", "say \"no\""}, {"", "two\nlines"}}}) ==
          "a,\"b,c\"\r\n1,\"say \"\"no\"\"\"\r\n,\"two\nlines\"\r\n");
}

} // namespace figure_test
