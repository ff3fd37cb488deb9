#include "engine/study/sweep/sweep_run.h"

#include "engine/base/error.h"
#include "engine/base/json_text.h"
#include "engine/model/model_fingerprint.h"
#include "engine/results/sweep_claims.h"
#include "engine/session/driver/run_driver.h"
#include "engine/session/pair/bridge_choice.h"
#include "engine/study/jobs/job_pool.h"
#include "engine/text/digest.h"
#include "kernels/execution/cores.h"

#include <c10/util/Exception.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <bit>
#include <chrono>
#include <mutex>
#include <thread>
#include <utility>

namespace refreshlab {

namespace {

using Clock = std::chrono::steady_clock;

/// What has to be computed: a run, or one of its timed pairs.
struct Work {
    size_t cell = 0;
    int32_t pair = -1; ///< -1: the run itself
    double tokens = 0; ///< its share of the time
};

std::string claim_name(const SweepPlan& plan, const Work& work) {
    return fmt::format("{} {}", plan.cells[work.cell].id, work.pair);
}

RunConfig placed(RunConfig config, const std::string& device) {
    if (!device.empty()) config.device = device;
    return config;
}

/// "cpu" or "cuda" of a configuration's device names. Throws if there is no such device.
std::string device_kind(const RunConfig& config) {
    const auto kind = [&](const std::string& own) {
        return std::string(resolve_device(own.empty() ? config.device : own).is_cuda() ? "cuda" : "cpu");
    };
    const std::string teacher = kind(config.teacher_device), student = kind(config.student_device);
    return teacher == student ? teacher : teacher + "/" + student;
}

std::string result_digest(const Recording& recording, const MetricValues& metrics) {
    Digest digest;
    digest.add("refreshlab sweep result 1");
    const auto ids = recording.token_ids();
    digest.add(ids.size());
    for (const int32_t id : ids)
        digest.add(static_cast<uint64_t>(static_cast<uint32_t>(id)));
    digest.add(recording.end() ? recording.end()->stop_reason : "");
    for (size_t i = 0; i < num_metrics; ++i) {
        if (metric_infos[i].measured) continue;
        if (i == static_cast<size_t>(Metric::bytes_sent))
            continue; // configuration and refreshes say it; digests of before have it not
        // Results of before have no such value, and keep their digest.
        if (!metric_infos[i].summary.empty() && !metric_infos[i].has_column() && !metrics[i]) continue;
        digest.add(metric_infos[i].name);
        digest.add(metrics[i] ? 1U : 0U);
        digest.add(metrics[i] ? std::bit_cast<uint64_t>(*metrics[i]) : 0U);
    }
    return digest.hex();
}

/// A run that has ended, or null when `stop` came first.
std::unique_ptr<RunDriver> finished_run(RunRequest request, const std::atomic<bool>& stop) {
    std::unique_ptr<RunDriver> driver;
    try {
        driver = std::make_unique<RunDriver>(std::move(request), [&](double) { return !stop.load(); });
    } catch (const Error&) {
        if (stop) return nullptr; // "cancelled"
        throw;
    }
    const bool ended = driver->run([&] { return stop ? RunDriver::Next::leave : RunDriver::Next::step; });
    return ended ? std::move(driver) : nullptr;
}

/// Computes a list of works with several workers.
class Runner {
public:
    Runner(const SweepSpec& spec, const SweepPlan& plan, SweepStore& store, const SweepOptions& options,
           const std::atomic<bool>& stop, const std::function<void(const SweepProgress&)>& progress)
        : m_spec(spec)
        , m_plan(plan)
        , m_store(store)
        , m_options(options)
        , m_stop(stop)
        , m_progress(progress)
        , m_claims(store.path()) {}

