#include "engine/session/decode/decode_session.h"
#include "engine/session/driver/replay.h"
#include "kernels/shared/device_failure.h"
#include "kernels/simt/harness.h"
#include "tests/engine/gpu/simt_decoder.h"
#include "tests/engine/session/device_runs.h"
#include "tests/engine/session/tiny_pair.h"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <string>

/// A device that fails in the middle of a run (the host machine, with a fault planted): the run ends, its recording stays, and what comes
/// after it is as if nothing had been.
namespace refreshlab::test::device_fault_cases {
namespace {

using Call = simt::PlantedFault::Call;
using Catch::Matchers::ContainsSubstring;

/// Takes the fault away whatever happens.
class Planted {
public:
    explicit Planted(const simt::PlantedFault& fault) { (void)simt::plant_fault(fault); }
    ~Planted() { (void)simt::plant_fault(std::nullopt); }
    Planted(const Planted&) = delete;
    Planted& operator=(const Planted&) = delete;
    [[nodiscard]] bool take_away() const { return simt::plant_fault(std::nullopt); }
};

std::shared_ptr<const ModelPair> device_pair() {
    TinyShape shape;
    shape.head_dim = 16;
    auto pair = tiny_pair(50, 51, shape, shape);
    decode_on_host_machine(const_cast<LlamaModel&>(*pair->teacher)); // nobody shares them yet
    decode_on_host_machine(const_cast<LlamaModel&>(*pair->student));
    return pair;
}

/// Drawn, so that bits decide which tokens come; a refresh at every third token.
RunConfig refreshed_run() {
    RunConfig config = tiny_run(9);
    config.sampler.temperature = 0.9;
    config.policy = policy_of({trigger("steps_since_refresh", Comparison::at_least, 3)});
    return config;
}

/// What a run said when the device failed; empty: it did not. Its recording must be readable as far as it went.
std::string failure_of(const std::shared_ptr<const ModelPair>& pair, const Recording& whole) {
    std::shared_ptr<const Recording> recording;
    try {
        DecodeSession session(pair, refreshed_run());
        recording = session.recording();
        while (session.step()) {
        }
        return {};
    } catch (const kernels::DeviceFailure& e) {
        if (recording) {
            CHECK(recording->steps() < whole.steps());
            for (int64_t t = 1; t <= recording->steps(); ++t)
                CHECK(recording->token(t) == whole.token(t));
        }
        return e.what();
    }
}

TEST_CASE("a launch that fails ends the run, keeps its recording, and the next run is whole",
          "[gpu][fault]") {
    const auto pair = device_pair();
    const auto whole = whole_run(pair, refreshed_run());
    int faults = 0;
    for (const bool late : {false, true}) {
        // From the prefill's launches through steps and splices, past the last one.
        for (int64_t after = 0;; after += 13) {
            CAPTURE(late, after);
            const Planted planted({Call::launch, after, late, false});
            const std::string said = failure_of(pair, *whole);
            const bool came = planted.take_away();
            if (!came) {
                CHECK(said.empty());
                break;
            }
            ++faults;
            // A late failure of a launch that nobody asks about again is seen by whoever asks next.
            REQUIRE_THAT(said,
                         ContainsSubstring("CUDA: ") && ContainsSubstring("unspecified launch failure"));
            CHECK(said.find('\n') == std::string::npos);
        }
        CHECK(first_difference(*whole_run(pair, refreshed_run()), *whole).value_or("") == "");
    }
    CHECK(faults > 4);
}

TEST_CASE("device memory that runs out ends the run, and the next one finds it again", "[gpu][fault]") {
    const auto whole = whole_run(device_pair(), refreshed_run());
    int faults = 0;
    for (int64_t after = 0;; after += 6) {
        const auto pair = device_pair(); // all is taken anew
        CAPTURE(after);
        const Planted planted({Call::allocation, after, false, false});
        const std::string said = failure_of(pair, *whole);
        if (!planted.take_away()) break;
        ++faults;
        REQUIRE_THAT(said, ContainsSubstring("memory: out of memory"));
        if (after % 18 == 0)
            CHECK(first_difference(*whole_run(pair, refreshed_run()), *whole).value_or("") == "");
    }
    CHECK(faults > 4);
}

TEST_CASE("a device that is dead refuses the next run in words, and runs elsewhere go on", "[gpu][fault]") {
    const auto pair = device_pair();
    const auto whole = whole_run(pair, refreshed_run());
    const auto elsewhere = tiny_pair(50, 51);
    const Planted planted({Call::launch, 30, false, true});
    for (int start = 0; start < 2; ++start)
        REQUIRE_THAT(failure_of(pair, *whole), ContainsSubstring("unspecified launch failure"));
    CHECK(whole_run(elsewhere, refreshed_run())->steps() == 9);
    REQUIRE(planted.take_away());
    CHECK(first_difference(*whole_run(pair, refreshed_run()), *whole).value_or("") == "");
}

} // namespace
} // namespace refreshlab::test::device_fault_cases
