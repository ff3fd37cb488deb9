#include "ui/plot/what_if_preview.h"

#include "ui/format.h"
#include "ui/plot/value_format.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <utility>

namespace refreshlab::ui {
namespace {

/// Up to here an evaluation stays well under a millisecond and is done within the frame.
constexpr int64_t immediate_steps = 8000;

} // namespace

RecordedRun recorded_run(const std::shared_ptr<const Recording>& recording, int64_t steps) {
    RecordedRun run;
    run.steps = steps > 0 && !recording->step(steps).fed ? steps - 1 : steps; // y_N is never fed: no boundary
    run.signal = [recording](int64_t step, size_t signal) { return recording->signal(step, signal); };
    const auto& refreshes = recording->refreshes();
    double refresh_ms = 0;
    int64_t counted = 0;
    for (size_t i = 0, n = refreshes.size(); i < n; ++i) {
        const RefreshEvent& event = refreshes[i];
        if (event.step > steps) break;
        // A refresh that a person and a trigger asked for at once is both: moving the threshold leaves the person's.
        const bool by_hand = std::any_of(event.hits.begin(), event.hits.end(),
                                         [](const TriggerHit& h) { return h.trigger < 0; });
        if (event.automatic) run.automatic_fires.push_back(event.fired_step);
        if (by_hand || !event.automatic) run.manual_fires.push_back(event.fired_step);
        refresh_ms += event.teacher_ms + event.splice_ms + event.redraw_ms;
        ++counted;
    }
    if (counted > 0) run.refresh_ms = refresh_ms / static_cast<double>(counted);
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

void WhatIfPreview::ask(const std::shared_ptr<const Recording>& recording, int64_t steps,
                        const RefreshPolicy& policy) {
    if (!recording) return clear();
    if (m_asked && m_asked->recording == recording && m_asked->steps == steps && m_asked->policy == policy)
        return;
    m_asked = Question{recording, steps, policy};
    if (steps <= immediate_steps) {
        m_answer = what_if(policy, recorded_run(recording, steps));
        return;
    }
    if (!m_job.valid()) start();
}

void WhatIfPreview::start() {
    m_running = m_asked;
    m_job = std::async(std::launch::async, [question = *m_running] {
        return what_if(question.policy, recorded_run(question.recording, question.steps));
    });
}

const WhatIf* WhatIfPreview::answer() {
    if (m_job.valid() && m_job.wait_for(std::chrono::seconds(0)) == std::future_status::ready) {
        WhatIf done = m_job.get();
        if (m_asked) m_answer = std::move(done); // else nobody asks any more
        const bool stale =
            m_asked && (m_asked->recording != m_running->recording || m_asked->steps != m_running->steps ||
                        !(m_asked->policy == m_running->policy));
        if (stale && m_asked->steps > immediate_steps) start();
    }
    return m_answer ? &*m_answer : nullptr;
}

void WhatIfPreview::clear() { // a running job is left alone: its answer finds no question
    m_asked.reset();
    m_answer.reset();
}

std::string what_if_text(const WhatIf& answer, double threshold, std::string_view unit) {
    const size_t n = answer.fires.size();
    std::string text =
        fmt::format("at {}: {} {}", format_value(threshold, unit), format_thousands(static_cast<int64_t>(n)),
                    n == 1 ? "refresh" : "refreshes");
    // Whole percents from ten on: an estimate has no more digits.
    if (const auto& percent = answer.overhead_percent)
        text += fmt::format(", +{} % time", format_number(*percent < 10 ? std::round(*percent * 10) / 10
                                                                        : std::round(*percent)));
    return text + " (estimate)";
}

std::string what_if_detail(const WhatIf& answer) {
    std::string text = answer.exact_until
                           ? fmt::format("exact to step {}", format_thousands(*answer.exact_until))
                           : std::string("as recorded");
    if (answer.missing > 0)
        text += fmt::format(", not measured at {} {}", format_thousands(answer.missing),
                            answer.missing == 1 ? "step" : "steps");
    return text;
}

} // namespace refreshlab::ui