    SweepOutcome run(const std::function<void(double, const std::string&)>& loading) {
        list_work();
        if (m_runs.empty() && m_timings.empty()) {
            report();
            return m_outcome;
        }
        if (!load(loading)) {
            m_outcome.stopped = true;
            return m_outcome;
        }
        m_start = Clock::now();
        report();
        const bool gpu = m_pairs.front()->teacher ? m_pairs.front()->teacher->device().is_cuda()
                                                  : m_pairs.front()->student->device().is_cuda();
        const auto cores = static_cast<size_t>(kernels::default_threads());
        const size_t usual = gpu ? m_pairs.size() : cores;
        const size_t wanted = m_options.jobs > 0 ? static_cast<size_t>(m_options.jobs) : usual;
        work_through(m_runs, wanted);
        const std::vector<Work> runs = std::exchange(m_elsewhere, {});
        work_through(m_timings, 1); // a timed run has the machine for itself
        const std::vector<Work> timings = std::exchange(m_elsewhere, {});
        finish(runs, wanted, timings.size());
        finish(timings, 1, 0);
        m_outcome.stopped = m_stop && !m_outcome.complete(); // a signal may come after the last run
        return m_outcome;
    }

private:
    void list_work() {
        const auto finished = m_store.finished();
        const std::vector<size_t> mine = cells_of(m_plan, m_options.shard);
        const auto weight = [&](size_t cell) {
            const RunConfig& config = m_spec.rows[m_plan.cells[cell].row].config;
            return static_cast<double>(config.max_tokens) + 16; // a prefill, whatever its length
        };
        for (const size_t cell : mine) {
            const Work work{cell, -1, weight(cell)};
            note(work, finished.contains(m_plan.cells[cell].id), m_runs);
        }
        if (m_plan.timing.pairs == 0) return;
        const auto timed = m_store.results().timings;
        for (int32_t pair = 0; pair < m_plan.timing.pairs;
             ++pair) { // pair by pair: a slow hour hits all rows
            for (const size_t cell : mine) {
                if (pair >= m_plan.pairs(m_plan.cells[cell])) continue;
                const double runs = m_plan.rows[m_plan.cells[cell].row].policy ? 2 : 1;
                const Work work{cell, pair, runs * weight(cell)};
                note(work, timed.contains({m_plan.cells[cell].id, pair}), m_timings);
            }
        }
    }

    void note(const Work& work, bool done, std::vector<Work>& open) {
        ++m_outcome.total;
        m_all_tokens += work.tokens;
        if (done) {
            ++m_outcome.found;
            m_found_tokens += work.tokens;
        } else {
            open.push_back(work);
        }
    }

    /// One pair of models for each device. \return false when `stop` came first
    bool load(const std::function<void(double, const std::string&)>& loading) {
        RunConfig config = m_spec.rows.front().config;
        for (const SweepRow& row : m_spec.rows) {
            if (row.config.mode == Mode::overfill) config = row.config; // needs both
        }
        // A student that is made anew for every prompt is made where the prompt is known.
        if (is_derivation(config.student_dir) && derivation_of(config.student_dir).depends_on_prompt()) {
            config.mode = Mode::teacher;
            config.student_dir.clear();
        }
        std::vector<std::string> devices = m_options.devices;
        if (devices.empty()) devices.emplace_back();
        try {
            for (const std::string& device : devices) {
                const RunConfig here = placed(config, device);
                PreparedRun run = prepare_run(here, m_options.pair);
                require_memory(run.memory);
                load_models(run, here, [&](double fraction, const std::string& what) {
                    if (loading) loading(fraction, what);
                    return !m_stop.load();
                });
                m_pairs.push_back(run.pair);
            }
        } catch (const Error&) {
            if (m_stop) return false; // "cancelled"
            throw;
        }
        return true;
    }

    /// What another process was computing: it has finished it, is still at it, or has given it up. \param later  such
    /// works that come after these
    void finish(std::vector<Work> open, size_t workers, size_t later) {
        while (!open.empty() && !m_stop) {
            m_outcome.elsewhere = static_cast<int64_t>(open.size() + later);
            report();
            while (!m_stop && !settled(open.front()))
                std::this_thread::sleep_for(std::chrono::milliseconds(50));
            work_through(open, workers); // those that are settled; the others come back in m_elsewhere
            if (!m_stop) open = std::exchange(m_elsewhere, {});
        }
        if (!m_stop) m_outcome.elsewhere = static_cast<int64_t>(later);
    }

    [[nodiscard]] bool done(const Work& work) {
        const std::string& id = m_plan.cells[work.cell].id;
        return work.pair < 0 ? m_store.has_result(id) : m_store.has_timing(id, work.pair);
    }

