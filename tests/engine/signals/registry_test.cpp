#include "engine/base/error.h"
#include "engine/signals/nearest_name.h"
#include "engine/signals/registry.h"
#include "tests/support/seed.h"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <algorithm>
#include <cmath>
#include <functional>
#include <random>
#include <set>
#include <string>

using namespace refreshlab;
using Catch::Matchers::ContainsSubstring;

namespace {

float value_of(const SignalInputs& in, std::string_view name) {
    std::vector<float> out(signals().size(), absent());
    evaluate_signals(in, out);
    return out[require_signal(name, "the test")];
}

/// Straight from the definition, by recursion: the plain reference of edit_distance (without swaps).
size_t plain_distance(std::string_view a, std::string_view b) {
    if (a.empty()) return b.size();
    if (b.empty()) return a.size();
    const size_t replace = plain_distance(a.substr(1), b.substr(1)) + (a[0] == b[0] ? 0 : 1);
    size_t best = std::min({replace, plain_distance(a.substr(1), b) + 1, plain_distance(a, b.substr(1)) + 1});
    if (a.size() > 1 && b.size() > 1 && a[0] == b[1] && a[1] == b[0]) {
        best = std::min(best, plain_distance(a.substr(2), b.substr(2)) + 1);
    }
    return best;
}

} // namespace

TEST_CASE("the registry lists every signal once, in display order", "[signals]") {
    std::vector<std::string> names;
    for (const Signal& signal : signals())
        names.emplace_back(signal.name);
    const std::vector<std::string> expected = {"entropy_bits",
                                               "kl_nats",
                                               "kl_mean_nats",
                                               "mc_variance",
                                               "mc_mutual_information_bits",
                                               "mc_entropy_bits",
                                               "top1_surprisal_bits",
                                               "top1_prob",
                                               "logprob",
                                               "top1_hit",
                                               "task_score",
                                               "teacher_logprob",
                                               "teacher_agreement",
                                               "drift",
                                               "steps_since_refresh",
                                               "varentropy_bits2",
                                               "top2_margin",
                                               "attention_entropy_bits",
                                               "last_kl_nats",
                                               "last_drift",
                                               "acceptance",
                                               "same_top1",
                                               "teacher_rank",
                                               "mc_variance_sd",
                                               "mc_entropy_sd_bits"};
    CHECK(names == expected);
    CHECK(std::set<std::string>(names.begin(), names.end()).size() == names.size());
    CHECK(names.size() <= max_signals);
    for (size_t id = 0; id < signals().size(); ++id)
        CHECK(signal_id(signals()[id].name) == id);
}

TEST_CASE("every signal says what it is, and its band exists", "[signals]") {
    std::set<char> letters;
    for (const Signal& signal : signals()) {
        INFO(signal.name);
        CHECK_FALSE(signal.label.empty());
        CHECK(signal.description.size() > 20);
        CHECK(signal.description.back() == '.');
        CHECK_FALSE(signal.cost_hint.empty());
        CHECK(signal.value != nullptr);
        CHECK((signal.max == 0.0 || signal.min < signal.max));
        if (signal.letter != 0) {
            CHECK(letters.insert(signal.letter).second);
            CHECK(signal.letter != 'H'); // by hand
            CHECK(signal.default_threshold > 0);
        }
        if (!signal.band.empty()) {
            const std::optional<size_t> band = signal_id(signal.band);
            REQUIRE(band);
            CHECK(signals()[*band].unit == signal.unit);
            CHECK(signals()[*band].letter == 0);
        }
    }
    CHECK(letters.contains('E'));
    CHECK(signals()[*signal_id("kl_nats")].letter == 'K');
    CHECK(signals()[*signal_id("mc_variance")].letter == 'V');
    CHECK(signals()[*signal_id("steps_since_refresh")].letter == 'P');
    CHECK(signals()[*signal_id("drift")].letter == 0);
    for (const char* name : {"kl_nats", "teacher_logprob", "teacher_agreement", "drift"}) {
        CHECK(signals()[*signal_id(name)].back_filled);
    }
    for (const char* name : {"logprob", "teacher_logprob", "teacher_agreement"}) {
        CHECK(signals()[*signal_id(name)].about == SignalAbout::token);
    }
}

TEST_CASE("a step without inputs leaves every signal but the watermark absent", "[signals]") {
    SignalInputs nothing;
    nothing.steps_since_refresh = -1;
    std::vector<float> out(signals().size(), absent());
    evaluate_signals(nothing, out);
    for (size_t id = 0; id < out.size(); ++id)
        CHECK(is_absent(out[id]));
}

TEST_CASE("values that are not defined keep what was there", "[signals]") {
    SignalInputs later;
    later.kl_nats = 0.25;
    later.steps_since_refresh = -1;
    std::vector<float> out(signals().size(), 7.0F);
    evaluate_signals(later, out);
    for (size_t id = 0; id < out.size(); ++id)
        CHECK(out[id] == (id == *signal_id("kl_nats") ? 0.25F : 7.0F));
}

