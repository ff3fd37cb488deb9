// Tables of CSV files in the window: which cache policy a row is about, what is plotted, in which order rows stand.
#include "engine/base/error.h"
#include "engine/base/json_file.h"
#include "engine/base/json_text.h"
#include "tests/support/refused.h"
#include "tests/support/seed.h"
#include "ui/scene/tables/row_policy.h"
#include "ui/scene/tables/table_choice.h"
#include "ui/scene/tables/table_file.h"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <filesystem>
#include <random>
#include <string>

namespace file_table_test {

using namespace refreshlab;
using namespace refreshlab::ui;
using Catch::Matchers::ContainsSubstring;
using refreshlab::test::refused;
using refreshlab::test::seed;
namespace fs = std::filesystem;

namespace {

struct Folder {
    Folder()
        : path(fs::path(RL_BUILD_DIR) / "file-table-test") {
        fs::remove_all(path);
        fs::create_directories(path);
    }
    ~Folder() { fs::remove_all(path); }
    Folder(const Folder&) = delete;
    Folder& operator=(const Folder&) = delete;
    fs::path path;
};

double value_of(const CachePolicyConfig& cache, const char* key) {
    const auto found = cache.values.find(key);
    REQUIRE(found != cache.values.end());
    return found->second;
}

CachePolicyConfig policy_of(const DataTable& table, size_t row = 0) {
    const RowReading reading = read_policy(table, row);
    INFO(reading.problem);
    REQUIRE(reading.policy);
    return reading.policy->config;
}

std::shared_ptr<const TableFile> file_of(const Folder& folder, const std::string& csv,
                                         const char* name = "t.csv") {
    write_file(folder.path / name, csv);
    return read_table_file(folder.path / name);
}

} // namespace

TEST_CASE("the words and the JSON of every cache policy lead back to it", "[ui][tables]") {
    std::mt19937_64 random(seed(0x7AB1E));
    for (const CacheMethod& method : cache_methods()) {
        CAPTURE(method.name);
        CachePolicyConfig cache = cache_policy_defaults(method.name, "a test");
        DataTable keys{{"method"}, {{std::string(method.name)}}},
            labels{{"Cache policy"}, {{std::string(method.label)}}};
        for (const CacheParameter& parameter : method.parameters) {
            using Kind = CacheParameter::Kind;
            double& value = cache.values.find(parameter.key)->second;
            const auto among = [&](double n) {
                return static_cast<double>(random() % static_cast<uint64_t>(n));
            };
            if (parameter.kind == Kind::boolean) value = among(2);
            if (parameter.kind == Kind::choice) value = among(static_cast<double>(parameter.choices.size()));
            if (parameter.kind == Kind::integer) value = std::min(parameter.max, parameter.min + among(5));
            keys.columns.emplace_back(parameter.key);
            keys.rows[0].push_back(value_text(parameter, value));
            labels.columns.emplace_back(parameter.label);
            labels.rows[0].push_back(value_text(parameter, value));
        }
        CHECK(policy_of(keys) == cache);
        CHECK(policy_of(labels) == cache);
        CHECK(policy_of({{"config"}, {{json_text(to_json(cache))}}}) == cache);
        CHECK(policy_of({{"policy"}, {{cache_words(cache)}}}).policy == cache.policy);
    }
}

TEST_CASE("what a row says of its budget becomes the run's", "[ui][tables]") {
    const RunReach reach{100, 400};
    const auto budget = [&](const DataTable& table) {
        const RowReading reading = read_policy(table, 0);
        REQUIRE(reading.policy);
        const CachePolicyConfig cache = reading.policy->in(reach);
        return value_of(cache, cache.values.contains("budget") ? "budget" : "partial");
    };
    CHECK(budget({{"policy", "budget"}, {{"H2O", "48"}}}) == 48);
    CHECK(budget({{"policy", "budget"}, {{"H2O", "n/8"}}}) == 50);
    CHECK(budget({{"policy", "budget"}, {{"SnapKV", "1/4"}}}) == 25);     // of the prompt, which it thins
    CHECK(budget({{"policy", "budget"}, {{"RefreshKV", "n/4"}}}) == 100); // its own name for it
    CHECK(budget({{"policy"}, {{"H2O, budget 20"}}}) == 20);
    CHECK(budget({{"policy"}, {{"H2O"}}}) == value_of(chosen_cache("h2o", reach), "budget"));
    CHECK(policy_of({{"policy", "budget"}, {{"vanilla", "all"}}}).is_full()); // as studies call it
    for (const CacheMethod& method : cache_methods()) {                       // "4 bits"
        const CachePolicyConfig own = cache_policy_defaults(method.name, "a test");
        if (!own.values.contains("bits") || own.values.contains("budget")) continue;
        CAPTURE(method.name);
        CHECK(value_of(policy_of({{"policy", "budget"}, {{std::string(method.name), "4 bits"}}}), "bits") ==
              4);
    }
}

TEST_CASE("a row that names no policy, or one that cannot be, says so", "[ui][tables]") {
    CHECK_FALSE(read_policy({{"step", "loss"}, {{"1", "2"}}}, 0).policy);
    CHECK(read_policy({{"step", "loss"}, {{"1", "2"}}}, 0).problem.empty());
    const auto problem = [](const DataTable& table) {
        const RowReading reading = read_policy(table, 0);
        CHECK_FALSE(reading.policy);
        return reading.problem;
    };
    CHECK_THAT(problem({{"policy"}, {{"lru"}}}), ContainsSubstring("'lru' is no cache policy"));
    CHECK_THAT(problem({{"policy"}, {{"RefreshKV, stride 5"}}}),
               ContainsSubstring("'stride 5' is no setting of RefreshKV"));
    CHECK_THAT(problem({{"policy", "budget"}, {{"h2o", "many"}}}),
               ContainsSubstring("'many' is no budget of H2O"));
    CHECK_THAT(problem({{"policy", "budget"}, {{"h2o", "4 bits"}}}),
               ContainsSubstring("'4 bits' is no budget of H2O"));
    CHECK_THAT(problem({{"policy", "budget"}, {{"h2o", "-3"}}}), ContainsSubstring("budget"));
    CHECK_FALSE(problem({{"config"}, {{"{\"policy\": \"h2o\", \"budgets\": 3}"}}}).empty());
    CHECK_FALSE(problem({{"config"}, {{"{"}}}).empty());
}

TEST_CASE("a table of cache policies is plotted by what they hold and how good it is", "[ui][tables]") {
    const Folder folder;
    const auto file = file_of(folder, "policy,budget,PPL,KL,low,high,entries read,bytes\n"
                                      "vanilla,all,9,0,0,0,900,4000\nH2O,64,10,0.2,0.1,0.3,64,300\n"
                                      "StreamingLLM,64,11,0.3,0.2,0.4,64,300\nnonsense,64,12,0.5,,,64,300\n");
    REQUIRE(file->has_policies());
    REQUIRE(file->table.columns.back() == "family");
    CHECK(file->table.rows[1].back() == find_cache_method("h2o")->family);
    CHECK(file->table.rows[3].back() == "other");
    auto plot = shown_plot(*file, {});
    REQUIRE(plot);
    CHECK(plot->x == "bytes");
    CHECK(plot->parts[0].values == std::vector<std::string>{"KL"});
    CHECK(plot->parts[0].frontier == TablePlot::Frontier::low);
    CHECK(plot->series == std::vector<std::string>{"family"});
    FileTableView view;
    view.x = "entries read";
    view.y = "PPL";
    view.log_y = true;
    view.frontier = false;
    plot = shown_plot(*file, view);
    CHECK(plot->x == "entries read");
    CHECK(plot->parts[0].values == std::vector<std::string>{"PPL"});
    CHECK(plot->parts[0].log);
    CHECK(plot->parts[0].frontier == TablePlot::Frontier::none);
    // Ends of intervals are no columns of their own, and unknown names are the usual columns.
    const auto numbers = number_columns(file->table);
    CHECK(std::ranges::none_of(numbers, [&](size_t c) { return file->table.columns[c] == "low"; }));
    view.x = "nothing";
    CHECK(shown_plot(*file, view)->x == "bytes");
    CHECK(more_is_better("token accuracy"));
    CHECK_FALSE(more_is_better("KL (nats per token)"));
}

TEST_CASE("a table that brings figures shows them", "[ui][tables]") {
    const Folder folder;
    const std::string csv = "step,loss,part\n1,3,2\n2,2.5,1.5\n3,2,1\n";
    auto plot = shown_plot(*file_of(folder, csv), {});
    REQUIRE(plot);
    CHECK(plot->kind == TablePlot::Kind::curves);
    CHECK(plot->x == "step");
    CHECK(plot->parts[0].values == std::vector<std::string>{"loss"});
    TablePlot brought;
    brought.name = "both";
    brought.table = "t";
    brought.kind = TablePlot::Kind::curves;
    brought.x = "step";
    brought.parts = {{"loss", {"loss"}}, {"part", {"part"}, false, {}, TablePlot::Frontier::low}};
    write_file(folder.path / plots_file, json_text(plots_to_json({brought}), 1));
    auto file = read_table_file(folder.path / "t.csv");
    REQUIRE(file->plots.size() == 1);
    CHECK(file->plots[0].parts[1].frontier == TablePlot::Frontier::low);
    CHECK(shown_plot(*file, {})->name == "both");
    FileTableView view;
    view.plot = columns_plot;
    view.y = "part";
    CHECK(shown_plot(*file, view)->parts[0].values == std::vector<std::string>{"part"});
    view.plot = "both";
    CHECK(shown_plot(*file, view)->name == "both");
    // A figures.json that cannot be read is told, and the table is there all the same.
    write_file(folder.path / plots_file,
               R"({"figures": [{"name": "x", "table": "t", "x": "no", "kind": "curves",
        "parts": [{"values": ["loss"]}]}]})");
    file = read_table_file(folder.path / "t.csv");
    CHECK(file->plots.empty());
    CHECK_THAT(file->plots_fault, ContainsSubstring("no column 'no'"));
    CHECK(file->table.rows.size() == 3);
}

