#include "engine/base/error.h"
#include "engine/base/quantile.h"
#include "engine/record/recording/recording.h"
#include "engine/refresh/calibrate.h"
#include "engine/study/studies/study_catalog.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

namespace refreshlab {

namespace {

constexpr double wanted_rates[] = {1, 2.5, 5, 10,
                                   20};           // fires per 1,000 tokens that a threshold is calibrated for
constexpr double curve_from = 0.5, curve_to = 50; ///< fires per 1,000 tokens, in equal ratios
constexpr int curve_points = 40;
constexpr int64_t live_tokens = 2000;

struct Family {
    std::string name, file;
    int32_t live_max_tokens;
};
const std::vector<Family>& threshold_families() {
    static const std::vector<Family> all{
        {"chronicle", "chronicle", 450}, {"company", "company", 140}, {"stories", "story_prompts", 400}};
    return all;
}

struct Gate {
    std::string signal;
    int32_t stride;
};
/// For KL the stride is the number of tokens between two probes.
const std::vector<Gate>& gates() {
    static const std::vector<Gate> all{{"entropy_bits", 1},
                                       {"entropy_bits", 16},
                                       {"top1_surprisal_bits", 1},
                                       {"top1_surprisal_bits", 16},
                                       {"kl_nats", 1},
                                       {"kl_nats", 16},
                                       {"kl_nats", 64},
                                       {"mc_variance", 1},
                                       {"mc_variance", 16},
                                       {"mc_mutual_information_bits", 1},
                                       {"mc_mutual_information_bits", 16}};
    return all;
}
const std::vector<std::string> calibrated{"entropy_bits", "top1_surprisal_bits", "kl_nats", "mc_variance",
                                          "mc_mutual_information_bits"};

/// Takes records from the front until `enough` says so of their number and their tokens.
std::vector<PromptRecord> take(std::vector<PromptRecord>& records,
                               const std::function<int64_t(const PromptRecord&)>& length,
                               const std::function<bool(int64_t taken, int64_t tokens)>& enough) {
    std::vector<PromptRecord> taken;
    for (int64_t tokens = 0; !records.empty() && !enough(std::ssize(taken), tokens);) {
        tokens += length(records.front());
        taken.push_back(std::move(records.front()));
        records.erase(records.begin());
    }
    return taken;
}

/// Values of a signal at boundaries t mod stride == 0.
std::vector<double> values_at(const std::vector<std::shared_ptr<const Recording>>& runs,
                              const std::string& signal, int32_t stride) {
    const size_t id = require_signal(signal, "a study");
    std::vector<double> values;
    for (const auto& run : runs) {
        for (int64_t t = stride; t <= run->steps(); t += stride) {
            const float value = run->signal(t, id);
            if (std::isfinite(value)) values.push_back(static_cast<double>(value));
        }
    }
    return values;
}

/// Pearson correlation over the steps that have both.
StudyCell correlation(const std::vector<std::shared_ptr<const Recording>>& runs, const std::string& a,
                      const std::string& b) {
    const size_t id_a = require_signal(a, "a study"), id_b = require_signal(b, "a study");
    double n = 0, x = 0, y = 0, xx = 0, yy = 0, xy = 0;
    for (const auto& run : runs) {
        for (int64_t t = 1; t <= run->steps(); ++t) {
            const auto u = static_cast<double>(run->signal(t, id_a)),
                       v = static_cast<double>(run->signal(t, id_b));
            if (!std::isfinite(u) || !std::isfinite(v)) continue;
            n += 1;
            x += u;
            y += v;
            xx += u * u;
            yy += v * v;
            xy += u * v;
        }
    }
    const double var_x = xx - x * x / n, var_y = yy - y * y / n;
    if (!(n > 2) || !(var_x > 0) || !(var_y > 0)) return {};
    return (xy - x * y / n) / std::sqrt(var_x * var_y);
}

struct Tried {
    double target, q, threshold;
    RunTotals totals;
    [[nodiscard]] double rate() const {
        return 1000 * static_cast<double>(totals.refreshes) /
               static_cast<double>(std::max<int64_t>(totals.tokens, 1));
    }
};

/// Quantile at which the rate crosses `rate`, by linear interpolation between what was tried, or which side of it all lies.
std::string crossing(const std::vector<Tried>& tried, double rate) {
    std::vector<Tried> rows = tried;
    std::ranges::sort(rows, {}, &Tried::q); // rates fall as the quantile rises, up to noise
    if (rows.front().rate() < rate) return fmt::format("< {:.4f}", rows.front().q);
    for (size_t i = 0; i + 1 < rows.size(); ++i) {
        const double above = rows[i].rate(), below = rows[i + 1].rate();
        if (above >= rate && below < rate) {
            return fmt::format("{:.4f}",
                               rows[i].q + (above - rate) / (above - below) * (rows[i + 1].q - rows[i].q));
        }
    }
    return fmt::format("> {:.4f}", rows.back().q);
}

class ThresholdSweep {
public:
    explicit ThresholdSweep(StudyRunner& runner)
        : m_runner(runner) {}

