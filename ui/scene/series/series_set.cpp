#include "ui/scene/series/series_set.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <string_view>
#include <utility>

namespace refreshlab::ui {
namespace {

/// Brings one value per step up to date: back-filled steps again, then the new ones. A step that is appended is read with
/// everything that was written until now, so entries about later steps need no second look.
/// \param concerns  whether a back-fill of this signal changes the value
/// \param apply     apply(step, is_new)
template <class Concerns, class Apply>
void update(const Recording& recording, int64_t have, int64_t steps, size_t& next, Concerns concerns,
            Apply apply) {
    const auto& fills = recording.back_fills();
    for (const size_t end = fills.size(); next < end; ++next) {
        const Recording::BackFill& fill = fills[next];
        if (!concerns(fill.signal)) continue;
        for (int64_t t = std::max<int64_t>(fill.first_step, 1); t <= std::min(fill.last_step, have); ++t)
            apply(t, false);
    }
    for (int64_t t = have + 1; t <= steps; ++t)
        apply(t, true);
}

} // namespace

float picked_value(const Recording& recording, int64_t t, size_t signal, LayerPick pick) {
    if (pick.strip || pick.reduction == Reduction::mean) return recording.signal(t, signal);
    return reduce_layers(recording.layer_values(t, signal), pick.reduction, pick.layer);
}

VerdictCount count_verdicts(const Recording& recording, int64_t steps, size_t signal) {
    VerdictCount count;
    for (int64_t t = 1; t <= steps; ++t) {
        const float value = recording.signal(t, signal);
        if (!is_absent(value)) ++(value >= 0.5F ? count.yes : count.no);
    }
    return count;
}

void SeriesSet::begin_frame(std::shared_ptr<const Recording> recording, int64_t steps) {
    if (recording != m_recording || steps < m_steps) {
        m_recording = std::move(recording);
        m_entries.clear();
    }
    m_steps = steps;
}

float SeriesSet::value(int64_t step, size_t signal, LayerPick pick) const {
    if (!m_recording || step < 1 || step > m_steps) return absent();
    return picked_value(*m_recording, step, signal, pick);
}

const SignalSeries& SeriesSet::series(size_t signal, LayerPick pick) {
    if (pick.strip) pick = {};
    Entry& entry = m_entries[{signal, pick}];
    if (!m_recording) return entry.series;
    update(
        *m_recording, entry.series.size(), m_steps, entry.next_back_fill,
        [&](uint16_t filled) { return filled == signal; },
        [&](int64_t t, bool is_new) {
            const float value = this->value(t, signal, pick);
            if (is_new) {
                entry.series.append(value);
            } else {
                entry.series.set(t, value);
            }
        });
    return entry.series;
}

const SeriesSet::Band* SeriesSet::band(size_t signal) {
    if (!m_recording) return nullptr;
    const std::string_view name = m_recording->signals()[signal].band;
    const auto sd_id = name.empty() ? std::nullopt : m_recording->signal_id(name);
    if (!sd_id) return nullptr;
    Entry& entry = m_entries[{signal, LayerPick()}];
    if (!entry.band) entry.band = std::make_unique<Band>();
    update(
        *m_recording, entry.band->low.size(), m_steps, entry.next_band_fill,
        [&](uint16_t filled) { return filled == signal || filled == *sd_id; },
        [&](int64_t t, bool is_new) {
            const float mean = m_recording->signal(t, signal), sd = m_recording->signal(t, *sd_id);
            const bool known = !is_absent(mean) && !is_absent(sd);
            const float low = known ? mean - sd : absent(), high = known ? mean + sd : absent();
            if (is_new) {
                entry.band->low.append(low);
                entry.band->high.append(high);
            } else {
                entry.band->low.set(t, low);
                entry.band->high.set(t, high);
            }
        });
    return entry.band.get();
}

SeriesSummary SeriesSet::seen(size_t signal, double x_min, double x_max, LayerPick pick) {
    const auto first = static_cast<int64_t>(std::floor(std::clamp(x_min, 0.0, 1e15)));
    const auto last = static_cast<int64_t>(std::ceil(std::clamp(x_max, 0.0, 1e15)));
    SeriesSummary all = series(signal, pick).summary(first, last);
    if (all.finite > 0 && pick == LayerPick()) {
        if (const Band* around = band(signal)) {
            const SeriesSummary low = around->low.summary(first, last),
                                high = around->high.summary(first, last);
            if (low.finite > 0) all.min = std::min(all.min, low.min);
            if (low.min_positive > 0 && all.min_positive > 0)
                all.min_positive = std::min(all.min_positive, low.min_positive);
            if (high.finite > 0) all.max = std::max(all.max, high.max);
        }
    }
    return all;
}

} // namespace refreshlab::ui
