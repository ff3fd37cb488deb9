// The benchmark on models of a few kilobytes: all parts are there, counts and formulas are right. What it measures is not judged.
#include "engine/base/error.h"
#include "engine/bench/measure/bench.h"
#include "engine/bench/measure/machine.h"
#include "engine/bench/measure/read_bandwidth.h"
#include "engine/bench/measure/timed_run.h"
#include "engine/model/llama_model.h"
#include "engine/session/pair/run_text.h"
#include "tests/engine/session/tiny_pair.h"

#include <catch2/catch_approx.hpp>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <nlohmann/json.hpp>

#include <filesystem>
#include <fstream>

using namespace refreshlab;
using namespace refreshlab::bench;
using namespace refreshlab::test;
using Catch::Approx;
using Catch::Matchers::ContainsSubstring;

namespace {

namespace fs = std::filesystem;

BenchOptions tiny_options() {
    BenchOptions options = BenchOptions::quick();
    options.scratch = fs::path(RL_BUILD_DIR) / "bench-test";
    fs::create_directories(options.scratch);
    options.prompts = {8, 16};
    options.contexts = {8, 9999}; // cut to the context
    options.tokens = 12;
    options.block = 2;
    options.deltas = {1, 3};
    options.refresh_every = 4;
    return options;
}

nlohmann::json report_of(const RunConfig& config, const BenchOptions& options) {
    const auto pair = tiny_pair(1, 2);
    return to_json(run_bench(pair, config, make_execution(config), options), nullptr);
}

} // namespace

TEST_CASE("bytes per token are the formula's", "[bench]") {
    const TinyShape shape; // 24 x 40, 2 layers, 4 heads, 2 KV heads, head_dim 6, vocab 4096, head of its own
    const auto model = tiny_model(3, shape);
    // The widths 24 and 40 are no multiples of 16 and are held as 32 and 64.
    const int64_t q = 24 * 32, k = 12 * 32, v = k, o = 32 * 24, mlp = 3 * 64 * 32, head = 4096 * 32;
    const BytesPerToken bytes = bytes_per_token(*model);
    CHECK(bytes.weights == 4 * (2 * (q + k + v + o + mlp) + head));
    CHECK(bytes.refresh == 4 * (2 * (k + v) + q + o + mlp)); // the last layer's K and V alone, no head
    CHECK(bytes.kv == 2 * 2 * 2 * 6 * 4);
    CHECK(bytes.step(100) == Approx(static_cast<double>(bytes.weights + 100 * bytes.kv)));
    CHECK(floor_ms(5e6, 10) == Approx(0.5)); // 5 MB at 10 GB/s
}

TEST_CASE("the report has every part, and its counts are those that were asked for", "[bench]") {
    RunConfig config = tiny_run();
    config.mode = Mode::overfill;
    const BenchOptions options = tiny_options();
    const nlohmann::json report = report_of(config, options);
    for (const char* key :
         {"cpu", "system", "cores", "clock_mhz", "memory_bytes", "load_before", "load_after"})
        CHECK(report["machine"].contains(key));
    for (const char* key :
         {"date", "commit", "versions", "device", "dtype", "kernels", "mode", "threads", "quick"})
        CHECK(report["setup"].contains(key));
    CHECK(report["setup"]["dtype"] == "f32");
    CHECK(report["setup"]["versions"].contains("libtorch"));

    REQUIRE(report["models"].size() == 2);
    CHECK(report["models"][0]["role"] == "teacher");
    const int64_t weights = report["models"][1]["weight_bytes_per_token"].get<int64_t>(),
                  kv = report["models"][1]["kv_bytes_per_cached_token"].get<int64_t>();
    CHECK(kv == 192);
    CHECK(report["models"][1]["read_gb_per_s"]["median"].get<double>() > 0);

    CHECK(report["first_token"].size() == 3 * 2); // modes, lengths
    for (const auto& f : report["first_token"])
        CHECK(f["ms"]["count"] == options.rounds);

    REQUIRE(report["decode"].size() == 2 * 2); // models, contexts
    for (const auto& d : report["decode"]) {
        CHECK(d["tokens"] == 12);
        CHECK(d["tokens_per_second"]["count"] == options.rounds);
        CHECK(d["step_ms"]["count"] == options.rounds * 11);
    }
    CHECK(report["decode"][1]["prompt_tokens"] == 512 - 12);
    const auto& d = report["decode"][2]; // the student after 8 tokens: 11 steps read 9 .. 19 columns
    CHECK(d["mode"] == "student");
    const double bandwidth = d["read_gb_per_s"]["median"].get<double>();
    CHECK(bandwidth > 0);
    const double floor = static_cast<double>(weights + kv * 14) / bandwidth * 1e-6;
    CHECK(d["floor_ms"].get<double>() == Approx(floor));
    CHECK(d["share_of_floor"].get<double>() ==
          Approx(floor / 1000 * d["tokens_per_second"]["median"].get<double>()));

    const auto& run = report["refreshed_run"]; // refreshes at 4 and 8 of 11 steps, two rounds
    CHECK(run["refreshes"] == 4);
    CHECK(run["refresh_ms"]["count"] == 4);
    CHECK(run["plain_ms"]["count"] == 18);
    CHECK(run["all_ms"]["count"] == 22);

    REQUIRE(report["probes"].size() == 2 * 8);
    for (const auto& p : report["probes"]) {
        CHECK(p["pairs"] == options.pairs);
        CHECK(p["ratio"]["count"] == options.pairs);
    }
    CHECK(report["probes"][0]["name"] == "statistics");
    CHECK(report["noise"]["pairs"] == options.pairs);

    REQUIRE(report["refresh"].size() == 2);
    CHECK(report["refresh"][1]["delta"] == 3);
    for (const auto& r : report["refresh"]) {
        CHECK(r["added_ms"]["count"] == options.rounds);
        CHECK(r["teacher_ms"]["median"].get<double>() > 0);
        CHECK(r["floor_ms"].get<double>() > 0);
    }
    CHECK(report["start_up"].is_null()); // the program's part
    CHECK(report["ui_frames"].is_null());
    CHECK(report["notes"].empty());
}

