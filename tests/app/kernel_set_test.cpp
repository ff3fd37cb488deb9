// The kernel set as a shell sees it: chosen, said, minded by replays and merges.
#include "engine/base/json_file.h"
#include "engine/record/trace/sqlite.h"
#include "kernels/execution/isa.h"
#include "tests/app/program.h"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <nlohmann/json.hpp>

#include <algorithm>

namespace kernel_set_test {

using namespace refreshlab;
using namespace refreshlab::test;
using Catch::Matchers::ContainsSubstring;

namespace {

const std::string widest(kernels::to_string(kernels::widest_isa()));

std::vector<std::string> short_run(const std::vector<std::string>& more) {
    std::vector<std::string> arguments{"run",          "--prompt", "Write a chronicle of 6 companies.",
                                       "--max-tokens", "60",       "--policy",
                                       "kl",           "--set",    "kl.every=8",
                                       "--device",     "cpu"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return arguments;
}

/// Makes a trace one of a processor whose kernels are not known here.
void pretend_foreign(const std::string& trace) {
    sqlite::Database(trace, sqlite::Open::read_write)
        .exec("UPDATE runs SET info = json_set(info, '$.kernel_set', 'neon')");
}

void same_but_for_rounding(const std::string& trace) {
    const Outcome replay = refreshlab_cli({"run", "--replay", trace});
    CAPTURE(replay.err);
    CHECK(replay.status == 0);
    CHECK_THAT(replay.err, ContainsSubstring("within 0.001 (60 steps)") && ContainsSubstring("neon") &&
                               ContainsSubstring("replayed with " + widest));
}

} // namespace

TEST_CASE("a run takes the kernels it is told to, says so and is replayed with them", "[cli]") {
    const Scratch scratch("kernels");
    for (const kernels::Isa isa : kernels::available_isas()) {
        const std::string name(kernels::to_string(isa)), trace = scratch / (name + ".rlt"),
                                                         file = scratch / (name + ".json");
        CAPTURE(name);
        std::vector<std::string> options{"--set", "kernels=" + name, "--record", trace, "--summary", file};
        // libtorch divides its work among threads as it likes; in one thread it always rounds the same.
        if (isa == kernels::Isa::reference) options.insert(options.end(), {"--threads", "1"});
        REQUIRE(refreshlab_cli(short_run(options)).status == 0);
        CHECK(read_json_file(file)["kernel_set"] == name);
        const Outcome replay = refreshlab_cli({"run", "--replay", trace, "--summary", file});
        CHECK(replay.status == 0);
        CHECK_THAT(replay.err, ContainsSubstring("identical to"));
        CHECK(read_json_file(file)["kernel_set"] == name);
    }
    const Outcome plain = refreshlab_cli(short_run({"--summary", scratch / "auto.json"}));
    CHECK(plain.status == 0);
    CHECK(read_json_file(scratch / "auto.json")["kernel_set"] == widest);
    CHECK_THAT(plain.err, ContainsSubstring("kernels") && ContainsSubstring(widest));
    const Outcome unknown = refreshlab_cli(short_run({"--set", "kernels=sse4"}));
    CHECK(unknown.status == 2);
    CHECK_THAT(unknown.err, ContainsSubstring("auto, portable, avx2, avx512, reference"));
    CHECK(std::count(unknown.err.begin(), unknown.err.end(), '\n') == 1);
    CHECK_THAT(refreshlab_cli({"doctor"}).out,
               ContainsSubstring("kernels: " + widest + " (of reference, portable"));
}

TEST_CASE("a trace of kernels that this processor lacks replays within a tolerance", "[cli]") {
    if (kernels::widest_isa() == kernels::Isa::portable) SKIP("this processor has portable kernels only");
    const Scratch scratch("foreign-kernels");
    const std::string trace = scratch / "r.rlt";
    REQUIRE(refreshlab_cli(short_run({"--set", "kernels=portable", "--record", trace})).status == 0);
    pretend_foreign(trace);
    same_but_for_rounding(trace);
    const Outcome score = refreshlab_cli({"score", trace});
    CHECK(score.status == 0);
    CHECK_THAT(score.err, ContainsSubstring("neon") && ContainsSubstring("rounds differently"));
    // What is more than rounding is a failure, as ever.
    sqlite::Database(trace, sqlite::Open::read_write)
        .exec("UPDATE signals SET value = value + 0.5 WHERE step = 20 AND signal = 'entropy_bits'");
    const Outcome changed = refreshlab_cli({"run", "--replay", trace});
    CHECK(changed.status == 1);
    CHECK_THAT(changed.err, ContainsSubstring("by more than 0.001") && ContainsSubstring("entropy_bits"));
}

TEST_CASE("a trace of another version replays within rounding, and exactly only when every bit is equal",
          "[cli]") {
    const Scratch scratch("other-version");
    const std::string trace = scratch / "r.rlt";
    REQUIRE(refreshlab_cli(short_run({"--record", trace})).status == 0);
    CHECK(refreshlab_cli({"run", "--replay", trace, "--exact"}).status == 0);
    const auto change = [&](const char* sql) { sqlite::Database(trace, sqlite::Open::read_write).exec(sql); };
    change("UPDATE signals SET value = value + 1e-5 WHERE step = 20 AND signal = 'entropy_bits'");
    CHECK(refreshlab_cli({"run", "--replay", trace}).status == 1); // of this very program: no rounding
    change("UPDATE runs SET info = json_set(info, '$.versions', json('[[\"refreshlab\",\"0.0.9\"]]'))");
    const Outcome replay = refreshlab_cli({"run", "--replay", trace});
    CAPTURE(replay.err);
    CHECK(replay.status == 0);
    CHECK_THAT(replay.err, ContainsSubstring("refreshlab 0.0.9, unknown commit") &&
                               ContainsSubstring("than this one (refreshlab") &&
                               ContainsSubstring("largest difference") && ContainsSubstring("entropy_bits"));
    CHECK(refreshlab_cli({"run", "--replay", trace, "--exact"}).status == 1);
    CHECK(refreshlab_cli({"run", "--prompt", "x", "--exact"}).status == 2);
}

TEST_CASE("shards of kernels that round differently join only when asked to", "[cli][sweep]") {
    const Scratch scratch("kernel-shards");
    nlohmann::json spec{{"name", "grid"},
                        {"base", {{"device", "cpu"}}},
                        {"max_tokens", 8},
                        {"modes", "student"},
                        {"prompts", {"Hello.", "A fox."}}};
    const auto shard = [&](const char* kernels, const char* part, const char* file) {
        spec["base"]["kernels"] = kernels;
        const std::string name = scratch / (std::string(kernels) + ".json");
        write_file(name, spec.dump());
        return refreshlab_cli({"sweep", name, "--out", scratch / file, "--shard", part}).status;
    };
    REQUIRE(shard("portable", "1/2", "1.db") == 0);
    REQUIRE(shard("reference", "2/2", "2.db") == 0);
    const Outcome refused = refreshlab_cli({"merge", scratch / "out.db", scratch / "1.db", scratch / "2.db"});
    CHECK(refused.status == 2);
    CHECK_THAT(refused.err, ContainsSubstring("portable") && ContainsSubstring("reference") &&
                                ContainsSubstring("--mixed-kernels"));
    CHECK(std::count(refused.err.begin(), refused.err.end(), '\n') == 1);
    const Outcome merged =
        refreshlab_cli({"merge", scratch / "out.db", scratch / "1.db", scratch / "2.db", "--mixed-kernels"});
    CAPTURE(merged.err);
    CHECK(merged.status == 0);
    CHECK_THAT(merged.out, ContainsSubstring("kernels portable and reference (they round differently)"));
}

} // namespace kernel_set_test
