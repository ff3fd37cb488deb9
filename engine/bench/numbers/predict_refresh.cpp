#include "engine/bench/numbers/predict_refresh.h"

#include "engine/base/check.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace refreshlab::bench {

namespace {

using kernels::decode::DecodeShape;
using kernels::decode::PassShape;
using kernels::decode::PlannedLaunch;

/// Of a pass's products, without the zeros that fill tiles.
int64_t multiply_adds(const DecodeShape& s, const PassShape& pass) {
    const int64_t q = s.heads * s.head_dim, kv = s.kv_heads * s.head_dim;
    const bool one = pass.logits == PassShape::Logits::last;
    int64_t sum = pass.logits == PassShape::Logits::none ? 0 : (one ? 1 : pass.rows) * s.vocab * s.hidden;
    for (int64_t l = 0; l < s.layers; ++l) {
        const bool last = l + 1 == s.layers, ends = last && pass.logits == PassShape::Logits::none;
        sum += pass.rows * ((ends ? 0 : q) + 2 * kv) * s.hidden;
        if (ends) break;
        const bool mlp = s.has_mlp.empty() || s.has_mlp[static_cast<size_t>(l)];
        sum += (last && one ? 1 : pass.rows) * (s.hidden * q + (mlp ? 3 * s.hidden * s.ffn : 0));
    }
    return sum;
}

} // namespace

PredictedRefresh predict_refresh(RefreshShape shape, const DeviceModel& device,
                                 const kernels::BuiltKernels& built) {
    DecodeShape &teacher = shape.teacher, &student = shape.student;
    RL_ASSERT(shape.tokens >= 1 && shape.tokens <= teacher.context);
    RL_ASSERT(teacher.layers == student.layers && teacher.kv_heads == student.kv_heads &&
              teacher.head_dim == student.head_dim && teacher.type == student.type);
    teacher.dependent = student.dependent = device.dependent_gap_us > 0;
    teacher.clusters = student.clusters = device.cluster_latency_ns > 0;
    student.rows = 1;
    PredictedRefresh refresh;
    std::vector<PlannedLaunch> launches;
    int64_t products = 0;
    for (int64_t done = 0; done < shape.tokens; done += kernels::most_pass_rows) {
        const int64_t rows = std::min(kernels::most_pass_rows, shape.tokens - done);
        const bool last = done + rows == shape.tokens;
        const bool none = !last && shape.logits == PassShape::Logits::last;
        const PassShape pass{rows, teacher.context - shape.tokens + done,
                             none ? PassShape::Logits::none : shape.logits};
        std::ranges::move(plan_pass(teacher, pass), std::back_inserter(launches));
        products += multiply_adds(teacher, pass);
    }
    std::ranges::move(plan_splice(student, shape.tokens), std::back_inserter(launches));
    refresh.work = predict_launches(std::move(launches), teacher, device, built);
    refresh.step = predict_step(student, device, built);
    if (teacher.type != kernels::WeightType::f32)
        refresh.arithmetic_us = 2 * static_cast<double>(products) / device.matrix_flops * 1e6;
    refresh.shape = std::move(shape);
    return refresh;
}

} // namespace refreshlab::bench
