#include "app/base/output.h"
#include "app/base/trace_runs.h"
#include "app/engine/carry_out.h"
#include "app/engine/read_again.h"
#include "app/options/scope_options.h"
#include "engine/base/error.h"
#include "engine/base/interrupt.h"
#include "engine/base/json_file.h"
#include "engine/base/json_text.h"
#include "engine/control/parameters.h"
#include "engine/record/trace/trace_store.h"
#include "engine/results/scope_map_store.h"
#include "engine/session/driver/replay.h"
#include "engine/session/pair/model_pair.h"
#include "engine/session/readings/scope_readings.h"
#include "engine/study/measure/sweep_score.h"
#include "engine/study/studies/scope_tables.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include <memory>
#include <optional>
#include <vector>

namespace refreshlab::app {

namespace {

constexpr auto doing = "measuring where refreshes pay";

std::vector<int64_t> boundaries_of(const ScopeCommandOptions& options, const Recording& run) {
    if (!options.at.empty() && options.every > 0)
        throw Error(doing, {}, "--every and --at both say where the refreshes are", "give one of them");
    if (!options.at.empty()) {
        RunConfig config;
        set_parameter(config, "at", options.at); // one reader of schedules
        if (config.policy.at.empty())
            throw Error(doing, {}, "--at names no step", "give steps, ascending: 32,64,96");
        return config.policy.at;
    }
    return scope_boundaries(run, options.every);
}

RunConfig config_of(const ScopeCommandOptions& options, const Recording& run) {
    const RunConfig& ran = run.info().config;
    if (!ran.student_cache.is_full() || !ran.teacher_cache.is_full())
        throw Error(doing, "with a cache policy", "it is about caches that keep everything",
                    "take a run without one");
    RunConfig config = config_to_read(run, {options.teacher, options.student, options.device},
                                      "a text of the teacher (--mode teacher) or a given one says more");
    if (options.threads > 0) config.threads = options.threads;
    config.policy = RefreshPolicy{};
    return config;
}

/// Puts the map beside its run, where the window and figures find it. Another pair's map says nothing of this run.
void keep_map(const ScopeCommandOptions& options, const Recording& run, const ScopeMap& map) {
    if (!options.teacher.empty() || !options.student.empty()) {
        say("the map is of other models than the run's: it is not kept in the trace\n");
        return;
    }
    try {
        store_scope_map(options.trace, run.info().id, map);
    } catch (const Error& e) {
        say("the map is not kept in the trace: {}\n", e.what()); // it is printed all the same
    }
}

/// A line of progress on a terminal.
class Reading {
public:
    ~Reading() {
        if (m_shown) draw_line("");
    }
    bool step(const ScopeMapProgress& now) {
        if (m_terminal) {
            m_shown = true;
            draw_line(
                now.rows_done < now.rows
                    ? fmt::format("map {:.0f} %",
                                  100.0 * static_cast<double>(now.rows_done) / static_cast<double>(now.rows))
                    : fmt::format("greedy order: {} KV heads keep {:.0f} %", now.taken, 100 * now.share));
        }
        return interrupted() == 0;
    }

private:
    bool m_terminal = isatty(fileno(stderr)) != 0, m_shown = false;
};

} // namespace

int carry_out(const ScopeCommandOptions& options) {
    check_outputs(std::vector<NamedFile>{{"--csv", options.csv}, {"--json", options.json}},
                  std::vector<NamedFile>{{"TRACE", options.trace}});
    const std::shared_ptr<const Recording> run = chosen_run(load_trace(options.trace), options.run_id,
                                                            "reading the run of a scope map", options.trace);
    const RunInfo& info = run->info();
    ScopeMapRequest request;
    request.prompt_ids = info.prompt_ids;
    request.tokens = run->token_ids();
    request.boundaries = boundaries_of(options, *run);
    request.horizon = options.horizon;
    request.blocks = options.blocks;
    request.keep = options.keep;
    const RunConfig config = config_of(options, *run);
    if (!config.teacher_dir.empty())
        JudgeTokens(config.teacher_dir).require_same(*run); // before a weight is read
    const auto pair = load_pair(config, {}, text_to_read(*run));
    note_interrupts();
    std::optional<ScopeMap> map;
    {
        Reading reading;
        map = compute_scope_map(*pair, request,
                                options.threads > 0 ? replay_execution(options.threads, info.kernel_set)
                                                    : replay_execution(info),
                                [&](const ScopeMapProgress& now) { return reading.step(now); });
    }
    if (!map) {
        say("cancelled: nothing is written\n");
        return 128 + interrupted();
    }
    const StudyResult result = scope_tables(*map);
    if (!options.json.empty()) write_file(options.json, json_text(to_json(*map), 1) + "\n");
    if (!options.csv.empty()) write_study(result, options.csv);
    print("{}", to_markdown(result));
    keep_map(options, *run, *map);
    return 0;
}

} // namespace refreshlab::app
