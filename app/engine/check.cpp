#include "app/base/assets.h"
#include "app/base/output.h"
#include "app/engine/carry_out.h"
#include "app/options/check_options.h"
#include "app/options/run_options.h"
#include "engine/base/error.h"
#include "engine/base/json_file.h"
#include "engine/base/json_text.h"
#include "engine/session/decode/decode_session.h"
#include "engine/session/exactness/exactness.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>

namespace refreshlab::app {

namespace {

std::string number(double v) {
    if (std::isnan(v)) return "not finite";
    return v == 0 ? "0" : fmt::format("{:.2e}", v);
}

void print_report(const ExactnessReport& report) {
    print("{:<8} {:<31} {:>10} {:>10}  {:<8} {}\n", "model", "statement", "max diff", "tolerance", "verdict",
          "where");
    for (const ExactnessCheck& c : report.checks) {
        if (!c.measured) {
            print("{:<8} {:<31} {:>10} {:>10}  {:<8} {}\n", c.subject, c.name, "-", "-", "skipped", c.where);
            continue;
        }
        print("{:<8} {:<31} {:>10} {:>10}  {:<8} {}\n", c.subject, c.name, number(c.max_abs),
              c.tolerance == 0 ? "bits" : number(c.tolerance), c.passed ? "holds" : "BROKEN", c.where);
    }
    if (!report.latency.empty()) {
        print("\n{:<8} {:>6} {:>12} {:>14} {:>6} {:>12} {:>12} {:>8}\n", "model", "L", "prefill ms",
              "prefill ms/tok", "step", "naive ms", "cached ms", "ratio");
    }
    for (const LatencyCurve& l : report.latency) {
        for (size_t i = 0; i < l.step.size(); ++i) {
            print("{:<8} {:>6} {:>12.3f} {:>14.4f} {:>6} {:>12.3f} {:>12.3f} {:>7.1f}x\n", l.subject,
                  l.length, l.prefill_ms, l.prefill_ms / l.length, l.step[i], l.naive_ms[i], l.cached_ms[i],
                  l.naive_ms[i] / l.cached_ms[i]);
        }
    }
}

void write_csv(const ExactnessReport& report, const std::filesystem::path& folder) {
    std::filesystem::create_directories(folder);
    std::string map = "model,layer,step,k_max_abs,v_max_abs\n",
                logits = "model,step,logits_max_abs,same_token\n";
    for (const ExactnessMap& m : report.maps) {
        for (int32_t layer = 0; layer < m.layers; ++layer) {
            for (int32_t step = 0; step < m.steps; ++step) {
                const auto at =
                    static_cast<size_t>(layer) * static_cast<size_t>(m.steps) + static_cast<size_t>(step);
                map += fmt::format("{},{},{},{},{}\n", m.subject, layer, step + 1, m.k[at], m.v[at]);
            }
        }
        for (size_t step = 0; step < m.logits.size(); ++step)
            logits += fmt::format("{},{},{},{}\n", m.subject, step + 1, m.logits[step], m.same_token[step]);
    }
    std::string latency = "model,prompt_tokens,prefill_ms,step,naive_ms,cached_ms\n";
    for (const LatencyCurve& l : report.latency) {
        for (size_t i = 0; i < l.step.size(); ++i)
            latency += fmt::format("{},{},{},{},{},{}\n", l.subject, l.length, l.prefill_ms, l.step[i],
                                   l.naive_ms[i], l.cached_ms[i]);
    }
    write_file(folder / "columns.csv", map);
    write_file(folder / "logits.csv", logits);
    if (!report.latency.empty()) write_file(folder / "latency.csv", latency);
}

/// Throws Error{bad_input} unless the report can be written; makes the folder of the CSV files.
void prepare_files(const CheckOptions& options) {
    std::error_code ignored;
    if (!options.json.empty()) {
        std::filesystem::path folder = std::filesystem::path(options.json).parent_path();
        if (folder.empty()) folder = ".";
        if (!std::filesystem::is_directory(folder, ignored))
            throw Error("writing --json", options.json, "no such folder");
        if (std::filesystem::is_directory(options.json, ignored))
            throw Error("writing --json", options.json, "is a folder");
        if (access(folder.c_str(), W_OK) != 0)
            throw Error("writing --json", options.json, "the folder is not writable");
    }
    if (!options.csv.empty()) {
        std::filesystem::create_directories(options.csv, ignored);
        if (!std::filesystem::is_directory(options.csv, ignored) || access(options.csv.c_str(), W_OK) != 0)
            throw Error("writing --csv", options.csv, "is not a folder that can be written");
    }
}

} // namespace

int carry_out(const CheckOptions& options) {
    const RunConfig config = options.run.config(
        first_start_config(options.run.names_models() ? std::filesystem::path() : find_assets()));
    const auto fault = std::find(cache_fault_names.begin(), cache_fault_names.end(), options.fault);
    if (fault == cache_fault_names.end()) {
        throw Error("reading --fault", options.fault, "is not one of the known faults",
                    fmt::format("{}", fmt::join(cache_fault_names, ", ")));
    }
    ExactnessOptions exactness = options.exactness;
    exactness.fault = static_cast<CacheFault>(fault - cache_fault_names.begin());
    exactness.latency = !options.no_latency;
    check_run(config);
    prepare_files(options); // before the work, not after it
    const auto pair = load_pair(config);
    if (exactness.fault != CacheFault::none) {
        print("Fault {}: {}\n\n", options.fault, description(exactness.fault));
    }
    const bool bar = isatty(STDERR_FILENO) != 0;
    const ExactnessReport report =
        check_exactness(pair, config, exactness, [bar](const ExactnessReport& so_far) {
            if (bar) draw_line(fmt::format("checking {:3.0f} %", so_far.progress * 100));
            return true;
        });
    if (bar) draw_line("");
    if (!pair->note().empty()) print("note: {}\n", pair->note());
    for (const std::string& note : report.notes)
        print("note: {}\n", note);
    print_report(report);
    if (!options.json.empty()) write_file(options.json, json_text(to_json(report), 2) + "\n");
    if (!options.csv.empty()) write_csv(report, options.csv);
    if (exactness.fault == CacheFault::none) {
        print("\n{}\n", report.passed() ? "The caches are exact: every statement holds."
                                        : "The caches are NOT exact: see the broken statements above.");
        return report.passed() ? 0 : 1;
    }
    print("\n{}\n", report.passed() ? "The check did NOT catch the fault." : "The check caught the fault.");
    return report.passed() ? 1 : 0;
}

} // namespace refreshlab::app
