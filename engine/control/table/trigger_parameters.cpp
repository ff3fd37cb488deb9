#include "engine/control/table/parameter_groups.h"
#include "engine/control/table/parameter_kinds.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <deque>
#include <string>
#include <string_view>
#include <utility>

namespace refreshlab {

using namespace parameter_kinds;

namespace {

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

} // namespace

void add_trigger_parameters(std::vector<ParameterEntry>& table, const Signal& signal) {
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