    void family(const Family& family) {
        const Texts texts = take_texts(family);
        int64_t tries = 1; // without a refresh
        for (const Gate& gate : gates()) {
            for (const double target : wanted_rates)
                tries += calibration_quantile(target, gate.stride) > 0 ? 1 : 0;
        }
        m_runner.expect(std::ssize(texts.calibration) + tries * std::ssize(texts.fresh));

        const auto calibrated_runs = calibrate(family, texts.calibration);
        const RunTotals none = live(family, texts.fresh, {"none", Mode::overfill, {}}, 1, "none");
        grid.rows.push_back({family.name,
                             std::string("(no refresh)"),
                             {},
                             {},
                             {},
                             {},
                             none.refreshes_per_1000(),
                             none.share_right(),
                             none.teacher_ppl(),
                             none.tokens});
        for (const Gate& gate : gates()) {
            const std::vector<double> values = values_at(calibrated_runs, gate.signal, gate.stride);
            if (values.empty()) continue;
            calibration_curve(family, gate, values);
            try_live(family, gate, values, texts.fresh);
        }
    }

    StudyTable main{
        "table",
        fmt::format("The rule q = 1 - F*s/1000 for F = {} fires per 1,000 tokens, and what it gives live",
                    calibration_target),
        {{"family"},
         {"signal"},
         {"every"},
         {"q", 4},
         {"threshold"},
         {"calibration values"},
         {"refreshes per 1,000 tokens", 1},
         {"q for 3 to 2 per 1,000"},
         {"share right"},
         {"teacher-PPL"}},
        {}};
    StudyTable grid{"grid",
                    "All thresholds that were tried live",
                    {{"family"},
                     {"signal"},
                     {"every"},
                     {"F", 1},
                     {"q", 4},
                     {"threshold"},
                     {"refreshes per 1,000 tokens", 1},
                     {"share right"},
                     {"teacher-PPL"},
                     {"tokens"}},
                    {}};
    StudyTable correlations{
        "correlation",
        "Correlation of the signals over the calibration texts (no refresh)",
        {{"family"}, {"signal"}, {"with entropy", 2, true}, {"with KL", 2, true}, {"tokens"}},
        {},
        {{.name = "correlation",
          .title = "Correlation of the signals over the calibration texts",
          .facets = {"family"},
          .series = {"signal"},
          .parts = {{"correlation", {"with entropy", "with KL"}, false, 0.0}}}}};

    StudyTable figure{
        "figure",
        "",
        {{"family"},
         {"signal"},
         {"every"},
         {"source"},
         {"threshold"},
         {"fires_per_1000"},
         {"share_right"},
         {"teacher_ppl"}},
        {},
        {{.name = "thresholds",
          .title = "Fires per 1,000 tokens over the threshold: what the calibration promises, and live",
          .kind = TablePlot::Kind::curves,
          .facets = {"signal", "every"},
          .series = {"family", "source"},
          .x = "threshold",
          .parts = {{"fires per 1,000 tokens", {"fires_per_1000"}, true}}}}};

private:
    /// Records of one family: for the thresholds, and others to try them on.
    struct Texts {
        std::vector<PromptRecord> calibration, fresh;
    };

    [[nodiscard]] Texts take_texts(const Family& family) const {
        auto records = read_prompt_file(m_runner.options().prompts / (family.file + ".jsonl"));
        const int64_t limit = m_runner.options().limit;
        Texts texts;
        texts.calibration = take(
            records, [&](const PromptRecord& r) { return m_runner.token_count(r.response); },
            [](int64_t, int64_t tokens) { return tokens >= calibration_tokens; });
        texts.fresh = take(
            records,
            [&](const PromptRecord& r) {
                return std::min<int64_t>(m_runner.token_count(r.response), family.live_max_tokens);
            },
            [&](int64_t taken, int64_t tokens) {
                return limit > 0 ? taken >= limit : tokens >= live_tokens;
            });
        if (texts.fresh.empty()) {
            throw Error("calibrating on", family.file + ".jsonl", "no records are left for live runs",
                        "the first 2,000 tokens of responses are for calibration");
        }
        return texts;
    }