TEST_CASE("each input arrives at the signal of its name", "[signals]") {
    SignalInputs in;
    in.row = {.log_z = 3, .entropy_bits = 4.5, .top1_prob = 0.125, .finite = true};
    in.mc = {.variance = 0.5,
             .variance_sd = 0.0625,
             .mutual_information_bits = 0.75,
             .mean_entropy_bits = 3.25,
             .mean_entropy_sd_bits = 0.375};
    in.kl_nats = 1.5;
    in.kl_mean_nats = 1.75;
    in.logprob = -2.5;
    in.teacher_logprob = -1.25;
    in.teacher_agrees = 1;
    in.drift = 0.875;
    in.steps_since_refresh = 17;
    CHECK(value_of(in, "entropy_bits") == 4.5F);
    CHECK(value_of(in, "top1_prob") == 0.125F);
    CHECK(value_of(in, "top1_surprisal_bits") == 3.0F); // -log2 1/8
    CHECK(value_of(in, "kl_nats") == 1.5F);
    CHECK(value_of(in, "kl_mean_nats") == 1.75F);
    CHECK(value_of(in, "mc_variance") == 0.5F);
    CHECK(value_of(in, "mc_variance_sd") == 0.0625F);
    CHECK(value_of(in, "mc_mutual_information_bits") == 0.75F);
    CHECK(value_of(in, "mc_entropy_bits") == 3.25F);
    CHECK(value_of(in, "mc_entropy_sd_bits") == 0.375F);
    CHECK(value_of(in, "logprob") == -2.5F);
    CHECK(value_of(in, "teacher_logprob") == -1.25F);
    CHECK(value_of(in, "teacher_agreement") == 1.0F);
    CHECK(value_of(in, "drift") == 0.875F);
    CHECK(value_of(in, "steps_since_refresh") == 17.0F);
}

TEST_CASE("a certain row has surprisal 0 and not -0", "[signals]") {
    SignalInputs in;
    in.row = {.log_z = 0, .entropy_bits = 0, .top1_prob = 1, .finite = true};
    CHECK(value_of(in, "top1_surprisal_bits") == 0.0F);
    CHECK_FALSE(std::signbit(value_of(in, "top1_surprisal_bits")));
}

TEST_CASE("a row with non-finite logits is a measured NaN, not an absent value", "[signals]") {
    SignalInputs in;
    in.row = {.log_z = 1, .entropy_bits = 2, .top1_prob = 0.5, .finite = false};
    // Even a NaN that happens to carry the payload of absent().
    in.kl_nats = static_cast<double>(absent());
    for (const char* name : {"entropy_bits", "top1_prob", "top1_surprisal_bits", "kl_nats"}) {
        INFO(name);
        const float value = value_of(in, name);
        CHECK(std::isnan(value));
        CHECK_FALSE(is_absent(value));
    }
}

TEST_CASE("the jackknife error of two passes is absent, not NaN", "[signals]") {
    const double nan = std::numeric_limits<double>::quiet_NaN();
    SignalInputs two;
    two.mc = {.variance = 0.5,
              .variance_sd = nan,
              .mutual_information_bits = 0,
              .mean_entropy_bits = 0,
              .mean_entropy_sd_bits = 0};
    CHECK(is_absent(value_of(two, "mc_variance_sd")));
    two.mc->variance = nan; // broken rows, on the other hand, are measured
    CHECK(std::isnan(value_of(two, "mc_variance_sd")));
    CHECK_FALSE(is_absent(value_of(two, "mc_variance_sd")));
}

TEST_CASE("an unknown signal is refused with the nearest names", "[signals]") {
    const auto hint_of = [](std::string_view name) {
        try {
            static_cast<void>(require_signal(name, "gate.json"));
        } catch (const Error& error) {
            CHECK(error.kind() == ErrorKind::bad_input);
            CHECK_THAT(error.what(), ContainsSubstring("gate.json"));
            CHECK_THAT(error.what(), ContainsSubstring('"' + std::string(name.substr(0, 40))));
            CHECK(std::string_view(error.what()).size() < 12'000); // however long the name is
            return error.hint();
        }
        FAIL("accepted " << name);
        return std::string();
    };
    CHECK_THAT(hint_of("entrpy_bits"), ContainsSubstring("did you mean entropy_bits"));
    CHECK_THAT(hint_of("entropy"), ContainsSubstring("entropy_bits"));
    CHECK_THAT(hint_of("KL_nats"), ContainsSubstring("kl_nats"));
    CHECK_THAT(hint_of("mc_varaince"), ContainsSubstring("mc_variance"));
    CHECK_THAT(hint_of("zzzzzz"), ContainsSubstring("known signals: entropy_bits, kl_nats"));
    CHECK_THAT(hint_of(""), ContainsSubstring("known signals"));
    CHECK_THAT(hint_of(std::string(5000, 'x')), ContainsSubstring("known signals"));
}

TEST_CASE("edit distance equals its plain recursive definition", "[signals]") {
    const uint32_t seed = test::seed(20240611);
    INFO("seed " << seed);
    std::mt19937 random(seed);
    const auto word = [&] {
        std::string text(random() % 7, ' ');
        for (char& c : text)
            c = static_cast<char>('a' + random() % 3);
        return text;
    };
    for (int i = 0; i < 600; ++i) {
        const std::string a = word(), b = word();
        INFO(a << " / " << b);
        CHECK(edit_distance(a, b) == plain_distance(a, b));
        CHECK(edit_distance(a, b) == edit_distance(b, a));
    }
    CHECK(edit_distance("Entropy", "entropy") == 0);
}
