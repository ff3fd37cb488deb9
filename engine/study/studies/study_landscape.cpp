#include "engine/landscape/best_schedule.h"
#include "engine/landscape/frontier.h"
#include "engine/landscape/landscape_store.h"
#include "engine/model/model_fingerprint.h"
#include "engine/record/recording/recording.h"
#include "engine/record/trace/trace_store.h"
#include "engine/results/gate_fit.h"
#include "engine/session/landscape/compute_landscape.h"
#include "engine/session/pair/run_text.h"
#include "engine/study/studies/study_catalog.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

namespace refreshlab {

namespace {

constexpr int64_t quick_texts = 3, targets[] = {1, 2, 4, 8, 16};
constexpr int32_t quick_tokens = 128, full_tokens = 256; ///< tokens of a text
constexpr int64_t gain_horizon = 32;
constexpr int64_t most_drawn = 16; ///< refreshes of a curve

/// The tasks of the bundled pair, and texts that say something to any pair.
constexpr std::string_view families[] = {"written", "chronicle", "company", "stories", "answers", "passages"};
bool of_any_pair(std::string_view family) {
    return family == "answers" || family == "passages";
}

/// Without a choice: the bundled pair's tasks for it, the others for a student that was asked for.
bool wants(const StudyRunner& runner, std::string_view family) {
    const StudyOptions& options = runner.options();
    if (options.parts.empty()) return of_any_pair(family) == options.student_given;
    return runner.wants(std::string(family));
}

/// Quick without a number of texts, full with one. Any pair: half of it, as the models are large.
int32_t tokens_of(const StudyOptions& options, std::string_view family) {
    return (options.limit > 0 ? full_tokens : quick_tokens) / (of_any_pair(family) ? 2 : 1);
}

/// A text and its landscape.
struct StudyText {
    std::string family;
    std::shared_ptr<const Landscape> landscape;
};

/// Computes the landscapes of a study's texts, or reads those that an earlier call has left in the folder of traces.
class Texts {
public:
    Texts(StudyRunner& runner, std::string teacher, std::string student)
        : m_runner(runner)
        , m_teacher(std::move(teacher))
        , m_student(std::move(student)) {}

    void add(const std::string& family, const std::shared_ptr<const Recording>& run) {
        const std::vector<int32_t> text = run->token_ids();
        if (text.size() < 8) return; // a text that ended at once says nothing
        LandscapeRequest request;
        request.prompt_ids = run->info().prompt_ids;
        request.tokens.assign(
            text.begin(),
            text.begin() + std::min<std::ptrdiff_t>(std::ssize(text), tokens_of(m_runner.options(), family)));
        request.values =
            landscape_values("entropy_bits,top1_surprisal_bits,top1_prob,varentropy_bits2,top2_margin,"
                             "kl_nats,attention_entropy_bits,drift");
        const RunConfig& config = run->info().config;
        if (m_runner.options().mc_samples > 0) {
            request.values.insert(request.values.end(), {"mc_mutual_information_bits", "mc_variance"});
            request.mc = config.mc;
            request.mc.samples = m_runner.options().mc_samples;
            request.seed = config.seed;
        }
        request.teacher_digest = m_teacher;
        request.student_digest = m_student;
        const std::string name = fmt::format("landscape {} {}", family, ++m_count[family]);
        const auto known = stored(name, request);
        const Execution execution = make_execution(config);
        const auto landscape = known && known->complete()
                                   ? known
                                   : compute_landscape(m_runner.pair(), request, execution, known);
        if (landscape != known) store(name, run, *landscape);
        all.push_back({family, landscape});
    }

    std::vector<StudyText> all;

private:
    [[nodiscard]] std::filesystem::path file(const std::string& name) const {
        const auto& folder = m_runner.options().traces;
        return folder.empty() ? folder : folder / (name + ".rlt");
    }
    [[nodiscard]] std::shared_ptr<const Landscape> stored(const std::string& name,
                                                          const LandscapeRequest& request) const {
        std::error_code unreadable;
        if (file(name).empty() || !std::filesystem::exists(file(name), unreadable)) return nullptr;
        for (const StoredLandscape& landscape : load_landscapes(file(name))) {
            const LandscapeInfo& info = landscape.landscape->info();
            if (info.tokens == request.tokens && info.prompt_ids == request.prompt_ids &&
                info.values == request.values && info.teacher == m_teacher && info.student == m_student)
                return landscape.landscape;
        }
        return nullptr;
    }
    void store(const std::string& name, const std::shared_ptr<const Recording>& run,
               const Landscape& landscape) const {
        if (file(name).empty()) return;
        save_trace(file(name), run);
        store_landscape(file(name), run->info().id, landscape);
    }

