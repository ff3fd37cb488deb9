#pragma once

#include "engine/session/readings/text_readings.h"

#include <nlohmann/json_fwd.hpp>

#include <array>
#include <cstdint>
#include <string_view>

namespace refreshlab {

/// Ways in which a student reads a given text, from the one that is left to itself to the one whose every entry is the teacher's.
enum class ReadingWay : uint8_t { alone, none, every_64, every_16, every_4, every_1, gate };
inline constexpr size_t num_reading_ways = 7;
inline constexpr std::array<std::string_view, num_reading_ways> reading_way_names = {
    "alone", "no refresh", "every 64", "every 16", "every 4", "every 1", "entropy gate"};

/// Means over y_2 .. y_N of one reading.
struct ReadingMeans {
    double nll = 0;        ///< nats a token
    double kl_nats = 0;    ///< KL(teacher || student)
    double acceptance = 0; ///< sum of min(p_T, p_S)
    double same_top1 = 0;  ///< share of places where both have one first choice
    int64_t refreshes = 0;
    friend bool operator==(const ReadingMeans&, const ReadingMeans&) = default;
};

/// One text, read by one student in all ways. The loss split as in measure/loss_split.h.
struct DerivedReading {
    int64_t tokens = 0; ///< N - 1
    double teacher_nll = 0;
    double gate_bits = 0; ///< the threshold with which the gate refreshes as often as "every 16"
    std::array<ReadingMeans, num_reading_ways> ways{};

    [[nodiscard]] const ReadingMeans& of(ReadingWay way) const { return ways[static_cast<size_t>(way)]; }
    [[nodiscard]] double own_weights() const { return of(ReadingWay::every_1).nll - teacher_nll; }
    [[nodiscard]] double cache() const { return of(ReadingWay::none).nll - of(ReadingWay::every_1).nll; }
    /// What a way brings back of the cache loss, nats.
    [[nodiscard]] double recovered(ReadingWay way) const { return of(ReadingWay::none).nll - of(way).nll; }
    friend bool operator==(const DerivedReading&, const DerivedReading&) = default;
};

/// Reads the text in all ways. Cost: about 12 prefills of it. Throws Error{failure} where a row is not finite.
[[nodiscard]] DerivedReading read_all_ways(const LlamaModel& student, const TeacherText& text);

[[nodiscard]] nlohmann::json to_json(const DerivedReading& reading);
/// Throws Error{bad_input} naming `what`.
[[nodiscard]] DerivedReading derived_reading_from_json(const nlohmann::json& json, const std::string& what);

} // namespace refreshlab
