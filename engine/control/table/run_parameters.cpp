#include "engine/control/table/parameter_groups.h"
#include "engine/control/table/parameter_kinds.h"

#include <fmt/format.h>

#include <optional>
#include <string>
#include <utility>

namespace refreshlab {

using namespace parameter_kinds;

void add_run_parameters(std::vector<ParameterEntry>& table) {
    table.push_back(plain(
        with_option(real("sampler.temperature", "Temperature", "",
                         "Divides the logits before a token is drawn; 0 always takes the likeliest.", 0, 100,
                         0, 2),
                    "--temperature"),
        [](auto& c) -> auto& { return c.sampler.temperature; }));
    table.push_back(plain(
        with_option(integer("sampler.top_k", "Top-k", "tokens", "Draws from the k likeliest tokens; 0 = off.",
                            0, 1e6, 0, 100),
                    "--top-k"),
        [](auto& c) -> auto& { return c.sampler.top_k; }));
    table.push_back(plain(
        with_option(real("sampler.top_p", "Top-p", "",
                         "Draws from the fewest tokens whose probability reaches p; 1 = off.", 0, 1, 0, 1),
                    "--top-p"),
        [](auto& c) -> auto& { return c.sampler.top_p; }));
    table.push_back(plain(
        with_option(real("sampler.min_p", "Min-p", "",
                         "Drops tokens below this share of the likeliest one's probability; 0 = off.", 0, 1,
                         0, 1),
                    "--min-p"),
        [](auto& c) -> auto& { return c.sampler.min_p; }));
    // Up to 2^64 - 1; the double above it is exact, and whole numbers are parsed as such.
    table.push_back(plain(
        with_option(integer("seed", "Seed", "", "Random numbers are keyed by seed and position.", 0,
                            18446744073709551616.0, 0, 1000),
                    "--seed"),
        [](auto& c) -> auto& { return c.seed; }));
    Parameter max_tokens = with_option(integer("max_tokens", "Tokens", "tokens",
                                               "How many tokens a run generates at most.", 1, 1e6, 1, 2048),
                                       "--max-tokens");
    max_tokens.live = false;
    table.push_back(plain(
        max_tokens, [](auto& c) -> auto& { return c.max_tokens; }));
    table.push_back(plain(
        with_option(
            boolean("ignore_stop", "Ignore the end token", "The end token does not stop the run (timing)."),
            "--ignore-stop"),
        [](auto& c) -> auto& { return c.ignore_stop; }));
    ParameterEntry kernels;
    kernels.parameter =
        choice("kernels", "Kernel set",
               "CPU code of the kernels; auto = the widest of this processor. avx2 and avx512 give the same "
               "bits, the others the "
               "same to rounding.",
               {to_string(KernelSet::automatic), to_string(KernelSet::portable), to_string(KernelSet::avx2),
                to_string(KernelSet::avx512), to_string(KernelSet::reference)});
    kernels.parameter.live = false;
    kernels.get = [](const RunConfig& c) -> std::optional<std::string> {
        return std::string(to_string(c.kernels));
    };
    kernels.set = [](RunConfig& c, const ParameterValue& v) { c.kernels = static_cast<KernelSet>(v.choice); };
    table.push_back(std::move(kernels));
    ParameterEntry bridge;
    bridge.parameter.key = "bridge";
    bridge.parameter.label = "Bridge";
    bridge.parameter.help =
        "Map of the teacher's entries to those of a student with another KV geometry (refreshlab train "
        "bridge); auto = the one beside the student, none = rebuild mode.";
    bridge.parameter.option = "--bridge";
    bridge.parameter.kind = Kind::text;
    bridge.parameter.form = "a file, auto, or none";
    bridge.parameter.live = false;
    bridge.newer = true;
    bridge.reads = [](std::string_view text) { return !text.empty(); };
    bridge.get = [](const RunConfig& c) -> std::optional<std::string> {
        return c.bridge.path.empty() ? "auto" : c.bridge.path;
    };
    bridge.set = [](RunConfig& c, const ParameterValue& v) {
        c.bridge = {std::string(v.text == "auto" ? std::string_view() : v.text), {}};
    };
    table.push_back(std::move(bridge));
}

void add_measuring_parameters(std::vector<ParameterEntry>& table) {
    table.push_back(plain(
        with_option(
            boolean("shadow", "Shadow KL",
                    "The teacher runs at every step: a complete KL curve, about three times the time."),
            "--shadow"),
        [](auto& c) -> auto& { return c.shadow; }));
    table.push_back(plain(
        boolean("mc.measure", "Measure MC dropout", "Measures the MC signals also without an mc trigger."),
        [](auto& c) -> auto& { return c.mc.measure; }));
    table.push_back(plain(
        integer("mc.samples", "MC passes", "passes", "Rows with dropout per measurement (Nmc).", 2, 64, 2,
                32),
        [](auto& c) -> auto& { return c.mc.samples; }));

    ParameterEntry p = plain(
        real("mc.p", "MC dropout probability", "",
             "Share of elements that dropout removes; none = the checkpoint's training value, or 0.1 "
             "(uncalibrated) where it has none.",
             0, 0.95, 0, 0.5),
        [](auto& c) -> auto& { return c.mc.p; });
    p.parameter.optional = true;
    p.get = [](const RunConfig& c) -> std::optional<std::string> {
        return c.mc.p < 0 ? "none" : to_text(c.mc.p);
    };
    p.set = [](RunConfig& c, const ParameterValue& v) { c.mc.p = v.none ? -1 : v.number; };
    p.earlier_none = -1;
    table.push_back(std::move(p));

    ParameterEntry every = plain(
        integer("mc.every", "MC measured every", "tokens",
                "MC signals are measured, and the mc trigger looks, when the step is a multiple "
                "of this.",
                1, policy_limits::every, 1, 64),
        [](auto& c) -> auto& { return c.mc.every; });
    every.set = [set = every.set](RunConfig& config, const ParameterValue& value) {
        set(config, value);
        if (Trigger* trigger = find_trigger(config.policy, "mc_variance")) trigger->every = config.mc.every;
    };
    every.earlier_name = "stride";
    table.push_back(std::move(every));

    table.push_back(plain(
        boolean("capture.attention", "Keep attention", "Keeps the decoding model's attention rows."),
        [](auto& c) -> auto& { return c.capture.attention; }));
    ParameterEntry layers;
    layers.parameter = integer("capture.layers", "Layers of attention", "",
                               "Attention rows are kept of these layers, from 0.", 0, max_capture_layers - 1,
                               0, max_capture_layers - 1);
    layers.parameter.kind = Kind::list;
    layers.parameter.choices = {"all"};
    layers.get = [](const RunConfig& c) -> std::optional<std::string> {
        return c.capture.layers.empty() ? "all" : fmt::format("{}", fmt::join(c.capture.layers, ","));
    };
    layers.set = [](RunConfig& c, const ParameterValue& v) {
        c.capture.layers.assign(v.list.begin(), v.list.end());
    };
    table.push_back(std::move(layers));
    ParameterEntry megabytes = plain(
        integer(
            "capture.attention_megabytes", "Attention kept", "MB",
            "Attention rows are kept up to this size; then the oldest ones are deleted, from the trace too.",
            0, max_attention_megabytes, 0, 4096),
        [](auto& c) -> auto& { return c.capture.attention_megabytes; });
    megabytes.parameter.live = false;
    table.push_back(std::move(megabytes));
    ParameterEntry bytes = plain(
        integer(
            "capture.attention_bytes", "Attention of a step", "bytes",
            "At most so many bytes for the attention rows of a step. Longer rows are kept in bins along "
            "keys; the first, the newest and each head's strongest keys stay exact. 0 keeps every key exact.",
            0, max_attention_bytes, 0, 1'000'000),
        [](auto& c) -> auto& { return c.capture.attention_bytes; });
    bytes.newer = true;
    table.push_back(std::move(bytes));
    ParameterEntry bins = plain(
        integer("capture.attention_bins", "Numbers of an attention row", "numbers",
                "A head's row of attention gets at most so many numbers, sums over neighbouring keys, so "
                "that a GPU sends no whole rows of a long context; capture.attention_bytes is then not used. "
                "0 makes a number for every key.",
                0, max_attention_bins, 0, 4096),
        [](auto& c) -> auto& { return c.capture.attention_bins; });
    bins.newer = true;
    table.push_back(std::move(bins));
    table.push_back(plain(
        boolean("capture.attention_entropy", "Measure attention entropy",
                "Measures the entropy of every layer's attention at each step, also where no trigger "
                "looks at it; costs a pass over the attention rows."),
        [](auto& c) -> auto& { return c.capture.attention_entropy; }));
    table.push_back(plain(
        integer("capture.top_k", "Candidates kept", "tokens",
                "How many of the likeliest next tokens each step records.", 0, max_top_k, 0, max_top_k),
        [](auto& c) -> auto& { return c.capture.top_k; }));
}

} // namespace refreshlab