    StudyRunner& m_runner;
    std::string m_teacher, m_student;
    std::map<std::string, int> m_count;
};

/// The given texts of a prompt file, or what the teacher writes after its prompts; each read once.
std::vector<std::shared_ptr<const Recording>> runs_of(StudyRunner& runner, const std::string& family) {
    const bool written = family == "written", stories = family == "stories";
    const StudyCase none{"none", written ? Mode::teacher : Mode::overfill, RefreshPolicy{}};
    std::vector<StudyRun> runs;
    if (of_any_pair(family)) {
        runs = family == "answers" ? runner.questions(quick_texts) : runner.passages(none, quick_texts);
        for (StudyRun& run : runs)
            run.config.max_tokens = tokens_of(runner.options(), family);
        return runner.run_all(runs);
    }
    const auto records = runner.records(stories   ? "story_continuations"
                                        : written ? "chronicle"
                                                  : family,
                                        quick_texts);
    for (size_t i = 0; i < records.size(); ++i) {
        RunConfig config = runner.given_config(none, records[i]);
        if (!records[i].prefix.empty()) config = runner.with_prefix(config, records[i]);
        if (written) config.given_text.clear();
        config.max_tokens = tokens_of(runner.options(), family);
        runs.push_back({std::move(config), fmt::format("reading {} {}", family, i + 1)});
    }
    return runner.run_all(runs);
}

/// Efficiency of one trigger's policy at matched counts, blind placement beside it.
void add_efficiency(StudyTable& table, const std::vector<StudyText>& texts, const RefreshPolicy& policy,
                    uint64_t seed) {
    for (const int64_t target : targets) {
        std::vector<double> gate, difference;
        for (const StudyText& text : texts) {
            const int64_t count = std::max<int64_t>(1, (target * text.landscape->num_steps() + 128) / 256);
            const auto point = matched_point(*text.landscape, policy, 0, count);
            if (!point || !point->efficiency || !point->blind) continue;
            gate.push_back(*point->efficiency);
            difference.push_back(*point->efficiency - *point->blind);
        }
        std::vector<StudyCell> row{policy.name, target, std::ssize(gate)};
        for (const auto& cells : {mean_cells(gate, seed), mean_cells(difference, seed)})
            row.insert(row.end(), cells.begin(), cells.end());
        table.rows.push_back(std::move(row));
    }
}

void add_ranks(StudyTable& table, const std::vector<StudyText>& texts, const std::string& signal,
               uint64_t seed) {
    std::vector<double> correlation, area;
    const std::string names[] = {signal};
    for (const StudyText& text : texts) {
        const GainSamples samples = gain_samples(*text.landscape, names, gain_horizon);
        if (const auto rho = rank_correlation(samples.values[0], samples.gains)) correlation.push_back(*rho);
        if (const auto roc = roc_area(samples.values[0], samples.gains)) area.push_back(*roc);
    }
    std::vector<StudyCell> row{signal, std::ssize(correlation)};
    for (const auto& cells : {mean_cells(correlation, seed), mean_cells(area, seed)})
        row.insert(row.end(), cells.begin(), cells.end());
    table.rows.push_back(std::move(row));
}

/// What can be gained at all: loss above the teacher's without refreshes, with the best 1, 2, ..., and with blind ones.
void add_best(StudyTable& table, StudyTable& figure, const std::vector<StudyText>& texts, uint64_t seed) {
    for (const int64_t target : targets) {
        std::vector<double> none, best, blind;
        for (const StudyText& text : texts) {
            const Landscape& landscape = *text.landscape;
            const int64_t count = std::max<int64_t>(1, (target * landscape.num_steps() + 128) / 256);
            const auto schedules = best_schedules(landscape, count);
            const auto placed = blind_placement(landscape, count);
            if (std::ssize(schedules) <= count || !placed) continue;
            const double teacher = landscape.mean_teacher_loss();
            none.push_back(landscape.mean_loss_without_refresh() - teacher);
            best.push_back(schedules.back().loss - teacher);
            blind.push_back(placed->mean_loss - teacher);
        }
        std::vector<StudyCell> row{target, std::ssize(best)};
        for (const auto* values : {&none, &blind, &best}) {
            const auto cells = mean_cells(*values, seed);
            row.insert(row.end(), cells.begin(), cells.end());
        }
        table.rows.push_back(std::move(row));
    }
    for (size_t i = 0; i < texts.size(); ++i) {
        const Landscape& landscape = *texts[i].landscape;
        const auto add = [&](const std::string& curve, int64_t refreshes, double loss) {
            figure.rows.push_back({texts[i].family, static_cast<int64_t>(i + 1), curve, refreshes,
                                   loss - landscape.mean_teacher_loss()});
        };
        for (const Schedule& schedule : best_schedules(landscape, most_drawn))
            add("best", std::ssize(schedule.steps), schedule.loss);
        for (int64_t count = 1; count <= most_drawn; ++count) {
            if (const auto placed = blind_placement(landscape, count)) add("blind", count, placed->mean_loss);
        }
        for (const RefreshPolicy& policy : frontier_policies(landscape)) {
            std::map<int64_t, double>
                least; // of the thresholds that give one count, what a person would choose
            for (const FrontierPoint& point : threshold_frontier(landscape, policy, 0, 48)) {
                const auto at = least.try_emplace(point.refreshes, point.loss).first;
                at->second = std::min(at->second, point.loss);
            }
            for (const auto& [refreshes, loss] : least)
                if (refreshes <= most_drawn) add(policy.name, refreshes, loss);
        }
    }
}

} // namespace

StudyResult study_landscape(const StudyOptions& options) {
    check_parts(options, families);
    StudyRunner runner(options);
    Texts texts(runner, model_fingerprint(options.base.teacher_dir),
                model_fingerprint(options.base.student_dir));
    int32_t longest = 0;
    for (const std::string_view family : families) {
        if (!wants(runner, family)) continue;
        longest = std::max(longest, tokens_of(options, family));
        for (const auto& run : runs_of(runner, std::string(family)))
            texts.add(std::string(family), run);
    }

    StudyResult result;
    StudyTable best{"table",
                    fmt::format("Loss above the teacher (nats), {} texts of at most {} tokens",
                                texts.all.size(), longest),
                    {{"per 256"},
                     {"texts"},
                     {"none"},
                     {"low"},
                     {"high"},
                     {"blind"},
                     {"low"},
                     {"high"},
                     {"best"},
                     {"low"},
                     {"high"}},
                    {},
                    {{.name = "loss",
                      .title = "What refreshes can bring: none, blind and the best (95 % over texts)",
                      .kind = TablePlot::Kind::curves,
                      .x = "per 256",
                      .x_title = "refreshes in 256 tokens",
                      .x_log = true,
                      .parts = {{"loss above the teacher (nats)", {"none", "blind", "best"}}}}}};
    StudyTable efficient{"efficiency",
                         "Efficiency of one-signal gates at matched counts, and how much above blind "
                         "placement (95 % over texts)",
                         {{"gate"},
                          {"per 256"},
                          {"texts"},
                          {"efficiency"},
                          {"low"},
                          {"high"},
                          {"above blind", 3, true},
                          {"low", 3, true},
                          {"high", 3, true}},
                         {},
                         {{.name = "efficiency",
                           .title = "Gates on one signal at matched counts (95 % over texts)",
                           .facets = {"per 256"},
                           .series = {"gate"},
                           .parts = {{"efficiency", {"efficiency"}},
                                     {"above blind placement", {"above blind"}, false, 0.0}}}}};
    StudyTable ranks{"ranks",
                     fmt::format("Each signal against the gain of a refresh over {} tokens", gain_horizon),
                     {{"signal"},
                      {"texts"},
                      {"rank correlation", 3, true},
                      {"low", 3, true},
                      {"high", 3, true},
                      {"ROC area"},
                      {"low"},
                      {"high"}},
                     {},
                     {}};
    ranks.plots.push_back({.name = "ranks",
                           .title = ranks.title + " (95 % over texts)",
                           .series = {"signal"},
                           .parts = {{"rank correlation", {"rank correlation"}, false, 0.0},
                                     {"ROC area", {"ROC area"}, false, 0.5}}});
    StudyTable figure{"figure",
                      "",
                      {{"family"}, {"text"}, {"curve"}, {"refreshes"}, {"loss_above_teacher"}},
                      {},
                      {{.name = "texts",
                        .title = "Loss against refreshes, text by text",
                        .kind = TablePlot::Kind::curves,
                        .facets = {"family", "text"},
                        .series = {"curve"},
                        .x = "refreshes",
                        .parts = {{"loss above the teacher (nats)", {"loss_above_teacher"}}}}}};
    if (!texts.all.empty()) {
        for (const RefreshPolicy& policy : frontier_policies(*texts.all[0].landscape))
            add_efficiency(efficient, texts.all, policy, options.seed);
        std::vector<std::shared_ptr<const Landscape>> landscapes;
        for (const StudyText& text : texts.all)
            landscapes.push_back(text.landscape);
        std::vector<std::string> signals = shared_terms(landscapes);
        signals.emplace_back("kl_nats");
        for (const std::string& signal : signals)
            add_ranks(ranks, texts.all, signal, options.seed);
        add_best(best, figure, texts.all, options.seed);
    }
    result.tables = {std::move(best), std::move(efficient), std::move(ranks)};
    result.figures.push_back(std::move(figure));
    return result;
}

} // namespace refreshlab
