#include "python/bindings/studies.h"

#include "app/base/assets.h"
#include "engine/base/error.h"
#include "engine/base/json_file.h"
#include "engine/landscape/landscape_store.h"
#include "engine/model/model_fingerprint.h"
#include "engine/results/sweep_table.h"
#include "engine/session/driver/replay.h"
#include "engine/session/landscape/compute_landscape.h"
#include "engine/study/measure/sweep_score.h"
#include "engine/study/sweep/sweep_cells.h"
#include "engine/study/sweep/sweep_run.h"
#include "python/bindings/interruptible.h"

#include <fmt/format.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <future>
#include <map>
#include <memory>
#include <optional>
#include <string>

namespace refreshlab::python {

namespace {

namespace fs = std::filesystem;
using SharedLandscape = std::shared_ptr<Landscape>;

/// As `refreshlab landscape TRACE`, of which `trace` may name the file: what it has is gone on with, and it gets the rows.
SharedLandscape landscape_of(const LoadedPair& loaded, const std::shared_ptr<Recording>& run, int64_t every,
                             const std::string& values, const std::string& trace, const GoesOn& goes_on) {
    if (every < 1) throw Error("computing a landscape", "every", "must be 1 or more");
    const ModelPair& pair = *loaded.pair;
    LandscapeRequest request = landscape_request(*run, run->info().config);
    std::shared_ptr<const Landscape> known = trace.empty() ? nullptr : load_landscape_of(trace, *run);
    request.values = values.empty() && known ? known->info().values : landscape_values(values);
    if (known && known->info().values != request.values) known = nullptr; // these take their place
    request.every = every;
    check_landscape(pair, request);
    JudgeTokens(pair.teacher_dir).require_same(*run);
    request.teacher_digest = model_fingerprint(pair.teacher_dir);
    request.student_digest = student_digest(pair.student_dir, pair.bridge_file);
    auto landscape = compute_landscape(pair, request, replay_execution(run->info()), known,
                                       [&](const LandscapeProgress&) { return goes_on(); });
    if (!trace.empty() && landscape) store_landscape(trace, run->info().id, *landscape);
    return std::const_pointer_cast<Landscape>(landscape);
}

/// What a sweep came to: its tables as text, by the names of the command's options.
using Tables = std::map<std::string, std::string>;

/// As `refreshlab sweep`. Models that the spec does not name are those of the pair.
Tables sweep(const LoadedPair& loaded, const std::string& file, const std::string& out,
             const std::string& assets, const std::string& shard, int jobs, const std::string& against,
             bool deterministic, const std::atomic<bool>& stop) {
    RunConfig defaults = app::first_start_config(assets);
    defaults.teacher_dir = loaded.config.teacher_dir;
    defaults.student_dir = loaded.config.student_dir;
    defaults.device = loaded.config.device;
    defaults.dtype = loaded.config.dtype;
    SweepSpec spec = parse_sweep_spec(read_file(file, size_t{1} << 26), file, defaults,
                                      sweep_files(fs::path(file).parent_path(), assets));
    if (spec.name.empty()) spec.name = fs::path(file).stem().string();
    SweepOptions options;
    options.jobs = jobs;
    options.shard = sweep_shard(shard);
    options.pair = loaded.pair;
    const SweepPlan plan = make_sweep_plan(spec, sweep_models(spec, options));
    static_cast<void>(
        make_sweep_table(plan, {}, against)); // an unknown row is refused before anything is computed
    const auto store = SweepStore::open(out, plan);
    const SweepOutcome outcome = run_sweep(spec, plan, *store, options, stop, [](const SweepProgress&) {});
    if (const auto failures = store->failures(); outcome.failed > 0 && !failures.empty())
        throw Error("running a sweep", file,
                    fmt::format("{} of {} runs failed; the first: {}", outcome.failed, outcome.total,
                                failures.begin()->second),
                    {}, ErrorKind::failure);
    const SweepTable table = make_sweep_table(plan, store->results(), against);
    const TableColumns columns = deterministic ? TableColumns::deterministic : TableColumns::all;
    return {{"markdown", sweep_markdown(table, columns)},
            {"csv", sweep_csv(table, columns)},
            {"differences", sweep_differences(table, columns)},
            {"pareto", sweep_pareto(table, columns)}};
}

/// Its runs have threads of their own, so this one looks for Ctrl-C beside them.
Tables interruptible_sweep(const std::shared_ptr<LoadedPair>& pair, const std::string& file,
                           const std::string& out, const std::string& assets, const std::string& shard,
                           int jobs, const std::string& against, bool deterministic) {
    return interruptible([&](const GoesOn& goes_on) {
        std::atomic<bool> stop = false; // set here; read by the sweep's threads
        auto running = std::async(std::launch::async, [&] {
            return sweep(*pair, file, out, assets, shard, jobs, against, deterministic, stop);
        });
        while (running.wait_for(std::chrono::milliseconds(50)) != std::future_status::ready)
            if (!stop && !goes_on()) stop = true;
        Tables tables = running.get();
        if (stop) throw Error("running a sweep", file, "cancelled");
        return tables;
    });
}

} // namespace

void bind_studies(nb::module_& module) {
    module.def("landscape", [](const std::shared_ptr<LoadedPair>& pair, const std::shared_ptr<Recording>& run,
                               int64_t every, const std::string& values, const std::string& trace) {
        bool whole = true;
        return interruptible([&](const GoesOn& goes_on) {
            auto landscape =
                landscape_of(*pair, run, every, values, trace, [&] { return whole = goes_on(); });
            if (!whole) throw Error("computing a landscape", {}, "cancelled");
            return landscape;
        });
    });
    module.def("sweep", &interruptible_sweep);
}

} // namespace refreshlab::python
