#include "ui/scene/maps/layer_strip.h"

#include "ui/scene/series/series.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace refreshlab::ui {

void LayerStrip::clear() {
    m_recording.reset();
    m_values.clear();
    m_first = m_end = m_steps = m_layers = 0;
    m_any = false;
    ++m_revision;
}

void LayerStrip::update(const std::shared_ptr<const Recording>& recording, size_t signal, int64_t steps,
                        double x_min, double x_max, double width_px) {
    if (!recording || steps < 1 || !(width_px > 0) || !(x_max > x_min)) {
        if (m_recording) clear();
        return;
    }
    const int64_t width = column_steps((x_max - x_min) / width_px);
    const auto column_of = [&](double x) {
        return (static_cast<int64_t>(std::clamp(x, 1.0, static_cast<double>(steps))) - 1) / width;
    };
    const int64_t first = column_of(std::floor(x_min)), end = column_of(std::ceil(x_max)) + 1;
    const bool same = recording == m_recording && signal == m_signal && width == m_width && steps >= m_steps;
    if (same && steps == m_steps && first == m_first && end == m_end) return;
    // A column is whole when the steps reached its end at that time; the last one of a growing run is filled again.
    const int64_t whole = same ? m_steps / width : 0;
    const int64_t kept_first = std::max(first, m_first), kept_end = std::min({end, m_end, whole});
    std::vector<float> before = std::exchange(m_values, {});
    const int64_t old_first = m_first;
    m_recording = recording;
    m_signal = signal;
    m_steps = steps;
    m_layers = recording->info().layers;
    m_width = width;
    m_first = first;
    m_end = end;
    m_values.resize(static_cast<size_t>(columns() * m_layers));
    for (int64_t c = first; c < end; ++c) {
        const auto out = std::span(m_values).subspan(static_cast<size_t>((c - first) * m_layers),
                                                     static_cast<size_t>(m_layers));
        if (same && c >= kept_first && c < kept_end)
            std::copy_n(before.begin() + static_cast<ptrdiff_t>((c - old_first) * m_layers), m_layers,
                        out.begin());
        else
            fill_column(c, out);
    }
    find_range();
    ++m_revision;
}

void LayerStrip::fill_column(int64_t column, std::span<float> out) const {
    std::ranges::fill(out, absent());
    for (int64_t t = column * m_width + 1; t <= std::min((column + 1) * m_width, m_steps); ++t) {
        const std::span<const float> values = m_recording->layer_values(t, m_signal);
        for (size_t layer = 0; layer < std::min(values.size(), out.size()); ++layer) {
            const float value = values[layer];
            float& most = out[layer];
            if (is_absent(value) || (std::isnan(most) && !is_absent(most))) continue;
            if (is_absent(most) || std::isnan(value) || value > most) most = value;
        }
    }
}

void LayerStrip::find_range() {
    m_any = false;
    for (const float value : m_values) {
        if (!std::isfinite(value)) continue;
        m_lowest = m_any ? std::min(m_lowest, value) : value;
        m_highest = m_any ? std::max(m_highest, value) : value;
        m_any = true;
    }
}

} // namespace refreshlab::ui
