// Verification under every cache policy of the registry, in traces and branches; what it refuses and where drafts end.
#include "engine/base/error.h"
#include "engine/record/runs/rebuild.h"
#include "engine/record/trace/trace_store.h"
#include "engine/session/decode/decode_session.h"
#include "engine/session/driver/replay.h"
#include "engine/session/driver/run_driver.h"
#include "engine/session/pair/run_text.h"
#include "tests/engine/session/tiny_pair.h"
#include "tests/support/share.h"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <nlohmann/json.hpp>

#include <filesystem>
#include <string>
#include <vector>

namespace verify_caches_test {

using namespace refreshlab;
using namespace refreshlab::test;
using Catch::Matchers::ContainsSubstring;

namespace {

constexpr TinyShape shape{.layers = 3, .end_id = 4095, .vocab = 8};

const std::shared_ptr<const ModelPair>& pair_of_two() {
    static const auto pair = tiny_pair(11, 12, shape, shape);
    return pair;
}

const RunText& prompt() {
    static const RunText text = [] {
        RunText made;
        for (int32_t i = 0; i < 30; ++i)
            made.prompt.ids.push_back((i * i + 3 * i) % 7);
        return made;
    }();
    return text;
}

RefreshPolicy every(int32_t g) {
    return policy_of({trigger("steps_since_refresh", Comparison::at_least, g)}, {}, OnFire::verify);
}

/// With budgets that let the method act within a short run.
CachePolicyConfig small(std::string_view name) {
    CachePolicyConfig policy = cache_policy_defaults(name, "a test");
    for (const auto& [key, value] : {std::pair{"budget", 12.0},
                                     {"partial", 12.0},
                                     {"window", 4.0},
                                     {"page", 4.0},
                                     {"dense_layers", 1.0},
                                     {"interval", 8.0},
                                     {"check_every", 3.0},
                                     {"spread", 4.0},
                                     {"residual", 32.0}})
        if (const auto found = policy.values.find(key); found != policy.values.end()) found->second = value;
    return policy;
}

RunConfig run_of(const RefreshPolicy& policy, double temperature, std::string_view method) {
    RunConfig config = tiny_run(28);
    config.policy = policy;
    config.sampler.temperature = temperature;
    config.student_cache = small(method);
    return config;
}

/// Methods that act on what the student decodes, whatever the text.
std::vector<std::string> methods() {
    std::vector<std::string> names;
    for (const CacheMethod& method : cache_methods()) {
        if (method.given_text) continue;
        try {
            DecodeSession session(pair_of_two(), run_of({}, 0, method.name), {}, &prompt());
            names.emplace_back(method.name);
        } catch (const Error&) { // puts a band over the prompt, which the teacher reads here
        }
    }
    return names;
}

void finish(DecodeSession& session) {
    while (session.step()) {
    }
    session.score();
}

std::shared_ptr<Recording> run(const RunConfig& config) {
    DecodeSession session(pair_of_two(), config, {}, &prompt());
    finish(session);
    return session.recording();
}

} // namespace

TEST_CASE("greedy and verified, the text is the teacher's under every cache policy of the student",
          "[verify]") {
    RunConfig teacher = run_of({}, 0, "full");
    teacher.mode = Mode::teacher;
    const std::vector<int32_t> wanted = run(teacher)->token_ids();
    const auto all = methods();
    CHECK(all.size() >= 12);
    for (const std::string& method : all)
        for (const int32_t g : {3, 7})
            for (const bool splice : {true, false}) {
                RunConfig config = run_of(every(g), 0, method);
                config.policy.verify.splice = splice;
                CAPTURE(method, g, splice);
                const auto recording = run(config);
                CHECK(recording->token_ids() == wanted);
                CHECK(recording->drafts().size() > 3);
            }
}

TEST_CASE("verified runs replay and rewind bit for bit under every cache policy", "[verify]") {
    Share share("cache policies of verified runs");
    size_t cuts = 0;
    for (const std::string& method : methods()) {
        if (!share.takes()) continue;
        CAPTURE(method);
        const RunConfig config = run_of(every(5), 1.0, method);
        DecodeSession session(pair_of_two(), config, {}, &prompt());
        finish(session);
        const auto whole = session.recording();
        for (size_t i = 0; i < whole->drafts().size(); ++i)
            cuts += whole->drafts()[i].instead >= 0 ? 1 : 0;
        CHECK(first_difference(*whole, *replay(*whole, pair_of_two())).value_or("") == "");
        for (const int64_t k : {int64_t{19}, int64_t{11}, int64_t{4}, int64_t{0}}) {
            session.rewind(k);
            finish(session);
            CAPTURE(k);
            CHECK(session.recording()->token_ids() == whole->token_ids());
            const auto entropy = require_signal("entropy_bits", "a test");
            for (int64_t t = 1; t < whole->steps(); ++t)
                REQUIRE(session.recording()->signal(t, entropy) == whole->signal(t, entropy));
        }
        CHECK(first_difference(*session.recording(), *replay(*session.recording(), pair_of_two()))
                  .value_or("") == "");
    }
    CHECK(cuts > 0);
}

TEST_CASE("a verified run is in its trace with its drafts, and a branch of it too", "[verify]") {
    const auto folder = std::filesystem::temp_directory_path() / "refreshlab_verify_caches_test";
    std::filesystem::create_directories(folder);
    const auto file = folder / "run.rlt";
    std::filesystem::remove(file);
    std::vector<std::shared_ptr<Recording>> recorded;
    {
        const auto trace = TraceStore::create(file);
        RunDriver driver({.pair = pair_of_two(),
                          .config = run_of(every(4), 1.0, "full"),
                          .text = std::make_shared<const RunText>(prompt()),
                          .score = true,
                          .trace = trace.get()});
        driver.run();
        recorded.push_back(driver.recording());
        driver.rewind(13);
        driver.apply(command::SetParameter{"sampler.temperature", "0.5"});
        driver.run();
        recorded.push_back(driver.recording());
        trace->flush();
    }
    const auto loaded = load_trace(file);
    REQUIRE(loaded.size() == 2);
    for (size_t i = 0; i < 2; ++i) {
        CHECK(recorded[i]->drafts().size() > 5);
        CHECK(first_difference(*recorded[i], *loaded[i]).value_or("") == "");
        // From the trace alone the run is made again up to a step within a draft, and goes on.
        const command::RecordedRun asked = rebuild_of(*loaded[i], 9);
        const MadeAgain made = make_again(
            asked, pair_of_two(), [](int64_t) { return true; }, loaded[i].get());
        CHECK(made.difference.value_or("") == "");
        CHECK(made.driver->recording()->steps() == 9);
        made.driver->run();
        if (i == 0) CHECK(made.driver->recording()->token_ids() == recorded[0]->token_ids());
    }
    std::filesystem::remove_all(folder);
}

TEST_CASE("verification is refused where it has nothing to judge by, in one line", "[verify]") {
    const auto refusal = [](const RunConfig& config) {
        try {
            DecodeSession session(pair_of_two(), config, {}, &prompt());
        } catch (const Error& e) {
            const std::string text = e.what();
            CHECK(text.find('\n') == std::string::npos);
            return text;
        }
        return std::string("accepted");
    };
    RunConfig given = run_of(every(4), 0, "full");
    given.given_ids = {1, 2, 3, 4};
    CHECK_THAT(refusal(given), ContainsSubstring("on_fire verify on a given text"));
    given.mode = Mode::student; // policies do nothing there
    CHECK(refusal(given) == "accepted");
    RunConfig lagged = run_of(every(4), 0, "full");
    lagged.policy.lag = 2;
    CHECK_THAT(refusal(lagged), ContainsSubstring("on_fire verify with a lag of 2"));

    DecodeSession session(pair_of_two(), run_of(every(4), 1, "full"), {}, &prompt());
    session.step();
    CHECK_THROWS_AS(session.apply(command::SetParameter{"refresh.lag", "3"}), Error);
    CHECK_THROWS_AS(session.apply(command::SetParameter{"verify.rank", "0"}), Error);
    CHECK_THROWS_AS(session.apply(command::SetParameter{"periodic.every", "0"}), Error);
    CHECK(session.recording()->commands().empty());
    finish(session); // nothing is lost
    CHECK(session.recording()->num_tokens() == 28);
}

TEST_CASE("a budget that is spent within a draft ends no judging", "[verify]") {
    RunConfig config = run_of(every(3), 0, "full");
    RunConfig teacher = config;
    teacher.mode = Mode::teacher;
    config.policy.budget = {.refreshes = 2, .per_tokens = 1000};
    const auto recording = run(config);
    CHECK(recording->token_ids() == run(teacher)->token_ids());
    const auto& refreshes = recording->refreshes();
    size_t automatic = 0;
    for (size_t i = 0; i < refreshes.size(); ++i) {
        automatic += refreshes[i].automatic ? 1 : 0;
        if (!refreshes[i].automatic) CHECK(reason_text(refreshes[i].hits) == "draft_end");
    }
    CHECK(automatic == 2);
    CHECK(refreshes.size() > 2);
}

TEST_CASE("pairs of different geometry verify too, and nothing is spliced", "[verify]") {
    TinyShape narrow = shape;
    narrow.kv_heads = 4;
    const auto pair = tiny_pair(11, 12, shape, narrow);
    REQUIRE(pair->geometry_difference);
    RunConfig config = run_of(every(4), 0, "full");
    DecodeSession session(pair, config, {}, &prompt());
    finish(session);
    CHECK_THAT(session.recording()->info().note, ContainsSubstring("the student drafts on its own entries"));
    config.mode = Mode::teacher;
    DecodeSession teacher(pair, config, {}, &prompt());
    finish(teacher);
    CHECK(session.recording()->token_ids() == teacher.recording()->token_ids());
    for (size_t i = 0; i < session.recording()->refreshes().size(); ++i)
        CHECK(session.recording()->refreshes()[i].spliced == 0);
}

TEST_CASE("a draft of 256 tokens is judged, whatever the policy", "[verify]") {
    const auto same = tiny_pair(9, 9, shape, shape);
    RunConfig config = tiny_run(400);
    config.policy = policy_of({}, {}, OnFire::verify);
    config.capture.attention = false;
    DecodeSession session(same, config, {}, &prompt());
    finish(session);
    const auto& drafts = session.recording()->drafts();
    REQUIRE(drafts.size() == 2);
    CHECK(drafts[0].tokens.size() == 256);
    CHECK(drafts[0].instead == -1);
    CHECK(session.recording()->num_tokens() == 400);
}

} // namespace verify_caches_test
