#include "engine/bench/measure/bench.h"

#include "app/base/assets.h"
#include "app/base/build_commit.h"
#include "app/base/output.h"
#include "app/engine/carry_out.h"
#include "app/engine/plan.h"
#include "app/options/bench_options.h"
#include "app/options/run_options.h"
#include "engine/base/error.h"
#include "engine/base/json_file.h"
#include "engine/base/json_text.h"
#include "engine/bench/measure/machine.h"
#include "engine/bench/measure/start_up.h"
#include "engine/bench/measure/timed_run.h"
#include "engine/control/derive/derive_spec.h"
#include "engine/control/parameters.h"
#include "engine/session/driver/run_driver.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <optional>

namespace refreshlab::app {

namespace {

namespace fs = std::filesystem;

constexpr int32_t start_up_tokens = 128;
constexpr int64_t starts = 7, quick_starts = 2;

/// The models and how they run, as `run` takes them; a mode of one model needs that one alone.
RunConfig config_of(const BenchCommandOptions& options) {
    const bool named = !options.teacher.empty() && !options.student.empty();
    RunConfig config = first_start_config(named ? fs::path() : find_assets());
    config.policy = {};
    if (!options.mode.empty()) {
        const Mode modes[] = {Mode::teacher, Mode::student, Mode::overfill};
        const auto* const found = std::ranges::find(modes, options.mode, [](Mode m) { return to_string(m); });
        if (found == std::end(modes))
            throw Error("reading", "--mode",
                        "'" + options.mode + "' is not one of teacher, student, overfill");
        config.mode = *found;
    }
    if (!options.teacher.empty()) config.teacher_dir = options.teacher;
    if (!options.student.empty()) config.student_dir = settled_model(options.student);
    if (is_derivation(config.teacher_dir))
        throw Error("reading --teacher", config.teacher_dir, "a teacher cannot be derived");
    const bool derived = is_derivation(config.student_dir);
    if (config.mode == Mode::teacher) config.student_dir.clear();
    if (config.mode == Mode::student && !derived) config.teacher_dir.clear();
    if (!options.device.empty()) config.device = options.device;
    if (!options.dtype.empty()) {
        const Dtype dtypes[] = {Dtype::f32, Dtype::bf16, Dtype::f16, Dtype::native};
        const auto* const found =
            std::ranges::find(dtypes, options.dtype, [](Dtype d) { return to_string(d); });
        if (found == std::end(dtypes))
            throw Error("reading", "--dtype", "'" + options.dtype + "' is not one of f32, bf16, f16, native");
        config.dtype = *found;
    }
    config.threads = options.threads;
    note_threads(options.threads);
    for (const std::string& assignment : options.set) {
        if (!assignment.starts_with("kernels="))
            throw Error("reading", "--set", "'" + assignment + "' has no part in a benchmark",
                        "it measures runs of its own; kernels=NAME can be set");
        set_parameter(config, assignment);
    }
    return config;
}

void take_numbers(const BenchCommandOptions& options, bench::BenchOptions& wanted) {
    if (options.tokens) wanted.tokens = *options.tokens;
    if (options.rounds) wanted.rounds = *options.rounds;
    if (options.pairs) wanted.pairs = *options.pairs;
    if (options.warm_ups) wanted.warm_ups = *options.warm_ups;
    if (!options.cache_lengths.empty()) wanted.policy_entries = options.cache_lengths;
    if (options.cache_steps) wanted.policy_steps = *options.cache_steps;
    wanted.policies = options.cache_policies;
}

/// Options of one measurement ask for it.
void refuse_cache_options(const BenchCommandOptions& options) {
    for (const auto& [name, given] : {std::pair("--cache-policies", !options.cache_policies.empty()),
                                      std::pair("--cache-lengths", !options.cache_lengths.empty()),
                                      std::pair("--cache-steps", options.cache_steps.has_value())})
        if (given && std::ranges::find(options.only, "cache_policies") == options.only.end())
            throw Error("reading", name, "needs --only cache_policies");
}

/// Refuses what could not be written, before the work and not after it.
void check_files(const BenchCommandOptions& options) {
    check_outputs(
        std::vector<NamedFile>{{"--json", options.json == "-" ? "" : options.json},
                               {"--figures", options.figures}},
        std::vector<NamedFile>{{"--ids", options.ids},
                               {"--ui", options.ui},
                               {"--teacher", options.teacher},
                               {"--model", options.model},
                               {"--student", is_derivation(options.student) ? "" : options.student}});
    if (!options.json.empty() && options.json != "-") {
        fs::path folder = fs::path(options.json).parent_path();
        if (folder.empty()) folder = ".";
        if (!fs::is_directory(folder)) throw Error("writing --json", options.json, "no such folder");
        if (fs::is_directory(options.json)) throw Error("writing --json", options.json, "is a folder");
        if (access(folder.c_str(), W_OK) != 0)
            throw Error("writing --json", options.json, "the folder is not writable");
    }
    if (!options.figures.empty()) {
        std::error_code ignored;
        fs::create_directories(options.figures, ignored);
        if (!fs::is_directory(options.figures) || access(options.figures.c_str(), W_OK) != 0)
            throw Error("writing --figures", options.figures, "is not a folder that can be written");
    }
}

/// --json: a file, or "-" for stdout.
void write_json(const std::string& where, const nlohmann::json& json) {
    if (where == "-") {
        print(json_text(json, 1) + "\n");
    } else {
        write_file(where, json_text(json, 1) + "\n");
    }
}

/// A folder for one benchmark's trace; goes with the object.
class ScratchFolder {
public:
    ScratchFolder()
        : m_path(temporary_beside(fs::temp_directory_path() / "refreshlab-bench")) {
        fs::create_directory(m_path);
    }
    explicit ScratchFolder(const fs::path& parent)
        : m_path(temporary_beside(parent / "refreshlab-bench")) {
        std::error_code error;
        if (!fs::create_directory(m_path, error))
            throw Error("making a folder for a trace", m_path.string(), error.message());
    }
    ~ScratchFolder() {
        std::error_code ignored;
        fs::remove_all(m_path, ignored);
    }
    ScratchFolder(const ScratchFolder&) = delete;
    ScratchFolder& operator=(const ScratchFolder&) = delete;
    [[nodiscard]] const fs::path& path() const { return m_path; }

private:
    fs::path m_path;
};

/// One start of the program on its way to the first token, told to the process that began it.
int start(const BenchCommandOptions& options, const RunConfig& config) {
    bench::StartUpMarks marks;
    marks.ends.emplace_back("process", options.began_ns);
    marks.ends.emplace_back("command line", options.parsed_ns);
    marks.mark("the engine's libraries");
    marks.libraries_bytes = bench::peak_memory();
    marks.tokens = start_up_tokens;
    RunConfig run = config;
    run.max_tokens = start_up_tokens;
    run.ignore_stop = true;
    run.capture.attention = false;
    PreparedRun prepared = prepare_run(run);
    require_memory(prepared.memory);
    marks.mark("pair check, tokenizer, prompt");
    load_models(prepared, run);
    marks.mark("weights");
    RunDriver driver({.pair = prepared.pair,
                      .config = run,
                      .text = prepared.text,
                      .execution = prepared.execution,
                      .score = false});
    marks.mark("threads, prefill, first token");
    while (driver.step()) {
    }
    marks.peak_bytes = bench::peak_memory();
    print(bench::to_line(marks) + "\n");
    return 0;
}

/// This program again, with the same models, as far as its first token.
bench::StartUp measure_start_up(const BenchCommandOptions& options, const RunConfig& config, bool quick) {
    std::error_code error;
    const fs::path program = fs::read_symlink("/proc/self/exe", error);
    if (error) throw Error("measuring the start-up", {}, error.message(), {}, ErrorKind::failure);
    std::vector<std::string> command = {program.string(), "bench", "--start"};
    const std::pair<const char*, const std::string&> given[] = {{"--teacher", options.teacher},
                                                                {"--student", options.student},
                                                                {"--mode", options.mode},
                                                                {"--device", options.device},
                                                                {"--dtype", options.dtype}};
    for (const auto& [option, value] : given)
        if (!value.empty()) command.insert(command.end(), {option, value});
    if (config.threads > 0) command.insert(command.end(), {"--threads", std::to_string(config.threads)});
    for (const std::string& assignment : options.set)
        command.insert(command.end(), {"--set", assignment});
    return bench::measure_start_up(command, quick ? quick_starts : starts);
}

std::vector<int32_t> ids_of(const BenchCommandOptions& options) {
    if (options.ids.empty()) return bench::bench_prompt(128, 1024);
    const nlohmann::json json = read_json_file(options.ids, size_t{1} << 26);
    if (!json.is_array() || !std::ranges::all_of(json, [](const auto& id) { return id.is_number_integer(); }))
        throw Error("reading --ids", options.ids, "is not a list of token ids", "such as [1, 17, 4]");
    std::vector<int32_t> ids;
    for (const auto& id : json) {
        const auto value = id.get<int64_t>();
        if (value < 0 || value > INT32_MAX)
            throw Error("reading --ids", options.ids, fmt::format("{} is no token id", value));
        ids.push_back(static_cast<int32_t>(value));
    }
    return ids;
}

int decode_only(const BenchCommandOptions& options, const RunConfig& config) {
    const std::vector<int32_t> ids = ids_of(options);
    bench::BenchOptions wanted = options.quick ? bench::BenchOptions::quick() : bench::BenchOptions{};
    take_numbers(options, wanted);
    wanted.scratch = ".";
    bench::check_bench_options(wanted);
    const Execution execution = make_execution(config);
    const auto pair = load_pair(config);
    const auto found =
        bench::decode_only(pair, config, execution, ids, wanted.tokens, wanted.rounds, wanted.warm_ups);
    const bench::Spread rate = bench::spread_of(found.tokens_per_second),
                        first = bench::spread_of(found.first_token_ms);
    if (!options.json.empty())
        write_json(options.json, {{"format", "refreshlab-bench-decode"},
                                  {"version", 1},
                                  {"commit", build_commit()},
                                  {"mode", to_string(config.mode)},
                                  {"dtype", to_string(config.dtype)},
                                  {"threads", execution->num_threads()},
                                  {"kernels", kernel_set_of(*pair, *execution)},
                                  {"prompt_tokens", ids.size()},
                                  {"ids", found.ids},
                                  {"tokens_per_second", bench::to_json(rate)},
                                  {"first_token_ms", bench::to_json(first)}});
    if (options.json != "-")
        print("decode: {:.1f} tokens/s ({:.1f} .. {:.1f}), first token {:.2f} ms; {} tokens after {}, {} "
              "rounds\n",
              rate.median, rate.low, rate.high, first.median, wanted.tokens, ids.size(), rate.count);
    return 0;
}

int show_plan(const BenchCommandOptions& options) {
    check_files(options);
    const bench::PlanReport report = plan_of(options);
    if (!options.json.empty()) write_json(options.json, bench::to_json(report));
    if (options.json != "-") print(bench::plan_table(report));
    return 0;
}

nlohmann::json frames_of(const BenchCommandOptions& options) {
    if (options.ui.empty()) return nullptr;
    nlohmann::json frames = read_json_file(options.ui, size_t{1} << 24);
    const bool good = frames.is_array() && std::ranges::all_of(frames, [](const auto& frame) {
                          return frame.is_object() && frame.contains("layout") && frame.contains("steps") &&
                                 frame.contains("ms_median");
                      });
    if (!good) throw Error("reading --ui", options.ui, "is not what make bench-frame writes");
    return frames;
}

} // namespace

int carry_out(const BenchCommandOptions& options, const EngineModule::DrawBench& draw) {
    if (options.plan) return show_plan(options);
    refuse_plan_options(options);
    refuse_cache_options(options);
    const RunConfig config = config_of(options);
    check_files(options);
    if (options.start) return start(options, config);
    if (options.decode_only) return decode_only(options, config);
    if (!options.ids.empty())
        throw Error("reading", "--ids", "needs --decode-only",
                    "the other measurements have prompts of their own");
    const nlohmann::json frames = frames_of(options);
    bench::BenchOptions wanted = options.quick ? bench::BenchOptions::quick() : bench::BenchOptions{};
    take_numbers(options, wanted);
    const ScratchFolder scratch = options.folder.empty() ? ScratchFolder() : ScratchFolder(options.folder);
    wanted.scratch = scratch.path();
    bool starts_wanted = options.only.empty();
    for (const std::string& section : options.only) {
        if (section == "start_up")
            starts_wanted = true;
        else
            wanted.sections.push_back(section);
    }
    bench::check_bench_options(wanted);
    static_cast<void>(prepare_run(config)); // what is wrong with the models is said here, and not by a child
    const bool bar = isatty(STDERR_FILENO) != 0;
    const auto tell = [bar](const std::string& what) {
        if (bar) draw_line(what);
        return true;
    };
    // First: a process that holds nothing starts others faster.
    std::optional<bench::StartUp> start_up;
    if (starts_wanted) {
        tell("start-up");
        start_up = measure_start_up(options, config, options.quick);
    }
    const Execution execution = make_execution(config);
    bench::BenchReport report;
    if (options.only.empty() || !wanted.sections.empty()) {
        tell("loading the models");
        report = bench::run_bench(load_pair(config), config, execution, wanted, tell);
    }
    report.setup.commit = build_commit();
    report.setup.quick = options.quick;
    report.start_up = std::move(start_up);
    if (bar) draw_line("");
    if (!options.json.empty()) write_json(options.json, bench::to_json(report, frames));
    if (!options.figures.empty()) draw(report, options.figures);
    if (options.json != "-") print(bench::bench_table(report, frames));
    return 0;
}

} // namespace refreshlab::app
