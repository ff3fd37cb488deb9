#include "engine/bench/measure/bench.h"

#include "engine/base/error.h"
#include "engine/base/utc_now.h"
#include "engine/bench/measure/machine.h"
#include "engine/bench/measure/sections.h"
#include "engine/policies/cache_policy_config.h"
#include "engine/results/bench_sections.h"
#include "engine/session/decode/run_identity.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <utility>

namespace refreshlab::bench {

namespace {

using Section = void (*)(const SectionInputs&, BenchReport&);
constexpr std::string_view on_request = "cache_policies"; ///< says nothing of the pair, and takes minutes
constexpr std::array<std::pair<std::string_view, Section>, 7> sections = {
    {{"bandwidth", measure_bandwidth},
     {"first_token", measure_first_token},
     {"decode", measure_decode},
     {"refreshed_run", measure_refreshed_run},
     {"probes", measure_probes},
     {"refresh", measure_refresh},
     {on_request, measure_cache_policies}}};

bool wanted(const BenchOptions& options, std::string_view name) {
    if (options.sections.empty()) return name != on_request;
    return std::ranges::find(options.sections, name) != options.sections.end();
}

Setup setup_of(const Bench& bench) {
    Setup setup;
    setup.date = utc_now();
    setup.versions = version_list();
    const LlamaModel& decoder = bench.decoder(bench.config.mode);
    setup.device = decoder.device().str();
    setup.dtype = to_string(bench.config.dtype);
    setup.kernels = kernel_set_of(*bench.pair, *bench.execution);
    setup.mode = to_string(bench.config.mode);
    setup.threads = bench.execution->num_threads();
    return setup;
}

void require(bool good, const char* what, const std::string& problem) {
    if (!good) throw Error("starting the benchmark", what, problem);
}

} // namespace

BenchOptions BenchOptions::quick() {
    BenchOptions options;
    options.prompts = {32, 128};
    options.contexts = {32, 128};
    options.tokens = 32;
    options.rounds = 2;
    options.warm_ups = 1;
    options.pairs = 5;
    options.block = 4;
    options.deltas = {8, 16};
    options.refresh_every = 8;
    options.policy_entries = {64, 256};
    options.policy_steps = 2;
    options.policy_seconds = 1;
    return options;
}

static_assert(std::ranges::equal(section_names, sections, {}, {},
                                 [](const auto& section) { return section.first; }));

void check_bench_options(const BenchOptions& options) {
    for (const std::string& section : options.sections)
        require(std::ranges::find(section_names, section) != section_names.end(), "--only",
                fmt::format("'{}' is none of {}", section, fmt::join(section_names, ", ")));
    for (const std::string& policy : options.policies)
        static_cast<void>(cache_policy_defaults(policy, "--cache-policies")); // throws
    require(options.tokens >= 2, "--tokens", "needs at least 2: a rate lies between two tokens");
    require(options.rounds >= 1 && options.warm_ups >= 0 && options.block >= 1, "--rounds",
            "needs at least 1");
    require(options.pairs >= 5, "--pairs", "needs at least 5");
    for (const auto* list : {&options.prompts, &options.contexts, &options.deltas})
        require(!list->empty() && std::ranges::min(*list) >= 1, "lengths", "need at least 1 each");
    require(std::filesystem::is_directory(options.scratch), "the folder for a trace",
            options.scratch.string() + " is no folder");
}

BenchReport run_bench(const std::shared_ptr<const ModelPair>& pair, const RunConfig& config,
                      const Execution& execution, const BenchOptions& options,
                      const BenchProgress& progress) {
    check_bench_options(options);
    const Bench bench{pair, execution, config};
    const std::function<void(const std::string&)> tell = [&progress](const std::string& what) {
        if (progress && !progress(what)) throw Error("measuring", {}, "cancelled", {}, ErrorKind::failure);
    };
    BenchReport report;
    report.machine = this_machine();
    report.setup = setup_of(bench);
    if (!pair->note().empty()) report.notes.push_back(pair->note());
    for (const auto& [name, measure] : sections)
        if (wanted(options, name)) measure({bench, options, tell}, report);
    report.machine.load_after = machine_load();
    return report;
}

} // namespace refreshlab::bench
