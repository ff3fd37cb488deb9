#include "ui/scene/policy/what_if_preview.h"

#include "ui/base/format.h"
#include "ui/base/value_format.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace refreshlab::ui {

RecordedRun recorded_run(const std::shared_ptr<const Recording>& recording, int64_t steps) {
    RecordedRun run;
    run.steps = steps > 0 && !recording->step(steps).fed ? steps - 1 : steps; // y_N is never fed: no boundary
    run.signal = [recording](int64_t step, size_t signal) { return recording->signal(step, signal); };
    run.layer_values = [recording](int64_t step, size_t signal) {
        return recording->layer_values(step, signal);
    };
    run.table = recording->signals(); // the two above keep it
    const auto& refreshes = recording->refreshes();
    double refresh_ms = 0;
    int64_t counted = 0, read = 0;
    for (size_t i = 0, n = refreshes.size(); i < n; ++i) {
        const RefreshEvent& event = refreshes[i];
        if (event.step > steps) break;
        // A refresh that a person and a trigger asked for at once is both: moving the threshold leaves the person's.
        const bool by_hand = std::any_of(event.hits.begin(), event.hits.end(),
                                         [](const TriggerHit& h) { return h.signal.empty(); });
        if (event.automatic) run.automatic_fires.push_back(event.fired_step);
        if (by_hand || !event.automatic) run.manual_fires.push_back(event.fired_step);
        refresh_ms += event.teacher_ms + event.splice_ms + event.redraw_ms;
        read += event.pass_tokens;
        ++counted;
    }
    if (counted > 0) {
        run.refresh_ms = refresh_ms / static_cast<double>(counted);
        run.refresh_tokens = static_cast<double>(read) / static_cast<double>(counted);
    }
    for (int64_t t = 1; t <= steps; ++t) {
        const auto& parts = recording->step(t).part_ms;
        for (size_t p = 0; p < num_parts; ++p) {
            const auto part = static_cast<Part>(p);
            const bool of_refresh =
                part == Part::teacher_pass || part == Part::splice || part == Part::redraw;
            if (!of_refresh && std::isfinite(parts[p])) run.decode_ms += static_cast<double>(parts[p]);
        }
    }
    return run;
}

WhatIf WhatIfPreview::work(const PolicyOnSteps& question) {
    return what_if(question.policy, recorded_run(question.recording, question.steps));
}

void WhatIfPreview::ask(const std::shared_ptr<const Recording>& recording, int64_t steps,
                        const RefreshPolicy& policy) {
    if (!recording) return clear();
    m_answers.ask({recording, steps, policy}, steps <= immediate_steps);
}

namespace {

std::string count_text(const WhatIf& answer) {
    return format_count(static_cast<int64_t>(answer.fires.size()), "refresh");
}

/// Two digits at most: an estimate has no more.
std::string percent_text(double percent) {
    if (percent < 10) return format_number(std::round(percent * 10) / 10);
    const double unit = percent < 100 ? 1 : std::pow(10.0, std::floor(std::log10(percent)) - 1);
    return format_number(std::round(percent / unit) * unit);
}

std::string time_text(const WhatIf& answer) {
    if (!answer.overhead) return {};
    const std::string low = percent_text(answer.overhead->low_percent),
                      high = percent_text(answer.overhead->high_percent);
    if (low == high) return fmt::format(", +{} % time", low);
    return fmt::format(", +{} to {} % time", low, high);
}

std::string missing_text(const WhatIf& answer) {
    return "not measured at " + format_count(answer.missing, "step");
}

} // namespace

std::string what_if_outcome(const WhatIf& answer) {
    return count_text(answer) + time_text(answer);
}

std::string what_if_text(const WhatIf& answer, double threshold, std::string_view unit) {
    return fmt::format("at {}: {} (estimate)", format_value(threshold, unit), what_if_outcome(answer));
}

std::string calibration_text(const Calibration& found, std::string_view unit) {
    std::string text = fmt::format("at {}: ", format_value(found.threshold, unit));
    if (found.q)
        text += fmt::format("quantile {:.6g} of {}; ", *found.q, format_count(found.checks, "check"));
    text += fmt::format("{} in this run{} (estimate)", count_text(found.outcome), time_text(found.outcome));
    if (found.outcome.missing > 0) text += ", " + missing_text(found.outcome);
    return text;
}

std::string calibration_advice(int64_t tokens) {
    if (tokens >= calibration_tokens) return {};
    return fmt::format("calibrated on {}; {} or more are advised", format_count(tokens, "token"),
                       format_thousands(calibration_tokens));
}

std::string what_if_detail(const WhatIf& answer) {
    std::string text = answer.exact_until
                           ? fmt::format("exact to step {}", format_thousands(*answer.exact_until))
                           : std::string("as recorded");
    if (answer.missing > 0) text += ", " + missing_text(answer);
    return text;
}

} // namespace refreshlab::ui
