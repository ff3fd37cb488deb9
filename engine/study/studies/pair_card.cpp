#include "engine/study/studies/pair_card.h"

#include "engine/base/error.h"
#include "engine/results/bootstrap.h"
#include "engine/text/text_rows.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

namespace refreshlab {

namespace {

constexpr int64_t task_records = 40, text_records = 30; ///< as the bundled cards have them
constexpr size_t shortest_piece = 200;
constexpr const char* measuring = "measuring a pair";

/// A number over all records, with its interval.
struct Measured {
    StudyCell value, low, high;
    [[nodiscard]] std::string text(int decimals) const {
        const auto number = [&](const StudyCell& cell) {
            return fmt::format("{:.{}f}", std::get<double>(cell), decimals);
        };
        if (!std::holds_alternative<double>(value)) return "-";
        if (!std::holds_alternative<double>(low)) return number(value);
        return fmt::format("{} ({} to {})", number(value), number(low), number(high));
    }
};

/// sum(parts) / sum(wholes).
Measured measured_share(const std::vector<double>& parts, const std::vector<double>& wholes, uint64_t seed) {
    double part = 0, whole = 0;
    for (size_t i = 0; i < parts.size(); ++i) {
        part += parts[i];
        whole += wholes[i];
    }
    Measured result;
    if (whole > 0) result.value = part / whole;
    if (const auto interval =
            bootstrap_share(parts, wholes, {.resamples = 2000, .seed = seed, .level = 0.95})) {
        result.low = interval->low;
        result.high = interval->high;
    }
    return result;
}

Measured measured_mean(const std::vector<double>& values, uint64_t seed) {
    const auto cells = mean_cells(values, seed);
    return {cells[0], cells[1], cells[2]};
}

void add_measured(std::vector<StudyCell>& row, const Measured& number) {
    row.insert(row.end(), {number.value, number.low, number.high});
}

/// Each record's totals.
std::vector<RunTotals> totals_of(StudyRunner& runner, const std::vector<StudyRun>& runs) {
    std::vector<RunTotals> totals;
    for (const auto& recording : runner.run_all(runs)) {
        const RunConfig& config = recording->info().config;
        RunTotals one;
        if (config.task.kind.empty()) {
            one.add(*recording, nullptr);
        } else {
            const TaskResult task = score_recording(*recording, config.task, config.prompt);
            one.add(*recording, &task);
        }
        totals.push_back(std::move(one));
    }
    return totals;
}

void measure_tasks(StudyRunner& runner, const PairCardOptions& options, StudyResult& result) {
    const auto cases = card_cases();
    StudyTable card{
        "card", "Share right (first choice on given text), with 95 % intervals over records", {{"case"}}, {}};
    StudyTable all{"tasks",
                   "",
                   {{"kind"},
                    {"case"},
                    {"records"},
                    {"right"},
                    {"scored"},
                    {"share"},
                    {"low"},
                    {"high"},
                    {"refreshes_per_1000"}},
                   {}};
    for (const StudyCase& c : cases)
        card.rows.push_back({c.name});
    for (const std::string& kind : options.kinds) {
        const auto records = runner.records(kind, task_records);
        card.columns.push_back({kind});
        card.columns.push_back({"refreshes per 1,000 tokens", 1});
        for (size_t c = 0; c < cases.size(); ++c) {
            std::vector<StudyRun> runs;
            for (const PromptRecord& record : records)
                runs.push_back({runner.given_config(cases[c], record),
                                fmt::format("{} {} {}", kind, cases[c].name, runs.size() + 1)});
            RunTotals sum;
            std::vector<double> right, scored;
            for (const RunTotals& one : totals_of(runner, runs)) {
                right.push_back(static_cast<double>(one.right));
                scored.push_back(static_cast<double>(one.scored));
                sum.right += one.right;
                sum.scored += one.scored;
                sum.refreshes += one.refreshes;
                sum.tokens += one.tokens;
            }
            const Measured share = measured_share(right, scored, options.study.seed);
            const StudyCell refreshes =
                cases[c].mode == Mode::overfill ? sum.refreshes_per_1000() : StudyCell();
            card.rows[c].insert(card.rows[c].end(), {share.text(3), refreshes});
            std::vector<StudyCell> row{kind, cases[c].name, std::ssize(records), sum.right, sum.scored};
            add_measured(row, share);
            row.push_back(refreshes);
            all.rows.push_back(std::move(row));
        }
    }
    result.tables.push_back(std::move(card));
    result.figures.push_back(std::move(all));
}

/// A text to be read: where its prompt ends is known, or it is cut there.
struct GivenText {
    PromptRecord record;
    bool raw = false; ///< the prompt is text as it stands
};

/// The last place at or before `at` where a new word begins; 0: none.
size_t word_before(std::string_view text, size_t at) {
    const size_t space = text.find_last_of(" \n\t", at);
    return space == std::string_view::npos ? 0 : space;
}

void add_pieces(std::string_view text, std::vector<GivenText>& texts) {
    while (text.size() >= shortest_piece) {
        const size_t cut = text.size() <= piece_bytes ? text.size() : word_before(text, piece_bytes);
        if (cut < shortest_piece) return; // no words
        const std::string_view piece = text.substr(0, cut);
        text.remove_prefix(cut);
        if (const size_t half = word_before(piece, piece.size() / 2); half > 0)
            texts.push_back(
                {{{}, std::string(piece.substr(0, half)), {}, std::string(piece.substr(half))}, true});
    }
}

std::vector<GivenText> given_texts(const PairCardOptions& options) {
    std::vector<GivenText> texts;
    for (const auto& file : options.texts) {
        read_text_rows(file, [&](const TextRow& row) {
            if (row.text.empty() && !row.prompt.empty())
                texts.push_back({{{}, row.prompt, row.prefix, row.answer}, false});
            else
                add_pieces(row.text, texts);
        });
    }
    if (texts.empty())
        throw Error(measuring, "--texts",
                    fmt::format("no text of at least {} bytes is there", shortest_piece));
    const int64_t most = options.study.limit > 0 ? options.study.limit : text_records;
    if (std::ssize(texts) > most) texts.resize(static_cast<size_t>(most));
    return texts;
}

/// Totals of every text, read in one way.
std::vector<RunTotals> read_texts(StudyRunner& runner, const StudyCase& how,
                                  const std::vector<GivenText>& texts) {
    std::vector<StudyRun> runs;
    for (const GivenText& text : texts) {
        RunConfig config = runner.given_config(how, text.record);
        if (text.raw) config.raw_prompt = true;
        if (!text.record.prefix.empty()) config = runner.with_prefix(std::move(config), text.record);
        runs.push_back({std::move(config), fmt::format("text {} {}", how.name, runs.size() + 1)});
    }
    return totals_of(runner, runs);
}

void measure_texts(StudyRunner& runner, StudyRunner* baseline, const std::vector<GivenText>& texts,
                   uint64_t seed, StudyResult& result) {
    const std::vector<StudyCase> ways{{"teacher", Mode::teacher, {}},
                                      {"student alone", Mode::student, {}},
                                      {"student on the teacher's prompt cache", Mode::overfill, {}}};
    std::vector<std::pair<std::string, std::vector<RunTotals>>> read;
    for (const StudyCase& way : ways)
        read.emplace_back(way.name, read_texts(runner, way, texts));
    if (baseline != nullptr) read.emplace_back("baseline alone", read_texts(*baseline, ways[1], texts));
    StudyTable table{"stories",
                     fmt::format("Nats per token of {} texts, with 95 % intervals over texts", texts.size()),
                     {{"case"}, {"nats per token"}, {"less student alone, mean over texts"}},
                     {}};
    StudyTable all{"texts",
                   "",
                   {{"case"},
                    {"texts"},
                    {"tokens"},
                    {"nats_per_token", 4},
                    {"low", 4},
                    {"high", 4},
                    {"less_student_alone", 4},
                    {"difference_low", 4},
                    {"difference_high", 4}},
                   {}};
    const std::vector<RunTotals>& alone = read[1].second;
    for (const auto& [name, totals] : read) {
        std::vector<double> loss, tokens, differences;
        int64_t scored = 0;
        for (size_t i = 0; i < totals.size(); ++i) {
            loss.push_back(-totals[i].logprob);
            tokens.push_back(static_cast<double>(totals[i].logprobs));
            scored += totals[i].logprobs;
            if (totals[i].logprobs > 0 && alone[i].logprobs > 0)
                differences.push_back(totals[i].run_loss[0] - alone[i].run_loss[0]);
        }
        const Measured nats = measured_share(loss, tokens, seed);
        const Measured difference = &totals == &alone ? Measured() : measured_mean(differences, seed);
        table.rows.push_back({name, nats.text(3), difference.text(4)});
        std::vector<StudyCell> row{name, std::ssize(texts), scored};
        add_measured(row, nats);
        add_measured(row, difference);
        all.rows.push_back(std::move(row));
    }
    result.tables.push_back(std::move(table));
    result.figures.push_back(std::move(all));
}

} // namespace

StudyResult measure_pair_card(const PairCardOptions& options) {
    if (options.texts.empty() && options.kinds.empty())
        throw Error(measuring, {}, "nothing to measure is named", "give --texts, --tasks or both");
    // Before the models are loaded, so that what is wrong with a file is known at once.
    for (const std::string& kind : options.kinds)
        static_cast<void>(read_prompt_file(options.study.prompts / (kind + ".jsonl")));
    const std::vector<GivenText> texts =
        options.texts.empty() ? std::vector<GivenText>() : given_texts(options);
    StudyRunner runner(options.study);
    std::unique_ptr<StudyRunner> baseline;
    if (!options.baseline.empty()) {
        // Beside the teacher, so that another vocabulary is refused: its nats per token would be of other tokens.
        StudyOptions of_baseline = options.study;
        of_baseline.base.student_dir = options.baseline;
        baseline = std::make_unique<StudyRunner>(of_baseline);
    }
    int64_t runs = 0;
    for (const std::string& kind : options.kinds)
        runs += std::ssize(card_cases()) * std::ssize(runner.records(kind, task_records));
    runner.expect(runs + 3 * std::ssize(texts));
    StudyResult result;
    if (!options.kinds.empty()) measure_tasks(runner, options, result);
    if (!texts.empty()) measure_texts(runner, baseline.get(), texts, options.study.seed, result);
    if (runner.pair().geometry_difference)
        result.notes.push_back("The models' caches do not fit (" + *runner.pair().geometry_difference +
                               "): a refresh changes nothing, and the student reads the prompt itself.");
    return result;
}

} // namespace refreshlab
