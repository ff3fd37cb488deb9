#include "ui/scene/runs/run_metrics.h"

#include "ui/base/format.h"
#include "ui/base/value_format.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace refreshlab::ui {

void RunningMean::put(int64_t step, float value) {
    const auto at = static_cast<size_t>(step - 1);
    const auto counts = [](float v) { return !is_absent(v) && std::isfinite(v); };
    if (at == m_values.size()) {
        m_values.push_back(absent());
    } else if (counts(m_values[at])) {
        m_sum -= static_cast<double>(m_values[at]);
        --m_count;
    }
    m_values[at] = value;
    if (counts(value)) {
        m_sum += static_cast<double>(value);
        ++m_count;
    }
}

void RunningMean::update(const Recording& recording, int64_t steps) {
    const auto& fills = recording.back_fills();
    const size_t known = fills.size(); // before the values: what comes later is read again
    if (m_next_fill == known && static_cast<int64_t>(m_values.size()) >= steps) return;
    const auto id = recording.signal_id(m_name);
    if (!id) return;
    for (; m_next_fill < known; ++m_next_fill) {
        const Recording::BackFill& fill = fills[m_next_fill];
        if (fill.signal != *id) continue;
        const auto have = static_cast<int64_t>(m_values.size());
        for (int64_t t = fill.first_step; t <= std::min(fill.last_step, have); ++t)
            put(t, recording.signal(t, *id));
    }
    while (static_cast<int64_t>(m_values.size()) < steps) {
        const int64_t t = static_cast<int64_t>(m_values.size()) + 1;
        put(t, recording.signal(t, *id));
    }
}

std::optional<double> RunningMean::mean() const {
    if (m_count == 0) return std::nullopt;
    return m_sum / static_cast<double>(m_count);
}

void RunMetrics::add_times(const Recording& recording, int64_t steps) {
    while (m_timed < steps) {
        const auto& parts = recording.step(++m_timed).part_ms;
        for (size_t p = 0; p < num_parts; ++p) {
            const auto part = static_cast<Part>(p);
            const bool of_refresh =
                part == Part::teacher_pass || part == Part::splice || part == Part::redraw;
            if (std::isfinite(parts[p]))
                (of_refresh ? m_refresh_ms : m_decode_ms) += static_cast<double>(parts[p]);
        }
    }
    m_numbers.added_percent =
        m_decode_ms > 0 ? std::optional(100 * m_refresh_ms / m_decode_ms) : std::nullopt;
}

void RunMetrics::update(const Recording& recording, int64_t steps) {
    if (m_of != &recording) {
        *this = {};
        m_of = &recording;
    }
    for (RunningMean* mean : {&m_entropy, &m_kl, &m_acceptance})
        mean->update(recording, steps);
    m_numbers.steps = steps;
    m_numbers.refreshes = static_cast<int64_t>(recording.refreshes().size());
    add_times(recording, steps);
    m_numbers.entropy_bits = m_entropy.mean();
    m_numbers.kl_nats = m_kl.mean();
    m_numbers.acceptance = m_acceptance.mean();
    if (const uint64_t revision = recording.end_revision(); m_end != revision) {
        m_end = revision;
        const auto end = recording.end();
        m_numbers.teacher_ppl = end ? end->teacher_ppl : std::nullopt;
    }
}

std::span<const std::string_view> run_table_keys() {
    static constexpr std::array<std::string_view, num_run_columns + 1> keys = {
        "name",         "change",  "steps",       "refreshes", "added_percent",
        "entropy_bits", "kl_nats", "teacher_ppl", "acceptance"};
    return keys;
}

std::string_view run_column_key(RunColumn column) {
    const auto i = static_cast<size_t>(column);
    return run_table_keys()[column == RunColumn::name ? 0 : i + 1];
}

std::optional<RunColumn> run_column_named(std::string_view key) {
    for (size_t i = 0; i < num_run_columns; ++i)
        if (run_column_key(static_cast<RunColumn>(i)) == key) return static_cast<RunColumn>(i);
    return std::nullopt;
}

const char* run_column_name(RunColumn column) {
    switch (column) {
    case RunColumn::name:
        return "Run";
    case RunColumn::steps:
        return "Steps";
    case RunColumn::refreshes:
        return "Refreshes";
    case RunColumn::added_percent:
        return "Added time (%)";
    case RunColumn::entropy_bits:
        return "Entropy (bits)";
    case RunColumn::kl_nats:
        return "KL (nats)";
    case RunColumn::teacher_ppl:
        return "Teacher PPL";
    case RunColumn::acceptance:
        break;
    }
    return "Acceptance";
}

const char* run_column_meaning(RunColumn column) {
    switch (column) {
    case RunColumn::name:
        return "A double click on a name changes it";
    case RunColumn::steps:
        return "Tokens that the run has read so far, those that it shares with its parent among them";
    case RunColumn::refreshes:
        return "Splices, those that it shares with its parent among them";
    case RunColumn::added_percent:
        return "Time of teacher passes, splices and tokens drawn again, against that of the steps without "
               "them";
    case RunColumn::entropy_bits:
        return "Mean entropy of the rows that tokens were drawn from";
    case RunColumn::kl_nats:
        return "Mean KL divergence of the teacher's and the student's rows, over the steps that a teacher "
               "pass read";
    case RunColumn::teacher_ppl:
        return "Perplexity of the whole text under the teacher, of the closing pass; known once a run has "
               "ended";
    case RunColumn::acceptance:
        break;
    }
    return "Mean chance that speculative sampling takes the student's token, over the steps that a teacher "
           "pass read";
}

std::optional<double> run_number(const RunNumbers& numbers, RunColumn column) {
    switch (column) {
    case RunColumn::name:
        break;
    case RunColumn::steps:
        return static_cast<double>(numbers.steps);
    case RunColumn::refreshes:
        return static_cast<double>(numbers.refreshes);
    case RunColumn::added_percent:
        return numbers.added_percent;
    case RunColumn::entropy_bits:
        return numbers.entropy_bits;
    case RunColumn::kl_nats:
        return numbers.kl_nats;
    case RunColumn::teacher_ppl:
        return numbers.teacher_ppl;
    case RunColumn::acceptance:
        return numbers.acceptance;
    }
    return std::nullopt;
}

std::string run_number_words(const RunNumbers& numbers, RunColumn column) {
    const auto value = run_number(numbers, column);
    if (!value) return "-";
    const bool count = column == RunColumn::steps || column == RunColumn::refreshes;
    return count ? format_thousands(static_cast<int64_t>(*value)) : format_number(*value);
}

} // namespace refreshlab::ui
