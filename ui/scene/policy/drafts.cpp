#include "ui/scene/policy/drafts.h"

#include "engine/base/error.h"
#include "engine/signals/registry.h"
#include "ui/base/format.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
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

struct TriggerKey {
    size_t index = 0;
    std::string_view field;
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
    result.field = key.substr(slash + 1);
    return result;
}

int32_t whole_number(std::string_view key, std::string_view value) {
    const auto number = parse_number(value);
    if (!number || *number != std::floor(*number) || std::abs(*number) > 1e9)
        throw Error("setting", std::string(key), fmt::format("{} is not a whole number", value));
    return static_cast<int32_t>(*number);
}

constexpr Comparison comparisons[] = {Comparison::above, Comparison::at_least, Comparison::below,
                                      Comparison::at_most};

} // namespace

std::string trigger_key(size_t index, std::string_view field) {
    return fmt::format("trigger/{}/{}", index, field);
}

std::optional<std::string> draft_value(const RunConfig& config, std::string_view key) {
    const auto trigger = parse_trigger_key(key);
    if (!trigger) return parameter_value(config, key);
    if (trigger->index >= config.policy.triggers.size()) return std::nullopt;
    const Trigger& t = config.policy.triggers[trigger->index];
    if (trigger->field == "threshold") return exact_number(t.threshold);
    if (trigger->field == "every") return fmt::format("{}", t.every);
    if (trigger->field == "cooldown") return fmt::format("{}", t.cooldown);
    if (trigger->field == "enabled") return t.enabled ? "true" : "false";
    if (trigger->field == "comparison") return std::string(to_string(t.comparison));
    return std::nullopt;
}

void set_draft_value(RunConfig& config, std::string_view key, std::string_view value) {
    const auto trigger = parse_trigger_key(key);
    if (!trigger) return set_parameter(config, key, value);
    if (trigger->index >= config.policy.triggers.size())
        throw Error("setting", std::string(key),
                    fmt::format("policy {} has no such trigger", config.policy.name));
    RefreshPolicy policy = config.policy;
    Trigger& t = policy.triggers[trigger->index];
    if (trigger->field == "threshold") {
        const auto number = parse_number(value);
        if (!number) throw Error("setting", std::string(key), fmt::format("{} is not a number", value));
        // The range stands in the parameter list, and the engine refuses by it: the same words already here.
        const std::string listed = fmt::format("{}.threshold", t.signal);
        if (find_parameter(listed)) {
            RunConfig scratch = config;
            scratch.policy.triggers = {t};
            set_parameter(scratch, listed, value);
        }
        t.threshold = *number;
    } else if (trigger->field == "every") {
        t.every = whole_number(key, value);
    } else if (trigger->field == "cooldown") {
        t.cooldown = whole_number(key, value);
    } else if (trigger->field == "enabled") {
        if (value != "true" && value != "false" && value != "0" && value != "1")
            throw Error("setting", std::string(key), fmt::format("{} is neither true nor false", value));
        t.enabled = value == "true" || value == "1";
    } else if (trigger->field == "comparison") {
        const auto* found =
            std::ranges::find_if(comparisons, [&](Comparison c) { return to_string(c) == value; });
        if (found == std::end(comparisons))
            throw Error("setting", std::string(key), fmt::format("{} is no comparison", value));
        t.comparison = *found;
    } else {
        throw Error("setting", std::string(key), "a trigger has no such field");
    }
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

std::string Drafts::label(const Undo& entry) {
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
            what = fmt::format("{} {}", id ? std::string(signals()[*id].label) : name,
                               trigger->field == "cooldown" ? "cool-down" : trigger->field);
            if (trigger->field == "threshold") unit = id ? std::string(signals()[*id].unit) : "";
            if (trigger->field == "every" || trigger->field == "cooldown") unit = "tokens";
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
        if (entry.cache) {
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