    /// Done, or nobody's. No worker runs.
    [[nodiscard]] bool settled(const Work& work) {
        return done(work) || m_claims.try_claim(claim_name(m_plan, work)).has_value();
    }

    void work_through(const std::vector<Work>& list, size_t most_workers) {
        if (list.empty() || m_stop) return;
        JobPool pool(std::min(most_workers, list.size()),
                     kernels::threads_for(m_spec.rows.front().config.threads));
        pool.run(
            list.size(), [&](size_t job, JobSlot& slot) { take(list[job], slot); },
            [this] { return m_stop.load(); });
    }

    void take(const Work& work, JobSlot& slot) {
        const SweepCell& cell = m_plan.cells[work.cell];
        const auto claim = m_claims.try_claim(claim_name(m_plan, work));
        {
            const std::lock_guard lock(m_mutex);
            if (!claim) {
                m_elsewhere.push_back(work);
                return;
            }
            // Another process may have finished it since the list was made.
            if (done(work)) {
                ++m_outcome.found;
                m_found_tokens += work.tokens;
                report_locked();
                return;
            }
        }
        const auto problem = compute(work, slot);
        if (!problem) return;
        const std::lock_guard lock(m_mutex);
        if (problem->empty()) {
            ++m_outcome.computed;
            m_computed_tokens += work.tokens;
        } else {
            ++m_outcome.failed;
            m_store.add_failure(cell.id, *problem);
        }
        report_locked();
    }

    /// Into the store. \return why the run could not be made, empty when it was; nothing when it was given up
    std::optional<std::string> compute(const Work& work, JobSlot& slot) {
        const SweepCell& cell = m_plan.cells[work.cell];
        const size_t device = slot.worker() % m_pairs.size();
        RunConfig config = m_spec.config(cell.row, cell.prompt, cell.seed);
        if (!m_options.devices.empty()) config.device = m_options.devices[device];
        config.threads = slot.num_threads();
        RunRequest request{.pair = m_pairs[device], .config = std::move(config)};
        try {
            request.execution = slot.execution(request.config.kernels);
            if (is_derivation(request.config.student_dir) && !pair_serves(*request.pair, request.config))
                derive_for(request);
            if (work.pair < 0) {
                const auto result = run_cell(std::move(request), cell.id, m_stop);
                if (!result) return std::nullopt;
                const std::lock_guard lock(m_mutex);
                m_store.add(*result);
            } else {
                const auto timing = time_pair(std::move(request), work);
                if (!timing) return std::nullopt;
                const std::lock_guard lock(m_mutex);
                m_store.add(*timing);
            }
            return "";
        } catch (const Error& e) {
            if (e.doing() == "using the sweep file") throw;
            return e.what();
        } catch (const c10::Error& e) {
            return std::string("the device or libtorch failed: ") + e.what_without_backtrace();
        }
    }

    /// Makes the student of this one run, from the loaded teacher.
    static void derive_for(RunRequest& request) {
        PreparedRun run = prepare_run(request.config, request.pair);
        run.execution = request.execution;
        require_memory(run.memory);
        load_models(run, request.config);
        request.pair = run.pair;
        request.text = run.text;
    }

    /// The timed run, and for a row with a policy the run without it: even pairs begin with the one, odd ones with the
    /// other, so that a machine that grows slower favours neither.
    std::optional<SweepTimingResult> time_pair(RunRequest request, const Work& work) {
        request.config.ignore_stop = true;
        request.score = false; // not part of a run's times
        RunRequest none = request;
        none.config.policy = RefreshPolicy{};
        const bool both = m_plan.rows[m_plan.cells[work.cell].row].policy;
        std::optional<nlohmann::json> timed, without;
        for (const bool first : {true, false}) {
            const bool with_policy = first == (work.pair % 2 != 0) || !both;
            if (!both && !first) break;
            const auto run = finished_run(with_policy ? request : none, m_stop);
            if (!run) return std::nullopt;
            (with_policy ? timed : without) = run->summary();
        }
        const auto number = [](const nlohmann::json& summary, const char* key) {
            return summary[key].is_number() ? std::optional(summary[key].get<double>()) : std::nullopt;
        };
        SweepTimingResult result;
        result.id = m_plan.cells[work.cell].id;
        result.pair = work.pair;
        result.tokens = timed->at("tokens").get<int64_t>();
        result.ttft_ms = number(*timed, "ttft_ms").value_or(0);
        result.total_ms = 1000 * number(*timed, "total_s").value_or(0);
        result.decode_tps = number(*timed, "decode_tps");
        if (without) {
            if (const auto total = number(*without, "total_s")) result.none_total_ms = 1000 * *total;
        }
        return result;
    }

