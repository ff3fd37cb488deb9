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

void EntryScores::copy_up_to(int64_t step, EntryScores& to) const {
    const std::scoped_lock lock(m_mutex, to.m_mutex);
    to.m_planes = m_planes;
    for (auto& plane : to.m_planes)
        for (Score& score : plane)
            if (score.step > step) score = {};
    if (asked()) to.ask();
}

} // namespace refreshlab
