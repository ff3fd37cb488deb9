#include "engine/record/recording/entry_scores.h"

#include "engine/base/check.h"

#include <algorithm>

namespace refreshlab {

void EntryScores::set(int64_t plane, int64_t step, std::span<const int64_t> positions,
                      std::span<const float> scores) {
    RL_ASSERT(positions.size() == scores.size());
    if (positions.empty()) return;
    const std::scoped_lock lock(m_mutex);
    auto& known = m_planes[static_cast<size_t>(plane)];
    known.resize(std::max(known.size(), static_cast<size_t>(std::ranges::max(positions)) + 1));
    for (size_t i = 0; i < positions.size(); ++i)
        known[static_cast<size_t>(positions[i])] = {scores[i], static_cast<int32_t>(step)};
}

std::optional<EntryScores::Score> EntryScores::at(int64_t plane, int64_t position) const {
    const std::scoped_lock lock(m_mutex);
    if (plane < 0 || plane >= std::ssize(m_planes)) return std::nullopt;
    const auto& known = m_planes[static_cast<size_t>(plane)];
    if (position < 0 || position >= std::ssize(known)) return std::nullopt;
    const Score score = known[static_cast<size_t>(position)];
    return score.step < 0 ? std::nullopt : std::optional(score);
}

std::vector<EntryScores::Score> EntryScores::column(int64_t position) const {
    const std::scoped_lock lock(m_mutex);
    std::vector<Score> scores(m_planes.size());
    for (size_t plane = 0; plane < m_planes.size(); ++plane)
        if (position >= 0 && position < std::ssize(m_planes[plane]))
            scores[plane] = m_planes[plane][static_cast<size_t>(position)];
    return scores;
}

void EntryScores::put_column(int64_t position, std::span<const Score> scores) {
    const auto at = static_cast<size_t>(position);
    const std::scoped_lock lock(m_mutex);
    RL_ASSERT(position >= 0 && scores.size() == m_planes.size());
    for (size_t plane = 0; plane < m_planes.size(); ++plane) {
        auto& known = m_planes[plane];
        known.resize(std::max(known.size(), at + 1));
        known[at] = scores[plane];
    }
    m_here.resize(std::max(m_here.size(), at + 1));
    m_here[at] = true;
}

bool EntryScores::here(int64_t position) const {
    if (!on_demand()) return true;
    const std::scoped_lock lock(m_mutex);
    return position >= 0 && position < std::ssize(m_here) && m_here[static_cast<size_t>(position)];
}

void EntryScores::copy_up_to(int64_t step, EntryScores& to) const {
    const std::scoped_lock lock(m_mutex, to.m_mutex);
    to.m_planes = m_planes;
    for (auto& plane : to.m_planes)
        for (Score& score : plane)
            if (score.step > step) score = {};
    if (asked()) to.ask();
    if (on_demand()) to.come_on_demand(); // what was chosen up to that step may not have come
}

} // namespace refreshlab
