#include "ui/scene/policy/trigger_results.h"

#include "engine/signals/registry.h"
#include "ui/base/format.h"
#include "ui/base/value_format.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace refreshlab::ui {

namespace {

/// Mean of a signal over [first, last], as far as it was measured.
std::optional<double> mean(const Recording& recording, size_t signal, int64_t first, int64_t last) {
    double sum = 0;
    int64_t count = 0;
    for (int64_t t = first; t <= last; ++t) {
        const float value = recording.signal(t, signal);
        if (is_absent(value) || !std::isfinite(value)) continue;
        sum += static_cast<double>(value);
        ++count;
    }
    if (count == 0) return std::nullopt;
    return sum / static_cast<double>(count);
}

} // namespace

void TriggerResults::clear() {
    *this = {};
}

void TriggerResults::add(BySignal& sums, const Recording& recording, int64_t steps, size_t i) {
    const size_t kl = require_signal("kl_nats", "what a trigger has done");
    const auto& refreshes = recording.refreshes();
    const RefreshEvent& event = refreshes[i];
    if (event.hits.empty()) return;
    const int64_t first = i > 0 ? refreshes[i - 1].step + 1 : 1;
    const int64_t last = i + 1 < refreshes.size() ? std::min(steps, refreshes[i + 1].step) : steps;
    const auto left = mean(recording, kl, std::max(first, event.step - compared_tokens + 1), event.step);
    const auto right = mean(recording, kl, event.step + 1, std::min(last, event.step + compared_tokens));
    for (size_t h = 0; h < event.hits.size(); ++h) {
        const std::string& signal = event.hits[h].signal;
        const auto same = [&](const TriggerHit& hit) { return hit.signal == signal; };
        if (std::any_of(event.hits.begin(), event.hits.begin() + static_cast<std::ptrdiff_t>(h), same))
            continue; // two triggers on one signal are one reason
        Sums& sum = sums[signal];
        ++sum.fires;
        sum.ms += event.teacher_ms + event.splice_ms + event.redraw_ms;
        if (!left || !right) continue;
        sum.before += *left;
        sum.after += *right;
        ++sum.compared;
    }
}

void TriggerResults::update(const Recording& recording, int64_t steps) {
    if (m_recording != &recording || steps < m_steps) clear();
    m_recording = &recording;
    m_steps = steps;
    const auto& refreshes = recording.refreshes();
    const size_t kl = require_signal("kl_nats", "what a trigger has done");
    for (const size_t n = recording.back_fills().size(); m_fills < n; ++m_fills) {
        const Recording::BackFill& fill = recording.back_fills()[m_fills];
        if (m_settled == 0 || fill.signal != kl) continue;
        const int64_t end =
            std::min(refreshes[m_settled - 1].step + compared_tokens, refreshes[m_settled].step);
        if (fill.first_step > end) continue;
        m_settled = 0; // what was thought to stand has changed
        m_sums.clear();
    }
    size_t events = m_settled;
    while (events < refreshes.size() && refreshes[events].step <= steps)
        ++events;
    // The teacher fills in what lies between a refresh and the one before when it reads for it. So the sides of an event stand when
    // two more have come.
    for (; m_settled + 2 < events; ++m_settled)
        add(m_sums, recording, steps, m_settled);
    m_all = m_sums;
    for (size_t i = m_settled; i < events; ++i)
        add(m_all, recording, steps, i);
}

TriggerResult TriggerResults::of(std::string_view signal) const {
    TriggerResult result;
    const auto found = m_all.find(signal);
    if (found == m_all.end()) return result;
    const Sums& sums = found->second;
    result.fires = sums.fires;
    result.ms = sums.ms;
    result.compared = sums.compared;
    if (sums.compared > 0) {
        result.kl_before = sums.before / static_cast<double>(sums.compared);
        result.kl_after = sums.after / static_cast<double>(sums.compared);
    }
    return result;
}

std::string result_text(const TriggerResult& result) {
    if (result.fires == 0) return "has not fired yet";
    std::string text = fmt::format("{}, {} ms", format_count(result.fires, "fire"), format_number(result.ms));
    if (result.kl_before)
        text += fmt::format("; KL {} before, {} after", format_signal(static_cast<float>(*result.kl_before)),
                            format_signal(static_cast<float>(*result.kl_after)));
    return text;
}

} // namespace refreshlab::ui