TEST_CASE("one model alone leaves out what needs two, and says so", "[bench]") {
    RunConfig config = tiny_run();
    config.mode = Mode::student;
    BenchOptions options = tiny_options();
    options.sections = {"decode", "refreshed_run", "refresh"};
    const nlohmann::json report = report_of(config, options);
    CHECK(report["models"].empty());
    CHECK(report["decode"].size() == 2);
    CHECK(report["decode"][0]["floor_ms"] == 0); // no bandwidth was measured
    CHECK(report["refreshed_run"].is_null());
    CHECK(report["refresh"].empty());
    CHECK(report["notes"].size() == 2);
}

TEST_CASE("what cache policies cost is measured where it is asked for", "[bench]") {
    RunConfig config = tiny_run();
    config.mode = Mode::student;
    BenchOptions options = tiny_options();
    options.sections = {"cache_policies"};
    options.policy_entries = {32};
    options.policy_steps = 1;
    options.policy_seconds = 0.01;
    const BenchReport report = run_bench(tiny_pair(1, 2), config, make_execution(config), options);
    CHECK(report.decode.empty());
    const nlohmann::json found = to_json(report, {})["cache_policies"];
    REQUIRE(found.size() >= 17);
    CHECK(found[0]["policy"] == "full");
    // Two layers of 8 KV heads of 64 in fp32; the prompt, and what was decoded behind it.
    CHECK(found[0]["entries_held"].get<double>() > 32);
    CHECK(found[0]["cache_bytes"].get<double>() ==
          found[0]["entries_held"].get<double>() * 2 * 2 * 8 * 64 * 4);
    CHECK_THAT(bench_table(report, {}),
               ContainsSubstring("cache policy") && ContainsSubstring("streaming_llm"));

    options.policies = {"h2o"};
    const BenchReport one = run_bench(tiny_pair(1, 2), config, make_execution(config), options);
    REQUIRE(one.cache_policies.size() == 1);
    CHECK(one.cache_policies[0].policy == "h2o");
}

TEST_CASE("the table names what was measured", "[bench]") {
    RunConfig config = tiny_run();
    config.mode = Mode::overfill;
    BenchOptions options = tiny_options();
    options.sections = {"bandwidth", "decode", "refresh"};
    const BenchReport report = run_bench(tiny_pair(1, 2), config, make_execution(config), options);
    const nlohmann::json frames = {
        {{"layout", "Explore"}, {"steps", 100}, {"ms_median", 2.25}, {"ms_p99", 3}}};
    const std::string table = bench_table(report, frames);
    CHECK_THAT(table, ContainsSubstring("tokens/s") && ContainsSubstring("share") &&
                          ContainsSubstring("tiny-teacher") && ContainsSubstring("refresh, delta") &&
                          ContainsSubstring("Explore") && ContainsSubstring("2.25"));
    CHECK_THAT(table, !ContainsSubstring("probe"));
}

