#include "engine/record/recording/recording.h"
#include "engine/study/studies/study_catalog.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

namespace refreshlab {

namespace {

constexpr int64_t drift_records = 10, company_records = 40;
constexpr int32_t strides[] = {16, 64, 256};
constexpr int64_t all_layers = -1;

struct Sum {
    double k = 0, v = 0;
    int64_t columns = 0;
};
/// One text's drift by (layer, distance); layer all_layers is the mean over layers.
using TextDrift = std::map<std::pair<int64_t, int64_t>, Sum>;

TextDrift drift_of(const Recording& recording) {
    TextDrift sums;
    for (size_t i = 0; i < recording.drifts().size(); ++i) {
        const auto drift = recording.drift(i);
        const DriftMap& map = *drift;
        for (int64_t p = 0; p < map.positions; ++p) {
            // The map begins at the first column after the last refresh, so its p-th column has distance p + 1.
            for (int64_t layer = 0; layer < map.layers; ++layer) {
                const auto at = static_cast<size_t>(layer * map.positions + p);
                for (const int64_t row : {layer, all_layers}) {
                    const double share = row == all_layers ? 1 / static_cast<double>(map.layers) : 1;
                    Sum& sum = sums[{row, p + 1}];
                    sum.k += share * static_cast<double>(map.k[at]);
                    sum.v += share * static_cast<double>(map.v[at]);
                    if (row == layer || layer == 0) ++sum.columns;
                }
            }
        }
    }
    return sums;
}

/// Means of K and V drift over the distances [first, last], one value per text that has any.
void collect(const std::vector<TextDrift>& texts, int64_t layer, int64_t first, int64_t last,
             std::vector<double>& k, std::vector<double>& v, int64_t& columns) {
    for (const TextDrift& text : texts) {
        Sum total;
        for (auto it = text.lower_bound({layer, first});
             it != text.end() && it->first <= std::pair(layer, last); ++it) {
            total.k += it->second.k;
            total.v += it->second.v;
            total.columns += it->second.columns;
        }
        if (total.columns == 0) continue;
        k.push_back(total.k / static_cast<double>(total.columns));
        v.push_back(total.v / static_cast<double>(total.columns));
        columns += total.columns;
    }
}

std::vector<StudyCell> drift_cells(const std::vector<TextDrift>& texts, int64_t layer, int64_t first,
                                   int64_t last) {
    std::vector<double> k, v;
    int64_t columns = 0;
    collect(texts, layer, first, last, k, v, columns);
    const MeanInterval mean_k = mean_interval(k), mean_v = mean_interval(v);
    return {mean_k.mean, mean_k.half_width, mean_v.mean, mean_v.half_width, std::ssize(k), columns};
}

/// The drift of every text of a family, refreshed every `stride` tokens.
std::vector<TextDrift> measure(StudyRunner& runner, const std::string& family,
                               const std::vector<PromptRecord>& texts, int32_t stride) {
    const StudyCase study_case{fmt::format("every {}", stride), Mode::overfill, periodic_policy(stride)};
    std::vector<StudyRun> runs;
    for (size_t i = 0; i < texts.size(); ++i) {
        RunConfig config = runner.given_config(study_case, texts[i]);
        if (!texts[i].prefix.empty()) config = runner.with_prefix(config, texts[i]);
        runs.push_back({std::move(config), fmt::format("drift {} {} {}", family, study_case.name, i + 1)});
    }
    std::vector<TextDrift> drifts;
    for (const auto& recording : runner.run_all(runs))
        drifts.push_back(drift_of(*recording));
    return drifts;
}

/// Both tables of the study.
class DriftTables {
public:
    void add(const std::string& family, int32_t stride, const std::vector<TextDrift>& drifts) {
        int64_t layers = 0, longest = 0;
        for (const TextDrift& text : drifts) {
            for (const auto& [key, sum] : text) {
                layers = std::max(layers, key.first + 1);
                longest = std::max(longest, key.second);
            }
        }
        // Distances 1, 2, 3-4, 5-8, ...: the rise is fast at first.
        for (int64_t last = 1; last / 2 < longest; last *= 2) {
            const int64_t first = last / 2 + 1;
            const std::string distances = first == last
                                              ? fmt::format("{}", last)
                                              : fmt::format("{}-{}", first, std::min(last, longest));
            add_row(table, {family, int64_t{stride}, distances},
                    drift_cells(drifts, all_layers, first, last));
        }
        for (int64_t layer = all_layers; layer < layers; ++layer) {
            const StudyCell name = layer == all_layers ? StudyCell(std::string("mean")) : StudyCell(layer);
            for (int64_t distance = 1; distance <= longest; ++distance)
                add_row(figure, {family, int64_t{stride}, name, distance},
                        drift_cells(drifts, layer, distance, distance));
        }
    }

    StudyTable table{
        "table",
        "Relative distance of the student's columns from the teacher's, by tokens since the last refresh",
        {{"family"},
         {"refresh every"},
         {"distance"},
         {"K"},
         {"K +- 1.96 SE"},
         {"V"},
         {"V +- 1.96 SE"},
         {"texts"},
         {"columns"}},
        {}};
    StudyTable figure{
        "figure",
        "",
        {{"family"},
         {"every"},
         {"layer"},
         {"distance"},
         {"k_mean"},
         {"k_half_width"},
         {"v_mean"},
         {"v_half_width"},
         {"texts"},
         {"columns"}},
        {},
        {{.name = "drift",
          .title = "Relative distance of the student's columns, mean over layers (95 % over texts)",
          .kind = TablePlot::Kind::curves,
          .facets = {"family"},
          .series = {"every"},
          .x = "distance",
          .x_title = "tokens since the last refresh",
          .x_log = true,
          .only = {{"layer", "mean"}},
          .parts = {{"drift of K", {"k_mean"}}, {"drift of V", {"v_mean"}}}}}};

private:
    template <class Cells>
    static void add_row(StudyTable& to, std::vector<StudyCell> row, const Cells& cells) {
        row.insert(row.end(), cells.begin(), cells.end());
        to.rows.push_back(std::move(row));
    }
};

} // namespace

StudyResult study_drift(const StudyOptions& options) {
    constexpr std::string_view known[] = {"chronicle", "company", "stories"};
    check_parts(options, known);
    StudyRunner runner(options);
    std::map<std::string, std::vector<PromptRecord>> records;
    for (const std::string_view family : known) {
        const std::string name(family);
        if (!runner.wants(name)) continue;
        records[name] = runner.records(name == "stories" ? "story_continuations" : name,
                                       name == "company" ? company_records : drift_records);
        runner.expect(std::ssize(strides) * std::ssize(records[name]));
    }
    DriftTables tables;
    for (const auto& [family, texts] : records) {
        for (const int32_t stride : strides)
            tables.add(family, stride, measure(runner, family, texts, stride));
    }
    StudyResult result;
    result.tables.push_back(std::move(tables.table));
    result.figures.push_back(std::move(tables.figure));
    return result;
}

} // namespace refreshlab
