#pragma once

#include "engine/session/readings/text_readings.h"

#include <nlohmann/json_fwd.hpp>

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace refreshlab {

/// Sets of entries that scope_shares() reads: halves, thirds of the layers, quarters of delta.
inline constexpr std::array<std::string_view, 9> scope_set_names = {
    "keys",           "values",         "first layers",  "middle layers", "last layers",
    "oldest quarter", "second quarter", "third quarter", "newest quarter"};
/// Ways to choose a quarter of the positions of delta: scope_positions(), and at random (the mean of some draws).
inline constexpr std::array<std::string_view, 5> position_choice_names = {
    "drift", "attention", "drift_attention", "newest", "at random"};
/// Whole refreshes of the text that are read, and the tokens behind each whose loss counts.
inline constexpr int64_t scope_study_stride = 16, scope_study_horizon = 16;

/// What parts of refreshes gain on one text, nats a token: none - part, the mean over refreshes every scope_study_stride tokens that have
/// scope_study_horizon tokens behind them. Before each the student stands as after whole refreshes.
struct ScopeShares {
    int64_t refreshes = 0;
    double whole = 0;
    std::array<double, scope_set_names.size()> sets{};
    std::array<double, position_choice_names.size()> chosen{}; ///< a quarter of the positions, in all layers
    std::vector<double> layers;                                ///< [layers], each alone
    /// Of what one position alone gains, in all layers, with each of the first four choices' scores (newest: the position's place), the mean
    /// over refreshes; NaN where no refresh has one.
    std::array<double, 4> correlation{};
    friend bool operator==(const ScopeShares&, const ScopeShares&) = default;
};

/// Refreshes of a text that scope_shares() reads: their boundaries.
[[nodiscard]] std::vector<int64_t> scope_study_boundaries(const TeacherText& text);

/// \param seed  of the draws at random
/// Cost: some (30 + layers) * scope_study_horizon rows of the student a refresh, and a step of it a token.
[[nodiscard]] ScopeShares scope_shares(const LlamaModel& student, const TeacherText& text, uint64_t seed);

/// What refreshes of these layers alone gain, [sets], nats a token as ScopeShares.
/// \param sets  [sets][layers], 1 = refreshed
[[nodiscard]] std::vector<double> layer_set_gains(const LlamaModel& student, const TeacherText& text,
                                                  std::span<const std::vector<uint8_t>> sets);

[[nodiscard]] nlohmann::json to_json(const ScopeShares& shares);
/// Throws Error{bad_input} naming `what`.
[[nodiscard]] ScopeShares scope_shares_from_json(const nlohmann::json& json, const std::string& what);

} // namespace refreshlab
