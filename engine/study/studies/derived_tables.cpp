#include "engine/study/studies/derived_tables.h"

#include "engine/results/bootstrap.h"
#include "engine/study/studies/study_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>

namespace refreshlab {

namespace {

using Number = std::function<double(const DerivedReading&)>;

std::vector<double> values_of(const DerivedReadings& group, const Number& number) {
    std::vector<double> values;
    for (const DerivedReading& reading : group.readings)
        values.push_back(number(reading));
    return values;
}

/// Mean and interval over the texts of a group.
void add_mean(std::vector<StudyCell>& row, const DerivedReadings& group, uint64_t seed,
              const Number& number) {
    const auto cells = mean_cells(values_of(group, number), seed);
    row.insert(row.end(), cells.begin(), cells.end());
}

double average(const DerivedReadings& group, const Number& number) {
    return *mean(values_of(group, number));
}

StudyCell refreshes_of(const DerivedReadings& group, ReadingWay way) {
    return average(group,
                   [way](const DerivedReading& r) { return static_cast<double>(r.of(way).refreshes); });
}

BootstrapOptions bootstrap(uint64_t seed) {
    return {.resamples = 2000, .seed = seed, .level = 0.95};
}

/// The recovered share of the cache loss, with its interval; nothing where there is no cache loss to be seen.
std::vector<StudyCell> share_cells(const DerivedReadings& group, ReadingWay way, uint64_t seed) {
    const auto cache = values_of(group, &DerivedReading::cache);
    const auto back = values_of(group, [way](const DerivedReading& r) { return r.recovered(way); });
    const auto loss = bootstrap_mean(cache, bootstrap(seed));
    if (!loss || loss->low <= 0) return {StudyCell(), StudyCell(), StudyCell()};
    const auto interval = bootstrap_share(back, cache, bootstrap(seed));
    return {*mean(back) / *mean(cache), interval ? StudyCell(interval->low) : StudyCell(),
            interval ? StudyCell(interval->high) : StudyCell()};
}

StudyTable split_table(const std::vector<DerivedReadings>& all, uint64_t seed) {
    StudyTable table{
        "table",
        "Where the loss comes from (nats per token), and how much of the cache loss refreshes bring back",
        {{"text"},
         {"student"},
         {"texts"},
         {"teacher"},
         {"own weights"},
         {"low"},
         {"high"},
         {"cache", 3, true},
         {"low", 3, true},
         {"high", 3, true}},
        {},
        {}};
    TablePlot plot{.name = "derived",
                   .title = table.title,
                   .facets = {"text"},
                   .series = {"student"},
                   .parts = {{"own weights (nats)", {"own weights"}, false, 0.0},
                             {"cache (nats)", {"cache"}, false, 0.0},
                             {"share of the cache loss that comes back", {}, false, 0.0}}};
    constexpr ReadingWay ways[] = {ReadingWay::every_64, ReadingWay::every_16, ReadingWay::every_4,
                                   ReadingWay::gate};
    for (const ReadingWay way : ways) {
        table.columns.push_back({std::string(reading_way_names[static_cast<size_t>(way)]) + " recovers", 2});
        plot.parts.back().values.push_back(table.columns.back().name);
        table.columns.push_back({"low", 2});
        table.columns.push_back({"high", 2});
    }
    table.plots.push_back(std::move(plot));
    for (const DerivedReadings& group : all) {
        std::vector<StudyCell> row{group.family, group.student, std::ssize(group.readings)};
        row.emplace_back(average(group, [](const DerivedReading& r) { return r.teacher_nll; }));
        add_mean(row, group, seed, &DerivedReading::own_weights);
        add_mean(row, group, seed, &DerivedReading::cache);
        for (const ReadingWay way : ways) {
            const auto cells = share_cells(group, way, seed);
            row.insert(row.end(), cells.begin(), cells.end());
        }
        table.rows.push_back(std::move(row));
    }
    return table;
}

StudyTable reading_table(const std::vector<DerivedReadings>& all, uint64_t seed) {
    StudyTable table{"readings",
                     "Every way of reading: NLL and KL in nats per token",
                     {{"text"}, {"student"}, {"reading"}, {"refreshes per text", 1}},
                     {},
                     {{.name = "readings",
                       .title = "Every way of reading (95 % over texts)",
                       .facets = {"text", "student"},
                       .series = {"reading"},
                       .parts = {{"NLL (nats per token)", {"NLL"}}, {"KL (nats per token)", {"KL"}}}}}};
    for (const char* name : {"NLL", "KL", "acceptance", "same top-1"}) {
        for (const char* column : {name, "low", "high"})
            table.columns.push_back({column});
    }
    for (const DerivedReadings& group : all) {
        for (size_t i = 0; i < num_reading_ways; ++i) {
            const auto way = static_cast<ReadingWay>(i);
            std::vector<StudyCell> row{group.family, group.student, std::string(reading_way_names[i]),
                                       refreshes_of(group, way)};
            for (const auto field : {&ReadingMeans::nll, &ReadingMeans::kl_nats, &ReadingMeans::acceptance,
                                     &ReadingMeans::same_top1})
                add_mean(row, group, seed,
                         [way, field](const DerivedReading& r) { return r.of(way).*field; });
            table.rows.push_back(std::move(row));
        }
    }
    return table;
}

StudyTable gate_table(const std::vector<DerivedReadings>& all, uint64_t seed) {
    StudyTable table{
        "gate",
        "Entropy gate minus every 16, at the same number of refreshes (below zero: the gate is better)",
        {{"text"},
         {"student"},
         {"texts"},
         {"refreshes of the gate", 1},
         {"of every 16", 1},
         {"NLL", 4, true},
         {"low", 4, true},
         {"high", 4, true},
         {"KL", 4, true},
         {"low", 4, true},
         {"high", 4, true}},
        {},
        {}};
    table.plots.push_back({.name = "gate",
                           .title = table.title,
                           .facets = {"text"},
                           .series = {"student"},
                           .parts = {{"NLL (nats per token)", {"NLL"}, false, 0.0},
                                     {"KL (nats per token)", {"KL"}, false, 0.0}}});
    for (const DerivedReadings& group : all) {
        std::vector<StudyCell> row{group.family, group.student, std::ssize(group.readings),
                                   refreshes_of(group, ReadingWay::gate),
                                   refreshes_of(group, ReadingWay::every_16)};
        for (const auto field : {&ReadingMeans::nll, &ReadingMeans::kl_nats}) {
            add_mean(row, group, seed, [field](const DerivedReading& r) {
                return r.of(ReadingWay::gate).*field - r.of(ReadingWay::every_16).*field;
            });
        }
        table.rows.push_back(std::move(row));
    }
    return table;
}

StudyTable figure_table(const std::vector<DerivedReadings>& all) {
    StudyTable figure{"figure",
                      "",
                      {{"family"},
                       {"student"},
                       {"text"},
                       {"reading"},
                       {"tokens"},
                       {"refreshes"},
                       {"nll"},
                       {"kl_nats"},
                       {"acceptance"},
                       {"same_top1"},
                       {"gate_bits"}},
                      {}};
    for (const DerivedReadings& group : all) {
        for (size_t t = 0; t < group.readings.size(); ++t) {
            const DerivedReading& r = group.readings[t];
            figure.rows.push_back({group.family, group.student, group.texts[t], std::string("teacher"),
                                   r.tokens, StudyCell(), r.teacher_nll, StudyCell(), StudyCell(),
                                   StudyCell(), StudyCell()});
            for (size_t i = 0; i < num_reading_ways; ++i) {
                const ReadingMeans& m = r.ways[i];
                figure.rows.push_back(
                    {group.family, group.student, group.texts[t], std::string(reading_way_names[i]), r.tokens,
                     m.refreshes, m.nll, m.kl_nats, m.acceptance, m.same_top1,
                     static_cast<ReadingWay>(i) == ReadingWay::gate ? StudyCell(r.gate_bits) : StudyCell()});
            }
        }
    }
    return figure;
}

} // namespace

StudyResult derived_tables(const std::vector<DerivedReadings>& all, uint64_t seed) {
    StudyResult result;
    result.tables = {split_table(all, seed), reading_table(all, seed), gate_table(all, seed)};
    result.figures.push_back(figure_table(all));
    return result;
}

} // namespace refreshlab
