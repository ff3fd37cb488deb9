#include "app/engine/plan.h"

#include "app/base/assets.h"
#include "app/base/build_commit.h"
#include "app/options/run_options.h"
#include "engine/base/error.h"
#include "engine/bench/numbers/device_models.h"
#include "engine/model/model_config.h"
#include "engine/model/model_source.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace refreshlab::app {

namespace {

constexpr int64_t default_context = 2048;
constexpr int64_t candidates = 8; ///< of a step, as every session asks for

/// Options of measurements have no part in a plan.
void refuse_measurements(const BenchCommandOptions& options) {
    const std::pair<const char*, bool> given[] = {
        {"--teacher", !options.teacher.empty()},  {"--student", !options.student.empty()},
        {"--mode", !options.mode.empty()},        {"--device", !options.device.empty()},
        {"--threads", options.threads != 0},      {"--set", !options.set.empty()},
        {"--only", !options.only.empty()},        {"--quick", options.quick},
        {"--decode-only", options.decode_only},   {"--ids", !options.ids.empty()},
        {"--tokens", options.tokens.has_value()}, {"--rounds", options.rounds.has_value()},
        {"--pairs", options.pairs.has_value()},   {"--warm-ups", options.warm_ups.has_value()},
        {"--figures", !options.figures.empty()},  {"--ui", !options.ui.empty()},
        {"--scratch", !options.folder.empty()}};
    for (const auto& [option, there] : given)
        if (there)
            throw Error("reading", option, "has no part in --plan",
                        "a plan takes --device-model, --model or --shape, --dtype, --context, --mc, "
                        "--refresh, --json");
}

bench::PlannedModel model_of(const BenchCommandOptions& options) {
    if (!options.model.empty() && !options.shape.empty())
        throw Error("reading", "--shape", "stands beside --model", "one of the two says what is planned");
    if (!options.shape.empty()) return bench::planned_model(options.shape);
    const std::string path =
        options.model.empty() ? first_start_config(find_assets()).student_dir : options.model;
    const auto source = ModelSource::open(path);
    return bench::planned_model(source->config(), source->name());
}

} // namespace

void refuse_plan_options(const BenchCommandOptions& options) {
    const std::pair<const char*, bool> given[] = {{"--device-model", !options.device_model.empty()},
                                                  {"--model", !options.model.empty()},
                                                  {"--shape", !options.shape.empty()},
                                                  {"--context", options.context.has_value()},
                                                  {"--mc", options.mc.has_value()},
                                                  {"--refresh", options.refresh.has_value()}};
    for (const auto& [option, there] : given)
        if (there) throw Error("reading", option, "needs --plan");
}

bench::PlanReport plan_of(const BenchCommandOptions& options) {
    refuse_measurements(options);
    if (options.device_model.empty()) {
        std::string names;
        for (const bench::DeviceModel& device : bench::device_models())
            names += fmt::format("{}{}", names.empty() ? "" : ", ", device.name);
        throw Error("reading", "--plan", "needs --device-model", "one of " + names);
    }
    const bench::DeviceModel& device = bench::device_model(options.device_model);
    bench::PlanReport report;
    report.commit = build_commit();
    report.dtype = options.dtype.empty() ? "bf16" : options.dtype;
    const kernels::WeightType type = bench::planned_type(report.dtype);
    report.model = model_of(options);
    bench::set_forms(report.model, report.dtype);
    if (options.refresh && report.model.shape.form != kernels::MatrixForm::numbers)
        throw Error("reading", "--refresh",
                    "is counted for bf16, f16 and f32 alone, and --dtype is " + report.dtype);
    kernels::decode::DecodeShape& shape = report.model.shape;
    shape.type = type;
    shape.rows = 1 + options.mc.value_or(0);
    shape.context = options.context.value_or(default_context);
    shape.top_k = std::min(candidates, shape.vocab);
    shape.capacity = shape.context + 1;
    report.step = bench::predict_step(shape, device, kernels::built_kernels());
    report.range = bench::share_range(shape, device, kernels::built_kernels());
    if (options.refresh) report.refresh = bench::refresh_floor(shape, device, *options.refresh);
    return report;
}

} // namespace refreshlab::app
