#include "engine/control/parameter_table.h"

#include "engine/control/cache_parameters.h"
#include "engine/signals/registry.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <deque>

namespace refreshlab {

namespace {

using Kind = Parameter::Kind;

/// Short words of the signals that presets are made of.
struct Word {
    std::string_view word, signal;
};
constexpr std::array<Word, 7> words = {{{"entropy", "entropy_bits"},
                                        {"kl", "kl_nats"},
                                        {"mc", "mc_variance"},
                                        {"mi", "mc_mutual_information_bits"},
                                        {"surprisal", "top1_surprisal_bits"},
                                        {"periodic", "steps_since_refresh"},
                                        {"burst", "steps_since_refresh"}}};

std::string_view word_of(std::string_view signal) {
    const auto it =
        std::find_if(words.begin(), words.end(), [&](const Word& w) { return w.signal == signal; });
    return it == words.end() ? signal : it->word;
}

std::string_view signal_of(std::string_view word) {
    const auto it = std::find_if(words.begin(), words.end(), [&](const Word& w) { return w.word == word; });
    return it == words.end() ? word : it->signal;
}

/// Texts made here must outlive the table's string_views.
std::string_view keep(std::string text) {
    static std::deque<std::string> texts;
    return texts.emplace_back(std::move(text));
}

std::string to_text(double value) {
    return fmt::format("{}", value);
}
std::string to_text(bool value) {
    return value ? "true" : "false";
}
template <std::integral T>
std::string to_text(T value) {
    return fmt::format("{}", value);
}

/// A plain field: `field` is a generic accessor, so that one lambda serves reading and writing.
template <typename Field>
ParameterEntry plain(Parameter parameter, Field field) {
    ParameterEntry entry;
    entry.parameter = std::move(parameter);
    entry.get = [field](const RunConfig& config) -> std::optional<std::string> {
        return to_text(field(config));
    };
    entry.set = [field](RunConfig& config, const ParameterValue& value) {
        auto& target = field(config);
        using T = std::remove_reference_t<decltype(target)>;
        if constexpr (std::is_same_v<T, bool>) {
            target = value.flag;
        } else if constexpr (std::is_integral_v<T>) {
            target = static_cast<T>(value.whole);
        } else {
            target = value.number;
        }
    };
    return entry;
}

/// An optional whole number of the policy, "none" = no limit.
template <typename Field>
ParameterEntry limit(Parameter parameter, Field field) {
    ParameterEntry entry;
    entry.parameter = std::move(parameter);
    entry.parameter.optional = true;
    entry.parameter.of_policy = true;
    entry.get = [field](const RunConfig& config) -> std::optional<std::string> {
        const auto& value = field(config);
        return value ? to_text(*value) : "none";
    };
    entry.set = [field](RunConfig& config, const ParameterValue& value) {
        auto& target = field(config);
        if (value.none) {
            target.reset();
        } else {
            target = static_cast<int32_t>(value.whole);
        }
    };
    return entry;
}

Parameter real(std::string_view key, std::string_view label, std::string_view unit, std::string_view help,
               double min, double max, double slider_min, double slider_max) {
    Parameter p;
    p.key = key;
    p.label = label;
    p.unit = unit;
    p.help = help;
    p.kind = Kind::real;
    p.min = min;
    p.max = max;
    p.slider_min = slider_min;
    p.slider_max = slider_max;
    return p;
}

Parameter integer(std::string_view key, std::string_view label, std::string_view unit, std::string_view help,
                  double min, double max, double slider_min, double slider_max) {
    Parameter p = real(key, label, unit, help, min, max, slider_min, slider_max);
    p.kind = Kind::integer;
    return p;
}

Parameter boolean(std::string_view key, std::string_view label, std::string_view help) {
    Parameter p = real(key, label, "", help, 0, 1, 0, 1);
    p.kind = Kind::boolean;
    return p;
}

Parameter choice(std::string_view key, std::string_view label, std::string_view help,
                 std::vector<std::string_view> choices) {
    Parameter p;
    p.key = key;
    p.label = label;
    p.help = help;
    p.kind = Kind::choice;
    p.choices = std::move(choices);
    p.max = p.slider_max = static_cast<double>(p.choices.size() - 1);
    return p;
}

Parameter with_option(Parameter parameter, std::string_view option) {
    parameter.option = option;
    return parameter;
}

/// The list is the order in which --help and the window show it: the run, then the policy, then measuring.
void add_run(std::vector<ParameterEntry>& table) {
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
}

void add_verification(std::vector<ParameterEntry>& table) {
    const auto of_policy = [&table](ParameterEntry entry) {
        entry.parameter.of_policy = true;
        table.push_back(std::move(entry));
    };
    ParameterEntry rule;
    rule.parameter = choice(
        "verify.rule", "Token stays if",
        "When a drafted token stays: exact = with probability min(1, p/q), which gives every token the "
        "teacher's distribution; greedy = the teacher's first choice; near_best = at least verify.share of "
        "the "
        "teacher's best; top_k = among the teacher's verify.rank first.",
        {to_string(VerifyRule::exact), to_string(VerifyRule::greedy), to_string(VerifyRule::near_best),
         to_string(VerifyRule::top_k)});
    rule.get = [](const RunConfig& c) -> std::optional<std::string> {
        return std::string(to_string(c.policy.verify.rule));
    };
    rule.set = [](RunConfig& c, const ParameterValue& v) {
        c.policy.verify.rule = static_cast<VerifyRule>(v.choice);
    };
    of_policy(std::move(rule));
    of_policy(plain(
        real("verify.share", "Share of the best", "",
             "Rule near_best: a token stays where its probability by the teacher's row is at least this "
             "share of "
             "the largest.",
             0, 1, 0, 1),
        [](auto& c) -> auto& { return c.policy.verify.share; }));
    of_policy(plain(
        integer("verify.rank", "Among the first", "tokens",
                "Rule top_k: a token stays where it is among so many of the teacher's first.", 1,
                policy_limits::rank, 1, 50),
        [](auto& c) -> auto& { return c.policy.verify.rank; }));
    ParameterEntry target;
    target.parameter = real(
        "verify.target", "Share to stay", "",
        "The threshold of top1_prob follows this share of judged tokens that should stay; none = it stands "
        "still.",
        0, 1, 0, 1);
    target.parameter.optional = true;
    target.get = [](const RunConfig& c) -> std::optional<std::string> {
        return c.policy.verify.target ? to_text(*c.policy.verify.target) : "none";
    };
    target.set = [](RunConfig& c, const ParameterValue& v) {
        c.policy.verify.target = v.none ? std::nullopt : std::optional(v.number);
    };
    of_policy(std::move(target));
    of_policy(plain(
        boolean("verify.splice", "Splice kept",
                "Verification also splices the teacher's entries; off = the student drafts on its own, as in "
                "speculative decoding."),
        [](auto& c) -> auto& { return c.policy.verify.splice; }));
}

/// What a refresh writes (engine/refresh/scope.h).
void add_scope(std::vector<ParameterEntry>& table) {
    const auto of_policy = [&table](ParameterEntry entry) {
        entry.parameter.of_policy = true;
        table.push_back(std::move(entry));
    };
    const auto text = [&](Parameter parameter, std::string_view form, auto field, auto from_text) {
        ParameterEntry entry;
        entry.parameter = std::move(parameter);
        entry.parameter.kind = Kind::text;
        entry.parameter.form = form;
        entry.reads = [from_text](std::string_view given) { return from_text(given).has_value(); };
        entry.get = [field](const RunConfig& c) -> std::optional<std::string> { return to_text(field(c)); };
        entry.set = [field, from_text](RunConfig& c, const ParameterValue& v) {
            field(c) = *from_text(v.text);
        };
        of_policy(std::move(entry));
    };
    text(
        integer(
            "refresh.layers", "Layers", "",
            "Layers whose entries a refresh takes over from the teacher; in the others the student's stay.",
            0, scope_limits::index, 0, 64),
        layers_form, [](auto& c) -> auto& { return c.policy.scope.layers; }, layers_from_text);
    text(
        integer("refresh.kv_heads", "KV heads", "",
                "KV heads whose entries a refresh takes over; 10-12:0 is head 0 of layers 10 to 12.", 0,
                scope_limits::index, 0, 64),
        heads_form, [](auto& c) -> auto& { return c.policy.scope.kv_heads; }, heads_from_text);
    ParameterEntry parts;
    parts.parameter =
        choice("refresh.parts", "Keys, values", "What of an entry a refresh takes over.",
               {to_string(ScopeParts::both), to_string(ScopeParts::keys), to_string(ScopeParts::values)});
    parts.get = [](const RunConfig& c) -> std::optional<std::string> {
        return std::string(to_string(c.policy.scope.parts));
    };
    parts.set = [](RunConfig& c, const ParameterValue& v) {
        c.policy.scope.parts = static_cast<ScopeParts>(v.choice);
    };
    of_policy(std::move(parts));
    ParameterEntry positions;
    positions.parameter = choice("refresh.positions", "Positions",
                                 "Which positions of delta a refresh writes: all, or refresh.count of them: "
                                 "the newest, those with the most "
                                 "drift, those that the student attended to most, or by the product of the "
                                 "two. The others stay the student's.",
                                 {to_string(ScopePositions::all), to_string(ScopePositions::newest),
                                  to_string(ScopePositions::drift), to_string(ScopePositions::attention),
                                  to_string(ScopePositions::drift_attention)});
    positions.get = [](const RunConfig& c) -> std::optional<std::string> {
        return std::string(to_string(c.policy.scope.positions));
    };
    positions.set = [](RunConfig& c, const ParameterValue& v) {
        c.policy.scope.positions = static_cast<ScopePositions>(v.choice);
    };
    of_policy(std::move(positions));
    of_policy(plain(
        integer("refresh.count", "Positions written", "tokens",
                "How many positions a refresh writes, where refresh.positions is not all.", 0,
                scope_limits::count, 0, 256),
        [](auto& c) -> auto& { return c.policy.scope.count; }));
}

void add_policy(std::vector<ParameterEntry>& table) {
    ParameterEntry on_fire;
    on_fire.parameter = choice(
        "on_fire", "On fire",
        "What a refresh does to the token already chosen: keep it, draw it from the teacher's row, "
        "draw it again over the refreshed cache; or verify all tokens since the last one: each stays, or "
        "the draft is cut there and the teacher's takes its place.",
        {to_string(OnFire::keep), to_string(OnFire::teacher_token), to_string(OnFire::redraw),
         to_string(OnFire::verify)});
    on_fire.parameter.of_policy = true;
    on_fire.get = [](const RunConfig& c) -> std::optional<std::string> {
        return std::string(to_string(c.policy.on_fire));
    };
    on_fire.set = [](RunConfig& c, const ParameterValue& v) {
        c.policy.on_fire = static_cast<OnFire>(v.choice);
    };
    table.push_back(std::move(on_fire));
    add_verification(table);

    ParameterEntry combine;
    combine.parameter =
        choice("combine", "Combine triggers", "Refresh when any trigger holds, or only when all of them do.",
               {"any", "all"});
    combine.parameter.of_policy = true;
    combine.get = [](const RunConfig& c) -> std::optional<std::string> {
        return c.policy.combine == Combine::any ? "any" : "all";
    };
    combine.set = [](RunConfig& c, const ParameterValue& v) {
        c.policy.combine = static_cast<Combine>(v.choice);
    };
    table.push_back(std::move(combine));

    ParameterEntry at;
    at.parameter = integer("at", "Schedule", "",
                           "Refreshes at these steps, whatever the triggers say; none = no schedule.", 1,
                           policy_limits::step, 1, policy_limits::step);
    at.parameter.kind = Kind::list;
    at.parameter.choices = {"none"};
    at.parameter.of_policy = true;
    at.get = [](const RunConfig& c) -> std::optional<std::string> {
        return c.policy.at.empty() ? "none" : fmt::format("{}", fmt::join(c.policy.at, ","));
    };
    at.set = [](RunConfig& c, const ParameterValue& v) { c.policy.at = v.list; };
    table.push_back(std::move(at));

    table.push_back(limit(
        integer("window.size", "Window", "tokens",
                "A refresh splices at most the newest W columns; none = all of them, 0 = the teacher "
                "reads and nothing is spliced.",
                0, policy_limits::window, 0, 256),
        [](auto& c) -> auto& { return c.policy.window; }));
    ParameterEntry lag = plain(
        integer("refresh.lag", "Lag", "tokens",
                "A refresh writes this many tokens after it fired, and only the entries that were delta "
                "then. The teacher reads a share of them at each step between. 0 = exact: the student waits. "
                "A lag is another algorithm: the same work with a lower latency spike.",
                0, policy_limits::lag, 0, 32),
        [](auto& c) -> auto& { return c.policy.lag; });
    lag.parameter.of_policy = true;
    table.push_back(std::move(lag));
    add_scope(table);
    table.push_back(limit(
        integer("budget.refreshes", "Budget", "refreshes",
                "At most so many automatic refreshes within budget.per_tokens; none = unlimited.", 0,
                policy_limits::refreshes, 0, 50),
        [](auto& c) -> auto& { return c.policy.budget.refreshes; }));
    ParameterEntry per_tokens = plain(
        integer("budget.per_tokens", "Budget window", "tokens",
                "The number of newest tokens in which budget.refreshes are counted.", 1,
                policy_limits::per_tokens, 100, 2000),
        [](auto& c) -> auto& { return c.policy.budget.per_tokens; });
    per_tokens.parameter.of_policy = true;
    table.push_back(std::move(per_tokens));
}

/// A field of the trigger of `signal`; `field` is a generic accessor of a Trigger.
template <typename Field>
ParameterEntry of_trigger(Parameter parameter, std::string_view word, std::string_view signal, Field field) {
    ParameterEntry entry;
    entry.parameter = std::move(parameter);
    entry.parameter.of_policy = true;
    entry.parameter.signal = signal;
    entry.word = word;
    entry.get = [signal, field](const RunConfig& config) -> std::optional<std::string> {
        const Trigger* trigger = find_trigger(config.policy, signal);
        if (trigger == nullptr) return std::nullopt;
        return to_text(field(*trigger));
    };
    entry.set = [signal, field](RunConfig& config, const ParameterValue& value) {
        auto& target = field(*find_trigger(config.policy, signal));
        using T = std::remove_reference_t<decltype(target)>;
        if constexpr (std::is_same_v<T, bool>) {
            target = value.flag;
        } else if constexpr (std::is_integral_v<T>) {
            target = static_cast<T>(value.whole);
        } else {
            target = value.number; // whole numbers too: thresholds of steps_since_refresh
        }
    };
    return entry;
}

constexpr auto threshold_of = [](auto& t) -> auto& {
    return t.threshold;
};
constexpr auto every_of = [](auto& t) -> auto& {
    return t.every;
};
constexpr auto cooldown_of = [](auto& t) -> auto& {
    return t.cooldown;
};
constexpr auto enabled_of = [](auto& t) -> auto& {
    return t.enabled;
};

/// periodic.every and burst.every: the threshold of the steps_since_refresh trigger, in whole tokens.
void add_periodic(std::vector<ParameterEntry>& table, std::string_view signal) {
    table.push_back(
        of_trigger(integer("periodic.every", "Refresh every", "tokens",
                           "Periodic refresh: this many tokens after the last splice of any cause.", 1,
                           policy_limits::every, 1, 256),
                   "periodic", signal, threshold_of));
    ParameterEntry burst =
        of_trigger(integer("burst.every", "Burst of", "tokens",
                           "Speculative burst: refresh every k tokens; in the preset burst the window "
                           "is k as well.",
                           1, policy_limits::every, 1, 64),
                   "burst", signal, threshold_of);
    burst.set = [set = burst.set](RunConfig& config, const ParameterValue& value) {
        set(config, value);
        if (config.policy.name == "burst")
            config.policy.window = static_cast<int32_t>(value.whole); // R = W = k
    };
    table.push_back(std::move(burst));
}

/// What a trigger compares of a layered signal: one of the two keys, as in a policy file.
void add_reduction(std::vector<ParameterEntry>& table, std::string_view word, const Signal& signal) {
    const auto field = [&](std::string_view name) { return keep(fmt::format("{}.{}", word, name)); };
    const auto unused = [](auto& t) -> auto& {
        return t.enabled;
    };
    ParameterEntry reduce =
        of_trigger(choice(field("reduce"), keep(fmt::format("{} reduction", signal.label)),
                          "What of the layers is compared: their mean, the largest or the smallest value, or "
                          "that of one layer.",
                          {to_string(Reduction::mean), to_string(Reduction::max), to_string(Reduction::min),
                           to_string(Reduction::layer)}),
                   word, signal.name, unused);
    reduce.get = [name = signal.name](const RunConfig& config) -> std::optional<std::string> {
        const Trigger* trigger = find_trigger(config.policy, name);
        if (trigger == nullptr) return std::nullopt;
        return std::string(to_string(trigger->reduce));
    };
    reduce.set = [name = signal.name](RunConfig& config, const ParameterValue& value) {
        Trigger& trigger = *find_trigger(config.policy, name);
        trigger.reduce = static_cast<Reduction>(value.choice);
        if (trigger.reduce != Reduction::layer) trigger.layer = 0;
    };
    table.push_back(std::move(reduce));

    ParameterEntry layer = of_trigger(
        integer(field("layer"), keep(fmt::format("{} layer", signal.label)), "",
                "Compares the value of this layer alone, from 0; none = all layers, as the reduction says.",
                0, policy_limits::layer, 0, 64),
        word, signal.name, unused);
    layer.parameter.optional = true;
    layer.get = [name = signal.name](const RunConfig& config) -> std::optional<std::string> {
        const Trigger* trigger = find_trigger(config.policy, name);
        if (trigger == nullptr) return std::nullopt;
        return trigger->reduce == Reduction::layer ? to_text(trigger->layer) : "none";
    };
    layer.set = [name = signal.name](RunConfig& config, const ParameterValue& value) {
        Trigger& trigger = *find_trigger(config.policy, name);
        if (!value.none) {
            trigger.reduce = Reduction::layer;
            trigger.layer = static_cast<int32_t>(value.whole);
        } else if (trigger.reduce == Reduction::layer) {
            trigger.reduce = Reduction::mean;
            trigger.layer = 0;
        }
    };
    table.push_back(std::move(layer));
}

void add_trigger(std::vector<ParameterEntry>& table, const Signal& signal) {
    const std::string_view word = word_of(signal.name);
    const auto key = [&](std::string_view field) { return keep(fmt::format("{}.{}", word, field)); };
    const auto label = [&](std::string_view field) {
        return keep(fmt::format("{} {}", signal.label, field));
    };
    const bool probe = signal.cost == SignalCost::teacher_pass,
               periodic = signal.name == "steps_since_refresh";

    if (periodic) {
        add_periodic(table, signal.name);
    } else {
        // 16 bits: above log2 V of common vocabularies a gate never fires.
        const double slider_max = signal.max > 0 ? signal.max : 16;
        table.push_back(
            of_trigger(real(key("threshold"), label("threshold"), signal.unit,
                            keep(fmt::format("Refresh where it is beyond this. {}", signal.description)), 0,
                            policy_limits::threshold, std::max(0.0, signal.min), slider_max),
                       word, signal.name, threshold_of));
    }
    if (probe) {
        table.push_back(of_trigger(integer(key("every"), label("probe every"), "tokens",
                                           "A teacher pass is made this many tokens after the last one.", 1,
                                           policy_limits::every, 1, 256),
                                   word, signal.name, every_of));
    } else if (word != "mc") { // mc.every also says where MC is measured: add_measuring
        // periodic.every is the trigger's threshold
        table.push_back(of_trigger(
            integer(key(periodic ? "look_every" : "every"), label(periodic ? "checked every" : "every"),
                    "tokens", "Checked when the step is a multiple of this.", 1, policy_limits::every, 1, 64),
            word, signal.name, every_of));
    }
    table.push_back(
        of_trigger(integer(key("cooldown"), label("cool-down"), "tokens",
                           "Does not fire within this many tokens of the last splice of any cause.", 0,
                           policy_limits::cooldown, 0, 256),
                   word, signal.name, cooldown_of));
    table.push_back(of_trigger(boolean(key("enabled"), label("trigger"),
                                       "A trigger that is switched off keeps its numbers and never fires."),
                               word, signal.name, enabled_of));
    if (signal.layered) add_reduction(table, word, signal);
}

void add_measuring(std::vector<ParameterEntry>& table) {
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

} // namespace

const std::vector<ParameterEntry>& parameter_table() {
    static const std::vector<ParameterEntry> table = [] {
        std::vector<ParameterEntry> entries;
        const auto add_of_run = [&](auto add) {
            const size_t first = entries.size();
            add(entries);
            for (size_t i = first; i < entries.size(); ++i)
                entries[i].of_run = true;
        };
        add_of_run(add_run);
        add_policy(entries);
        for (const Signal& signal : signals()) {
            if (signal.letter != 0) add_trigger(entries, signal);
        }
        add_of_run(add_measuring);
        add_cache_parameters(entries);
        return entries;
    }();
    return table;
}

Trigger* find_trigger(RefreshPolicy& policy, std::string_view signal) {
    const auto it = std::find_if(policy.triggers.begin(), policy.triggers.end(),
                                 [&](const Trigger& t) { return t.signal == signal; });
    return it == policy.triggers.end() ? nullptr : &*it;
}

const Trigger* find_trigger(const RefreshPolicy& policy, std::string_view signal) {
    return find_trigger(const_cast<RefreshPolicy&>(policy), signal); // not written through
}

std::string listed_key(std::string_view key) {
    const size_t dot = key.rfind('.');
    if (dot == std::string_view::npos) return std::string(key);
    const std::string_view head = key.substr(0, dot), signal = signal_of(head), word = word_of(signal);
    std::string_view field = key.substr(dot + 1);
    const std::optional<size_t> id = signal_id(signal);
    if (!id || signals()[*id].letter == 0) return std::string(key);
    if (signal == "steps_since_refresh") {
        if (head == "burst" && field == "every") return std::string(key);
        if (field == "threshold") {
            field = "every";
        } else if (field == "stride") {
            field = "look_every";
        }
    } else if (field == "stride") { // as earlier versions called it
        field = "every";
    }
    return fmt::format("{}.{}", word, field);
}

} // namespace refreshlab
