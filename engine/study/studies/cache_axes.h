#pragma once

#include "engine/study/studies/cache_zoo.h"
#include "engine/study/studies/kept_numbers.h"
#include "engine/study/studies/study_table.h"

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace refreshlab {

/// Runs of a student under cache policies (one axis) and refreshes by its teacher (the other): whether what both bring adds up, and what no other
/// pair of them beats with as few bytes of the student's cache.
struct AxesRuns {
    std::vector<ZooRow> caches;         ///< `full` first; of the settings those of the first text
    std::vector<std::string> refreshes; ///< the first one is none
    std::vector<std::string> kinds;     ///< of each text
    std::vector<RunNumbers> numbers;    ///< [texts][caches][refreshes]
    [[nodiscard]] const RunNumbers& at(size_t text, size_t cache, size_t refresh) const {
        return numbers[(text * caches.size() + cache) * refreshes.size() + refresh];
    }
};

/// A line for each kind of text, cache policy and refresh, means over texts with intervals:
///   gain   loss of the full cache without a refresh, less the loss (nats per token)
///   saved  loss of the same cache policy without a refresh, less the loss
///   sum    `saved` less what the same refresh saves with the full cache; 0 where the axes add up
/// The frontier is that of bytes held and gain, among all lines of a kind.
[[nodiscard]] StudyTable axes_table(const std::string& title, const AxesRuns& runs, uint64_t seed);

} // namespace refreshlab
