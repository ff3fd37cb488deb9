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
                        "--attention-rows, "
                        "--refresh, --refresh-logits, --student-model or --student-shape, --json");
}

/// What belongs to a refresh, where none was asked for.
void refuse_refresh_options(const BenchCommandOptions& options) {
    if (options.refresh) return;
    const std::pair<const char*, bool> given[] = {{"--refresh-logits", !options.refresh_logits.empty()},
                                                  {"--student-model", !options.student_model.empty()},
                                                  {"--student-shape", !options.student_shape.empty()}};
    for (const auto& [option, there] : given)
        if (there) throw Error("reading", option, "needs --refresh");
}

/// \param option  "--model" or "--student-model"; beside it stands the option of a shape
bench::PlannedModel model_of(const std::string& model, const std::string& shape, const std::string& option) {
    if (!model.empty() && !shape.empty())
        throw Error("reading", option.substr(0, option.size() - 5) + "shape", "stands beside " + option,
                    "one of the two says what is planned");
    if (!shape.empty()) return bench::planned_model(shape);
    const auto source =
        ModelSource::open(model.empty() ? first_start_config(find_assets()).student_dir : model);
    return bench::planned_model(source->config(), source->name());
}

/// A step of that model, with one row.
void set_step(kernels::decode::DecodeShape& shape, kernels::WeightType type, int64_t context) {
    shape.type = type;
    shape.context = context;
    shape.top_k = std::min(candidates, shape.vocab);
    shape.capacity = shape.context + 1;
}

kernels::decode::PassShape::Logits logits_of(const std::string& text) {
    using Logits = kernels::decode::PassShape::Logits;
    if (text.empty() || text == "none") return Logits::none;
    if (text == "last") return Logits::last;
    if (text == "all") return Logits::all;
    throw Error("reading", "--refresh-logits", "'" + text + "' is not one of none, last, all");
}

void add_refresh(bench::PlanReport& report, const BenchCommandOptions& options,
                 const bench::DeviceModel& device) {
    const bool same = options.student_model.empty() && options.student_shape.empty();
    bench::PlannedModel student =
        same ? report.model : model_of(options.student_model, options.student_shape, "--student-model");
    bench::set_forms(student, report.dtype);
    bench::RefreshShape refresh;
    refresh.tokens = *options.refresh;
    refresh.logits = logits_of(options.refresh_logits);
    refresh.teacher = report.model.shape;
    refresh.student = student.shape;
    set_step(refresh.student, refresh.teacher.type, refresh.teacher.context);
    if (refresh.tokens > refresh.teacher.context)
        throw Error("reading", "--refresh",
                    fmt::format("{} tokens are more than the {} of --context", refresh.tokens,
                                refresh.teacher.context));
    if (refresh.teacher.head_dim % 16 != 0)
        throw Error(
            "planning a refresh of", report.model.name,
            fmt::format("the kernels of many rows take heads of a multiple of 16 channels, and here are {}",
                        refresh.teacher.head_dim));
    if (refresh.teacher.layers != refresh.student.layers ||
        refresh.teacher.kv_heads != refresh.student.kv_heads ||
        refresh.teacher.head_dim != refresh.student.head_dim)
        throw Error(
            "planning a refresh of", student.name,
            fmt::format("its cache is {} layers of {} KV heads of {} channels, that of {} is {} of {} of {}",
                        refresh.student.layers, refresh.student.kv_heads, refresh.student.head_dim,
                        report.model.name, refresh.teacher.layers, refresh.teacher.kv_heads,
                        refresh.teacher.head_dim),
            "a refresh splices columns of one form");
    report.student = student.name;
    report.refresh = bench::predict_refresh(std::move(refresh), device, kernels::built_kernels());
}

} // namespace

void refuse_plan_options(const BenchCommandOptions& options) {
    const std::pair<const char*, bool> given[] = {{"--device-model", !options.device_model.empty()},
                                                  {"--model", !options.model.empty()},
                                                  {"--shape", !options.shape.empty()},
                                                  {"--context", options.context.has_value()},
                                                  {"--mc", options.mc.has_value()},
                                                  {"--attention-rows", options.attention_rows.has_value()},
                                                  {"--attention-bins", options.attention_bins.has_value()},
                                                  {"--refresh", options.refresh.has_value()}};
    for (const auto& [option, there] : given)
        if (there) throw Error("reading", option, "needs --plan");
    refuse_refresh_options(options);
}

bench::PlanReport plan_of(const BenchCommandOptions& options) {
    refuse_measurements(options);
    refuse_refresh_options(options);
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
    report.model = model_of(options.model, options.shape, "--model");
    bench::set_forms(report.model, report.dtype);
    kernels::decode::DecodeShape& shape = report.model.shape;
    set_step(shape, bench::planned_type(report.dtype), options.context.value_or(default_context));
    shape.rows = 1 + options.mc.value_or(0);
    const int64_t taps = options.attention_rows.value_or(0);
    if (taps > shape.layers)
        throw Error(
            "reading", "--attention-rows",
            fmt::format("{} are more than the {} layers of {}", taps, shape.layers, report.model.name));
    if (taps > 0)
        report.without_rows_us = bench::predict_step(shape, device, kernels::built_kernels()).predicted_us;
    if (taps == 0 && options.attention_bins)
        throw Error("reading", "--attention-bins", "needs --attention-rows, the rows that are kept so");
    shape.taps = taps;
    shape.bins = options.attention_bins.value_or(0);
    report.step = bench::predict_step(shape, device, kernels::built_kernels());
    report.range = bench::share_range(shape, device, kernels::built_kernels());
    if (options.refresh) add_refresh(report, options, device);
    return report;
}

} // namespace refreshlab::app
