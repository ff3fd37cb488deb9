#include "engine/study/studies/cache_axes.h"

#include "engine/base/check.h"
#include "engine/base/json_text.h"
#include "engine/results/bootstrap.h"
#include "engine/study/studies/study_run.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <utility>

namespace refreshlab {

namespace {

/// One line: the texts of a kind under one cache policy and one refresh.
struct Line {
    std::vector<double> loss, held, gain, saved, sum;
    int64_t right = 0, scored = 0, refreshes = 0, tokens = 0;

    void add(const AxesRuns& runs, size_t text, size_t cache, size_t refresh) {
        const RunNumbers& one = runs.at(text, cache, refresh);
        const RunNumbers& full = runs.at(text, 0, 0);
        loss.push_back(one.loss);
        held.push_back(one.bytes_held / full.bytes_held);
        gain.push_back(full.loss - one.loss);
        saved.push_back(runs.at(text, cache, 0).loss - one.loss);
        sum.push_back(saved.back() - (full.loss - runs.at(text, 0, refresh).loss));
        right += one.right;
        scored += one.scored;
        refreshes += one.refreshes;
        tokens += one.tokens;
    }
};

StudyCell share(int64_t part, int64_t all, double times = 1) {
    return all > 0 ? StudyCell(times * static_cast<double>(part) / static_cast<double>(all)) : StudyCell();
}

} // namespace

StudyTable axes_table(const std::string& title, const AxesRuns& runs, uint64_t seed) {
    RL_ASSERT(!runs.kinds.empty() && runs.caches.front().config.is_full());
    RL_ASSERT(runs.numbers.size() == runs.kinds.size() * runs.caches.size() * runs.refreshes.size());
    StudyTable table{"both",
                     title,
                     {{"text"},
                      {"cache policy"},
                      {"budget"},
                      {"refresh"},
                      {"loss (nats per token)", 4},
                      {"words right"},
                      {"refreshes per 1,000 tokens", 1},
                      {"bytes held"},
                      {"gain", 4, true},
                      {"gain low", 4, true},
                      {"gain high", 4, true},
                      {"saved", 4, true},
                      {"low", 4, true},
                      {"high", 4, true},
                      {"sum", 4, true},
                      {"sum low", 4, true},
                      {"sum high", 4, true},
                      {"frontier"},
                      {.name = "config", .csv_only = true}},
                     {},
                     {{.name = "both",
                       .title = "Teacher refresh and cache policy together",
                       .kind = TablePlot::Kind::points,
                       .facets = {"text"},
                       .series = {"refresh"},
                       .x = "bytes held",
                       .x_title = "bytes held by the student, share of the full cache",
                       .x_log = true,
                       .parts = {{"gain (nats per token)", {"gain"}, false, 0.0}}},
                      {.name = "both_sum",
                       .title = "What refreshes save more than with the full cache (95 % over texts)",
                       .facets = {"text", "refresh"},
                       .series = {"cache policy"},
                       .parts = {{"0 where the axes add up", {"sum"}, false, 0.0}}}}};
    std::vector<std::string> kinds;
    for (const std::string& kind : runs.kinds)
        if (std::ranges::find(kinds, kind) == kinds.end()) kinds.push_back(kind);
    for (const std::string& kind : kinds) {
        const size_t first = table.rows.size();
        std::vector<double> bytes, losses;
        for (size_t c = 0; c < runs.caches.size(); ++c) {
            for (size_t r = 0; r < runs.refreshes.size(); ++r) {
                Line line;
                for (size_t t = 0; t < runs.kinds.size(); ++t)
                    if (runs.kinds[t] == kind) line.add(runs, t, c, r);
                bytes.push_back(*mean(line.held));
                losses.push_back(*mean(line.loss));
                std::vector<StudyCell> row{kind,
                                           runs.caches[c].config.policy,
                                           runs.caches[c].budget,
                                           runs.refreshes[r],
                                           losses.back(),
                                           share(line.right, line.scored),
                                           share(line.refreshes, line.tokens, 1000),
                                           bytes.back()};
                if (r == 0) line.saved.clear();
                if (r == 0 || c == 0) line.sum.clear();
                for (const auto& values : {line.gain, line.saved, line.sum})
                    for (StudyCell& cell : mean_cells(values, seed))
                        row.push_back(std::move(cell));
                table.rows.push_back(std::move(row));
            }
        }
        const std::vector<bool> on = on_frontier(bytes, losses);
        for (size_t i = 0; i < on.size(); ++i) {
            const CachePolicyConfig& policy = runs.caches[i / runs.refreshes.size()].config;
            auto& row = table.rows[first + i];
            row.emplace_back(std::string(on[i] ? "yes" : ""));
            row.emplace_back(json_text(to_json(policy)));
        }
    }
    return table;
}

} // namespace refreshlab
