#include "engine/study/measure/derived_reading.h"

#include "engine/base/error.h"

#include <nlohmann/json.hpp>

#include <cmath>
#include <numeric>
#include <span>
#include <string>

namespace refreshlab {

namespace {

double mean_of(std::span<const float> values) {
    double sum = 0;
    for (const float value : values)
        sum += static_cast<double>(value);
    return sum / static_cast<double>(values.size());
}

ReadingMeans means_of(const TextNumbers& numbers, int64_t refreshes) {
    ReadingMeans means{numbers.nll(), mean_of(numbers.kl_nats), mean_of(numbers.acceptance),
                       mean_of(numbers.same_top1), refreshes};
    if (!std::isfinite(means.nll) || !std::isfinite(means.kl_nats)) {
        throw Error("reading a given text", "the student", "a row of its logits is not finite", {},
                    ErrorKind::failure);
    }
    return means;
}

} // namespace

DerivedReading read_all_ways(const LlamaModel& student, const TeacherText& text) {
    StudentReadings readings(student, text);
    DerivedReading all;
    all.tokens = text.steps();
    all.teacher_nll = text.numbers().nll();
    const auto put = [&](ReadingWay way, const TextNumbers& numbers, size_t refreshes) {
        all.ways[static_cast<size_t>(way)] = means_of(numbers, static_cast<int64_t>(refreshes));
    };
    const auto periodic = [&](ReadingWay way, int64_t period) {
        const auto boundaries = readings.every(period);
        TextNumbers numbers = readings.refreshed(boundaries);
        put(way, numbers, boundaries.size());
        return numbers;
    };
    put(ReadingWay::alone, readings.alone(), 0);
    put(ReadingWay::none, readings.refreshed({}), 0);
    periodic(ReadingWay::every_64, 64);
    const TextNumbers every_16 = periodic(ReadingWay::every_16, 16);
    periodic(ReadingWay::every_4, 4);
    periodic(ReadingWay::every_1, 1);
    const auto gate = readings.entropy_gate(all.of(ReadingWay::every_16).refreshes, every_16.entropy_bits);
    all.gate_bits = gate.threshold;
    put(ReadingWay::gate, gate.numbers, gate.boundaries.size());
    return all;
}

nlohmann::json to_json(const DerivedReading& reading) {
    nlohmann::json ways = nlohmann::json::object();
    for (size_t i = 0; i < num_reading_ways; ++i) {
        const ReadingMeans& m = reading.ways[i];
        ways[std::string(reading_way_names[i])] = {{"nll", m.nll},
                                                   {"kl_nats", m.kl_nats},
                                                   {"acceptance", m.acceptance},
                                                   {"same_top1", m.same_top1},
                                                   {"refreshes", m.refreshes}};
    }
    return {{"tokens", reading.tokens},
            {"teacher_nll", reading.teacher_nll},
            {"gate_bits", reading.gate_bits},
            {"ways", std::move(ways)}};
}

DerivedReading derived_reading_from_json(const nlohmann::json& json, const std::string& what) {
    try {
        DerivedReading reading;
        json.at("tokens").get_to(reading.tokens);
        json.at("teacher_nll").get_to(reading.teacher_nll);
        json.at("gate_bits").get_to(reading.gate_bits);
        for (size_t i = 0; i < num_reading_ways; ++i) {
            const nlohmann::json& way = json.at("ways").at(std::string(reading_way_names[i]));
            ReadingMeans& m = reading.ways[i];
            way.at("nll").get_to(m.nll);
            way.at("kl_nats").get_to(m.kl_nats);
            way.at("acceptance").get_to(m.acceptance);
            way.at("same_top1").get_to(m.same_top1);
            way.at("refreshes").get_to(m.refreshes);
        }
        return reading;
    } catch (const nlohmann::json::exception& e) {
        throw Error("reading stored results", what, e.what());
    }
}

} // namespace refreshlab
