// A landscape's cells against sessions that read the same text, bit for bit.
#include "engine/base/error.h"
#include "engine/landscape/best_schedule.h"
#include "engine/landscape/staircase.h"
#include "engine/session/decode/decode_session.h"
#include "engine/session/landscape/compute_landscape.h"
#include "engine/session/pair/run_text.h"
#include "tests/engine/session/tiny_pair.h"
#include "tests/support/seed.h"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>
#include <random>

namespace landscape_test {

using namespace refreshlab;
using namespace refreshlab::test;

namespace {

const std::vector<std::string> all_values = landscape_values(
    "entropy_bits,top1_surprisal_bits,top1_prob,top1_hit,varentropy_bits2,top2_margin,kl_"
    "nats,drift,attention_entropy_bits,mc_variance,mc_mutual_information_bits,mc_entropy_bits,"
    "mc_variance_sd,mc_entropy_sd_bits");

std::vector<int32_t> random_ids(std::mt19937& random, int64_t n, int64_t vocab) {
    std::vector<int32_t> ids;
    for (int64_t i = 0; i < n; ++i)
        ids.push_back(static_cast<int32_t>(random() % static_cast<uint32_t>(vocab)));
    return ids;
}

/// A session that reads the request's text.
class Reading {
public:
    Reading(const std::shared_ptr<const ModelPair>& pair, const LandscapeRequest& request,
            const RefreshPolicy& policy, bool shadow)
        : m_config(tiny_run(static_cast<int32_t>(request.tokens.size()))) {
        m_config.policy = policy;
        m_config.mc = request.mc;
        m_config.seed = request.seed;
        m_config.shadow = shadow;
        m_config.capture.attention = false;
        m_config.capture.attention_entropy = true;
        m_text.prompt.ids = request.prompt_ids;
        m_text.given = request.tokens;
        m_session.emplace(pair, m_config, nullptr, &m_text);
    }
    /// To the end, with refreshes by hand at these boundaries.
    std::shared_ptr<Recording> run(const std::vector<int64_t>& by_hand = {}) {
        for (int64_t t = 1; !m_session->finished(); ++t) {
            if (std::ranges::find(by_hand, t) != by_hand.end()) m_session->apply(command::RefreshNow{});
            m_session->step();
        }
        return m_session->recording();
    }

private:
    RunConfig m_config;
    RunText m_text;
    std::optional<DecodeSession> m_session;
};

/// What the session's records say where a cell of step t stands: signals about a token are those of y_{t+1}.
float recorded(const Recording& recording, const std::string& name, int64_t t) {
    const size_t id = *signal_id(name);
    return recording.signal(signals()[id].about == SignalAbout::token ? t + 1 : t, id);
}

void require_same_cells(const Landscape& landscape, const Recording& recording, int64_t row, int64_t last) {
    for (size_t v = 0; v < landscape.info().values.size(); ++v) {
        const std::string& name = landscape.info().values[v];
        for (int64_t t = row + 1; t <= last; ++t) {
            const float cell = landscape.cell(v, row, t), there = recorded(recording, name, t);
            if (name == "drift" && is_absent(there)) continue; // known at a refresh alone
            INFO(name << " of row " << row << " at step " << t << ": " << cell << " and " << there);
            REQUIRE(std::bit_cast<uint32_t>(cell) == std::bit_cast<uint32_t>(there));
        }
    }
}

LandscapeRequest random_request(std::mt19937& random, int64_t tokens, std::vector<std::string> values) {
    LandscapeRequest request;
    request.prompt_ids = random_ids(random, 1 + random() % 12, 4096);
    request.tokens = random_ids(random, tokens, 4096);
    request.values = std::move(values);
    request.rows_at_once = 1 + random() % 20;
    request.mc = {.measure = true, .samples = 2 + static_cast<int32_t>(random() % 3), .p = 0.3, .every = 1};
    request.seed = random();
    return request;
}

TinyShape random_shape(std::mt19937& random) {
    TinyShape shape;
    shape.heads = 2 * (1 + static_cast<int64_t>(random() % 2));
    shape.kv_heads = 2;
    shape.layers = 1 + static_cast<int64_t>(random() % 3);
    return shape;
}

Execution two_threads() {
    return make_execution(tiny_run());
}

/// Triggers of every kind that a landscape walks, with thresholds around what tiny pairs give.
RefreshPolicy random_gate(std::mt19937& random) {
    const auto up_to = [&](uint32_t n) { return static_cast<int32_t>(random() % (n + 1)); };
    struct Kind {
        const char* signal;
        double low, high;
    };
    std::vector<Kind> kinds = {{"entropy_bits", 2, 9},     {"kl_nats", 0, 8},
                               {"kl_mean_nats", 0, 8},     {"top1_surprisal_bits", 0, 6},
                               {"top2_margin", 0, 1},      {"steps_since_refresh", 1, 12},
                               {"varentropy_bits2", 0, 9}, {"attention_entropy_bits", 0, 4},
                               {"mc_variance", 0, 0.2},    {"mc_mutual_information_bits", 0, 0.2}};
    std::shuffle(kinds.begin(), kinds.end(), random);
    RefreshPolicy policy;
    policy.name = "random";
    policy.combine = random() % 3 == 0 ? Combine::all : Combine::any;
    const int32_t count = 1 + up_to(2);
    for (int32_t i = 0; i < count; ++i) {
        const Kind& kind = kinds[static_cast<size_t>(i)];
        const double share = std::uniform_real_distribution<double>(0, 1)(random);
        policy.triggers.push_back(trigger(kind.signal, static_cast<Comparison>(up_to(3)),
                                          kind.low + share * (kind.high - kind.low), 1 + up_to(5),
                                          random() % 2 == 0 ? 0 : up_to(9)));
        policy.triggers.back().enabled = random() % 8 != 0;
    }
    if (random() % 2 == 0) policy.budget = {.refreshes = up_to(4), .per_tokens = 1 + up_to(40)};
    if (random() % 3 == 0) {
        OwnSignal mix;
        mix.name = "mix";
        mix.offset = -3;
        mix.terms = {{"attention_entropy_bits", -0.3, {}},
                     {"entropy_bits", 0.6, {}},
                     {"last_kl_nats", 0.3, 0.5},
                     {"last_drift", 0.8, 0.25},
                     {"mc_mutual_information_bits", 2, {}},
                     {"steps_since_refresh", 0.05 * up_to(9), {}}};
        if (random() % 2 == 0) { // or what looks back at earlier steps, on the way that the policy took
            mix.offset = 0;
            mix.terms.clear();
            mix.expression = read_expression("0.6 * entropy_bits - 0.3 * mean(attention_entropy_bits, 3) + "
                                             "lag(steps_since_refresh, 2) / 8 + "
                                             "highest(or(last_kl_nats, 0.5), 4) - mean(or(last_drift, 0.25) "
                                             "* lag(entropy_bits, 1), 5) - 1",
                                             "the test", {});
        }
        policy.signals.push_back(mix);
        policy.triggers.push_back(
            trigger("mix", Comparison::above, 0.25 * up_to(10) - 1, 1 + up_to(2), up_to(6)));
        policy.triggers.back().published = true;
    }
    for (int64_t step = 0; random() % 4 == 0 && step < 50;)
        policy.at.push_back(step += 1 + up_to(30));
    return policy;
}

/// Refreshes, probes, and every number of every step: what the walk says against what the session recorded.
void require_same_walk(const Landscape& landscape, const Staircase& walk, const Recording& recording) {
    std::vector<int64_t> refreshes, probes;
    for (size_t i = 0; i < recording.refreshes().size(); ++i)
        refreshes.push_back(recording.refreshes()[i].step);
    for (size_t i = 0; i < recording.passes().size(); ++i) {
        const PassEvent& pass = recording.passes()[i];
        if (pass.probe && std::ranges::find(refreshes, pass.step) == refreshes.end())
            probes.push_back(pass.step);
    }
    REQUIRE(walk.refreshes == refreshes);
    REQUIRE(walk.probes == probes);
    REQUIRE_FALSE(walk.exact_until.has_value());
    double loss = 0;
    for (int64_t t = 1; t <= landscape.num_steps(); ++t) {
        const int64_t row = walk.rows[static_cast<size_t>(t - 1)];
        loss -= static_cast<double>(recorded(recording, "logprob", t));
        for (size_t v = 0; v < landscape.info().values.size(); ++v) {
            const std::string& name = landscape.info().values[v];
            const float there = recorded(recording, name, t);
            if ((name == "drift" || name == "kl_nats") && is_absent(there)) continue; // no pass read there
            if (name.starts_with("mc_") && is_absent(there)) continue;                // not measured there
            INFO(name << " at step " << t << " in row " << row);
            REQUIRE(std::bit_cast<uint32_t>(landscape.cell(v, row, t)) == std::bit_cast<uint32_t>(there));
        }
    }
    REQUIRE(walk.loss == loss / static_cast<double>(landscape.num_steps()));
}

} // namespace

TEST_CASE("a cell of a landscape is the record of a session with one refresh at that boundary",
          "[session][landscape]") {
    std::mt19937 random(seed(0x1A9D));
    for (int round = 0; round < 3; ++round) {
        const TinyShape shape = random_shape(random);
        TinyShape student = shape;
        student.hidden = 20; // odd widths are padded; only the KV geometry is shared
        student.heads = 4;
        const auto pair = tiny_pair(random(), random(), shape, student);
        const LandscapeRequest request = random_request(random, 3 + random() % 14, all_values);
        const auto landscape = compute_landscape(*pair, request, two_threads());
        REQUIRE(landscape->complete());
        const int64_t last = landscape->num_steps();
        const RefreshPolicy none;
        for (int64_t row = 0; row < landscape->num_rows(); ++row) {
            // A second refresh at the end makes the drift of the row's own columns known.
            std::vector<int64_t> by_hand;
            if (row > 0) by_hand.push_back(row);
            const auto whole = Reading(pair, request, none, true).run(by_hand);
            require_same_cells(*landscape, *whole, row, last);
            if (row + 1 > last - 1) continue;
            by_hand.push_back(last - 1);
            const auto measured = Reading(pair, request, none, true).run(by_hand);
            require_same_cells(*landscape, *measured, row, last - 1);
            REQUIRE_FALSE(is_absent(recorded(*measured, "drift", row + 1)));
        }
        for (int64_t t = 1; t <= landscape->num_tokens(); ++t) {
            const auto whole = Reading(pair, request, none, true).run();
            const float there = whole->signal(t, *signal_id("teacher_logprob"));
            if (t <= last) // the teacher's row of the newest step is judged by the score
                REQUIRE(landscape->info().teacher_logprob[static_cast<size_t>(t - 1)] == there);
        }
    }
}

TEST_CASE("rows per forward, order and threads change no bit of a landscape", "[session][landscape]") {
    std::mt19937 random(seed(0x1A9E));
    const auto pair = tiny_pair(random(), random());
    LandscapeRequest request = random_request(random, 40, all_values);
    request.rows_at_once = 1;
    const auto one = compute_landscape(*pair, request, two_threads());
    request.rows_at_once = 7;
    RunConfig config = tiny_run();
    config.threads = 1;
    const auto seven = compute_landscape(*pair, request, make_execution(config));
    for (int64_t j = 0; j < one->num_rows(); ++j) {
        for (size_t v = 0; v < all_values.size(); ++v) {
            const auto a = one->plane(v, j), b = seven->plane(v, j);
            REQUIRE(std::equal(a.begin(), a.end(), b.begin(), b.end(), [](float x, float y) {
                return std::bit_cast<uint32_t>(x) == std::bit_cast<uint32_t>(y);
            }));
        }
    }
}

TEST_CASE("a landscape comes coarse to fine, can be ended, and goes on where it was",
          "[session][landscape]") {
    std::mt19937 random(seed(0x1A9F));
    const auto pair = tiny_pair(random(), random());
    LandscapeRequest request = random_request(random, 70, {"logprob"});
    request.rows_at_once = 4;
    const auto whole = compute_landscape(*pair, request, two_threads());

    int64_t cells = 0;
    std::vector<std::vector<int64_t>> seen;
    const auto part = compute_landscape(*pair, request, two_threads(), {}, [&](const LandscapeProgress& now) {
        REQUIRE(now.cells_done >= cells);
        cells = now.cells_done;
        if (now.landscape && (seen.empty() || now.landscape->rows() != seen.back()))
            seen.push_back(now.landscape->rows());
        return seen.size() < 3;
    });
    REQUIRE(seen[0] == std::vector<int64_t>{0, 32, 64});
    REQUIRE(seen[1] == std::vector<int64_t>{0, 16, 32, 48, 64});
    REQUIRE(part->rows() == seen[2]);
    REQUIRE_FALSE(part->complete());

    request.every = 1;
    int64_t left = 0;
    const auto rest =
        compute_landscape(*pair, request, two_threads(), part, [&](const LandscapeProgress& now) {
            left = now.cells;
            return true;
        });
    REQUIRE(rest->complete());
    REQUIRE(left == 69 * 70 / 2 - static_cast<int64_t>(part->bytes() / sizeof(float)));
    for (int64_t j = 0; j < rest->num_rows(); ++j)
        REQUIRE(rest->row(j)->planes == whole->row(j)->planes);

    request.every = 8;
    const auto coarse = compute_landscape(*pair, request, two_threads());
    REQUIRE(coarse->rows() == std::vector<int64_t>{0, 8, 16, 24, 32, 40, 48, 56, 64});
    for (const int64_t j : coarse->rows())
        REQUIRE(coarse->row(j)->planes == whole->row(j)->planes);
}

TEST_CASE("a policy walked through a landscape refreshes and reads as its session does",
          "[session][landscape]") {
    std::mt19937 random(seed(0x1AA0));
    int64_t refreshes = 0, probes = 0;
    for (int round = 0; round < 4;) {
        const auto pair = tiny_pair(random(), random(), random_shape(random), {});
        if (pair->geometry_difference) continue;
        ++round;
        LandscapeRequest request = random_request(random, 30 + random() % 30, all_values);
        request.mc.measure = round % 2 == 0; // else only where a trigger looks
        const auto landscape = compute_landscape(*pair, request, two_threads());
        for (int i = 0; i < 12; ++i) {
            RefreshPolicy policy = random_gate(random);
            if (i == 0) {
                policy = preset_policy("periodic");
                policy.triggers[0].threshold = 1 + static_cast<double>(random() % 9);
            }
            const Staircase walk = walk_policy(*landscape, policy);
            INFO("round " << round << ", policy " << i);
            require_same_walk(*landscape, walk, *Reading(pair, request, policy, false).run());
            refreshes += static_cast<int64_t>(walk.refreshes.size());
            probes += static_cast<int64_t>(walk.probes.size());
        }
        const auto best = best_schedules(*landscape, 5);
        const auto forced = Reading(pair, request, {}, false).run(best[3].steps);
        require_same_walk(*landscape, walk_schedule(*landscape, best[3].steps), *forced);
    }
    CHECK(refreshes > 50);
    CHECK(probes > 10);
}

TEST_CASE("a student that leaves layers out has a landscape like any other", "[session][landscape][derive]") {
    std::mt19937 random(seed(0x1AA4));
    RunConfig config = tiny_run(20);
    config.teacher_dir = RL_SOURCE_DIR "/assets/models/llama-tales-teacher";
    config.student_dir = "derive:skip_attention=1+3,skip_mlp=2,bits=4,group=32";
    const auto pair = load_pair(config);
    LandscapeRequest request = random_request(random, 14, all_values);
    for (auto* ids : {&request.prompt_ids, &request.tokens}) {
        for (int32_t& id : *ids)
            id = 300 + id % 1000; // no token that ends a text
    }
    const auto landscape = compute_landscape(*pair, request, two_threads());
    for (const int64_t row : {int64_t{0}, int64_t{5}}) {
        std::vector<int64_t> by_hand;
        if (row > 0) by_hand.push_back(row);
        const auto whole = Reading(pair, request, {}, true).run(by_hand);
        require_same_cells(*landscape, *whole, row, landscape->num_steps());
        CHECK(
            std::isfinite(landscape->cell(*landscape->value_index("attention_entropy_bits"), row, row + 1)));
    }
}

TEST_CASE("the bundled pair's landscape is its sessions, cell by cell and policy by policy",
          "[session][landscape]") {
    RunConfig config = tiny_run(44);
    config.teacher_dir = RL_SOURCE_DIR "/assets/models/llama-tales-teacher";
    config.student_dir = RL_SOURCE_DIR "/assets/models/llama-tales-student";
    config.prompt = "Write a chronicle of 6 companies.";
    config.raw_prompt = false;
    const auto pair = load_pair(config);
    LandscapeRequest request;
    request.prompt_ids = render_prompt(*pair, config).ids;
    config.mode = Mode::teacher; // on a text of its own the student needs nobody
    request.tokens = text_of(pair, config);
    request.values = all_values;
    request.mc = {
        .measure = true, .samples = 3, .p = -1, .every = 1}; // the rate that the model was trained with
    request.seed = 5;
    const auto landscape = compute_landscape(*pair, request, two_threads());
    CHECK(landscape->info().mc.samples == 3);
    for (const int64_t row : {int64_t{0}, int64_t{7}, int64_t{20}, int64_t{42}}) {
        std::vector<int64_t> by_hand;
        if (row > 0) by_hand.push_back(row);
        const auto whole = Reading(pair, request, {}, true).run(by_hand);
        require_same_cells(*landscape, *whole, row, landscape->num_steps());
    }
    RefreshPolicy periodic = preset_policy("periodic");
    periodic.triggers[0].threshold = 9;
    RefreshPolicy gate = policy_of({trigger("entropy_bits", Comparison::above, 2.5, 1, 4)});
    gate.budget = {.refreshes = 2, .per_tokens = 20};
    RefreshPolicy mixture = policy_of(
        {trigger("kl_nats", Comparison::above, 0.3, 5), trigger("entropy_bits", Comparison::above, 4)});
    for (const RefreshPolicy& policy : {periodic, gate, mixture}) {
        const Staircase walk = walk_policy(*landscape, policy);
        CHECK_FALSE(walk.refreshes.empty());
        require_same_walk(*landscape, walk, *Reading(pair, request, policy, false).run());
    }
    const auto best = best_schedules(*landscape, 4);
    CHECK(best[2].loss < landscape->mean_loss_without_refresh());
}

TEST_CASE("a KL whose student row a session has dropped stays missing in the walk", "[session][landscape]") {
    std::mt19937 random(seed(0x1AA1));
    const auto pair = tiny_pair(random(), random());
    LandscapeRequest request = random_request(random, 330, {"logprob", "kl_nats"});
    request.prompt_ids.resize(1);
    request.every = 1;
    request.rows_at_once = 64;
    RefreshPolicy policy = policy_of({trigger("kl_mean_nats", Comparison::above, 0.0, 290)});
    // Of 290 rows a session has the newest 256, so the mean is not known and nothing fires.
    LandscapeRequest coarse = request;
    coarse.every = 64;
    const auto landscape = compute_landscape(*pair, coarse, two_threads());
    const Staircase walk = walk_policy(*landscape, policy);
    CHECK(walk.probes == std::vector<int64_t>{290});
    CHECK(walk.refreshes.empty());
    const auto session = Reading(pair, request, policy, false).run();
    CHECK(session->refreshes().size() == 0);
    policy.triggers[0].every = 250;
    CHECK(walk_policy(*landscape, policy).refreshes == std::vector<int64_t>{250});
    CHECK(walk_policy(*landscape, policy).exact_until == 250);
    CHECK(Reading(pair, request, policy, false).run()->refreshes().size() == 1);
}

TEST_CASE("what has no landscape is refused with the reason", "[session][landscape]") {
    std::mt19937 random(seed(0x1AA2));
    const auto pair = tiny_pair(1, 2);
    const LandscapeRequest good = random_request(random, 10, {"logprob", "entropy_bits"});
    const auto refused = [&](const ModelPair& with, const LandscapeRequest& request) -> std::string {
        try {
            static_cast<void>(compute_landscape(with, request, two_threads()));
        } catch (const Error& e) {
            return e.what();
        }
        return "accepted";
    };
    LandscapeRequest request = good;
    request.tokens.resize(1);
    CHECK(refused(*pair, request).find("has 1 token, and a landscape needs two at least") !=
          std::string::npos);
    request = good;
    request.tokens.resize(600, 5);
    CHECK(refused(*pair, request).find("the models' context is 512") != std::string::npos);
    request = good;
    request.tokens[3] = 4096;
    CHECK(refused(*pair, request).find("token id 4096 is outside") != std::string::npos);
    request = good;
    request.values.push_back("last_drift");
    CHECK(refused(*pair, request).find("last_drift: it has no cells: it hangs on the refresh before") !=
          std::string::npos);
    request = good;
    request.values.push_back("mc_variance");
    request.mc.samples = 1;
    CHECK(refused(*pair, request).find("mc.samples: must be 2 or more") != std::string::npos);
    TinyShape other;
    other.layers = 3;
    CHECK(refused(*tiny_pair(1, 2, {}, other), good).find("in rebuild mode nothing is copied") !=
          std::string::npos);
    ModelPair alone = *pair;
    alone.teacher.reset();
    CHECK(refused(alone, good).find("it takes a teacher and a student") != std::string::npos);

    const auto landscape = compute_landscape(*pair, good, two_threads());
    request = good;
    request.tokens[2] ^= 1;
    try {
        static_cast<void>(compute_landscape(*pair, request, two_threads(), landscape));
        FAIL("another text was accepted");
    } catch (const Error& e) {
        CHECK(std::string(e.what()).find("is of another text") != std::string::npos);
    }
    RefreshPolicy policy = policy_of({trigger("entropy_bits", Comparison::above, 3)}, 8);
    CHECK(why_no_staircase(*landscape, policy).find("windowed") != std::string::npos);
    policy.window.reset();
    CHECK(why_no_staircase(*landscape, policy).empty());
    policy.lag = 2;
    CHECK(why_no_staircase(*landscape, policy).find("lag") != std::string::npos);
    policy.lag = 0;
    policy.on_fire = OnFire::redraw;
    CHECK(why_no_staircase(*landscape, policy).find("on_fire is redraw") != std::string::npos);
    policy = policy_of({trigger("kl_nats", Comparison::above, 3)});
    CHECK_THROWS_AS(walk_policy(*landscape, policy), Error);
}

TEST_CASE("a landscape that does not fit is refused with the two numbers", "[session][landscape]") {
    std::mt19937 random(seed(0x1AA3));
    const auto pair = tiny_pair(1, 2);
    const LandscapeRequest request = random_request(random, 200, all_values);
    const auto none_left = [](const std::string&) { return std::optional<int64_t>(1000); };
    const auto estimates = memory_of_landscape(*pair, request, none_left);
    REQUIRE(estimates.size() == 1);
    CHECK_FALSE(estimates[0].fits());
    CHECK(estimates[0].workspace > 200 * 4096 * 4); // the teacher's rows
    CHECK_THROWS_AS(require_memory(estimates), Error);
}

} // namespace landscape_test
