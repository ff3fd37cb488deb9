#include "engine/base/error.h"
#include "engine/landscape/best_schedule.h"
#include "engine/landscape/cell_signals.h"
#include "engine/landscape/staircase.h"
#include "engine/results/gate_fit.h"
#include "engine/signals/registry.h"
#include "tests/support/seed.h"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_floating_point.hpp>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <random>

namespace gate_fit_test {

using namespace refreshlab;
using Catch::Matchers::WithinAbs;

namespace {

/// A text on which something goes wrong at a few steps: the entropy jumps there, and from then on the loss is high until a
/// refresh. `noise` is a value that says nothing.
std::shared_ptr<const Landscape> landscape_with_accidents(std::mt19937& random, int64_t tokens) {
    LandscapeInfo info;
    info.prompt_ids = {1};
    info.tokens.assign(static_cast<size_t>(tokens), 2);
    info.teacher_logprob.assign(static_cast<size_t>(tokens), -0.2F);
    info.values = {"logprob", "entropy_bits", "varentropy_bits2"};
    std::vector<bool> accident(static_cast<size_t>(tokens));
    for (int64_t t = 3; t < tokens - 3; t += 7 + static_cast<int64_t>(random() % 9))
        accident[static_cast<size_t>(t)] = true;
    std::uniform_real_distribution<float> noise(0, 1);
    auto landscape = std::make_shared<Landscape>(std::move(info));
    for (int64_t j = 0; j < landscape->num_rows(); ++j) {
        auto row = std::make_shared<LandscapeRow>();
        row->row = j;
        row->planes.resize(3);
        bool wrong = false;
        for (int64_t t = j + 1; t <= landscape->num_steps(); ++t) {
            row->planes[0].push_back(-(wrong ? 1.5F : 0.4F) - 0.1F * noise(random));
            row->planes[1].push_back((accident[static_cast<size_t>(t)] ? 6.0F : 1.0F) + noise(random));
            row->planes[2].push_back(noise(random));
            wrong = wrong || accident[static_cast<size_t>(t)];
        }
        landscape->put_row(std::move(row));
    }
    return landscape;
}

std::vector<std::shared_ptr<const Landscape>> texts(std::mt19937& random, int count) {
    std::vector<std::shared_ptr<const Landscape>> all;
    for (int i = 0; i < count; ++i)
        all.push_back(landscape_with_accidents(random, 90));
    return all;
}

} // namespace

TEST_CASE("ranks and the ROC area are those that counting pairs gives", "[study][gate]") {
    std::mt19937 random(test::seed(0x6A7E));
    for (int round = 0; round < 20; ++round) {
        std::vector<float> values;
        std::vector<double> gains;
        for (int i = 0; i < 30; ++i) {
            values.push_back(static_cast<float>(random() % 8));
            gains.push_back(static_cast<double>(random() % 9) - 4);
        }
        double right = 0, pairs = 0;
        for (size_t a = 0; a < values.size(); ++a) {
            for (size_t b = 0; b < values.size(); ++b) {
                if (!(gains[a] > 0 && gains[b] <= 0)) continue;
                right += values[a] > values[b] ? 1 : values[a] == values[b] ? 0.5 : 0;
                ++pairs;
            }
        }
        CHECK_THAT(*roc_area(values, gains), WithinAbs(right / pairs, 1e-12));
        std::vector<double> same(values.begin(), values.end());
        CHECK_THAT(*rank_correlation(values, same), WithinAbs(1, 1e-12));
        for (double& value : same)
            value = -std::exp(value);
        CHECK_THAT(*rank_correlation(values, same), WithinAbs(-1, 1e-12));
    }
    const std::vector<float> five{1, 2, 3, 4, 5};
    const std::vector<double> swapped{2, 1, 4, 3, 5}; // 1 - 6 * 4 / (5 * 24)
    CHECK_THAT(*rank_correlation(five, swapped), WithinAbs(0.8, 1e-12));
    CHECK_FALSE(rank_correlation(five, std::vector<double>(5, 1.0)).has_value());
    CHECK_FALSE(roc_area(five, swapped).has_value()); // nothing but gains
}

TEST_CASE("a fitted gate finds what foretells a gain, and beats blind placement on texts it has not seen",
          "[study][gate]") {
    std::mt19937 random(test::seed(0x6A7F));
    const auto all = texts(random, 6);
    const FittedGate gate = fit_gate(all, {});
    REQUIRE(gate.policy.signals.size() == 1);
    CHECK_NOTHROW(check_policy(gate.policy, "the fitted gate"));
    const auto weight = [&](const char* name) {
        return std::ranges::find(gate.policy.signals[0].terms, name, &OwnSignal::Term::signal)->weight;
    };
    CHECK(weight("entropy_bits") > 0.1);
    CHECK(std::abs(weight("varentropy_bits2")) < weight("entropy_bits"));
    const auto at_8 = std::ranges::find(gate.judged, 8, &FittedGate::Judged::per_256);
    REQUIRE(at_8->gate.size() == 6);
    for (size_t i = 0; i < at_8->gate.size(); ++i)
        CHECK(at_8->gate[i] > at_8->blind[i]);
    // As a policy it refreshes about as often as was asked for.
    const Staircase walk = walk_policy(*all[0], gate.policy);
    CHECK(!walk.refreshes.empty());
    CHECK(walk.refreshes.size() <= 6);
    CHECK(policy_from_json(policy_to_json(gate.policy), "again") == gate.policy);
}

TEST_CASE("what the refresh before measured is a term, and its mean stands in before the first",
          "[study][gate]") {
    // Every cell says who it is: row * 100 + step for the KL, its half for the drift.
    LandscapeInfo info;
    info.prompt_ids = {1};
    info.tokens.assign(14, 2);
    info.teacher_logprob.assign(14, -0.2F);
    info.values = {"logprob", "kl_nats", "drift"};
    const auto make = [&](float offset) {
        auto landscape = std::make_shared<Landscape>(info);
        for (int64_t j = 0; j < landscape->num_rows(); ++j) {
            auto row = std::make_shared<LandscapeRow>();
            row->row = j;
            row->planes.resize(3);
            for (int64_t t = j + 1; t <= landscape->num_steps(); ++t) {
                const auto kl = static_cast<float>(100 * j + t);
                row->planes[0].push_back(-offset - 0.01F * static_cast<float>((7 * j + 3 * t) % 11));
                row->planes[1].push_back(kl);
                row->planes[2].push_back(kl / 2);
            }
            landscape->put_row(std::move(row));
        }
        return landscape;
    };
    const std::vector<std::shared_ptr<const Landscape>> all{make(0.5F), make(0.7F), make(0.6F)};
    const Landscape& one = *all[0];
    CHECK(is_absent(signal_at(one, "last_kl_nats", 0, 5, std::nullopt)));
    CHECK(signal_at(one, "last_kl_nats", 7, 9, 3) == 307.0F); // step 7 in row 3
    CHECK(signal_at(one, "last_drift", 7, 9, 4) == 203.0F);   // half the mean of 405, 406, 407
    CHECK(signal_at(one, "steps_since_refresh", 7, 9, 3) == 2.0F);
    CHECK(signal_at(one, "kl_nats", 7, 9, 3) == 709.0F);
    CHECK_FALSE(usual_row_before(one, 0, 4).has_value());
    CHECK(usual_row_before(one, 7, 9) == 5); // as far before as step 9 is after
    CHECK(usual_row_before(one, 3, 12) == 0);

    const std::vector<std::string> terms = shared_terms(all);
    CHECK(terms == std::vector<std::string>{"steps_since_refresh", "last_kl_nats", "last_drift"});
    const std::string names[] = {"last_kl_nats"};
    const GainSamples known = gain_samples(one, names, 8),
                      every = gain_samples(one, names, 8, Unknown::absent);
    CHECK(known.gains.size() == 66); // pairs of rows 1 .. 12
    CHECK(every.gains.size() == 78); // and those from row 0
    CHECK(std::ranges::none_of(known.values[0], [](float v) { return is_absent(v); }));
    CHECK(std::ranges::count_if(every.values[0], [](float v) { return is_absent(v); }) == 12);
    double mean = 0;
    for (const float value : known.values[0])
        mean += static_cast<double>(value) / 66;
    const FittedGate gate = fit_gate(all, {});
    for (const OwnSignal::Term& term : gate.policy.signals[0].terms) {
        if (term.signal == "last_kl_nats") CHECK_THAT(term.absent_as.value(), WithinAbs(mean, 1e-6));
        CHECK(term.absent_as.has_value() == (term.signal != "steps_since_refresh"));
    }
    // Before its first refresh the gate has a value, so it can fire at all.
    RefreshPolicy eager = gate.policy;
    eager.triggers[0].threshold = -1e6;
    CHECK(walk_policy(one, eager).refreshes.size() == 12);
}

TEST_CASE("a logistic gate is at the maximum of its penalised likelihood", "[study][gate]") {
    std::mt19937 random(test::seed(0x6A80));
    const auto all = texts(random, 3);
    GateOptions options;
    options.form = GateOptions::Form::logistic;
    options.ridge = 0.03;
    const FittedGate gate = fit_gate(all, options);
    const OwnSignal& signal = gate.policy.signals[0];
    std::vector<std::string> names;
    for (const OwnSignal::Term& term : signal.terms)
        names.push_back(term.signal);
    std::vector<GainSamples> samples;
    double n = 0;
    for (const auto& text : all) {
        samples.push_back(gain_samples(*text, names, options.horizon));
        n += static_cast<double>(samples.back().gains.size());
    }
    // The likelihood is written from its definition, in raw signals; the penalty is on weights of standardised ones.
    std::vector<double> sd;
    for (size_t f = 0; f < names.size(); ++f) {
        double sum = 0, squares = 0;
        for (const GainSamples& text : samples) {
            for (const float value : text.values[f]) {
                sum += static_cast<double>(value);
                squares += static_cast<double>(value) * static_cast<double>(value);
            }
        }
        sd.push_back(std::sqrt(squares / n - sum / n * sum / n));
    }
    const auto likelihood = [&](size_t moved, double by) {
        double total = 0;
        for (const GainSamples& text : samples) {
            for (size_t s = 0; s < text.gains.size(); ++s) {
                double odds = signal.offset + (moved == names.size() ? by : 0);
                for (size_t f = 0; f < names.size(); ++f)
                    odds += (signal.terms[f].weight + (f == moved ? by : 0)) *
                            static_cast<double>(text.values[f][s]);
                total -= std::log1p(std::exp(text.gains[s] > 0 ? -odds : odds)) / n;
            }
        }
        for (size_t f = 0; f < names.size(); ++f)
            total -=
                options.ridge / 2 * std::pow((signal.terms[f].weight + (f == moved ? by : 0)) * sd[f], 2);
        return total;
    };
    const double at = likelihood(names.size() + 1, 0);
    for (size_t f = 0; f <= names.size(); ++f) {
        CAPTURE(f);
        const double step = f < names.size() ? 0.02 / sd[f] : 0.02;
        CHECK(likelihood(f, step) < at);
        CHECK(likelihood(f, -step) < at);
    }
    CHECK(std::ranges::find(signal.terms, "entropy_bits", &OwnSignal::Term::signal)->weight > 0);
}

TEST_CASE("a matched point has the wanted number of refreshes, or none", "[study][gate]") {
    std::mt19937 random(test::seed(0x6A80));
    const auto landscape = landscape_with_accidents(random, 90);
    RefreshPolicy policy = preset_policy("periodic");
    for (const int64_t count : {1, 2, 5, 10}) {
        const auto point = matched_point(*landscape, policy, 0, count);
        REQUIRE(point.has_value());
        CHECK(std::abs(point->refreshes - count) <= std::max<int64_t>(1, count / 2));
        REQUIRE(point->efficiency.has_value());
        CHECK(*point->efficiency <= 1.0);
    }
    policy.triggers[0].comparison = Comparison::below; // fires at every boundary or never
    CHECK_FALSE(matched_point(*landscape, policy, 0, 3).has_value());
}

TEST_CASE("what no gate can be fitted on is refused", "[study][gate]") {
    std::mt19937 random(test::seed(0x6A81));
    const auto one = texts(random, 1), two = texts(random, 2);
    const auto refused = [](Landscapes landscapes, const GateOptions& options) -> std::string {
        try {
            static_cast<void>(fit_gate(landscapes, options));
        } catch (const Error& e) {
            return e.what();
        }
        return "accepted";
    };
    CHECK(refused(one, {}).find("1 landscape is given, and it takes two at least") != std::string::npos);
    GateOptions options;
    options.signals = {"entropy_bits", "top2_margin"};
    CHECK(refused(two, options).find("top2_margin: not every landscape holds it") != std::string::npos);
    options.signals = {"kl_nats"};
    CHECK(refused(two, options).find("known only after a teacher pass") != std::string::npos);
}

} // namespace gate_fit_test
