#include "ui/scene/policy/own_signal_draft.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string_view>
#include <utility>
#include <vector>

namespace refreshlab::ui {

namespace {
constexpr int64_t most_work = 2'000'000; // steps times steps looked back at
}

RefreshPolicy with_own_signal(RefreshPolicy policy, const OwnSignalDraft& draft) {
    const std::string what = "the signal";
    OwnSignal signal = own_signal_from_text(draft.name + "=" + draft.expression, what);
    const std::string name = signal.name;
    const auto there = std::ranges::find(policy.signals, name, &OwnSignal::name);
    if (there != policy.signals.end())
        *there = std::move(signal);
    else
        policy.signals.push_back(std::move(signal));
    auto trigger = std::ranges::find(policy.triggers, name, &Trigger::signal);
    if (!draft.triggers) {
        if (trigger != policy.triggers.end()) policy.triggers.erase(trigger);
    } else {
        if (trigger == policy.triggers.end()) {
            Trigger added;
            added.signal = name;
            added.published = true;
            added.cooldown = own_signal_cooldown;
            trigger = policy.triggers.insert(policy.triggers.end(), added);
        }
        trigger->comparison = draft.above ? Comparison::above : Comparison::below;
        trigger->threshold = draft.threshold;
        trigger->enabled = true;
        no_longer_none(policy);
    }
    check_policy(policy, what);
    return policy;
}

std::optional<OwnSignalValues> values_on(const Recording& run, int64_t steps, const OwnSignal& signal,
                                         const OwnSignalDraft& draft) {
    if (steps * (signal.reach() + 1) > most_work) return std::nullopt;
    std::vector<std::pair<std::string_view, std::optional<size_t>>> ids; // looked for once, not at every step
    for (const std::string_view name : signal.reads())
        ids.emplace_back(name, run.signal_id(name));
    const auto read = [&](std::string_view name, int64_t step) {
        const auto id = std::ranges::find(ids, name, [](const auto& known) { return known.first; })->second;
        return id ? run.signal(step, *id) : absent();
    };
    OwnSignalValues values;
    for (int64_t step = 1; step <= steps; ++step) {
        const float value = own_value(signal, step, read);
        if (is_absent(value) || std::isnan(value)) continue;
        const auto number = static_cast<double>(value);
        values.lowest = values.steps == 0 ? number : std::min(values.lowest, number);
        values.highest = values.steps == 0 ? number : std::max(values.highest, number);
        ++values.steps;
        if (draft.above ? number > draft.threshold : number < draft.threshold) ++values.over;
    }
    return values.steps > 0 ? std::optional(values) : std::nullopt;
}

} // namespace refreshlab::ui
