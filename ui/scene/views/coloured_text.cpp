#include "ui/scene/views/coloured_text.h"

#include "ui/base/value_format.h"
#include "ui/scene/landscape/cell_values.h"
#include "ui/scene/maps/colour_maps.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>

namespace refreshlab::ui {

namespace {

constexpr double least_top = 1e-6; // of a scale on which everything is 0

float token_value(const Recording& recording, int64_t steps, const Signal& signal, size_t id, int64_t token) {
    const int64_t step = signal.about == SignalAbout::token ? token : token - 1;
    return step >= 1 && step <= steps ? picked_value(recording, step, id, {}) : absent();
}

} // namespace

void TokenPaint::mix(uint32_t hue, uint32_t background, uint32_t ink) {
    if (m_colours.matches(hue, background, ink)) return;
    m_colours.build(hue, background, ink);
    m_yes = TokenColours::entry(verdict_colour(true), background, ink);
    m_no = TokenColours::entry(verdict_colour(false), background, ink);
}

void ColouredText::forget() {
    m_recording.reset();
    m_read = {};
    m_by = By::nothing;
    m_signal = nullptr;
    m_gains = {};
}

void ColouredText::update(const std::shared_ptr<const Recording>& recording, int64_t steps,
                          const TextView& view, const ColourSources& sources) {
    m_all = {0, 0};
    m_range_of = view.coloured_by;
    m_steps = steps;
    choose(recording, view, sources);
    const auto own = ui::own_range(view.ranges, m_range_of);
    m_own = own.has_value();
    m_range = own.value_or(m_range);
}

void ColouredText::choose(const std::shared_ptr<const Recording>& recording, const TextView& view,
                          const ColourSources& sources) {
    const int64_t steps = m_steps;
    m_recording = recording;
    m_step = sources.step;
    m_gains = sources.gains;
    m_gains_of = sources.gains_of;
    m_series.begin_frame(recording, steps);
    m_signal = nullptr;
    m_verdicts = nullptr;
    m_by = By::nothing;
    m_range = {0, least_top};
    if (view.coloured_by == gain_colouring) {
        m_by = By::gain;
        for (const float gain : m_gains) // what a refresh would cost counts as 0
            if (!is_absent(gain)) m_range.max = std::max(m_range.max, static_cast<double>(gain));
        m_all.max = m_range.max;
        if (m_gains_of != Objective::loss) m_range_of += fmt::format(":{}", to_string(m_gains_of));
        return;
    }
    if (view.coloured_by == mean_colouring || view.coloured_by == head_colouring) {
        m_by = By::attention;
        m_head = view.coloured_by == head_colouring ? std::optional(sources.head) : std::nullopt;
        if (!recording || steps == 0) return;
        // The last record of a finished run holds a token that was never fed: the query before it is the newest.
        if (m_step > 1 && !recording->step(m_step).fed) --m_step;
        if (m_read.update(*recording, recording->prompt_length() + m_step - 1, m_head))
            m_range.max = std::max(m_range.max, static_cast<double>(m_read.largest()));
        m_all.max = m_range.max;
        return;
    }
    const std::span<const Signal> table = recording ? recording->signals() : signals();
    const auto id = find_signal(table, view.coloured_by);
    if (!id) return;
    m_by = By::signal;
    m_id = *id;
    m_signal = &table[m_id];
    m_verdicts = verdicts_of(m_signal->name);
    ColourRange range;
    if (recording && steps > 0) {
        const SeriesSummary all = m_series.series(m_id).summary(1, steps);
        if (all.finite > 0) {
            m_all = {static_cast<double>(all.min), static_cast<double>(all.max)};
            range.include(static_cast<double>(all.min));
            range.include(static_cast<double>(all.max));
        }
    }
    m_range = range.range();
}

std::string ColouredText::label() const {
    switch (m_by) {
    case By::gain:
        return "Gain of a refresh before";
    case By::attention:
        return fmt::format("Read by step {}, {}", format_thousands(m_step),
                           m_head ? fmt::format("layer {} head {}", m_head->first, m_head->second)
                                  : std::string("mean of all heads"));
    case By::signal:
        return std::string(m_signal->label);
    case By::nothing:
        break;
    }
    return {};
}

std::string ColouredText::unit() const {
    if (m_by == By::gain) return unit_of(CellValue{CellValue::Kind::gain, {}, m_gains_of});
    return m_by == By::signal ? std::string(m_signal->unit) : std::string();
}

std::string ColouredText::counted() const {
    if (!m_verdicts || !m_recording || m_steps == 0) return {};
    const VerdictCount count = count_verdicts(*m_recording, m_steps, m_id);
    if (count.yes + count.no == 0) return std::string(m_verdicts->neither);
    return fmt::format("{} {}, {} {}", format_thousands(count.yes), m_verdicts->yes,
                       format_thousands(count.no), m_verdicts->no);
}

float ColouredText::value(int64_t token) const {
    if (!m_recording || token < 1) return absent();
    switch (m_by) {
    case By::gain: { // a refresh at boundary t comes before y_{t+1} is read
        const auto step = static_cast<size_t>(token - 1);
        return step >= 1 && step <= m_gains.size() ? m_gains[step - 1] : absent();
    }
    case By::attention:
        return prompt_value(m_recording->prompt_length() + token - 1);
    case By::signal:
        return token_value(*m_recording, m_steps, *m_signal, m_id, token);
    case By::nothing:
        break;
    }
    return absent();
}

float ColouredText::value_of(const Recording& other, int64_t steps, int64_t token) const {
    const auto id = m_signal ? other.signal_id(m_signal->name) : std::nullopt;
    return id ? token_value(other, steps, other.signals()[*id], *id, token) : absent();
}

float ColouredText::prompt_value(int64_t position) const {
    const auto at = static_cast<size_t>(position);
    return m_by == By::attention && position >= 0 && at < m_read.weights().size() ? m_read.weights()[at]
                                                                                  : absent();
}

TokenLook ColouredText::look(const TokenPaint& paint, float value) const {
    if (is_absent(value)) return {0, paint.colours().ink()};
    if (std::isnan(value)) return {0, paint.colours().ink(), nan_colour};
    if (m_verdicts) {
        const TokenColours::Entry& entry = paint.verdict(value >= 0.5F);
        return {entry.background, entry.text, entry.underline, value < 0.5F};
    }
    const double fraction = (static_cast<double>(value) - m_range.min) / (m_range.max - m_range.min);
    const TokenColours::Entry& entry = paint.colours().at(std::clamp(fraction, 0.0, 1.0));
    return {entry.background, entry.text, entry.underline};
}

} // namespace refreshlab::ui
