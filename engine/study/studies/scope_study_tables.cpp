#include "engine/study/studies/scope_study_tables.h"

#include "engine/results/bootstrap.h"
#include "engine/study/studies/study_run.h"

#include <fmt/format.h>

#include <cmath>
#include <functional>

namespace refreshlab {

namespace {

using Gain = std::function<double(size_t text)>;

std::vector<double> over_texts(const StudentScopes& group, const Gain& gain) {
    std::vector<double> values;
    for (size_t text = 0; text < group.shares.size(); ++text)
        values.push_back(gain(text));
    return values;
}

/// Of the whole refreshes' gain; nothing where they gain nothing.
void add_share(std::vector<StudyCell>& row, const StudentScopes& group, uint64_t seed, const Gain& gain) {
    const auto parts = over_texts(group, gain);
    const auto wholes = over_texts(group, [&](size_t text) { return group.shares[text].whole; });
    if (!(*mean(wholes) > 0)) {
        row.insert(row.end(), 3, StudyCell());
        return;
    }
    const auto interval = bootstrap_share(parts, wholes, {.resamples = 2000, .seed = seed, .level = 0.95});
    row.emplace_back(*mean(parts) / *mean(wholes));
    row.push_back(interval ? StudyCell(interval->low) : StudyCell());
    row.push_back(interval ? StudyCell(interval->high) : StudyCell());
}

void add_mean(std::vector<StudyCell>& row, const StudentScopes& group, uint64_t seed, const Gain& value) {
    std::vector<double> known;
    for (const double one : over_texts(group, value))
        if (std::isfinite(one)) known.push_back(one);
    const auto cells = mean_cells(known, seed);
    row.insert(row.end(), cells.begin(), cells.end());
}

/// "share, share_low, share_high": as the figures find an interval.
void add_interval_columns(std::vector<StudyColumn>& columns, const std::string& name, int decimals) {
    for (const char* which : {"", "_low", "_high"})
        columns.push_back({name + which, decimals});
}

StudyTable sets_table(const std::vector<StudentScopes>& all, uint64_t seed) {
    StudyTable table{.name = "table",
                     .title = "What of a refresh pays (gain in nats a token, share of the whole refreshes')",
                     .columns = {{"student"}, {"refreshed"}, {"texts", 0}, {"refreshes", 0}},
                     .rows = {}};
    add_interval_columns(table.columns, "gain", 4);
    add_interval_columns(table.columns, "share", 2);
    for (const StudentScopes& group : all) {
        int64_t refreshes = 0;
        for (const ScopeShares& shares : group.shares)
            refreshes += shares.refreshes;
        const auto add = [&](std::string name, const Gain& gain) {
            std::vector<StudyCell> row{group.student, std::move(name), std::ssize(group.shares), refreshes};
            add_mean(row, group, seed, gain);
            add_share(row, group, seed, gain);
            table.rows.push_back(std::move(row));
        };
        add("everything", [&](size_t text) { return group.shares[text].whole; });
        for (size_t i = 0; i < scope_set_names.size(); ++i)
            add(std::string(scope_set_names[i]), [&, i](size_t text) { return group.shares[text].sets[i]; });
    }
    return table;
}

StudyTable positions_table(const std::vector<StudentScopes>& all, uint64_t seed) {
    StudyTable table{.name = "positions",
                     .title = "A quarter of the positions, chosen by a score: share of the gain, above a "
                              "choice at random, and the score's rank correlation with what a position gains",
                     .columns = {{"student"}, {"chosen by"}},
                     .rows = {}};
    add_interval_columns(table.columns, "share", 2);
    add_interval_columns(table.columns, "above_random", 2);
    add_interval_columns(table.columns, "correlation", 2);
    constexpr size_t at_random = position_choice_names.size() - 1;
    for (const StudentScopes& group : all) {
        for (size_t i = 0; i < position_choice_names.size(); ++i) {
            std::vector<StudyCell> row{group.student, std::string(position_choice_names[i])};
            add_share(row, group, seed, [&](size_t text) { return group.shares[text].chosen[i]; });
            if (i == at_random) {
                row.insert(row.end(), 6, StudyCell());
            } else {
                add_share(row, group, seed, [&](size_t text) {
                    const auto& chosen = group.shares[text].chosen;
                    return chosen[i] - chosen[at_random];
                });
                add_mean(row, group, seed, [&](size_t text) { return group.shares[text].correlation[i]; });
            }
            table.rows.push_back(std::move(row));
        }
    }
    return table;
}

StudyTable carry_table(const std::vector<StudentScopes>& all, uint64_t seed) {
    StudyTable table{.name = "carry",
                     .title = "A third of the layers, chosen by what each gains alone: share of the gain",
                     .columns = {{"student"}, {"chosen on"}},
                     .rows = {}};
    add_interval_columns(table.columns, "share", 2);
    const auto add = [&](const StudentScopes& group, const char* name, double LayerChoice::*gain) {
        std::vector<StudyCell> row{group.student, std::string(name)};
        add_share(row, group, seed, [&](size_t text) { return group.carried[text].*gain; });
        table.rows.push_back(std::move(row));
    };
    for (const StudentScopes& group : all) {
        if (group.carried.empty()) continue;
        add(group, "this text", &LayerChoice::own);
        add(group, "the other texts", &LayerChoice::others);
        add(group, "nothing, at random", &LayerChoice::at_random);
    }
    return table;
}

StudyTable layers_figure(const std::vector<StudentScopes>& all, uint64_t seed) {
    StudyTable table{.name = "layers",
                     .title = "Each layer alone: share of the gain",
                     .columns = {{"student"}, {"layer", 0}},
                     .rows = {}};
    add_interval_columns(table.columns, "share", 3);
    for (const StudentScopes& group : all) {
        for (size_t layer = 0; layer < group.shares[0].layers.size(); ++layer) {
            std::vector<StudyCell> row{group.student, static_cast<int64_t>(layer)};
            add_share(row, group, seed, [&](size_t text) { return group.shares[text].layers[layer]; });
            table.rows.push_back(std::move(row));
        }
    }
    TablePlot plot;
    plot.name = "scope_study_layers";
    plot.title = table.title;
    plot.kind = TablePlot::Kind::curves;
    plot.series = {"student"};
    plot.x = "layer";
    plot.x_title = "layer";
    plot.parts = {{.title = "share of the gain, alone", .values = {"share"}, .mark = 0.0}};
    table.plots.push_back(std::move(plot));
    return table;
}

} // namespace

StudyResult scope_study_tables(const std::vector<StudentScopes>& all, uint64_t seed) {
    StudyResult result;
    result.tables = {sets_table(all, seed), positions_table(all, seed)};
    if (StudyTable carried = carry_table(all, seed); !carried.rows.empty())
        result.tables.push_back(std::move(carried));
    result.figures = {layers_figure(all, seed)};
    result.notes.push_back(fmt::format("Refreshes every {} tokens, the loss of the {} tokens behind each; "
                                       "before it the student stands as after "
                                       "whole refreshes. Shares need not add up to 1.",
                                       scope_study_stride, scope_study_horizon));
    for (const StudentScopes& group : all) {
        if (group.shares.size() < fewest_for_interval) {
            result.notes.push_back(
                fmt::format("No intervals: they take {} texts at least (--limit).", fewest_for_interval));
            break;
        }
    }
    return result;
}

} // namespace refreshlab
