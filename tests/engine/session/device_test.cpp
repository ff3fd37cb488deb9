// The same sessions wherever teacher and student sit. Without a GPU the pairs on the CPU alone are compared, which shows that
// the comparison itself is right; scripts/gpu_check.sh runs this suite on a GPU.
#include "engine/cache/kv_cache.h"
#include "engine/model/forward/cuda_forward.h"
#include "engine/session/decode/decode_session.h"
#include "engine/session/driver/replay.h"
#include "kernels/execution/cuda_devices.h"
#include "tests/engine/session/device_runs.h"
#include "tests/engine/session/tiny_pair.h"

#include <ATen/ATen.h>
#include <catch2/catch_test_macros.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <vector>

namespace device_test {

using namespace refreshlab;
using namespace refreshlab::test;

namespace {

/// Where teacher and student sit. Heads of 16 channels have kernels on a GPU, those of 6 go through plain ATen there.
struct Placement {
    at::Device teacher, student;
    int64_t head_dim = 16;
    [[nodiscard]] std::string name() const {
        return fmt::format("{} and {}, heads of {}", teacher.str(), student.str(), head_dim);
    }
};

std::vector<Placement> placements() {
    const at::Device cpu(at::kCPU);
    std::vector<Placement> result = {{cpu, cpu}};
    if (kernels::cuda_devices() == 0) return result;
    const at::Device gpu(at::kCUDA, 0);
    for (const Placement& p :
         {Placement{gpu, gpu}, Placement{cpu, gpu}, Placement{gpu, cpu}, Placement{gpu, gpu, 6}})
        result.push_back(p);
    return result;
}

std::shared_ptr<const ModelPair> pair_on(const Placement& place, bool rebuild = false) {
    TinyShape teacher, student;
    teacher.head_dim = student.head_dim = place.head_dim;
    teacher.attention_dropout = student.attention_dropout = 0.1;
    student.hidden = 19; // padded inside
    student.intermediate = 31;
    if (rebuild) student.layers = 3;
    auto pair = tiny_pair(50, 51, teacher, student, place.teacher, place.student);
    for (const LlamaModel* model :
         {pair->teacher.get(), pair->student.get()}) // on a GPU: the way that is meant
        if (const auto* const forward = dynamic_cast<const CudaForward*>(&model->forward()))
            REQUIRE(forward->has_kernels() == (place.head_dim == 16));
    return pair;
}

/// The same models on the CPU.
Placement at_home(const Placement& place) {
    return {at::kCPU, at::kCPU, place.head_dim};
}

} // namespace

TEST_CASE("a session gives the same numbers on every device, under every policy", "[session][device]") {
    size_t refreshes = 0;
    for (const Placement& place : placements()) {
        const auto pair = pair_on(place), home = pair_on(at_home(place));
        for (const RefreshPolicy& policy : reading_policies()) {
            RunConfig config = reading(policy);
            CAPTURE(place.name(), policy_to_json(policy).dump());
            const auto expected = whole_run(home, config);
            CHECK(difference(*whole_run(pair, config), *expected) == "");
            config.shadow = true;
            config.threads = 1;
            CHECK(difference(*whole_run(pair, config), *whole_run(home, config)) == "");
            refreshes += expected->refreshes().size();
        }
        for (const Mode mode : {Mode::teacher, Mode::student}) {
            RunConfig config = reading({});
            config.mode = mode;
            CAPTURE(place.name(), to_string(mode));
            CHECK(difference(*whole_run(pair, config), *whole_run(home, config)) == "");
        }
    }
    CHECK(refreshes > 100);
}

TEST_CASE("in rebuild mode too", "[session][device]") {
    for (const Placement& place : placements()) {
        const auto home = pair_on(at_home(place), true);
        const RunConfig config = reading(
            policy_of({trigger("steps_since_refresh", Comparison::at_least, 9)}, {}, OnFire::teacher_token));
        CAPTURE(place.name());
        CHECK(difference(*whole_run(pair_on(place, true), config), *whole_run(home, config)) == "");
    }
}

TEST_CASE("a splice copies the teacher's columns bit for bit, from one device to another",
          "[session][device]") {
    for (const Placement& place : placements()) {
        CAPTURE(place.name());
        DecodeSession session(pair_on(place),
                              reading(policy_of({trigger("steps_since_refresh", Comparison::at_least, 9)})));
        for (int i = 0; i < 27; ++i)
            session.step();
        const KvCache &s = *session.student_cache(), &t = *session.teacher_cache();
        REQUIRE(session.recording()->refreshes().size() == 3);
        CHECK(s.length() == t.length());
        CHECK(s.device() == place.student);
        CHECK(t.device() == place.teacher);
        CHECK(at::equal(s.keys(0, s.length()).cpu(), t.keys(0, t.length()).cpu()));
        CHECK(at::equal(s.values(0, s.length()).cpu(), t.values(0, t.length()).cpu()));
    }
}

TEST_CASE("rewinding, replaying and probing change no bit of a run, wherever it runs", "[session][device]") {
    for (const Placement& place : placements()) {
        const auto pair = pair_on(place);
        RunConfig config = tiny_run(48); // drawn, not given: bits decide which tokens come
        config.sampler.temperature = 0.9;
        config.policy =
            policy_of({trigger("steps_since_refresh", Comparison::at_least, 7)}, 4, OnFire::redraw);
        CAPTURE(place.name());
        DecodeSession session(pair, config);
        while (session.step()) {
        }
        session.score();
        const auto first = session.recording();
        session.rewind(17);
        while (session.step()) {
        }
        session.score();
        CHECK(first_difference(*first, *session.recording()).value_or("") == "");
        CHECK(first_difference(*first, *replay(*first, pair)).value_or("") == "");

        // Looking costs no token: dropout rows, KL probes that never fire, attention.
        config.policy = {};
        const std::vector<int32_t> plain = text_of(pair, config);
        config.policy = policy_of({trigger("kl_nats", Comparison::above, 1e5, 6)});
        CHECK(text_of(pair, config) == plain);
        config.mc = {.measure = true, .samples = 4, .p = 0.2, .every = 1};
        CHECK(text_of(pair, config) == plain);
        config.capture.attention = false;
        CHECK(text_of(pair, config) == plain);
    }
}

} // namespace device_test