    /// Runs with all signals at every step, and their correlations into the table.
    std::vector<std::shared_ptr<const Recording>> calibrate(const Family& family,
                                                            const std::vector<PromptRecord>& records) {
        std::vector<StudyRun> runs;
        for (size_t i = 0; i < records.size(); ++i) {
            RunConfig config = m_runner.given_config({"none", Mode::overfill, {}}, records[i]);
            config.shadow = true;
            config.mc.measure = true;
            config.mc.every = 1;
            runs.push_back({std::move(config), fmt::format("calibration {} {}", family.name, i + 1)});
        }
        const auto made = m_runner.run_all(runs);
        int64_t tokens = 0;
        for (const auto& run : made)
            tokens += run->num_tokens();
        for (const std::string& signal : calibrated) {
            correlations.rows.push_back({family.name, signal, correlation(made, signal, "entropy_bits"),
                                         correlation(made, signal, "kl_nats"), tokens});
        }
        return made;
    }

    /// Every target of a gate on fresh records: a row of the grid each, and one of the rule's in the main table.
    void try_live(const Family& family, const Gate& gate, const std::vector<double>& values,
                  const std::vector<PromptRecord>& fresh) {
        std::vector<Tried> tried;
        for (const double target : wanted_rates) {
            const double q = calibration_quantile(target, gate.stride);
            if (!(q > 0)) continue;
            Tried row{target, q, quantile(values, q).value(), {}};
            const StudyCase study_case{
                gate.signal, Mode::overfill,
                gate_policy(gate.signal, row.threshold, gate.stride, gate.stride == 1 ? 4 : 32)};
            row.totals = live(family, fresh, study_case, gate.stride,
                              fmt::format("{} every {} target {}", gate.signal, gate.stride, target));
            grid.rows.push_back({family.name, gate.signal, int64_t{gate.stride}, target, q, row.threshold,
                                 row.rate(), row.totals.share_right(), row.totals.teacher_ppl(),
                                 row.totals.tokens});
            figure.rows.push_back({family.name, gate.signal, int64_t{gate.stride}, std::string("live"),
                                   row.threshold, row.rate(), row.totals.share_right(),
                                   row.totals.teacher_ppl()});
            tried.push_back(std::move(row));
        }
        const auto rule = std::ranges::find(tried, calibration_target, &Tried::target);
        if (rule == tried.end()) return;
        const std::string from = crossing(tried, 3), to = crossing(tried, 2);
        main.rows.push_back({family.name, gate.signal, int64_t{gate.stride}, rule->q, rule->threshold,
                             std::ssize(values), rule->rate(), from == to ? from : from + " to " + to,
                             rule->totals.share_right(), rule->totals.teacher_ppl()});
    }

    /// What the calibration promises of every threshold: a line through which the live points should go.
    void calibration_curve(const Family& family, const Gate& gate, const std::vector<double>& values) {
        for (int i = 0; i <= curve_points; ++i) {
            const double target = curve_from * std::pow(curve_to / curve_from, i / double{curve_points});
            const double q = calibration_quantile(target, gate.stride);
            if (!(q >= 0)) break;
            figure.rows.push_back({family.name,
                                   gate.signal,
                                   int64_t{gate.stride},
                                   std::string("calibration"),
                                   quantile(values, q).value(),
                                   target,
                                   {},
                                   {}});
        }
    }

    RunTotals live(const Family& family, const std::vector<PromptRecord>& records,
                   const StudyCase& study_case, int32_t stride, const std::string& name) {
        std::vector<StudyRun> runs;
        for (size_t i = 0; i < records.size(); ++i) {
            RunConfig config = m_runner.given_config(study_case, records[i]);
            config.given_text.clear();
            config.max_tokens = family.live_max_tokens;
            config.sampler = {.temperature = 0.8, .top_k = 0, .top_p = 0.95, .min_p = 0};
            config.seed = m_runner.options().seed + i;
            config.mc.every = stride;
            runs.push_back({std::move(config), fmt::format("live {} {} {}", family.name, name, i + 1), true});
        }
        RunTotals totals;
        for (const auto& recording : m_runner.run_all(runs)) {
            const RunConfig& config = recording->info().config;
            const bool scored = !config.task.kind.empty();
            const TaskResult task =
                scored ? score_recording(*recording, config.task, config.prompt) : TaskResult();
            totals.add(*recording, scored ? &task : nullptr);
        }
        return totals;
    }

    StudyRunner& m_runner;
};

} // namespace

StudyResult study_thresholds(const StudyOptions& options) {
    constexpr std::string_view known[] = {"chronicle", "company", "stories"};
    check_parts(options, known);
    StudyRunner runner(options);
    ThresholdSweep thresholds(runner);
    for (const Family& family : threshold_families()) {
        if (runner.wants(family.name)) thresholds.family(family);
    }
    StudyResult result;
    result.tables = {std::move(thresholds.main), std::move(thresholds.grid),
                     std::move(thresholds.correlations)};
    result.figures = {std::move(thresholds.figure)};
    return result;
}

} // namespace refreshlab
