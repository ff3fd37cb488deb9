#include "engine/record/recording/recording.h"
#include "engine/study/studies/study_catalog.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

namespace refreshlab {

namespace {

const std::vector<std::string> almanac_kinds{"roll_call", "company", "chronicle"};
const std::vector<std::string> answer_kinds{"chain_of_key", "ledger", "table", "retell"};
constexpr int64_t card_records = 40, live_records = 10, story_records = 30;

/// Room for an answer with some rambling after it; chronicles as in the card.
int32_t tokens_of_kind(const std::string& kind) {
    static const std::map<std::string, int32_t> tokens{
        {"roll_call", 100}, {"company", 140}, {"chronicle", 450}, {"chain_of_key", 180},
        {"ledger", 240},    {"table", 120},   {"retell", 420}};
    return tokens.at(kind);
}

struct Cell {
    std::string kind;
    StudyCase study_case;
    RunTotals totals;
};

/// Every kind x case over the first records of the kind's file.
std::vector<Cell> run_cells(StudyRunner& runner, const std::vector<std::string>& kinds,
                            const std::vector<StudyCase>& cases, int64_t limit, bool live) {
    std::vector<Cell> cells;
    for (const std::string& kind : kinds)
        runner.expect(std::ssize(cases) * std::ssize(runner.records(kind, limit)));
    for (const std::string& kind : kinds) {
        const auto records = runner.records(kind, limit);
        const bool sampled = std::ranges::find(almanac_kinds, kind) != almanac_kinds.end();
        for (const StudyCase& study_case : cases) {
            Cell cell{kind, study_case, {}};
            std::vector<StudyRun> runs;
            for (size_t i = 0; i < records.size(); ++i) {
                RunConfig config = runner.given_config(study_case, records[i]);
                if (live) {
                    config.given_text.clear();
                    config.max_tokens = tokens_of_kind(kind);
                    config.seed = runner.options().seed + i;
                    if (sampled) config.sampler = {.temperature = 0.8, .top_k = 0, .top_p = 0.95, .min_p = 0};
                }
                runs.push_back(
                    {std::move(config),
                     fmt::format("{} {} {} {}", live ? "live" : "given", kind, study_case.name, i + 1),
                     live});
            }
            for (const auto& recording : runner.run_all(runs)) {
                const RunConfig& config = recording->info().config;
                const TaskResult task = score_recording(*recording, config.task, config.prompt);
                cell.totals.add(*recording, &task);
            }
            cells.push_back(std::move(cell));
        }
    }
    return cells;
}

const RunTotals& find(const std::vector<Cell>& cells, const std::string& kind, const std::string& name) {
    return std::ranges::find_if(cells,
                                [&](const Cell& c) { return c.kind == kind && c.study_case.name == name; })
        ->totals;
}

void card_table(StudyRunner& runner, StudyResult& result, StudyTable& figure) {
    const auto cases = card_cases();
    const auto cells = run_cells(runner, almanac_kinds, cases, card_records, false);
    StudyTable table{
        "table",
        fmt::format("Attribute words right (first choice on given text), {} records of each kind",
                    find(cells, "chronicle", cases[0].name).runs),
        {{"case"}, {"roll call"}, {"company"}, {"chronicle"}, {"refreshes per 1,000 tokens (chronicle)", 1}},
        {},
        {}};
    table.plots.push_back(
        {.name = "tasks",
         .title = table.title,
         .series = {"case"},
         .parts = {{"share of attribute words right", {"roll call", "company", "chronicle"}}}});
    for (const StudyCase& c : cases) {
        const RunTotals& chronicle = find(cells, "chronicle", c.name);
        table.rows.push_back({c.name, find(cells, "roll_call", c.name).share_right(),
                              find(cells, "company", c.name).share_right(), chronicle.share_right(),
                              c.mode == Mode::overfill ? chronicle.refreshes_per_1000() : StudyCell()});
    }
    result.tables.push_back(std::move(table));
    for (const Cell& cell : cells) {
        for (const TaskResult::Part& part : cell.totals.parts) {
            figure.rows.push_back({std::string("given"), cell.kind, cell.study_case.name, part.name,
                                   part.right, part.total, cell.totals.refreshes, cell.totals.tokens});
        }
    }
}

void answer_table(StudyRunner& runner, StudyResult& result, StudyTable& figure) {
    const auto cells = run_cells(runner, answer_kinds, few_cases(), card_records, false);
    StudyTable table{
        "answers",
        fmt::format("Answers that need the prompt (first choice on given text), {} records of each kind",
                    cells.at(0).totals.runs),
        {{"kind"},
         {"case"},
         {"token accuracy"},
         {"exact match"},
         {"correct prefix"},
         {"refreshes per 1,000 tokens", 1}},
        {},
        {}};
    table.plots.push_back({.name = "answers",
                           .title = table.title,
                           .facets = {"kind"},
                           .series = {"case"},
                           .parts = {{"share", {"token accuracy", "exact match", "correct prefix"}}}});
    for (const Cell& cell : cells) {
        const RunTotals& totals = cell.totals;
        table.rows.push_back({cell.kind, cell.study_case.name, totals.token_accuracy(), totals.exact_share(),
                              totals.mean_correct_prefix(), totals.refreshes_per_1000()});
        figure.rows.push_back({std::string("given"), cell.kind, cell.study_case.name, std::string("tokens"),
                               totals.hits, totals.choices, totals.refreshes, totals.tokens});
    }
    result.tables.push_back(std::move(table));
}

void live_table(StudyRunner& runner, StudyResult& result, StudyTable& figure) {
    std::vector<std::string> kinds = almanac_kinds;
    kinds.insert(kinds.end(), answer_kinds.begin(), answer_kinds.end());
    const auto cells = run_cells(runner, kinds, few_cases(), live_records, true);
    StudyTable table{
        "live",
        fmt::format(
            "Generated answers, {} records of each kind (roll call, company, chronicle: temperature 0.8, "
            "top-p 0.95; others greedy)",
            cells.at(0).totals.runs),
        {{"kind"},
         {"case"},
         {"right"},
         {"scored"},
         {"share right"},
         {"exact match"},
         {"correct prefix"},
         {"teacher-PPL"},
         {"tokens"},
         {"refreshes per 1,000 tokens", 1}},
        {},
        {}};
    table.plots.push_back(
        {.name = "live",
         .title = table.title,
         .facets = {"kind"},
         .series = {"case"},
         .parts = {{"share right", {"share right"}}, {"teacher-PPL", {"teacher-PPL"}, true}}});
    for (const Cell& cell : cells) {
        const RunTotals& totals = cell.totals;
        const bool answer = totals.parts.empty();
        table.rows.push_back({cell.kind, cell.study_case.name, totals.right, totals.scored,
                              totals.share_right(), answer ? totals.exact_share() : StudyCell(),
                              answer ? totals.mean_correct_prefix() : StudyCell(), totals.teacher_ppl(),
                              totals.tokens, totals.refreshes_per_1000()});
        figure.rows.push_back({std::string("live"), cell.kind, cell.study_case.name, std::string("all"),
                               totals.right, totals.scored, totals.refreshes, totals.tokens});
    }
    result.tables.push_back(std::move(table));
}

void story_table(StudyRunner& runner, StudyResult& result, StudyTable& figure) {
    auto cases = card_cases();
    cases.push_back({"entropy gate, 8 bits", Mode::overfill, gate_policy("entropy_bits", 8, 1, 4)});
    const auto records = runner.records("story_continuations", story_records);
    runner.expect(std::ssize(cases) * std::ssize(records));
    std::vector<RunTotals> totals(cases.size());
    size_t none = 0;
    for (size_t c = 0; c < cases.size(); ++c) {
        if (cases[c].mode == Mode::overfill && cases[c].policy.triggers.empty()) none = c;
        std::vector<StudyRun> runs;
        for (size_t i = 0; i < records.size(); ++i) {
            runs.push_back({runner.with_prefix(runner.given_config(cases[c], records[i]), records[i]),
                            fmt::format("given story_continuations {} {}", cases[c].name, i + 1)});
        }
        for (const auto& recording : runner.run_all(runs))
            totals[c].add(*recording, nullptr);
    }
    StudyTable table{"stories",
                     fmt::format("Story continuations on given text, {} records", records.size()),
                     {{"case"},
                      {"loss (nats per token)", 4},
                      {"to no refresh, mean over records", 4, true},
                      {"+- 1.96 SE", 4},
                      {"refreshes per 1,000 tokens", 1}},
                     {},
                     {}};
    table.plots.push_back({.name = "stories",
                           .title = table.title,
                           .series = {"case"},
                           .parts = {{"loss less that of no refresh (nats per token)",
                                      {"to no refresh, mean over records"},
                                      false,
                                      0.0}}});
    for (size_t c = 0; c < cases.size(); ++c) {
        std::vector<double> differences;
        for (size_t i = 0; i < totals[c].run_loss.size(); ++i)
            differences.push_back(totals[c].run_loss[i] - totals[none].run_loss.at(i));
        const MeanInterval difference = mean_interval(differences);
        table.rows.push_back(
            {cases[c].name, totals[c].loss(), c == none ? StudyCell() : StudyCell(difference.mean),
             c == none ? StudyCell() : difference.half_width,
             cases[c].mode == Mode::overfill ? totals[c].refreshes_per_1000() : StudyCell()});
        figure.rows.push_back({std::string("given"), std::string("story_continuations"), cases[c].name,
                               std::string("tokens"), totals[c].hits, totals[c].choices, totals[c].refreshes,
                               totals[c].tokens});
    }
    result.tables.push_back(std::move(table));
}

} // namespace

StudyResult study_tasks(const StudyOptions& options) {
    constexpr std::string_view known[] = {"table", "answers", "live", "stories"};
    check_parts(options, known);
    StudyRunner runner(options);
    StudyResult result;
    StudyTable figure{
        "figure",
        "",
        {{"text"}, {"kind"}, {"case"}, {"part"}, {"right"}, {"total"}, {"refreshes"}, {"tokens"}},
        {}};
    if (runner.wants("table")) card_table(runner, result, figure);
    if (runner.wants("answers")) answer_table(runner, result, figure);
    if (runner.wants("live")) live_table(runner, result, figure);
    if (runner.wants("stories")) story_table(runner, result, figure);
    result.figures.push_back(std::move(figure));
    return result;
}

} // namespace refreshlab
