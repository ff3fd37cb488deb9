#include "ui/scene/runs/run_difference.h"

#include "ui/scene/series/series_set.h"

#include <algorithm>
#include <cmath>

namespace refreshlab::ui {

float DifferenceSeries::value(int64_t t) const {
    const int64_t there = t - m_shift;
    if (there < 1 || there > m_other.steps) return absent();
    const float a = picked_value(*m_base.recording, t, m_base.signal, m_pick);
    const float b = picked_value(*m_other.recording, there, m_other.signal, m_pick);
    if (is_absent(a) || is_absent(b) || !std::isfinite(a) || !std::isfinite(b)) return absent();
    return b - a;
}

/// Values of one side that came after their step.
void DifferenceSeries::read_fills(const Side& side, size_t& next, int64_t shift) {
    const auto& fills = side.recording->back_fills();
    for (const size_t known = fills.size(); next < known; ++next) {
        const Recording::BackFill& fill = fills[next];
        if (fill.signal != side.signal) continue;
        const int64_t first = std::max<int64_t>(1, fill.first_step + shift),
                      last = std::min(m_series.size(), fill.last_step + shift);
        for (int64_t t = first; t <= last; ++t)
            m_series.set(t, value(t));
    }
}

void DifferenceSeries::update(const Side& base, const Side& other, LayerPick pick, int64_t shift) {
    const bool same = m_base.recording == base.recording && m_base.signal == base.signal &&
                      m_other.recording == other.recording && m_other.signal == other.signal &&
                      m_pick == pick && m_shift == shift && base.steps >= m_base.steps &&
                      other.steps >= m_other.steps;
    const int64_t other_before = same ? m_other.steps : 0;
    m_base = base;
    m_other = other;
    m_pick = pick;
    m_shift = shift;
    if (!same) {
        m_series.clear();
        m_base_fill = m_other_fill = 0;
    }
    // The other run has caught up with steps that are here already.
    for (int64_t t = std::max<int64_t>(1, other_before + shift + 1);
         t <= std::min(m_series.size(), other.steps + shift); ++t)
        m_series.set(t, value(t));
    read_fills(m_base, m_base_fill, 0);
    read_fills(m_other, m_other_fill, shift);
    while (m_series.size() < base.steps)
        m_series.append(value(m_series.size() + 1));
}

double DifferenceSeries::largest() const {
    const SeriesSummary all = m_series.summary(1, m_series.size());
    if (all.finite == 0) return 0;
    return std::max(std::fabs(static_cast<double>(all.min)), std::fabs(static_cast<double>(all.max)));
}

void TokenDifference::update(const std::shared_ptr<const Recording>& a,
                             const std::shared_ptr<const Recording>& b, int64_t shared) {
    if (a != m_a || b != m_b) {
        *this = {};
        m_a = a;
        m_b = b;
    }
    if (!a || !b) return;
    const int64_t here = a->num_tokens(), there = b->num_tokens(), both = std::min(here, there);
    if (m_compared == 0) m_compared = std::clamp<int64_t>(shared, 0, both);
    for (; !m_first && m_compared < both; ++m_compared)
        if (a->token(m_compared + 1) != b->token(m_compared + 1)) m_first = m_compared + 1;
    m_compared = both;
    if (!m_first) return;
    const auto next = [&](Side side) { return *m_first + static_cast<int64_t>(m_alignment.size(side)); };
    if (next(Side::first) > here && next(Side::second) > there) return;
    while (next(Side::first) <= here)
        m_alignment.append_first(a->token(next(Side::first)));
    while (next(Side::second) <= there)
        m_alignment.append_second(b->token(next(Side::second)));
    m_alignment.align();
}

bool TokenDifference::differs(int64_t t, Side side) const {
    if (!m_first || t < *m_first) return false;
    return t == *m_first || m_alignment.differs(side, static_cast<size_t>(t - *m_first));
}

std::optional<int64_t> TokenDifference::in_its_place(int64_t t, Side side) const {
    const auto& run = side == Side::first ? m_a : m_b;
    if (!run || t < 1 || t > run->num_tokens()) return std::nullopt;
    if (!m_first || t <= *m_first)
        return t <= m_compared ? std::optional(t) : std::nullopt; // where they part both have one
    const auto partner = m_alignment.partner(side, static_cast<size_t>(t - *m_first));
    if (!partner) return std::nullopt;
    return *m_first + static_cast<int64_t>(*partner);
}

} // namespace refreshlab::ui
