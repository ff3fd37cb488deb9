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

TriggerResult trigger_result(const Recording& recording, int64_t steps, std::string_view signal) {
    TriggerResult result;
    const size_t kl = require_signal("kl_nats", "what a trigger has done");
    const auto& refreshes = recording.refreshes();
    double before = 0, after = 0;
    for (size_t i = 0, n = refreshes.size(); i < n && refreshes[i].step <= steps; ++i) {
        const RefreshEvent& event = refreshes[i];
        if (std::ranges::none_of(event.hits, [&](const TriggerHit& hit) { return hit.signal == signal; }))
            continue;
        ++result.fires;
        result.ms += event.teacher_ms + event.splice_ms + event.redraw_ms;
        const int64_t first = i > 0 ? refreshes[i - 1].step + 1 : 1;
        const int64_t last = i + 1 < n ? std::min(steps, refreshes[i + 1].step) : steps;
        const auto left = mean(recording, kl, std::max(first, event.step - compared_tokens + 1), event.step);
        const auto right = mean(recording, kl, event.step + 1, std::min(last, event.step + compared_tokens));
        if (!left || !right) continue;
        before += *left;
        after += *right;
        ++result.compared;
    }
    if (result.compared > 0) {
        result.kl_before = before / static_cast<double>(result.compared);
        result.kl_after = after / static_cast<double>(result.compared);
    }
    return result;
}

std::string result_text(const TriggerResult& result) {
    if (result.fires == 0) return "has not fired yet";
    std::string text = fmt::format("{} {}, {} ms", format_thousands(result.fires),
                                   result.fires == 1 ? "fire" : "fires", format_number(result.ms));
    if (result.kl_before)
        text += fmt::format("; KL {} before, {} after", format_signal(static_cast<float>(*result.kl_before)),
                            format_signal(static_cast<float>(*result.kl_after)));
    return text;
}

} // namespace refreshlab::ui