TEST_CASE("a decode for comparisons has the ids of a run", "[bench]") {
    const auto pair = tiny_pair(1, 2);
    RunConfig config = tiny_run(10);
    config.mode = Mode::student;
    const std::vector<int32_t> prompt = bench_prompt(6, 4096);
    const PlainDecode decode = decode_only(pair, config, make_execution(config), prompt, 10, 3, 1);
    CHECK(decode.ids.size() == 10);
    CHECK(decode.tokens_per_second.size() == 3);
    CHECK(decode.first_token_ms.size() == 3);
    RunConfig run = config;
    run.prompt = "ids";
    RunText text;
    text.prompt.ids = prompt;
    DecodeSession session(pair, run, {}, &text);
    while (session.step()) {
    }
    CHECK(session.recording()->token_ids() == decode.ids);

    const auto refused = [&](const std::vector<int32_t>& ids, int64_t tokens) {
        return decode_only(pair, config, make_execution(config), ids, tokens, 1, 0);
    };
    CHECK_THROWS_AS(refused({}, 4), Error);
    CHECK_THROWS_AS(refused({4096}, 4), Error);
    CHECK_THROWS_AS(refused({-1}, 4), Error);
    CHECK_THROWS_AS(refused({1}, 512), Error); // the context is 512
}

TEST_CASE("numbers of a benchmark that make no sense are refused by name", "[bench]") {
    const auto problem = [](const auto& change) {
        BenchOptions options = tiny_options();
        change(options);
        try {
            check_bench_options(options);
        } catch (const Error& e) {
            return std::string(e.what());
        }
        return std::string("accepted");
    };
    CHECK_THAT(problem([](BenchOptions& o) { o.sections = {"decoed"}; }),
               ContainsSubstring("'decoed' is none of bandwidth, first_token, decode"));
    CHECK_THAT(problem([](BenchOptions& o) { o.pairs = 4; }), ContainsSubstring("--pairs"));
    CHECK_THAT(problem([](BenchOptions& o) { o.tokens = 1; }), ContainsSubstring("--tokens"));
    CHECK_THAT(problem([](BenchOptions& o) { o.rounds = 0; }), ContainsSubstring("--rounds"));
    CHECK_THAT(problem([](BenchOptions& o) { o.deltas = {8, 0}; }), ContainsSubstring("at least 1"));
    CHECK_THAT(problem([](BenchOptions& o) { o.scratch = "/no/such/folder"; }),
               ContainsSubstring("/no/such"));
    CHECK(problem([](BenchOptions&) {}) == "accepted");
}

TEST_CASE("a benchmark can be cancelled before each piece", "[bench]") {
    RunConfig config = tiny_run();
    config.mode = Mode::student;
    int told = 0;
    CHECK_THROWS_AS(run_bench(tiny_pair(1, 2), config, make_execution(config), tiny_options(),
                              [&](const std::string&) { return ++told < 2; }),
                    Error);
    CHECK(told == 2);
}

TEST_CASE("a machine is what its files say", "[bench]") {
    const fs::path root = fs::path(RL_BUILD_DIR) / "bench-machine";
    fs::create_directories(root / "proc/self");
    std::ofstream(root / "proc/cpuinfo")
        << "processor\t: 0\nmodel name\t: A CPU @ 2 GHz\ncpu MHz\t\t: 2100.5\n";
    std::ofstream(root / "proc/meminfo") << "MemTotal:       1000 kB\n";
    std::ofstream(root / "proc/loadavg") << "1.25 0.5 0.1 1/100 7\n";
    std::ofstream(root / "proc/self/status") << "Name:\tx\nVmHWM:\t    64 kB\n";
    const Machine machine = this_machine(root);
    CHECK(machine.cpu == "A CPU @ 2 GHz");
    CHECK(machine.clock_mhz == Approx(2100.5));
    CHECK(machine.memory == 1000 * 1024);
    CHECK(machine.load_before == Approx(1.25));
    CHECK(machine.cores >= 1);
    CHECK(peak_memory(root) == 64 * 1024);
    CHECK(this_machine(root / "none").memory == 0);
}

TEST_CASE("a bandwidth is measured at any size", "[bench]") {
    RunConfig config;
    config.threads = 2;
    for (const int64_t bytes : {int64_t{1}, int64_t{70'000}, int64_t{300'000}}) {
        const Spread rate = spread_of(ReadBuffer(make_execution(config), at::kCPU, bytes).rates(3));
        CHECK(rate.count == 3);
        CHECK(rate.min > 0);
    }
}
