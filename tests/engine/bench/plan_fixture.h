#pragma once

#include "engine/bench/report/plan_report.h"

#include <numeric>
#include <stdexcept>
#include <string>
#include <vector>

/// What the suites of plans share.
namespace refreshlab::test::plan {

using namespace refreshlab::bench;
using kernels::LaunchShape;
using kernels::WeightType;
using kernels::decode::DecodeKernel;
using kernels::decode::DecodeShape;
using kernels::decode::PlannedLaunch;

inline const char* const student_3b =
    "1696x4512x28x24x8x128x128256"; // OverFill's student of Llama-3.2-3B, as it is held

[[nodiscard]] inline DecodeShape shape_of(const std::string& text, int64_t context, int64_t rows = 1,
                                          WeightType type = WeightType::bf16) {
    DecodeShape shape = planned_model(text).shape;
    shape.type = type;
    shape.context = context;
    shape.capacity = context + 1;
    shape.rows = rows;
    return shape;
}

[[nodiscard]] inline int64_t floor_bytes(const std::vector<PlannedLaunch>& launches) {
    return std::accumulate(launches.begin(), launches.end(), int64_t{0},
                           [](int64_t sum, const PlannedLaunch& l) { return sum + l.traffic.floor(); });
}

[[nodiscard]] inline const PlannedLaunch& launch_of(const std::vector<PlannedLaunch>& launches,
                                                    const std::string& part, int64_t layer = 0) {
    for (const PlannedLaunch& l : launches)
        if (part == l.part && (l.layer == layer || l.layer < 0)) return l;
    throw std::runtime_error("no launch of " + part);
}

[[nodiscard]] inline PlanReport report_of(const std::string& text, const std::string& device,
                                          int64_t rows = 1, const kernels::BuiltKernels& built = {}) {
    PlanReport report;
    report.model = planned_model(text);
    report.model.shape = shape_of(text, 2048, rows);
    report.dtype = "bf16";
    report.step = predict_step(report.model.shape, device_model(device), built);
    report.range = share_range(report.model.shape, device_model(device), built);
    return report;
}

} // namespace refreshlab::test::plan
