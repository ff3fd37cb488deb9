#include "ui/figure/run_names.h"

#include "ui/scene/policy/cache_words.h"
#include "ui/scene/runs/run_set.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>

namespace refreshlab::ui {

namespace {

std::string own_words(const RunInfo& info) {
    const RunConfig& config = info.config;
    std::string words =
        config.mode == Mode::overfill ? config.policy.name : fmt::format("{} alone", to_string(config.mode));
    const CachePolicyConfig& cache = cache_of(config, deciding_owner(config.mode));
    if (!cache.is_full()) words += ", " + cache_words(cache);
    words += fmt::format(", seed {}", config.seed);
    if (!info.parent_id.empty()) words += fmt::format(", branch at step {}", info.fork_step + 1);
    return words;
}

} // namespace

void name_runs(std::span<FigureRun> runs) {
    for (size_t i = 0; i < runs.size(); ++i) {
        std::string& name = runs[i].name;
        if (!name.empty()) continue;
        const auto earlier = runs.first(i);
        const auto taken = [&](const std::string& words) {
            return std::ranges::find(earlier, words, &FigureRun::name);
        };
        std::string words = own_words(runs[i].recording->info());
        if (const auto same = taken(words); same != earlier.end())
            if (const std::string other = what_changed(*runs[i].recording, same->recording.get());
                !other.empty())
                words += ", " + other;
        name = words;
        for (int n = 2; taken(name) != earlier.end(); ++n)
            name = fmt::format("{} ({})", words, n);
    }
}

} // namespace refreshlab::ui
