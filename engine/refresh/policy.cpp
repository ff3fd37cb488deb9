#include "engine/refresh/policy.h"

#include "engine/base/error.h"
#include "engine/refresh/json_fields.h"
#include "engine/signals/nearest_name.h"
#include "engine/signals/published.h"
#include "engine/signals/registry.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

namespace refreshlab {

namespace {

constexpr std::array<std::string_view, 4> comparison_names = {"above", "at_least", "below", "at_most"};
constexpr std::array<std::string_view, 4> on_fire_names = {"keep", "teacher_token", "redraw", "verify"};
constexpr std::array<std::string_view, 4> rule_names = {"exact", "greedy", "near_best", "top_k"};

/// The names of an enumeration, in order.
template <typename Choice>
std::vector<std::string_view> choices_of(size_t n) {
    std::vector<std::string_view> names;
    for (size_t i = 0; i < n; ++i)
        names.push_back(to_string(static_cast<Choice>(i)));
    return names;
}

/// \param own  signals that the policy brings along
Trigger read_trigger(const nlohmann::json& json, const std::string& what, const std::string& path,
                     Thresholds thresholds, std::span<const OwnSignal> own) {
    JsonFields fields(json, what, path);
    Trigger trigger;
    fields.text("signal", trigger.signal);
    std::optional<size_t> comparison;
    size_t comparisons = 0;
    for (size_t c = 0; c < comparison_names.size(); ++c) {
        if (fields.find(comparison_names[c]) == nullptr) continue;
        comparison = c;
        ++comparisons;
    }
    fields.integer("every", trigger.every, 1, policy_limits::every);
    fields.integer("cooldown", trigger.cooldown, 0, policy_limits::cooldown);
    fields.boolean("enabled", trigger.enabled);
    fields.boolean("published", trigger.published);
    // One key or the other: "reduce" names what is made of all layers, "layer" picks one.
    const auto reduce = fields.choice("reduce", {"mean", "max", "min"});
    const bool one_layer = fields.find("layer") != nullptr;
    fields.integer("layer", trigger.layer, 0, policy_limits::layer);
    fields.finish(); // first the misspelt key, then what is missing because of it

    if (reduce && one_layer) fields.fail("layer", "is one layer, and reduce speaks of all: give one of them");
    if (reduce) trigger.reduce = static_cast<Reduction>(*reduce);
    if (one_layer) trigger.reduce = Reduction::layer;
    if (trigger.signal.empty()) fields.fail("signal", "missing", "the name of the signal to compare");
    trigger.published |= std::ranges::find(own, trigger.signal, &OwnSignal::name) != own.end();
    if (!trigger.published)
        static_cast<void>(require_signal(trigger.signal, what + ", " + fields.path("signal")));
    if (comparisons != 1) {
        throw Error("reading", what,
                    fmt::format("{}: needs exactly one of above, at_least, below, at_most; it has {}", path,
                                comparisons));
    }
    trigger.comparison = static_cast<Comparison>(*comparison);
    const std::string_view key = comparison_names[*comparison];
    const nlohmann::json& value = *fields.find(key);
    if (!value.is_number() || !std::isfinite(value.get<double>())) {
        fields.fail(key, fmt::format("threshold must be a finite number, not {}", shown(value)));
    }
    trigger.threshold = value.get<double>();
    // A weighted sum may well be negative.
    if (thresholds == Thresholds::not_negative && trigger.threshold < 0 && !trigger.published) {
        fields.fail(key, fmt::format("threshold must not be negative, it is {}", trigger.threshold));
    }
    return trigger;
}

void read_when(const nlohmann::json& json, const std::string& what, RefreshPolicy& policy,
               Thresholds thresholds) {
    JsonFields fields(json, what, "when");
    const nlohmann::json* any = fields.find("any");
    const nlohmann::json* all = fields.find("all");
    fields.finish();
    if ((any == nullptr) == (all == nullptr)) {
        throw Error("reading", what, "when: needs exactly one of any, all");
    }
    policy.combine = any != nullptr ? Combine::any : Combine::all;
    const std::string path = any != nullptr ? "when.any" : "when.all";
    const nlohmann::json& list = any != nullptr ? *any : *all;
    if (!list.is_array()) {
        throw Error("reading", what,
                    fmt::format("{}: must be a list of triggers [...], not {}", path, shown(list)));
    }
    for (size_t i = 0; i < list.size(); ++i) {
        policy.triggers.push_back(
            read_trigger(list[i], what, fmt::format("{}[{}]", path, i), thresholds, policy.signals));
    }
}

/// "layers", "kv_heads", "parts", "positions", "count" of the refresh.
void read_scope(JsonFields& action, RefreshScope& scope) {
    const auto list = [&](std::string_view key, auto& out, auto from_text, std::string_view form) {
        std::string text = "all";
        action.text(key, text);
        auto read = from_text(text);
        if (!read) action.fail(key, fmt::format("\"{}\" is no such list", text), std::string(form));
        out = *std::move(read);
    };
    list("layers", scope.layers, layers_from_text, layers_form);
    list("kv_heads", scope.kv_heads, heads_from_text, heads_form);
    if (const auto parts = action.choice("parts", choices_of<ScopeParts>(num_scope_parts)))
        scope.parts = static_cast<ScopeParts>(*parts);
    if (const auto positions = action.choice("positions", choices_of<ScopePositions>(num_scope_positions)))
        scope.positions = static_cast<ScopePositions>(*positions);
    action.integer("count", scope.count, 0, scope_limits::count);
}

void read_action(const nlohmann::json& json, const std::string& what, RefreshPolicy& policy) {
    JsonFields fields(json, what, "do");
    const nlohmann::json* refresh = fields.find("refresh");
    fields.finish();
    if (refresh == nullptr) throw Error("reading", what, "do: needs refresh");
    JsonFields action(*refresh, what, "do.refresh");
    action.optional_integer("window", policy.window, 0, policy_limits::window);
    action.integer("lag", policy.lag, 0, policy_limits::lag);
    read_scope(action, policy.scope);
    action.finish();
}

Trigger trigger_of(std::string_view signal, Comparison comparison, double threshold, int32_t every,
                   int32_t cooldown) {
    return {.signal = std::string(signal),
            .comparison = comparison,
            .threshold = threshold,
            .every = every,
            .cooldown = cooldown,
            .enabled = true,
            .reduce = Reduction::mean,
            .layer = 0,
            .published = false};
}

} // namespace

namespace {

/// {"rule": "exact", "share": 0.3, "rank": 3, "splice": true, "target": null}
void read_verification(const nlohmann::json& json, const std::string& what, Verification& verify) {
    JsonFields fields(json, what, "verify");
    if (const auto rule = fields.choice("rule", {rule_names.begin(), rule_names.end()}))
        verify.rule = static_cast<VerifyRule>(*rule);
    fields.real("share", verify.share, 0, 1);
    fields.integer("rank", verify.rank, 1, policy_limits::rank);
    fields.boolean("splice", verify.splice);
    if (const nlohmann::json* target = fields.find("target"); target != nullptr && !target->is_null()) {
        double share = 0;
        fields.real("target", share, 0, 1);
        verify.target = share;
    }
    fields.finish();
}

/// {"at": [12, 40, 64]}
void read_schedule(const nlohmann::json& list, const JsonFields& fields, RefreshPolicy& policy) {
    if (!list.is_array() || list.size() > policy_limits::scheduled)
        fields.fail("at", fmt::format("must be a list of at most {} steps [...], not {}",
                                      policy_limits::scheduled, shown(list)));
    for (const nlohmann::json& step : list) {
        const bool whole = step.is_number_integer() || step.is_number_unsigned();
        if (!whole || step < 1 || step > policy_limits::step)
            fields.fail("at", fmt::format("must hold whole numbers from 1 to {}, not {}", policy_limits::step,
                                          shown(step)));
        policy.at.push_back(step.get<int64_t>());
    }
}

} // namespace

RefreshPolicy policy_from_json(const nlohmann::json& json, const std::string& what, Thresholds thresholds) {
    RefreshPolicy policy;
    policy.name = "custom";
    JsonFields fields(json, what);
    fields.text("name", policy.name);
    const nlohmann::json* when = fields.find("when");
    const nlohmann::json* action = fields.find("do");
    const nlohmann::json* budget = fields.find("budget");
    if (const auto fire = fields.choice("on_fire", {on_fire_names.begin(), on_fire_names.end()})) {
        policy.on_fire = static_cast<OnFire>(*fire);
    }
    const nlohmann::json* verify = fields.find("verify");
    const nlohmann::json* at = fields.find("at");
    const nlohmann::json* weighted = fields.find("signals");
    fields.finish();
    if (at != nullptr) read_schedule(*at, fields, policy);
    if (weighted != nullptr) policy.signals = own_signals_from_json(*weighted, what);
    if (when != nullptr) read_when(*when, what, policy, thresholds);
    if (action != nullptr) read_action(*action, what, policy);
    if (verify != nullptr) read_verification(*verify, what, policy.verify);
    if (budget != nullptr) {
        JsonFields limits(*budget, what, "budget");
        limits.optional_integer("refreshes", policy.budget.refreshes, 0, policy_limits::refreshes);
        limits.integer("per_tokens", policy.budget.per_tokens, 1, policy_limits::per_tokens);
        limits.finish();
    }
    check_policy(policy, what);
    return policy;
}

Trigger trigger_from_text(std::string_view text, const std::string& what, std::span<const OwnSignal> own) {
    // Words, and signs of comparison with or without spaces around them.
    std::vector<std::string> words;
    bool apart = true;
    for (const char c : text) {
        const bool sign = c == '<' || c == '>' || c == '=';
        const bool was_sign = !words.empty() && !words.back().empty() &&
                              std::string_view("<>=").find(words.back().back()) != std::string_view::npos;
        if (c == ' ' || c == '\t') {
            apart = true;
            continue;
        }
        if (apart || sign != was_sign) words.emplace_back();
        words.back() += c;
        apart = false;
    }
    const auto wrong = [&](const std::string& problem) {
        throw Error("reading", what, problem,
                    "SIGNAL > NUMBER [every N] [cooldown N], such as rise > 1.5 every 4");
    };
    const auto number = [&](const std::string& word) {
        const nlohmann::json value = nlohmann::json::parse(word, nullptr, false);
        if (!value.is_number()) wrong(fmt::format("\"{}\" is no number", visible_text(word, 40)));
        return value;
    };
    constexpr std::array<std::pair<std::string_view, std::string_view>, 4> signs = {
        {{">", "above"}, {">=", "at_least"}, {"<", "below"}, {"<=", "at_most"}}};
    if (words.size() < 3 || words.size() % 2 == 0) wrong("it is no signal, sign and number");
    const auto sign = std::ranges::find(signs, words[1], [](const auto& s) { return s.first; });
    if (sign == signs.end()) wrong(fmt::format("\"{}\" compares nothing", visible_text(words[1], 40)));
    nlohmann::json json = {{"signal", words[0]}, {std::string(sign->second), number(words[2])}};
    for (size_t i = 3; i < words.size(); i += 2) {
        if (words[i] != "every" && words[i] != "cooldown")
            wrong(fmt::format("\"{}\" is neither every nor cooldown", visible_text(words[i], 40)));
        json[words[i]] = number(words[i + 1]);
    }
    return read_trigger(json, what, {}, Thresholds::not_negative, own);
}

void no_longer_none(RefreshPolicy& policy) {
    if (policy.name == "none") policy.name = "custom";
}

namespace {

[[noreturn]] void refuse(const std::string& what, const std::string& problem, const std::string& hint = {}) {
    throw Error("checking the refresh policy of", what, problem, hint);
}

/// What a trigger wants of its signal.
void check_trigger_signal(const Trigger& trigger, const Signal& signal, std::span<const Signal> table,
                          const std::string& what) {
    if (signal.letter == 0) {
        std::vector<std::string_view> able;
        for (const Signal& s : table) {
            if (s.letter != 0) able.push_back(s.name);
        }
        refuse(what, fmt::format("signal {} cannot trigger a refresh", signal.name),
               fmt::format("signals that can: {}", fmt::join(able, ", ")));
    }
    if (trigger.reduce != Reduction::mean && !signal.layered) {
        refuse(what,
               fmt::format("{} has no layers, so there is nothing for {} to choose from", signal.name,
                           trigger.reduce == Reduction::layer
                               ? fmt::format("layer {}", trigger.layer)
                               : fmt::format("reduce \"{}\"", to_string(trigger.reduce))),
               "leave it out");
    }
}

} // namespace

void check_policy(const RefreshPolicy& policy, const std::string& what) {
    if (policy.name.empty()) refuse(what, "its name is empty");
    check_own_signals(policy.signals, what);
    for (size_t i = 0; i < policy.triggers.size(); ++i) {
        const Trigger& trigger = policy.triggers[i];
        const std::string where = fmt::format("{}, trigger {}", what, i + 1);
        if (!trigger.published) {
            check_trigger_signal(trigger, signals()[require_signal(trigger.signal, where)], signals(), what);
        } else if (!is_signal_name(trigger.signal)) {
            refuse(what, fmt::format("\"{}\" is not the name of a signal", trigger.signal));
        } else if (signal_id(trigger.signal)) {
            refuse(what, fmt::format("{} is a signal of every run, not a published one", trigger.signal),
                   "leave out \"published\"");
        }
        const std::string& name = trigger.signal;
        if (trigger.layer < 0 || (trigger.layer > 0 && trigger.reduce != Reduction::layer))
            refuse(what, fmt::format("layer {} of {} is not a layer", trigger.layer, name));
        if (!std::isfinite(trigger.threshold)) {
            refuse(what,
                   fmt::format("threshold of {} must be a finite number, not {}", name, trigger.threshold));
        }
        if (trigger.every < 1)
            refuse(what, fmt::format("every of {} must be at least 1, not {}", name, trigger.every));
        if (trigger.cooldown < 0) {
            refuse(what,
                   fmt::format("cooldown of {} must not be negative, it is {}", name, trigger.cooldown));
        }
        for (size_t j = 0; j < i; ++j) {
            if (policy.triggers[j].signal == trigger.signal) {
                refuse(what, fmt::format("two triggers on signal {}", name),
                       "a policy has at most one per signal");
            }
        }
    }
    for (size_t i = 0; i < policy.at.size(); ++i) {
        if (policy.at[i] < 1)
            refuse(what, fmt::format("step {} of its schedule is no boundary", policy.at[i]));
        if (i > 0 && policy.at[i] <= policy.at[i - 1]) {
            refuse(what,
                   fmt::format("its schedule does not ascend: {} stands after {}", policy.at[i],
                               policy.at[i - 1]),
                   "list each step once, the earliest first");
        }
    }
    if (policy.window && *policy.window < 0)
        refuse(what, fmt::format("window must not be negative, it is {}", *policy.window));
    if (policy.scope.count < 0)
        refuse(what,
               fmt::format("the count of positions must not be negative, it is {}", policy.scope.count));
    if (layers_from_text(to_text(policy.scope.layers)) != policy.scope.layers)
        refuse(what, fmt::format("its layers are {}", to_text(policy.scope.layers)),
               std::string(layers_form));
    if (heads_from_text(to_text(policy.scope.kv_heads)) != policy.scope.kv_heads)
        refuse(what, fmt::format("its KV heads are {}", to_text(policy.scope.kv_heads)),
               std::string(heads_form));
    if (policy.lag < 0) refuse(what, fmt::format("lag must not be negative, it is {}", policy.lag));
    if (verifies(policy) && policy.lag > 0) {
        refuse(what,
               fmt::format("on_fire verify with a lag of {}: the student would go on from tokens that nobody "
                           "has judged",
                           policy.lag),
               "set refresh.lag to 0, or on_fire to keep, teacher_token or redraw");
    }
    if (!(policy.verify.share >= 0 && policy.verify.share <= 1))
        refuse(what, fmt::format("verify.share must be from 0 to 1, not {}", policy.verify.share));
    if (policy.verify.target && !(*policy.verify.target >= 0 && *policy.verify.target <= 1))
        refuse(what, fmt::format("verify.target must be from 0 to 1, not {}", *policy.verify.target));
    if (policy.verify.rank < 1)
        refuse(what, fmt::format("verify.rank must be at least 1, not {}", policy.verify.rank));
    if (policy.budget.refreshes && *policy.budget.refreshes < 0) {
        refuse(what,
               fmt::format("budget.refreshes must not be negative, it is {}", *policy.budget.refreshes));
    }
    if (policy.budget.per_tokens < 1) {
        refuse(what, fmt::format("budget.per_tokens must be at least 1, not {}", policy.budget.per_tokens));
    }
}

void check_run_policy(const RefreshPolicy& policy, std::span<const Signal> table, int64_t layers,
                      const std::string& what) {
    for (size_t i = 0; i < policy.triggers.size(); ++i) {
        const Trigger& trigger = policy.triggers[i];
        if (trigger.published) {
            const auto id = find_signal(table, trigger.signal);
            if (!id) {
                std::vector<std::string_view> names;
                for (const Signal& signal : table.subspan(std::min(signals().size(), table.size())))
                    names.push_back(signal.name);
                refuse(what, fmt::format("no component of this run publishes signal {}", trigger.signal),
                       names.empty() ? "this run publishes none"
                                     : name_hint(trigger.signal, names, "published signals"));
            }
            check_trigger_signal(trigger, table[*id], table, what);
        }
        if (trigger.reduce == Reduction::layer && trigger.layer >= layers) {
            refuse(what, fmt::format("layer {} of {}: the model has layers 0 to {}", trigger.layer,
                                     trigger.signal, layers - 1));
        }
    }
}

nlohmann::json policy_to_json(const RefreshPolicy& policy) {
    nlohmann::json triggers = nlohmann::json::array();
    for (const Trigger& trigger : policy.triggers) {
        nlohmann::json t = {{"signal", trigger.signal},
                            {std::string(to_string(trigger.comparison)), trigger.threshold},
                            {"every", trigger.every},
                            {"cooldown", trigger.cooldown}};
        if (!trigger.enabled) t["enabled"] = false;
        if (trigger.published) t["published"] = true;
        if (trigger.reduce == Reduction::layer) {
            t["layer"] = trigger.layer;
        } else if (trigger.reduce != Reduction::mean) {
            t["reduce"] = to_string(trigger.reduce);
        }
        triggers.push_back(std::move(t));
    }
    nlohmann::json window, refreshes; // null: no limit
    if (policy.window) window = *policy.window;
    if (policy.budget.refreshes) refreshes = *policy.budget.refreshes;
    nlohmann::json json = {
        {"name", policy.name},
        {"when", {{policy.combine == Combine::any ? "any" : "all", std::move(triggers)}}},
        {"do", {{"refresh", {{"window", std::move(window)}, {"lag", policy.lag}}}}},
        {"on_fire", to_string(policy.on_fire)},
        {"budget", {{"refreshes", std::move(refreshes)}, {"per_tokens", policy.budget.per_tokens}}}};
    // Left out where it says nothing: earlier programs read such a policy, and ids of sweep runs stay.
    nlohmann::json& refresh = json["do"]["refresh"];
    if (!policy.scope.layers.empty()) refresh["layers"] = to_text(policy.scope.layers);
    if (!policy.scope.kv_heads.empty()) refresh["kv_heads"] = to_text(policy.scope.kv_heads);
    if (policy.scope.parts != ScopeParts::both) refresh["parts"] = to_string(policy.scope.parts);
    if (policy.scope.positions != ScopePositions::all)
        refresh["positions"] = to_string(policy.scope.positions);
    if (policy.scope.count != RefreshScope{}.count) refresh["count"] = policy.scope.count;
    if (verifies(policy) || !(policy.verify == Verification{})) {
        json["verify"] = {{"rule", to_string(policy.verify.rule)},
                          {"share", policy.verify.share},
                          {"rank", policy.verify.rank},
                          {"splice", policy.verify.splice}};
        if (policy.verify.target) json["verify"]["target"] = *policy.verify.target;
    }
    if (!policy.at.empty()) json["at"] = policy.at;
    if (!policy.signals.empty()) json["signals"] = own_signals_to_json(policy.signals);
    return json;
}

const std::vector<Preset>& presets() {
    static const std::vector<Preset> all = {
        {"none", "None", "The teacher prefills, the student decodes; no refresh but by hand."},
        {"periodic", "Periodic", "A refresh every 64 tokens."},
        {"window", "Sliding window", "A refresh every 64 tokens that splices only the newest 32."},
        {"entropy", "Entropy gate", "A refresh where the student's next-token entropy exceeds 6 bits."},
        {"kl", "KL probe",
         "A teacher pass every 64 tokens, a refresh where KL(teacher || student) exceeds 0.5 nats."},
        {"burst", "Speculative burst", "A refresh of the newest 8 tokens every 8 tokens."},
        {"mc", "MC-dropout variance", "A refresh where the student's logits vary under dropout."},
        {"speculative", "Speculative decoding",
         "The student drafts 4 tokens, the teacher judges them (Leviathan et al. 2023, Chen et al. 2023), "
         "and its "
         "entries are spliced; verify.splice=off is speculative decoding as published."},
        {"entropy_stop", "Draft until unsure",
         "A draft ends where the student's entropy exceeds 2 bits, at the latest after 16 tokens (AdaEDL, "
         "Agrawal et "
         "al. 2024; SVIP, Zhang et al. 2024)."},
        {"confidence_stop", "Draft while confident",
         "A draft ends where the student's best token has less than 0.6, a threshold that follows the "
         "acceptance (Draft & Verify, Zhang et al. 2023), at the latest after 12 tokens."},
        {"verify_when_unsure", "Verify when unsure",
         "The entropy gate, whose refresh also judges what the student wrote since the last one."},
    };
    return all;
}

RefreshPolicy preset_policy(std::string_view name) {
    // Strides, cool-downs and thresholds: reference/refresh.md, section 5, "defaults".
    constexpr int32_t stride = 16, cooldown = 32;
    RefreshPolicy policy;
    policy.name = name;
    const auto with_default = [](std::string_view signal) {
        return signals()[require_signal(signal, "the presets")].default_threshold;
    };
    if (name == "none") {
        // no trigger
    } else if (name == "periodic") {
        policy.triggers = {trigger_of("steps_since_refresh", Comparison::at_least, 64, 1, 0)};
    } else if (name == "window") {
        policy.triggers = {trigger_of("steps_since_refresh", Comparison::at_least, 64, 1, 0)};
        policy.window = 32;
    } else if (name == "entropy") {
        policy.triggers = {
            trigger_of("entropy_bits", Comparison::above, with_default("entropy_bits"), stride, cooldown)};
    } else if (name == "kl") {
        policy.triggers = {trigger_of("kl_nats", Comparison::above, with_default("kl_nats"), 64, cooldown)};
    } else if (name == "burst") {
        policy.triggers = {trigger_of("steps_since_refresh", Comparison::at_least, 8, 1, 0)};
        policy.window = 8;
    } else if (name == "mc") {
        policy.triggers = {
            trigger_of("mc_variance", Comparison::above, with_default("mc_variance"), stride, cooldown)};
    } else if (name == "speculative") {
        policy.on_fire = OnFire::verify;
        policy.triggers = {trigger_of("steps_since_refresh", Comparison::at_least, 4, 1, 0)};
    } else if (name == "entropy_stop") {
        policy.on_fire = OnFire::verify;
        policy.triggers = {trigger_of("entropy_bits", Comparison::above, 2, 1, 0),
                           trigger_of("steps_since_refresh", Comparison::at_least, 16, 1, 0)};
    } else if (name == "confidence_stop") {
        policy.on_fire = OnFire::verify;
        policy.verify.target = 0.9;
        policy.triggers = {trigger_of("top1_prob", Comparison::below, 0.6, 1, 0),
                           trigger_of("steps_since_refresh", Comparison::at_least, 12, 1, 0)};
    } else if (name == "verify_when_unsure") {
        policy.on_fire = OnFire::verify;
        policy.triggers = {
            trigger_of("entropy_bits", Comparison::above, with_default("entropy_bits"), stride, cooldown)};
    } else {
        std::vector<std::string_view> names;
        for (const Preset& preset : presets())
            names.push_back(preset.name);
        throw Error("choosing a refresh policy", "", fmt::format("no preset is called \"{}\"", name),
                    fmt::format("presets: {}; or give a .json file", fmt::join(names, ", ")));
    }
    return policy;
}

bool is_modified_preset(const RefreshPolicy& policy) {
    for (const Preset& preset : presets()) {
        if (preset.name == policy.name) return policy != preset_policy(preset.name);
    }
    return false;
}

std::string_view to_string(Comparison c) {
    return comparison_names[static_cast<size_t>(c)];
}
std::string_view to_string(OnFire f) {
    return on_fire_names[static_cast<size_t>(f)];
}
std::string_view to_string(VerifyRule r) {
    return rule_names[static_cast<size_t>(r)];
}

bool verifies(const RefreshPolicy& policy) {
    return policy.on_fire == OnFire::verify;
}

ConfidenceShift adapt_confidence(const ConfidenceShift& so_far, double accepted, double target) {
    constexpr double beta_1 = 0.5, beta_2 = 0.9, epsilon = 0.01;
    ConfidenceShift next = so_far;
    next.acceptance = so_far.acceptance < 0 ? accepted : beta_1 * so_far.acceptance + (1 - beta_1) * accepted;
    next.shift += (1 - beta_2) * (next.acceptance <= target ? epsilon : -epsilon);
    return next;
}

RefreshPolicy shifted_policy(RefreshPolicy policy, const ConfidenceShift& confidence) {
    for (Trigger& trigger : policy.triggers)
        if (trigger.signal == "top1_prob")
            trigger.threshold = std::clamp(trigger.threshold + confidence.shift, 0.0, 1.0);
    return policy;
}

std::optional<OnFire> on_fire_from_string(std::string_view s) {
    for (size_t i = 0; i < on_fire_names.size(); ++i) {
        if (on_fire_names[i] == s) return static_cast<OnFire>(i);
    }
    return std::nullopt;
}

} // namespace refreshlab
