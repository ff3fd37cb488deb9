#include "engine/base/error.h"
#include "engine/remote/status_json.h"
#include "engine/remote/wire.h"
#include "engine/results/scope_map_json.h"
#include "tests/engine/control/random_config.h"
#include "tests/engine/record/random_recording.h"
#include "tests/support/seed.h"

#include <catch2/catch_test_macros.hpp>
#include <nlohmann/json.hpp>

#include <random>

namespace remote_status_test {

using namespace refreshlab;
using namespace refreshlab::remote;
using nlohmann::json;

namespace {

EngineStatus random_status(std::mt19937& random) {
    const auto flip = [&] { return random() % 2 == 0; };
    const auto number = [&] { return std::ldexp(static_cast<double>(random()), -16); };
    const auto text = [&] { return flip() ? std::string() : "text \xC3\xA4 " + std::to_string(random()); };
    const auto model = [&] {
        ModelSummary m;
        m.name = text();
        m.dir = text();
        m.device = text();
        m.dtype = text();
        for (int64_t* field : {&m.hidden, &m.intermediate, &m.parameters, &m.layers, &m.heads, &m.kv_heads,
                               &m.head_dim, &m.vocab_size, &m.max_position, &m.weight_bytes})
            *field = static_cast<int64_t>(random());
        m.mc_calibrated = flip();
        return m;
    };
    EngineStatus s;
    s.state = static_cast<EngineState>(random() % 7);
    s.message = text();
    s.progress = number();
    s.answered = random();
    s.applied = refreshlab::testing::random_config(random);
    s.teacher = model();
    s.student = model();
    while (flip())
        s.pair.push_back({text(), text(), text(), static_cast<PairFact::Verdict>(random() % 3)});
    if (flip()) s.derived.emplace();
    s.rebuild_mode = flip();
    s.note = text();
    s.pace = number();
    s.tokens_per_second = number();
    s.prefill_ms = number();
    s.ttft_ms = number();
    s.queued_commands = random();
    s.cache_bytes_used = random();
    s.cache_bytes_reserved = random();
    s.stop_reason = text();
    if (flip()) {
        ExactnessReport report;
        report.device = text();
        report.checks.push_back({"teacher", "cached = naive", number(), 1e-5, flip(), text(), true});
        report.checks.push_back(
            {"pair", "equal", std::numeric_limits<double>::quiet_NaN(), 0, false, "", true});
        report.maps.push_back(
            {"student", 2, 3, {1, 2, 3, 4, 5, 6}, {6, 5, 4, 3, 2, 1}, {1, 2, 3}, {0, 1, 1}});
        report.latency.push_back({"teacher", 16, number(), {1, 2}, {0.5F, 1.5F}, {0.25F, 0.125F}});
        report.notes = {text()};
        report.progress = number();
        s.exactness = std::make_shared<ExactnessReport>(std::move(report));
    }
    s.checking = flip();
    if (flip())
        s.landscape =
            std::make_shared<LandscapeState>(LandscapeState{text(), nullptr, flip(), 7, 9, number()});
    if (flip())
        s.scope = std::make_shared<ScopeState>(ScopeState{text(), nullptr, flip(), 3, 4, 5, number()});
    if (flip())
        s.draft = std::make_shared<OpenDraft>(OpenDraft{text(), 4, {{44, -0.5F, 1.25F}, {299, -2.0F, 0.1F}}});
    s.error = text();
    s.errors = random();
    while (flip())
        s.refusals.push_back(text());
    s.recorded = flip();
    s.trace_error = text();
    return s;
}

} // namespace

TEST_CASE("a status is the same on the other side", "[remote]") {
    std::mt19937 random(test::seed(1));
    const test::ByteTokens tokens;
    json told = json::object();
    for (int i = 0; i < 100; ++i) {
        const EngineStatus sent = random_status(random);
        const json now = status_json(sent, &tokens);
        // Only what has changed crosses.
        const json changed = from_bytes(to_bytes(changed_keys(told, now)));
        apply_keys(told, changed);
        const ReadStatus read = read_status(told);
        CHECK(read.status.applied == sent.applied);
        CHECK(read.status.derived.has_value() == sent.derived.has_value());
        CHECK((read.status.exactness == nullptr) == (sent.exactness == nullptr));
        if (sent.exactness) {
            CHECK(read.status.exactness->progress == sent.exactness->progress);
            CHECK(std::isnan(read.status.exactness->checks.at(1).max_abs));
            CHECK(read.status.exactness->maps.at(0).k == sent.exactness->maps.at(0).k);
            CHECK(read.status.exactness->passed() == sent.exactness->passed());
        }
        CHECK((read.status.draft == nullptr) == (sent.draft == nullptr));
        if (sent.draft) {
            CHECK(read.status.draft->tokens == sent.draft->tokens);
            REQUIRE(read.tokens.size() == 2);
            CHECK(read.tokens[0].bytes == tokens.token_bytes(44));
            CHECK(!read.tokens[0].special);
            CHECK(read.tokens[1].special);
        }
        // Everything else, by what is told of it: what has come tells the same again.
        CHECK(json(status_json(read.status, &tokens)).dump(-1, ' ', false, json::error_handler_t::replace) ==
              now.dump(-1, ' ', false, json::error_handler_t::replace));
    }
}

TEST_CASE("a status tells nothing twice", "[remote]") {
    std::mt19937 random(test::seed(2));
    EngineStatus status = random_status(random);
    status.exactness.reset(); // a difference that is no number is never the same
    const json before = status_json(status, nullptr);
    CHECK(changed_keys(before, before).empty());
    status.tokens_per_second += 1;
    const json changed = changed_keys(before, status_json(status, nullptr));
    CHECK(changed.size() == 1);
    CHECK(changed.contains("tokens_per_second"));
}

TEST_CASE("an outlook is the same on the other side", "[remote]") {
    RunOutlook outlook;
    outlook.part = RunOutlook::Part::memory;
    outlook.problem = "too large";
    outlook.note = "rebuild mode";
    outlook.teacher = "134.5 M parameters";
    outlook.student_bytes = int64_t{1} << 40;
    outlook.prompt_tokens = 7;
    outlook.context = 8192;
    outlook.memory = {"cpu: 9.8 GB needed", "cuda:0: 1 GB"};
    const RunOutlook read = read_outlook(from_bytes(to_bytes(outlook_json(outlook))));
    CHECK(outlook_json(read) == outlook_json(outlook));
    CHECK(read.part == RunOutlook::Part::memory);
    CHECK(read.memory == outlook.memory);
}

TEST_CASE("a status that is none is refused", "[remote]") {
    std::mt19937 random(test::seed(3));
    json status = status_json(random_status(random), nullptr);
    status["landscape"] = nullptr;
    CHECK_NOTHROW(read_status(status));
    json without = status;
    without.erase("pace");
    CHECK_THROWS_AS(read_status(without), json::exception);
    json other = status;
    other["applied"]["seed"] = "x";
    CHECK_THROWS_AS(read_status(other), Error);
}

} // namespace remote_status_test
