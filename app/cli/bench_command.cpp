#include "app/cli/commands.h"
#include "app/figures/bench_figures.h"
#include "app/options/bench_options.h"
#include "app/options/engine_module.h"
#include "engine/results/bench_sections.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <chrono>
#include <memory>

namespace refreshlab::app {

namespace {

int64_t monotonic_ns() {
    return std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// When the program's own code began to run: the libraries that it is linked with are there.
const int64_t program_began_ns = monotonic_ns();

void add_numbers(CLI::App& command, BenchCommandOptions& options) {
    command.add_flag("--quick", options.quick, "Short runs: some seconds, and numbers not to be quoted");
    command
        .add_option("--only", options.only,
                    fmt::format("Measure these alone: {}, start_up", fmt::join(bench::section_names, ", ")))
        ->delimiter(',')
        ->type_name("NAME,...")
        ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
        ->allow_extra_args(false);
    const std::pair<const char*, std::optional<int64_t>&> numbers[] = {{"--tokens", options.tokens},
                                                                       {"--rounds", options.rounds},
                                                                       {"--pairs", options.pairs},
                                                                       {"--warm-ups", options.warm_ups}};
    const char* const help[] = {"Tokens of a timed decode; default 512",
                                "Repetitions of measurements that are no comparison; default 5",
                                "Pairs of a comparison, at least 5; default 9",
                                "Repetitions before those that count; default 3"};
    for (size_t i = 0; i < std::size(numbers); ++i)
        command.add_option(numbers[i].first, numbers[i].second, help[i])
            ->check(CLI::Range(0, 1'000'000))
            ->type_name("N");
}

void add_cache_policies(CLI::App& command, BenchCommandOptions& options) {
    const auto list = [&](const char* name, auto& values, const char* help) {
        return command.add_option(name, values, help)
            ->delimiter(',')
            ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
            ->allow_extra_args(false);
    };
    list("--cache-policies", options.cache_policies, "With --only cache_policies: these methods alone")
        ->type_name("NAME,...");
    list("--cache-lengths", options.cache_lengths,
         "With --only cache_policies: entries of the caches; default 2048,8192")
        ->type_name("N,...")
        ->check(CLI::Range(16, 1 << 17));
    command
        .add_option("--cache-steps", options.cache_steps,
                    "With --only cache_policies: timed steps of a method at most; default 16")
        ->type_name("N")
        ->check(CLI::Range(1, 1'000'000));
}

void add_plan(CLI::App& command, BenchCommandOptions& options) {
    command.add_flag(
        "--plan", options.plan,
        "Measure nothing: PREDICT a decode step on a GPU that need not be there, launch by launch "
        "(docs/howto/decode-plan.md)");
    command.add_option("--device-model", options.device_model, "With --plan: h100, h200, rtx4090, rtx3090")
        ->type_name("NAME");
    command
        .add_option(
            "--model", options.model,
            "With --plan: whose step, a checkpoint folder or a .gguf file; default: the bundled student")
        ->type_name("MODEL");
    command
        .add_option("--shape", options.shape,
                    "With --plan, instead of a model: HIDDENxFFNxLAYERSxHEADSxKV_HEADSxHEAD_DIMxVOCAB")
        ->type_name("SHAPE");
    const std::pair<const char*, std::optional<int64_t>&> numbers[] = {
        {"--context", options.context},
        {"--mc", options.mc},
        {"--refresh", options.refresh},
        {"--attention-rows", options.attention_rows},
        {"--attention-bins", options.attention_bins}};
    const char* const help[] = {
        "With --plan: tokens that the cache holds; default 2048",
        "With --plan: MC rows beside the token's; default 0",
        "With --plan: also a refresh, this model's pass over the last so many of "
        "these tokens",
        "With --plan: layers whose attention rows come to the host as halves; default "
        "0",
        "With --attention-rows: at most so many numbers for a head's row, sums over neighbouring keys; 0, "
        "the default: every key"};
    const CLI::Range ranges[] = {CLI::Range(0, (1 << 24) - 1), CLI::Range(0, 1023), CLI::Range(1, 1 << 24),
                                 CLI::Range(0, 1024), CLI::Range(0, 1 << 16)};
    for (size_t i = 0; i < std::size(numbers); ++i)
        command.add_option(numbers[i].first, numbers[i].second, help[i])->check(ranges[i])->type_name("N");
    command
        .add_option("--refresh-logits", options.refresh_logits,
                    "With --refresh: rows that get logits, none (the default), last or all (for KL)")
        ->type_name("ROWS");
    command
        .add_option("--student-model", options.student_model,
                    "With --refresh: the student whose cache it refreshes, and whose step is the unit of its "
                    "time; default: the same model")
        ->type_name("MODEL");
    command.add_option("--student-shape", options.student_shape, "With --refresh: the same as a shape")
        ->type_name("SHAPE");
}

} // namespace

Command add_bench_command(CLI::App& app) {
    auto options = std::make_shared<BenchCommandOptions>();
    CLI::App* command = app.add_subcommand("bench", "How fast this machine is with a pair: first token, "
                                                    "decode against the memory floor, probes, refreshes, "
                                                    "start-up (docs/benchmarks/README.md)");
    command->option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
    command->add_option("--teacher", options->teacher, "Teacher: a checkpoint folder or a .gguf file")
        ->type_name("MODEL");
    command
        ->add_option("--student", options->student,
                     "Student: a checkpoint folder, a .gguf file or derive:SPEC; default: the bundled pair")
        ->type_name("MODEL|derive:SPEC");
    command
        ->add_option("--mode", options->mode,
                     "teacher or student: that model alone; overfill, the default: both, and refreshes")
        ->type_name("MODE");
    command->add_option("--device", options->device, "auto (the default), cpu, cuda, cuda:N")
        ->type_name("DEVICE");
    command
        ->add_option(
            "--dtype", options->dtype,
            "f32 (the default), bf16, f16, native; of a plan: bf16 (the default), f16, f32, q8_0, q4_0, q4_1")
        ->type_name("DTYPE");
    command->add_option("--threads", options->threads, "CPU threads; 0, the default: all cores")
        ->type_name("N")
        ->check(CLI::Range(0, 4096));
    command->add_option("--set", options->set, "kernels=NAME: another kernel set")
        ->type_name("KEY=VALUE")
        ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
        ->allow_extra_args(false);
    add_numbers(*command, *options);
    add_cache_policies(*command, *options);
    add_plan(*command, *options);
    command->add_option("--json", options->json, "Write everything as JSON; - for stdout, without the table")
        ->type_name("FILE");
    command->add_option("--figures", options->figures, "Draw latency, decode and refresh as SVG")
        ->type_name("DIR");
    command->add_option("--ui", options->ui, "Adds the frame costs that make bench-frame wrote to this file")
        ->type_name("FILE");
    command
        ->add_option("--scratch", options->folder,
                     "Folder on the disk that the recording probe writes to; default the temporary folder")
        ->type_name("DIR");
    command->add_flag("--decode-only", options->decode_only,
                      "One greedy decode of forced length and nothing else, for comparisons (bench/peers)");
    command->add_option("--ids", options->ids, "With --decode-only: the prompt, a JSON list of token ids")
        ->type_name("FILE");
    command->add_flag("--start", options->start)
        ->group(""); // hidden: one start that is measured by another process
    return [options] {
        options->began_ns = program_began_ns;
        options->parsed_ns = monotonic_ns();
        return engine_module().carry_out(*options, draw_bench_figures);
    };
}

} // namespace refreshlab::app
