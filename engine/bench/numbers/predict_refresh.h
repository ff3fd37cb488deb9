#pragma once

#include "engine/bench/numbers/predict_step.h"
#include "kernels/decode/rows_plan.h"

#include <cstdint>

namespace refreshlab::bench {

/// What is refreshed: the last `tokens` of the `context` columns that the student has written; the teacher's cache holds those before.
struct RefreshShape {
    int64_t tokens = 0; ///< of delta; more than kernels::most_pass_rows are passes one behind the other
    kernels::decode::PassShape::Logits logits{}; ///< all: a KL divergence of every position is wanted
    kernels::decode::DecodeShape teacher;
    /// Whose cache is spliced, of the teacher's layers, KV heads and head_dim, and in whose steps the time is told.
    kernels::decode::DecodeShape student;
};

/// A PREDICTION of a refresh: the teacher's passes, then drift and splice.
struct PredictedRefresh {
    RefreshShape shape;
    PredictedStep work; ///< its floor_us is that of the bytes
    PredictedStep step; ///< of the student: its token's row alone
    double arithmetic_us =
        0; ///< of the products, unpadded, at the tensor cores' full rate; 0: none for the type

    [[nodiscard]] double floor_us() const {
        return work.floor_us > arithmetic_us ? work.floor_us : arithmetic_us;
    }
    [[nodiscard]] double steps() const { return work.predicted_us / step.predicted_us; }
};
/// 1 <= tokens <= the teacher's context; the two have one KV geometry (asserted).
[[nodiscard]] PredictedRefresh predict_refresh(RefreshShape shape, const DeviceModel& device,
                                               const kernels::BuiltKernels& built);

} // namespace refreshlab::bench
