#include "engine/study/measure/scope_shares.h"

#include "engine/base/check.h"
#include "engine/base/error.h"
#include "engine/cache/kv_cache.h"
#include "engine/model/forward/captures.h"
#include "engine/results/bootstrap.h"
#include "engine/results/gate_fit.h"
#include "engine/session/parts/splice.h"
#include "engine/session/readings/refresh_readings.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <numeric>
#include <random>
#include <utility>

namespace refreshlab {

namespace {

constexpr size_t draws_at_random = 4;
constexpr int64_t thirds = 3, quarters = 4;

/// What a session knows of the positions of delta when it refreshes.
struct PositionScores {
    std::shared_ptr<const DriftMap> map;
    std::vector<double> drift;    ///< [delta], the mean over layers
    std::vector<float> attention; ///< [delta]
};

/// Decodes delta, as a session does after a whole refresh at `begin`.
PositionScores scores_of(const LlamaModel& student, const TeacherText& text, int64_t begin,
                         int64_t boundary) {
    const auto prompt = std::ssize(text.prompt());
    const Delta delta{prompt + begin, prompt + boundary};
    const auto cache = student.make_cache(delta.end + 1);
    cache->adopt_prefix(text.cache(), delta.first);
    PositionScores scores;
    scores.attention.assign(static_cast<size_t>(delta.size()), 0);
    for (int64_t position = delta.first; position < delta.end; ++position) {
        AttentionReceived received(student.config(), delta.first, position);
        LayerHooks* const hooks[] = {&received};
        StepInputs in;
        in.tokens = std::span(&text.text()[static_cast<size_t>(position - prompt)], 1);
        in.origin = Origin::student;
        in.hooks = hooks;
        static_cast<void>(student.forward().step(*cache, in));
        for (size_t i = 0; i < received.received().size(); ++i)
            scores.attention[i] += received.received()[i];
    }
    DeltaDrift drift = measure_drift(*cache, text.cache(), delta);
    scores.map = std::move(drift.map);
    scores.drift = std::move(drift.mean);
    return scores;
}

/// All layers and KV heads at some positions of delta.
Take at_positions(const ModelConfig& config, int64_t delta, std::span<const int64_t> positions) {
    Take take = take_everything(config, delta);
    for (LayerTake& layer : take) {
        std::ranges::fill(layer.positions, uint8_t{0});
        for (const int64_t position : positions)
            layer.positions[static_cast<size_t>(position)] = 1;
    }
    return take;
}

Take in_layers(const ModelConfig& config, int64_t delta, const std::vector<uint8_t>& layers) {
    Take take = take_everything(config, delta);
    for (size_t layer = 0; layer < take.size(); ++layer)
        if (layers[layer] == 0) std::ranges::fill(take[layer].heads, uint8_t{0});
    return take;
}

Take half_of(const ModelConfig& config, int64_t delta, EntryHalves halves) {
    Take take = take_everything(config, delta);
    for (LayerTake& layer : take)
        layer.halves = halves;
    return take;
}

std::vector<int64_t> range(int64_t first, int64_t end) {
    std::vector<int64_t> numbers(static_cast<size_t>(end - first));
    std::iota(numbers.begin(), numbers.end(), first);
    return numbers;
}

/// A quarter of the positions by each score, then the draws; counted from the beginning of delta.
std::vector<std::vector<int64_t>> choices_of(const PositionScores& scores, int64_t kv_heads, int64_t delta,
                                             std::mt19937_64& random) {
    std::vector<std::vector<int64_t>> choices;
    RefreshScope scope;
    scope.count = static_cast<int32_t>(std::max<int64_t>(delta / quarters, 1));
    const int64_t first = scores.map->first_pos;
    for (const ScopePositions by : {ScopePositions::drift, ScopePositions::attention,
                                    ScopePositions::drift_attention, ScopePositions::newest}) {
        scope.positions = by;
        choices.push_back(
            scope_positions(scope, {first, first + delta}, *scores.map, scores.attention, kv_heads));
        for (int64_t& position : choices.back())
            position -= first;
    }
    std::vector<int64_t> all = range(0, delta);
    for (size_t draw = 0; draw < draws_at_random; ++draw) {
        for (size_t i = 0; i + 1 < all.size(); ++i) // Fisher and Yates; the same bits with every library
            std::swap(all[i], all[i + random() % (all.size() - i)]);
        choices.emplace_back(all.begin(), all.begin() + scope.count);
    }
    return choices;
}

/// The rank correlations of what each position gains with its scores.
std::array<std::optional<double>, 4> correlations(const PositionScores& scores,
                                                  const std::vector<double>& gains) {
    std::array<std::vector<float>, 4> of;
    for (size_t i = 0; i < gains.size(); ++i) {
        const auto drift = static_cast<float>(scores.drift[i]);
        of[0].push_back(drift);
        of[1].push_back(scores.attention[i]);
        of[2].push_back(drift * scores.attention[i]);
        of[3].push_back(static_cast<float>(i));
    }
    std::array<std::optional<double>, 4> found;
    for (size_t i = 0; i < of.size(); ++i)
        found[i] = rank_correlation(of[i], gains);
    return found;
}

/// What is read of a refresh, in order.
struct Asked {
    std::vector<Take> takes;
    size_t layers = 0, positions = 0, choices = 0; ///< where these begin
};

Asked asked_of(const ModelConfig& config, int64_t delta, const std::vector<std::vector<int64_t>>& choices) {
    Asked asked;
    std::vector<Take>& takes = asked.takes;
    takes = {take_nothing(config, delta), take_everything(config, delta),
             half_of(config, delta, {true, false}), half_of(config, delta, {false, true})};
    const int64_t layers = config.num_layers;
    for (int64_t third = 0; third < thirds; ++third) {
        std::vector<uint8_t> some(static_cast<size_t>(layers), 0);
        for (int64_t layer = third * layers / thirds; layer < (third + 1) * layers / thirds; ++layer)
            some[static_cast<size_t>(layer)] = 1;
        takes.push_back(in_layers(config, delta, some));
    }
    for (int64_t quarter = 0; quarter < quarters; ++quarter)
        takes.push_back(
            at_positions(config, delta, range(quarter * delta / quarters, (quarter + 1) * delta / quarters)));
    asked.layers = takes.size();
    for (int64_t layer = 0; layer < layers; ++layer) {
        std::vector<uint8_t> one(static_cast<size_t>(layers), 0);
        one[static_cast<size_t>(layer)] = 1;
        takes.push_back(in_layers(config, delta, one));
    }
    asked.positions = takes.size();
    for (int64_t position = 0; position < delta; ++position)
        takes.push_back(at_positions(config, delta, range(position, position + 1)));
    asked.choices = takes.size();
    for (const std::vector<int64_t>& choice : choices)
        takes.push_back(at_positions(config, delta, choice));
    return asked;
}

} // namespace

std::vector<int64_t> scope_study_boundaries(const TeacherText& text) {
    std::vector<int64_t> boundaries;
    for (int64_t b = scope_study_stride; b + scope_study_horizon <= text.steps(); b += scope_study_stride)
        boundaries.push_back(b);
    return boundaries;
}

ScopeShares scope_shares(const LlamaModel& student, const TeacherText& text, uint64_t seed) {
    const ModelConfig& config = student.config();
    const std::vector<int64_t> boundaries = scope_study_boundaries(text);
    RL_ASSERT(!boundaries.empty());
    const auto cache = RefreshReadings::make_cache(student, text, scope_study_stride, scope_study_horizon);
    const auto n = static_cast<double>(boundaries.size());
    std::mt19937_64 random(seed);
    ScopeShares shares;
    shares.refreshes = std::ssize(boundaries);
    shares.layers.assign(static_cast<size_t>(config.num_layers), 0);
    std::array<std::vector<double>, 4> correlated;
    for (const int64_t boundary : boundaries) {
        const int64_t begin = boundary - scope_study_stride;
        const PositionScores scores = scores_of(student, text, begin, boundary);
        const auto choices = choices_of(scores, config.num_kv_heads, scope_study_stride, random);
        const Asked asked = asked_of(config, scope_study_stride, choices);
        RefreshReadings readings(student, text, *cache, begin, boundary, scope_study_horizon);
        std::vector<double> gains = readings.losses(asked.takes);
        for (size_t i = gains.size(); i-- > 0;)
            gains[i] = gains[0] - gains[i];
        shares.whole += gains[1] / n;
        for (size_t i = 0; i < shares.sets.size(); ++i)
            shares.sets[i] += gains[2 + i] / n;
        for (size_t i = 0; i < shares.layers.size(); ++i)
            shares.layers[i] += gains[asked.layers + i] / n;
        constexpr size_t by_score = position_choice_names.size() - 1;
        for (size_t i = 0; i < by_score; ++i)
            shares.chosen[i] += gains[asked.choices + i] / n;
        for (size_t i = 0; i < draws_at_random; ++i)
            shares.chosen[by_score] +=
                gains[asked.choices + by_score + i] / n / static_cast<double>(draws_at_random);
        const auto found = correlations(scores, {gains.begin() + static_cast<int64_t>(asked.positions),
                                                 gains.begin() + static_cast<int64_t>(asked.choices)});
        for (size_t i = 0; i < found.size(); ++i)
            if (found[i]) correlated[i].push_back(*found[i]);
    }
    for (size_t i = 0; i < correlated.size(); ++i)
        shares.correlation[i] = mean(correlated[i]).value_or(std::numeric_limits<double>::quiet_NaN());
    return shares;
}

std::vector<double> layer_set_gains(const LlamaModel& student, const TeacherText& text,
                                    std::span<const std::vector<uint8_t>> sets) {
    const ModelConfig& config = student.config();
    const std::vector<int64_t> boundaries = scope_study_boundaries(text);
    const auto cache = RefreshReadings::make_cache(student, text, scope_study_stride, scope_study_horizon);
    std::vector<Take> takes{take_nothing(config, scope_study_stride)};
    for (const std::vector<uint8_t>& set : sets)
        takes.push_back(in_layers(config, scope_study_stride, set));
    std::vector<double> gains(sets.size(), 0);
    for (const int64_t boundary : boundaries) {
        RefreshReadings readings(student, text, *cache, boundary - scope_study_stride, boundary,
                                 scope_study_horizon);
        const std::vector<double> losses = readings.losses(takes);
        for (size_t i = 0; i < gains.size(); ++i)
            gains[i] += (losses[0] - losses[1 + i]) / static_cast<double>(boundaries.size());
    }
    return gains;
}

nlohmann::json to_json(const ScopeShares& shares) {
    nlohmann::json correlation = nlohmann::json::array();
    for (const double one : shares.correlation)
        correlation.push_back(std::isfinite(one) ? nlohmann::json(one) : nlohmann::json());
    return {{"refreshes", shares.refreshes}, {"whole", shares.whole},   {"sets", shares.sets},
            {"chosen", shares.chosen},       {"layers", shares.layers}, {"correlation", correlation}};
}

ScopeShares scope_shares_from_json(const nlohmann::json& json, const std::string& what) {
    try {
        ScopeShares shares;
        json.at("refreshes").get_to(shares.refreshes);
        json.at("whole").get_to(shares.whole);
        json.at("sets").get_to(shares.sets);
        json.at("chosen").get_to(shares.chosen);
        json.at("layers").get_to(shares.layers);
        for (size_t i = 0; i < shares.correlation.size(); ++i) {
            const nlohmann::json& one = json.at("correlation").at(i);
            shares.correlation[i] =
                one.is_null() ? std::numeric_limits<double>::quiet_NaN() : one.get<double>();
        }
        return shares;
    } catch (const nlohmann::json::exception& e) {
        throw Error("reading", what, e.what());
    }
}

} // namespace refreshlab
