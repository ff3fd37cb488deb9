#include "ui/scene/policy/drafts.h"

#include "engine/base/error.h"
#include "engine/signals/registry.h"
#include "ui/base/format.h"
#include "ui/scene/series/layer_pick.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <iterator>
#include <utility>

namespace refreshlab::ui {

namespace {

constexpr size_t max_history = 200; // more steps back than anybody retraces

std::optional<double> parse_number(std::string_view text) {
    double value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
    return value;
}

/// "6" and "6.0" are the same value; "none" equals only itself.
bool same_value(std::string_view a, std::string_view b) {
    if (a == b) return true;
    const auto x = parse_number(a), y = parse_number(b);
    return x && y && *x == *y;
}

/// A field of a trigger as text. `set` throws Error where the text is no value of the field.
struct FieldOfTrigger {
    const char* name;  ///< in keys
    const char* words; ///< in the history
    const char* unit;  ///< of its value; the threshold's is its signal's
    std::optional<std::string> (*value)(const Trigger& trigger);
    void (*set)(Trigger& trigger, std::string_view key, std::string_view value);
};

int32_t whole_number(std::string_view key, std::string_view value) {
    const auto number = parse_number(value);
    if (!number || *number != std::floor(*number) || std::abs(*number) > 1e9)
        throw Error("setting", std::string(key), fmt::format("{} is not a whole number", value));
    return static_cast<int32_t>(*number);
}

double any_number(std::string_view key, std::string_view value) {
    const auto number = parse_number(value);
    if (!number) throw Error("setting", std::string(key), fmt::format("{} is not a number", value));
    return *number;
}

void set_enabled(Trigger& trigger, std::string_view key, std::string_view value) {
    if (value != "true" && value != "false" && value != "0" && value != "1")
        throw Error("setting", std::string(key), fmt::format("{} is neither true nor false", value));
    trigger.enabled = value == "true" || value == "1";
}

void set_comparison(Trigger& trigger, std::string_view key, std::string_view value) {
    for (const Comparison c :
         {Comparison::above, Comparison::at_least, Comparison::below, Comparison::at_most})
        if (to_string(c) == value) return void(trigger.comparison = c);
    throw Error("setting", std::string(key), fmt::format("{} is no comparison", value));
}

void set_layers(Trigger& trigger, std::string_view key, std::string_view value) {
    const auto pick = parse_layer_pick(value);
    if (!pick || !pick->one_number())
        throw Error("setting", std::string(key), fmt::format("{} is not one number of the layers", value));
    trigger.reduce = pick->reduction;
    trigger.layer = pick->layer;
}

/// In the order of TriggerField.
constexpr FieldOfTrigger trigger_fields[] = {
    {"threshold", "threshold", "", [](const Trigger& t) { return std::optional(exact_number(t.threshold)); },
     [](Trigger& t, std::string_view key, std::string_view value) { t.threshold = any_number(key, value); }},
    {"every", "every", "tokens", [](const Trigger& t) { return std::optional(fmt::format("{}", t.every)); },
     [](Trigger& t, std::string_view key, std::string_view value) { t.every = whole_number(key, value); }},
    {"cooldown", "cool-down", "tokens",
     [](const Trigger& t) { return std::optional(fmt::format("{}", t.cooldown)); },
     [](Trigger& t, std::string_view key, std::string_view value) { t.cooldown = whole_number(key, value); }},
    {"enabled", "enabled", "",
     [](const Trigger& t) { return std::optional<std::string>(t.enabled ? "true" : "false"); }, set_enabled},
    {"comparison", "comparison", "",
     [](const Trigger& t) { return std::optional<std::string>(to_string(t.comparison)); }, set_comparison},
    {"layers", "layers", "",
     [](const Trigger& t) {
         return std::optional(to_string(LayerPick{.reduction = t.reduce, .layer = t.layer}));
     },
     set_layers},
    {"layer", "layer", "",
     [](const Trigger& t) {
         return t.reduce == Reduction::layer ? std::optional(fmt::format("{}", t.layer)) : std::nullopt;
     },
     [](Trigger& t, std::string_view key, std::string_view value) {
         t.reduce = Reduction::layer;
         t.layer = whole_number(key, value);
     }},
};
static_assert(std::size(trigger_fields) == num_trigger_fields);

struct TriggerKey {
    size_t index = 0;
    TriggerField which = TriggerField::threshold;
    [[nodiscard]] const FieldOfTrigger& field() const { return trigger_fields[static_cast<size_t>(which)]; }
};

std::optional<TriggerKey> parse_trigger_key(std::string_view key) {
    constexpr std::string_view prefix = "trigger/";
    if (!key.starts_with(prefix)) return std::nullopt;
    key.remove_prefix(prefix.size());
    const size_t slash = key.find('/');
    if (slash == std::string_view::npos) return std::nullopt;
    TriggerKey result;
    const auto [end, error] = std::from_chars(key.data(), key.data() + slash, result.index);
    if (error != std::errc() || end != key.data() + slash) return std::nullopt;
    const auto* found = std::ranges::find(trigger_fields, key.substr(slash + 1), &FieldOfTrigger::name);
    if (found == std::end(trigger_fields)) return std::nullopt;
    result.which = static_cast<TriggerField>(found - std::begin(trigger_fields));
    return result;
}

} // namespace

std::string trigger_key(size_t index, TriggerField field) {
    return fmt::format("trigger/{}/{}", index, trigger_fields[static_cast<size_t>(field)].name);
}

std::optional<std::string> draft_value(const RunConfig& config, std::string_view key) {
    const auto trigger = parse_trigger_key(key);
    if (!trigger) return parameter_value(config, key);
    if (trigger->index >= config.policy.triggers.size()) return std::nullopt;
    return trigger->field().value(config.policy.triggers[trigger->index]);
}

void set_draft_value(RunConfig& config, std::string_view key, std::string_view value) {
    const auto trigger = parse_trigger_key(key);
    if (!trigger) return set_parameter(config, key, value);
    if (trigger->index >= config.policy.triggers.size())
        throw Error("setting", std::string(key),
                    fmt::format("policy {} has no such trigger", config.policy.name));
    RefreshPolicy policy = config.policy;
    Trigger& t = policy.triggers[trigger->index];
    if (trigger->which == TriggerField::threshold) {
        // The range stands in the parameter list, and the engine refuses by it: the same words already here.
        const std::string listed = fmt::format("{}.threshold", t.signal);
        if (parse_number(value) && find_parameter(listed)) {
            RunConfig scratch = config;
            scratch.policy.triggers = {t};
            set_parameter(scratch, listed, value);
        }
    }
    trigger->field().set(t, key, value);
    check_policy(policy, std::string(key));
    config.policy = std::move(policy);
}

void Drafts::begin_frame(const EngineStatus& status) {
    m_applied = status.applied;
    // By ticket, not by value: the value may stand there already and be taken away by what is applied in between, and an
    // edit that was refused, or overtaken by a new run, must not stay hollow for ever.
    std::erase_if(m_sent, [&](const Sent& sent) { return sent.ticket <= status.answered; });
    rebuild_draft();
    for (const CacheOwner owner :
         {CacheOwner::teacher, CacheOwner::student}) // a run may have started with it
        if (cache_waits(owner)) let_wait(owner, next_cache(owner));
}

const CachePolicyConfig& Drafts::next_cache(CacheOwner owner) const {
    const auto& waiting = waiting_cache(owner);
    if (waiting) return *waiting;
    return owner == CacheOwner::teacher ? m_draft.teacher_cache : m_draft.student_cache;
}

void Drafts::let_wait(CacheOwner owner, const CachePolicyConfig& cache) {
    const CachePolicyConfig now =
        owner == CacheOwner::teacher ? m_draft.teacher_cache : m_draft.student_cache;
    if (cache == now)
        waiting_cache(owner).reset();
    else
        waiting_cache(owner) = CachePolicyConfig(cache);
}

void Drafts::set_next_cache(CacheOwner owner, const CachePolicyConfig& cache) {
    const CachePolicyConfig before = next_cache(owner);
    if (before == cache) return;
    if (!m_edited.empty()) commit(m_edited);
    let_wait(owner, cache);
    Undo entry;
    entry.cache = Undo::NextCache{owner, before, cache};
    remember(std::move(entry));
}

RunConfig Drafts::next_run() const {
    RunConfig run = m_draft;
    run.teacher_cache = next_cache(CacheOwner::teacher);
    run.student_cache = next_cache(CacheOwner::student);
    return run;
}

/// A live parameter was edited: what waits for the next run has it as well, where it is the same method.
void Drafts::follow_live(std::string_view key) {
    for (const auto& [owner, prefix] : {std::pair{CacheOwner::teacher, std::string_view("teacher_cache.")},
                                        std::pair{CacheOwner::student, std::string_view("student_cache.")}}) {
        auto& waiting = waiting_cache(owner);
        if (!waiting || !key.starts_with(prefix)) continue;
        const CachePolicyConfig& now =
            owner == CacheOwner::teacher ? m_draft.teacher_cache : m_draft.student_cache;
        const auto value = now.values.find(key.substr(prefix.size()));
        if (waiting->policy == now.policy && value != now.values.end())
            waiting->values[value->first] = value->second;
    }
}

void Drafts::rebuild_draft() {
    m_draft = m_applied;
    for (const Sent& sent : m_sent) {
        if (sent.key.empty()) {
            m_draft.policy = sent.policy;
            continue;
        }
        try {
            set_draft_value(m_draft, sent.key, sent.value);
        } catch (const Error&) {
            // A new run took the parameter away while the edit was under way; the engine will refuse it as well, and it
            // says so. Until then the draft goes without.
        }
    }
}

std::optional<std::string> Drafts::value(std::string_view key) const {
    return draft_value(m_draft, key);
}

std::optional<std::string> Drafts::applied_value(std::string_view key) const {
    return draft_value(m_applied, key);
}

std::optional<double> Drafts::number(std::string_view key) const {
    const auto text = value(key);
    if (!text) return std::nullopt;
    if (*text == "true") return 1;
    if (*text == "false") return 0;
    return parse_number(*text);
}

bool Drafts::pending(std::string_view key) const {
    const auto now = draft_value(m_applied, key), wanted = draft_value(m_draft, key);
    if (!now || !wanted) return now.has_value() != wanted.has_value();
    return !same_value(*now, *wanted);
}

void Drafts::begin_edit(std::string_view key) {
    if (m_edited == key) return;
    if (!m_edited.empty()) commit(m_edited);
    const auto before = value(key);
    if (!before) return; // nothing to hold: edit() will say what is wrong
    m_edited = key;
    m_edited_before = *before;
    m_edited_policy_before = m_draft.policy;
}

void Drafts::edit(EngineLink& engine, std::string_view key, std::string_view new_value) {
    const auto before = value(key);
    if (before && same_value(*before, new_value)) return;
    const RefreshPolicy policy_before = m_draft.policy;
    send(engine, std::string(key), std::string(new_value));
    if (m_edited == key || !before) return;
    if (parse_trigger_key(key)) {
        remember({std::string(key), *before, std::string(new_value), policy_before, m_draft.policy});
    } else {
        remember({std::string(key), *before, std::string(new_value), {}, {}});
    }
}

void Drafts::edit(EngineLink& engine, std::string_view key, double new_value) {
    edit(engine, key, exact_number(new_value));
}

void Drafts::commit(std::string_view key) {
    if (m_edited.empty() || m_edited != key) return;
    const auto after = value(key);
    if (after && !same_value(*after, m_edited_before)) {
        const bool whole = parse_trigger_key(key).has_value();
        remember({m_edited, m_edited_before, *after, whole ? m_edited_policy_before : RefreshPolicy{},
                  whole ? m_draft.policy : RefreshPolicy{}});
    }
    m_edited.clear();
}

void Drafts::cancel(EngineLink& engine) {
    if (m_edited.empty()) return;
    const std::string key = std::exchange(m_edited, {});
    const auto now = value(key);
    if (now && !same_value(*now, m_edited_before)) send(engine, key, m_edited_before);
}

void Drafts::set_policy(EngineLink& engine, const RefreshPolicy& policy) {
    check_policy(policy, "the policy");
    if (policy == m_draft.policy) return;
    if (!m_edited.empty()) commit(m_edited);
    Undo entry{"", "", "", m_draft.policy, policy};
    send_policy(engine, policy);
    remember(std::move(entry));
}

RefreshPolicy Drafts::policy() const {
    return m_draft.policy;
}

void Drafts::send(EngineLink& engine, const std::string& key, const std::string& value) {
    RunConfig checked = m_draft;
    set_draft_value(checked, key, value); // throws before anything is sent
    if (parse_trigger_key(key)) return send_policy(engine, checked.policy);
    enqueue({key, value, {}, engine.send(command::SetParameter{key, value})});
    follow_live(key);
}

void Drafts::send_policy(EngineLink& engine, const RefreshPolicy& policy) {
    enqueue({"", "", policy, engine.send(command::SetPolicy{policy})});
}

void Drafts::enqueue(Sent sent) {
    std::erase_if(m_sent, [&](const Sent& other) { return other.key == sent.key; });
    m_sent.push_back(std::move(sent));
    rebuild_draft();
}

void Drafts::remember(Undo entry) {
    m_undo.resize(m_next_undo);
    m_undo.push_back(std::move(entry));
    if (m_undo.size() > max_history) m_undo.erase(m_undo.begin());
    m_next_undo = m_undo.size();
}

void Drafts::join_history(std::string words, std::function<void(bool back)> move) {
    Undo entry;
    entry.words = std::move(words);
    entry.move = std::move(move);
    remember(std::move(entry));
}

std::string Drafts::label(const Undo& entry) {
    if (entry.move) return entry.words;
    if (entry.cache) {
        const auto& [owner, from, to] = *entry.cache;
        const char* whose = owner == CacheOwner::teacher ? "Teacher's" : "Student's";
        if (from.policy != to.policy)
            return fmt::format("{} cache policy {} -> {}", whose, from.policy, to.policy);
        for (const auto& [key, value] : to.values)
            if (const auto before = from.values.find(key);
                before != from.values.end() && before->second != value)
                return fmt::format("{} cache {} {} -> {}", whose, key, format_number(before->second),
                                   format_number(value));
        return fmt::format("{} cache policy", whose);
    }
    if (entry.key.empty()) {
        const std::string &from = entry.policy_before.name, &to = entry.policy_after.name;
        if (from == to) return fmt::format("Change policy {}", from);
        return fmt::format("Policy {} -> {}", from, to);
    }
    std::string what = entry.key, unit;
    if (const auto trigger = parse_trigger_key(entry.key)) {
        if (trigger->index < entry.policy_after.triggers.size()) {
            const std::string& name = entry.policy_after.triggers[trigger->index].signal;
            const auto id = signal_id(name);
            what =
                fmt::format("{} {}", id ? std::string(signals()[*id].label) : name, trigger->field().words);
            unit = trigger->which != TriggerField::threshold ? trigger->field().unit
                   : id                                      ? std::string(signals()[*id].unit)
                                                             : "";
        }
    } else if (const Parameter* parameter = find_parameter(entry.key)) {
        what = parameter->label;
        unit = parameter->unit;
    }
    const auto shown = [](const std::string& text) {
        const auto number = parse_number(text);
        return number ? format_number(*number) : text;
    };
    return fmt::format("{} {} -> {}{}{}", what, shown(entry.before), shown(entry.after),
                       unit.empty() ? "" : " ", shown_unit(unit));
}

std::string Drafts::undo_label() const {
    return can_undo() ? label(m_undo[m_next_undo - 1]) : std::string();
}

std::string Drafts::redo_label() const {
    return can_redo() ? label(m_undo[m_next_undo]) : std::string();
}

void Drafts::move_in_history(EngineLink& engine, size_t index, bool back) {
    const Undo& entry = m_undo[index];
    try {
        if (entry.move) {
            entry.move(back);
        } else if (entry.cache) {
            let_wait(entry.cache->owner, back ? entry.cache->before : entry.cache->after);
        } else if (entry.key.empty()) {
            send_policy(engine, back ? entry.policy_before : entry.policy_after);
        } else {
            send(engine, entry.key, back ? entry.before : entry.after);
        }
    } catch (const Error&) {
        m_undo.erase(m_undo.begin() + static_cast<std::ptrdiff_t>(index));
        m_next_undo = std::min(back ? index : m_next_undo, m_undo.size());
        throw;
    }
    m_next_undo = back ? index : index + 1;
}

void Drafts::undo(EngineLink& engine) {
    if (!m_edited.empty()) commit(m_edited); // what is held counts as done
    if (can_undo()) move_in_history(engine, m_next_undo - 1, true);
}

void Drafts::redo(EngineLink& engine) {
    if (!m_edited.empty()) commit(m_edited);
    if (can_redo()) move_in_history(engine, m_next_undo, false);
}

} // namespace refreshlab::ui