TEST_CASE("of a file that is being written the complete rows are read", "[ui][tables]") {
    const Folder folder;
    const std::string whole = "step,loss\n1,3.25\n2,2.5\n3,2.125\n";
    for (size_t n = std::string("step,loss\n").size(); n <= whole.size(); ++n) {
        CAPTURE(n);
        const auto file = file_of(folder, whole.substr(0, n));
        const auto lines = static_cast<size_t>(std::ranges::count(whole.substr(0, n), '\n')) - 1;
        const bool ended = whole[n - 1] == '\n';
        CHECK(file->table.rows.size() >= lines);
        CHECK(file->table.rows.size() <= lines + (ended ? 0 : 1));
        for (size_t row = 0; row < lines; ++row)
            CHECK(file->table.rows[row][1] == std::vector<std::string>{"3.25", "2.5", "2.125"}[row]);
    }
    const auto stamp = stamp_of(folder.path / "t.csv");
    REQUIRE(stamp);
    write_file(folder.path / "t.csv", whole + "4,2\n");
    CHECK_FALSE(stamp_of(folder.path / "t.csv") == stamp);
}

TEST_CASE("files that are no tables are refused in one line", "[ui][tables]") {
    const Folder folder;
    const auto refusal = [&](const std::string& text) {
        write_file(folder.path / "bad.csv", text);
        return refused([&] { static_cast<void>(read_table_file(folder.path / "bad.csv")); });
    };
    for (const std::string& text : {std::string(), std::string("\n"), std::string("a,b\n1\n2,3\n"),
                                    std::string("a,b\n\"1,2\n"), std::string("\0\0\0\n\0,\n", 8)}) {
        const std::string line = refusal(text);
        CHECK_THAT(line, ContainsSubstring("bad.csv"));
        CHECK(line.find('\n') == std::string::npos);
    }
    CHECK_THAT(refused([&] { static_cast<void>(read_table_file(folder.path / "none.csv")); }),
               ContainsSubstring("none.csv"));
    fs::remove(folder.path / "bad.csv");
    CHECK_THAT(refused([&] { static_cast<void>(read_tables(folder.path)); }),
               ContainsSubstring("no CSV file"));
    write_file(folder.path / "b.csv", "x,y\n1,2\n");
    write_file(folder.path / "a.csv", "x,y\n1,2\n");
    const auto tables = read_tables(folder.path);
    REQUIRE(tables.size() == 2);
    CHECK(tables[0]->path.filename() == "a.csv");
    CHECK_FALSE(shown_plot(*file_of(folder, "name,value\na,1\n"), {})); // one column of numbers
    CHECK_FALSE(shown_plot(*file_of(folder, "a,b\n"), {}));             // no row
}

