#include "app/base/output.h"
#include "app/cli/commands.h"
#include "engine/base/error.h"
#include "engine/base/json_file.h"
#include "engine/base/json_text.h"
#include "engine/landscape/landscape_store.h"
#include "engine/results/bootstrap.h"
#include "engine/results/gate_fit.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace refreshlab::app {

namespace {

struct FitGateOptions {
    std::vector<std::string> traces, signals;
    std::string output;
    GateOptions gate;
};

std::vector<std::shared_ptr<const Landscape>> read_landscapes(const std::vector<std::string>& traces) {
    std::vector<std::shared_ptr<const Landscape>> all;
    for (const std::string& trace : traces) {
        const size_t before = all.size();
        for (const StoredLandscape& stored : load_landscapes(trace)) {
            if (stored.landscape->has_row(0)) all.push_back(stored.landscape);
        }
        if (all.size() == before)
            throw Error("fitting a gate", trace, "holds no landscape",
                        "refreshlab landscape " + trace + " computes it");
    }
    return all;
}

std::string mean_text(const std::vector<double>& values) {
    const auto average = mean(values);
    return average ? fmt::format("{:.2f}", *average) : "-";
}

/// "+0.12 (-0.01 to +0.25)": the mean, and the 95 % bootstrap interval where there are texts enough for one.
std::string interval_text(const std::vector<double>& values, const std::optional<Interval>& interval) {
    const auto average = mean(values);
    if (!average) return "-";
    const std::string text = fmt::format("{:+.2f}", *average);
    return interval ? fmt::format("{} ({:+.2f} to {:+.2f})", text, interval->low, interval->high) : text;
}

/// The table, and the sentence that says what it comes to.
std::string report(const FittedGate& gate) {
    const OwnSignal& signal = gate.policy.signals[0];
    std::string text =
        fmt::format("{} texts, {} samples\n\nsignal                     weight\n", gate.texts, gate.samples);
    for (const OwnSignal::Term& term : signal.terms)
        text += fmt::format("{:<25}  {:+.4g}\n", term.signal, term.weight);
    text += fmt::format("{:<25}  {:+.4g}\n\n", "offset", signal.offset);
    text += "Efficiency on texts that were left out (0: no better than no refresh, 1: the best possible)\n"
            "per 256 tokens  texts  gate   entropy  blind  above blind (95 % over texts)\n";
    std::vector<std::string> better;
    bool intervals = false;
    for (const FittedGate::Judged& judged : gate.judged) {
        std::vector<double> above;
        for (size_t i = 0; i < judged.gate.size(); ++i)
            above.push_back(judged.gate[i] - judged.blind[i]);
        const auto interval = bootstrap_mean(above, {});
        intervals = intervals || interval;
        if (interval && interval->low > 0) better.push_back(fmt::format("{}", judged.per_256));
        text += fmt::format("{:>14}  {:>5}  {:<5}  {:<7}  {:<5}  {}\n", judged.per_256, judged.gate.size(),
                            mean_text(judged.gate), mean_text(judged.entropy), mean_text(judged.blind),
                            interval_text(above, interval));
    }
    if (!intervals) return text + "Too few texts to say whether the gate is better than blind placement.\n";
    if (better.empty()) return text + "The gate is no better than blind placement at any of these counts.\n";
    return text + fmt::format("The gate is better than blind placement at {} in 256 tokens.\n",
                              fmt::join(better, ", "));
}

int fit(const FitGateOptions& options) {
    std::vector<NamedFile> inputs;
    for (const std::string& trace : options.traces)
        inputs.push_back({"LANDSCAPES", trace});
    check_outputs(std::vector<NamedFile>{{"--output", options.output}}, inputs);
    GateOptions gate_options = options.gate;
    gate_options.signals = options.signals;
    const auto landscapes = read_landscapes(options.traces);
    const FittedGate gate = fit_gate(landscapes, gate_options);
    print("{}", report(gate));
    write_file(options.output, json_text(policy_to_json(gate.policy), 2) + "\n");
    return 0;
}

} // namespace

Command add_fit_gate_command(CLI::App& app) {
    auto options = std::make_shared<FitGateOptions>();
    CLI::App* command = app.add_subcommand(
        "fit-gate", "A refresh policy fitted on landscapes: which signals predict what a refresh gains");
    command->add_option("LANDSCAPES", options->traces, "Traces with landscapes, two texts or more")
        ->required()
        ->type_name("TRACE");
    command->add_option("-o,--output", options->output, "The policy file that is written")
        ->required()
        ->type_name("FILE");
    command
        ->add_option("--signals", options->signals,
                     "Signals to weigh, with commas (default: all that the landscapes share)")
        ->type_name("A,B")
        ->delimiter(',');
    command
        ->add_option("--horizon", options->gate.horizon, "Tokens over which a refresh is judged (default 32)")
        ->type_name("TOKENS")
        ->check(CLI::Range(1, 1'000'000));
    command
        ->add_option(
            "--form", options->gate.form,
            "What is predicted: ridge (the gain in nats, the default) or logistic (the log odds of a gain)")
        ->transform(CLI::CheckedTransformer(std::map<std::string, GateOptions::Form>{
            {"ridge", GateOptions::Form::ridge}, {"logistic", GateOptions::Form::logistic}}))
        ->type_name("FORM");
    command
        ->add_option("--ridge", options->gate.ridge,
                     "Penalty on the weights of standardised signals (default 0.01)")
        ->type_name("R")
        ->check(CLI::Range(0.0, 1e6));
    command
        ->add_option("--per-256", options->gate.per_256,
                     "Refreshes in 256 tokens that the threshold is set for (default 8)")
        ->type_name("N")
        ->check(CLI::Range(0.1, 256.0));
    return [options] { return fit(*options); };
}

} // namespace refreshlab::app
