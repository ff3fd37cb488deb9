// The kernel set is part of what decides a number: chosen, noted, and minded when a run is repeated.
#include "engine/base/error.h"
#include "engine/session/driver/replay.h"
#include "engine/session/driver/run_driver.h"
#include "tests/engine/session/tiny_pair.h"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

namespace kernel_set_test {

using namespace refreshlab;
using namespace refreshlab::test;
using Catch::Matchers::ContainsSubstring;
using kernels::Isa;

namespace {

RunConfig with_kernels(KernelSet kernels, uint64_t seed = 7) {
    RunConfig config = tiny_run(40);
    config.kernels = kernels;
    config.seed = seed;
    config.mc.measure = true;
    config.mc.every = 4;
    config.policy = preset_policy("periodic");
    config.policy.triggers.at(0).threshold = 9;
    return config;
}

std::shared_ptr<Recording> run_of(const std::shared_ptr<const ModelPair>& pair, const RunConfig& config) {
    RunDriver driver({.pair = pair, .config = config});
    driver.run();
    return driver.recording();
}

Execution execution_with(Isa isa) {
    return std::make_shared<const kernels::ExecutionContext>(1, isa);
}

/// The name of a set that rounds otherwise than portable does, or empty on a processor without one.
bool has_other_than_portable() {
    return kernels::bit_class(kernels::widest_isa()) != kernels::bit_class(Isa::portable);
}

std::string refusal(KernelSet wanted, const std::vector<Isa>& available) {
    try {
        static_cast<void>(resolve_kernels(wanted, available));
    } catch (const Error& error) {
        CHECK(error.kind() == ErrorKind::bad_input);
        return error.what();
    }
    return {};
}

} // namespace

TEST_CASE("a wish for kernels is met, or refused by what the processor has", "[session]") {
    const std::vector<Isa> narrow{Isa::reference, Isa::portable, Isa::avx2};
    CHECK(resolve_kernels(KernelSet::automatic, narrow) == Isa::avx2);
    CHECK(resolve_kernels(KernelSet::portable, narrow) == Isa::portable);
    CHECK(resolve_kernels(KernelSet::reference, narrow) == Isa::reference);
    const std::string line = refusal(KernelSet::avx512, narrow);
    CHECK_THAT(line, ContainsSubstring("avx512") && ContainsSubstring("reference, portable, avx2") &&
                         ContainsSubstring("auto"));
    CHECK(line.find('\n') == std::string::npos);
    CHECK_THAT(refusal(KernelSet::avx2, {Isa::reference, Isa::portable}), ContainsSubstring("avx2"));
    CHECK(resolve_kernels(KernelSet::automatic) == kernels::widest_isa());
}

TEST_CASE("a run says which kernels made it", "[session]") {
    const auto pair = tiny_pair(80, 81);
    CHECK(run_of(pair, with_kernels(KernelSet::automatic))->info().kernel_set ==
          kernels::to_string(kernels::widest_isa()));
    CHECK(run_of(pair, with_kernels(KernelSet::portable))->info().kernel_set == "portable");
    CHECK(same_kernel_bits("avx2", "avx512"));
    CHECK_FALSE(same_kernel_bits("avx2", "portable"));
    CHECK_FALSE(same_kernel_bits("portable", "reference"));
    CHECK_FALSE(same_kernel_bits("cuda", "avx512"));
    CHECK(same_kernel_bits("cuda", "cuda"));
    CHECK(same_kernel_bits("", "portable")); // of an old trace nobody knows
}

TEST_CASE("kernel sets of one bit class give the same recording, others another one", "[session]") {
    const auto pair = tiny_pair(82, 83);
    const auto portable = run_of(pair, with_kernels(KernelSet::portable));
    if (kernels::is_available(Isa::avx2) && kernels::is_available(Isa::avx512)) {
        const auto avx2 = run_of(pair, with_kernels(KernelSet::avx2));
        CHECK(first_difference(*avx2, *run_of(pair, with_kernels(KernelSet::avx512))).value_or("") == "");
    }
    if (has_other_than_portable())
        CHECK(first_difference(*portable, *run_of(pair, with_kernels(KernelSet::automatic))));
}

TEST_CASE("a run is repeated with its own kernels where the processor has them", "[session]") {
    const auto pair = tiny_pair(84, 85);
    for (const Isa isa : kernels::available_isas()) {
        INFO(kernels::to_string(isa));
        RunDriver driver(
            {.pair = pair, .config = with_kernels(KernelSet::automatic), .execution = execution_with(isa)});
        driver.run();
        const auto again = replay(*driver.recording(), pair);
        CHECK(again->info().kernel_set == kernels::to_string(isa));
        const ReplayVerdict verdict = judge_replay(*driver.recording(), *again, "it");
        CHECK(verdict.passed);
        // libtorch divides its own work among threads as it likes.
        if (isa != Isa::reference) CHECK(verdict.text == "identical to it (40 steps)");
    }
    RunInfo foreign;
    foreign.kernel_set = "neon";
    CHECK(replay_execution(foreign)->isa() == kernels::widest_isa());
    foreign.kernel_set = "";
    CHECK(replay_execution(foreign)->isa() == kernels::widest_isa());
    foreign.config.kernels = KernelSet::portable;
    CHECK(replay_execution(foreign)->isa() == Isa::portable);
}

TEST_CASE("a replay with kernels that round differently is judged with a tolerance, and says so",
          "[session]") {
    if (!has_other_than_portable()) SKIP("this processor has portable kernels only");
    const auto pair = tiny_pair(86, 87);
    const auto recorded = run_of(pair, with_kernels(KernelSet::portable));
    const auto again = replay(*recorded, pair, execution_with(kernels::widest_isa()));
    REQUIRE(first_difference(*recorded, *again)); // else there is nothing to judge
    const ReplayVerdict verdict = judge_replay(*recorded, *again, "x.rlt");
    INFO(verdict.text);
    CHECK(verdict.passed);
    CHECK_THAT(verdict.text, ContainsSubstring("equal to x.rlt within 0.001 (40 steps)") &&
                                 ContainsSubstring("kernel set portable") &&
                                 ContainsSubstring("replayed with " + again->info().kernel_set) &&
                                 ContainsSubstring("largest difference"));

    // Beyond the tolerance it is a failure still, and of one kernel set every bit counts.
    const auto other = run_of(pair, with_kernels(KernelSet::automatic, 8));
    const ReplayVerdict beyond = judge_replay(*recorded, *other, "x.rlt");
    CHECK_FALSE(beyond.passed);
    CHECK_THAT(beyond.text, ContainsSubstring("differs from x.rlt by more than 0.001: "));
    const ReplayVerdict exact = judge_replay(*again, *other, "x.rlt");
    CHECK_FALSE(exact.passed);
    CHECK_THAT(exact.text, ContainsSubstring("differs from x.rlt: "));
}

TEST_CASE("a trace of another version may differ by rounding, one of this version may not", "[session]") {
    const auto pair = tiny_pair(88, 89);
    const auto made = run_of(pair, with_kernels(KernelSet::portable));
    // The same run as a trace may hold it: by another writer, one number changed.
    const auto altered = [&](double by, const char* commit) {
        RunInfo info = made->info();
        if (*commit != '\0') info.versions.emplace_back("commit", commit);
        info.first_logprob += by;
        return made->fork_as(made->steps(), std::move(info), made->token_table());
    };
    const auto recorded_whole = made->fork(made->steps(), "whole");
    const auto judged = [&](double by, const char* commit, bool exact = false) {
        return judge_replay(*altered(by, commit), *recorded_whole, "x.rlt", exact);
    };
    CHECK(judged(0, "abc1234", true).text == "identical to x.rlt (40 steps)");

    const ReplayVerdict same_version = judged(1e-12, "");
    CHECK_FALSE(same_version.passed);
    CHECK_THAT(same_version.text, ContainsSubstring("differs from x.rlt: "));

    const ReplayVerdict older = judged(1e-12, "abc1234");
    INFO(older.text);
    CHECK(older.passed);
    CHECK_THAT(older.text, ContainsSubstring("equal to x.rlt within 0.001 (40 steps)") &&
                               ContainsSubstring("commit abc1234") && ContainsSubstring("unknown commit") &&
                               ContainsSubstring(", run: logprob of y_1"));
    const ReplayVerdict exact = judged(1e-12, "abc1234", true);
    CHECK_FALSE(exact.passed);
    CHECK_THAT(exact.text, ContainsSubstring("not identical to x.rlt") && ContainsSubstring("abc1234"));

    const ReplayVerdict more = judged(0.5, "abc1234");
    CHECK_FALSE(more.passed);
    CHECK_THAT(more.text, ContainsSubstring("differs from x.rlt by more than 0.001: ") &&
                              ContainsSubstring("commit abc1234"));
}

} // namespace kernel_set_test