    void report() {
        const std::lock_guard lock(m_mutex);
        report_locked();
    }

    void report_locked() {
        if (!m_progress) return;
        SweepProgress p;
        p.done = m_outcome.found + m_outcome.computed;
        p.total = m_outcome.total;
        p.computed = m_outcome.computed;
        p.elsewhere =
            std::min(m_outcome.elsewhere, p.total - p.done - m_outcome.failed); // some came meanwhile
        p.fraction = m_all_tokens > 0 ? (m_found_tokens + m_computed_tokens) / m_all_tokens : 1;
        p.elapsed_s = std::chrono::duration<double>(Clock::now() - m_start).count();
        if (m_computed_tokens > 0) {
            p.left_s = p.elapsed_s / m_computed_tokens * (m_all_tokens - m_found_tokens - m_computed_tokens);
        }
        m_progress(p);
    }

    const SweepSpec& m_spec;
    const SweepPlan& m_plan;
    SweepStore& m_store; ///< under m_mutex while workers run
    const SweepOptions& m_options;
    const std::atomic<bool>& m_stop;
    const std::function<void(const SweepProgress&)>& m_progress;
    const SweepClaims m_claims;
    std::vector<Work> m_runs, m_timings;
    std::vector<Work> m_elsewhere; ///< claimed by another process; under m_mutex while workers run
    std::vector<std::shared_ptr<const ModelPair>> m_pairs; ///< by device
    Clock::time_point m_start = Clock::now();

    std::mutex m_mutex; ///< protects the store and all below; held for one transaction
    SweepOutcome m_outcome;
    double m_all_tokens = 0, m_found_tokens = 0, m_computed_tokens = 0;
};

} // namespace

std::optional<SweepResult> run_cell(RunRequest request, const std::string& id,
                                    const std::atomic<bool>& stop) {
    SweepResult result;
    result.id = id;
    result.config = json_text(to_json(request.config));
    const auto run = finished_run(std::move(request), stop);
    if (!run) return std::nullopt;
    const nlohmann::json summary = run->summary();
    result.summary = json_text(summary);
    result.metrics = metrics_of(summary);
    result.digest = result_digest(*run->recording(), result.metrics);
    return result;
}

SweepModels sweep_models(const SweepSpec& spec, const SweepOptions& options) {
    const RunConfig& config = spec.rows.front().config;
    if (!options.devices.empty() && (!config.teacher_device.empty() || !config.student_device.empty())) {
        throw Error("reading --devices", {}, "the spec places teacher and student by itself",
                    "leave --devices out, or take teacher_device and student_device out of \"base\"");
    }
    SweepModels models;
    models.device = device_kind(placed(config, options.devices.empty() ? "" : options.devices.front()));
    for (const std::string& device : options.devices) {
        if (device_kind(placed(config, device)) != models.device)
            throw Error("reading --devices", device,
                        "CPU and GPU round differently: take one kind of device");
    }
    models.teacher = model_fingerprint(config.teacher_dir);
    // A bridge that a run names is part of its configuration; what lies beside the student belongs to the models.
    const bool looks =
        config.bridge.path.empty() && !config.teacher_dir.empty() && !config.student_dir.empty();
    models.student = student_digest(config.student_dir, looks ? find_bridge(config) : std::nullopt);
    return models;
}

SweepOutcome run_sweep(const SweepSpec& spec, const SweepPlan& plan, SweepStore& store,
                       const SweepOptions& options, const std::atomic<bool>& stop,
                       const std::function<void(const SweepProgress&)>& progress,
                       const std::function<void(double, const std::string&)>& loading) {
    return Runner(spec, plan, store, options, stop, progress).run(loading);
}

} // namespace refreshlab