TEST_CASE("rows are sorted by number or by text, and what is empty comes last", "[ui][tables]") {
    std::mt19937_64 random(seed(0x50B7));
    DataTable table{{"n", "words"}, {}};
    for (int i = 0; i < 200; ++i)
        table.rows.push_back(
            {random() % 9 == 0 ? "" : fmt::format("{}", static_cast<int64_t>(random() % 50) - 25),
             fmt::format("w{}", random() % 7)});
    for (const bool descending : {false, true}) {
        const auto rows = sorted_rows(table, {.hidden = {}, .sorted_by = "n", .descending = descending});
        REQUIRE(rows.size() == table.rows.size());
        for (size_t i = 1; i < rows.size(); ++i) {
            const auto a = cell_number(table.rows[rows[i - 1]][0]), b = cell_number(table.rows[rows[i]][0]);
            if (!a) CHECK_FALSE(b);
            if (a && b) CHECK((descending ? *a >= *b : *a <= *b));
            if (a && b && *a == *b) CHECK(rows[i - 1] < rows[i]);
        }
    }
    CHECK(sorted_rows(table, {.hidden = {}, .sorted_by = "gone", .descending = true})[3] == 3);
}

TEST_CASE("tables of a window: shown, replaced in their place, closed", "[ui][tables]") {
    const Folder folder;
    OpenTables tables;
    CHECK(tables.shown() == nullptr);
    const auto a = file_of(folder, "x,y\n1,2\n", "a.csv"), b = file_of(folder, "x,y\n1,2\n", "b.csv");
    tables.show(a);
    tables.show(b);
    CHECK(tables.shown() == b);
    const auto newer = file_of(folder, "x,y\n1,2\n3,4\n", "a.csv");
    tables.replace(newer);
    CHECK(tables.all()[0] == newer);
    CHECK(tables.shown() == b);
    tables.show(a);
    CHECK(tables.all().size() == 2);
    CHECK(tables.shown() == a);
    tables.close(0);
    CHECK(tables.shown() == b);
    tables.replace(a); // closed meanwhile
    CHECK(tables.all().size() == 1);
    tables.close(0);
    CHECK(tables.shown() == nullptr);
}

} // namespace file_table_test
