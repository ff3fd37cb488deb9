// The same sessions wherever teacher and student sit. Without a GPU the pairs on the CPU alone are compared, which shows that
// the comparison itself is right; scripts/gpu_check.sh runs this suite on a GPU.
#include "engine/cache/kv_cache.h"
#include "engine/session/decode/decode_session.h"
#include "engine/session/driver/replay.h"
#include "kernels/execution/cuda_devices.h"
#include "tests/engine/session/tiny_pair.h"

#include <ATen/ATen.h>
#include <catch2/catch_test_macros.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <cmath>
#include <vector>

namespace device_test {

using namespace refreshlab;
using namespace refreshlab::test;

namespace {

/// Where teacher and student sit.
struct Placement {
    at::Device teacher, student;
    [[nodiscard]] std::string name() const { return teacher.str() + " and " + student.str(); }
};

std::vector<Placement> placements() {
    const at::Device cpu(at::kCPU);
    std::vector<Placement> result = {{cpu, cpu}};
    if (kernels::cuda_devices() == 0) return result;
    const at::Device gpu(at::kCUDA, 0);
    for (const Placement& p : {Placement{gpu, gpu}, Placement{cpu, gpu}, Placement{gpu, cpu}})
        result.push_back(p);
    return result;
}

std::shared_ptr<const ModelPair> pair_on(const Placement& place, bool rebuild = false) {
    TinyShape teacher, student;
    teacher.attention_dropout = student.attention_dropout = 0.1;
    student.hidden = 19; // padded inside
    student.intermediate = 31;
    if (rebuild) student.layers = 3;
    return tiny_pair(50, 51, teacher, student, place.teacher, place.student);
}

/// Teacher-forced, so that rounding cannot send two runs different ways; every trigger fires whenever it may look.
RunConfig reading(const RefreshPolicy& policy) {
    RunConfig config = tiny_run(60);
    config.given_text =
        "One day the old king went to the river with a fox and a hare, and nobody knew why. The cook said: "
        "let them stay until the winter is over, and the tower by the sea is warm again for all of us.";
    config.policy = policy;
    config.mc.samples = 4;
    config.mc.every = 5;
    config.mc.measure = true;
    return config;
}

std::vector<RefreshPolicy> policies() {
    std::vector<RefreshPolicy> list = {RefreshPolicy{}};
    for (const OnFire on_fire : {OnFire::keep, OnFire::teacher_token, OnFire::redraw}) {
        for (const std::optional<int32_t> window : {std::optional<int32_t>{}, std::optional<int32_t>{3}}) {
            list.push_back(
                policy_of({trigger("steps_since_refresh", Comparison::at_least, 9)}, window, on_fire));
            list.push_back(policy_of({trigger("entropy_bits", Comparison::above, 0, 4, 6)}, window, on_fire));
            list.push_back(policy_of({trigger("kl_nats", Comparison::above, 0, 7, 20)}, window, on_fire));
            list.push_back(policy_of({trigger("mc_variance", Comparison::above, 0, 5, 10)}, window, on_fire));
        }
    }
    list.push_back(policy_of({trigger("kl_mean_nats", Comparison::above, 0, 8)}, {}, OnFire::redraw));
    list.back().lag = 3;
    return list;
}

std::shared_ptr<Recording> whole(const std::shared_ptr<const ModelPair>& pair, const RunConfig& config) {
    DecodeSession session(pair, config);
    while (session.step()) {
    }
    session.score();
    return session.recording();
}

bool close(float a, float b) {
    if (is_absent(a) || is_absent(b)) return is_absent(a) && is_absent(b);
    // fp32 on both sides, sums in another order.
    return std::abs(a - b) <= 2e-3F * (1 + std::abs(b));
}

/// What differs beyond rounding, in one line; empty: nothing.
std::string difference(const Recording& a, const Recording& b) {
    if (a.token_ids() != b.token_ids()) return "token ids";
    if (a.steps() != b.steps()) return "steps";
    for (int64_t t = 1; t <= a.steps(); ++t) {
        for (size_t id = 0; id < signals().size(); ++id) {
            if (!close(a.signal(t, id), b.signal(t, id)))
                return fmt::format("step {}, {}: {} and {}", t, signals()[id].name, a.signal(t, id),
                                   b.signal(t, id));
        }
    }
    if (a.passes().size() != b.passes().size()) return "number of teacher passes";
    if (a.refreshes().size() != b.refreshes().size()) return "number of refreshes";
    for (size_t i = 0; i < a.refreshes().size(); ++i) {
        const RefreshEvent &x = a.refreshes()[i], &y = b.refreshes()[i];
        if (x.step != y.step || x.delta != y.delta || x.spliced != y.spliced ||
            x.pass_tokens != y.pass_tokens)
            return fmt::format("refresh {}", i + 1);
        if (!close(x.kl_nats, y.kl_nats) || !close(x.mean_drift, y.mean_drift))
            return fmt::format("KL or drift of refresh {}", i + 1);
    }
    if (a.drifts().size() != b.drifts().size()) return "number of drift maps";
    for (size_t i = 0; i < a.drifts().size(); ++i) {
        for (size_t cell = 0; cell < a.drifts()[i]->k.size(); ++cell) {
            if (!close(a.drifts()[i]->k[cell], b.drifts()[i]->k[cell]) ||
                !close(a.drifts()[i]->v[cell], b.drifts()[i]->v[cell]))
                return fmt::format("drift map {}", i + 1);
        }
    }
    return {};
}

} // namespace

TEST_CASE("a session gives the same numbers on every device, under every policy", "[session][device]") {
    const auto at_home = pair_on({at::kCPU, at::kCPU});
    size_t refreshes = 0;
    for (const Placement& place : placements()) {
        const auto pair = pair_on(place);
        for (const RefreshPolicy& policy : policies()) {
            RunConfig config = reading(policy);
            CAPTURE(place.name(), policy_to_json(policy).dump());
            const auto expected = whole(at_home, config);
            CHECK(difference(*whole(pair, config), *expected) == "");
            config.shadow = true;
            config.threads = 1;
            CHECK(difference(*whole(pair, config), *whole(at_home, config)) == "");
            refreshes += expected->refreshes().size();
        }
        for (const Mode mode : {Mode::teacher, Mode::student}) {
            RunConfig config = reading({});
            config.mode = mode;
            CAPTURE(place.name(), to_string(mode));
            CHECK(difference(*whole(pair, config), *whole(at_home, config)) == "");
        }
    }
    CHECK(refreshes > 100);
}

TEST_CASE("in rebuild mode too", "[session][device]") {
    const auto at_home = pair_on({at::kCPU, at::kCPU}, true);
    for (const Placement& place : placements()) {
        const RunConfig config = reading(
            policy_of({trigger("steps_since_refresh", Comparison::at_least, 9)}, {}, OnFire::teacher_token));
        CAPTURE(place.name());
        CHECK(difference(*whole(pair_on(place, true), config), *whole(at_home, config)) == "");
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
