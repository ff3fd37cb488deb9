#include "engine/base/error.h"
#include "engine/base/json_file.h"
#include "engine/base/json_text.h"
#include "engine/cache/kv_cache.h"
#include "engine/control/model_files.h"
#include "engine/model/memory_estimate.h"
#include "engine/model/model_fingerprint.h"
#include "engine/record/recording/recording.h"
#include "engine/session/decode/decode_session.h"
#include "engine/session/pair/policy_aids.h"
#include "engine/session/pair/run_text.h"
#include "engine/study/jobs/job_pool.h"
#include "engine/study/measure/cache_reading.h"
#include "engine/study/studies/cache_axes.h"
#include "engine/study/studies/cache_rows.h"
#include "engine/study/studies/cache_zoo.h"
#include "engine/study/studies/kept_numbers.h"
#include "engine/study/studies/study_catalog.h"
#include "engine/study/sweep/sweep_cells.h"
#include "engine/text/digest.h"
#include "engine/text/tokenizer/tokenizer.h"
#include "kernels/execution/cores.h"

#include <c10/core/InferenceMode.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <utility>

namespace refreshlab {

namespace {

constexpr std::string_view parts[] = {"text", "recall", "written", "both", "zoo", "zoo_recall"};
const std::vector<std::string> recall_kinds{"chain_of_key", "table", "ledger", "retell"};
constexpr int64_t texts_of_a_kind = 3, quick_records = 6,
                  quick_pairs = 6; ///< texts of a kind, records of a kind
constexpr int64_t quick_length = 2048,
                  full_length = 4096;             ///< tokens of a long text, where the context has them
constexpr int64_t quick_end = 64, full_end = 256; ///< of them, those that are read under a policy
constexpr int64_t read_of_answer = 48;            ///< tokens of a given answer

/// Number, low and high, as one line of a table has them.
void add_cells(std::vector<StudyCell>& row, const std::vector<double>& values, uint64_t seed) {
    for (StudyCell& cell : mean_cells(values, seed))
        row.push_back(std::move(cell));
}

/// Bytes of the cache that decodes, over the steps of a run.
class HeldBytes {
public:
    void add(const DecodeSession& session) {
        const KvCache* cache = session.student_cache();
        if (cache == nullptr) cache = session.teacher_cache();
        m_sum += static_cast<double>(cache->bytes_used() + cache->index_bytes());
        ++m_steps;
    }
    [[nodiscard]] double mean() const { return m_steps > 0 ? m_sum / static_cast<double>(m_steps) : 0; }

private:
    double m_sum = 0;
    int64_t m_steps = 0;
};

class CacheStudy {
public:
    explicit CacheStudy(const StudyOptions& options)
        : m_options(options)
        , m_kept(options.traces) {
        check_parts(options, parts);
        for (const std::string& method : options.methods)
            static_cast<void>(cache_policy_defaults(method, "--methods")); // throws
    }

    StudyResult run() {
        StudyTable bins{"figure",
                        "",
                        {{"kind"}, {"policy"}, {"share"}, {"text"}, {"token"}, {"loss_nats"}, {"kl_nats"}},
                        {}};
        const bool one_model =
            wants("text") || wants("recall") || wants("written") || wants("zoo") || wants("zoo_recall");
        if (one_model) {
            StudyOptions alone = m_options;
            alone.base.mode = Mode::teacher;
            alone.base.student_dir.clear();
            alone.traces.clear();
            StudyRunner runner(alone);
            if (wants("text")) text_table(runner, bins);
            if (wants("recall")) recall_table(runner);
            if (wants("written")) written_table(runner);
            if (wants("zoo") || wants("zoo_recall")) zoo_tables(runner);
        }
        if (wants("both")) {
            if (m_options.parts.empty() && !m_options.student_given && !bundled_teacher()) {
                m_result.notes.emplace_back("part both is left out: it needs a student (--student)");
            } else {
                StudyOptions pair = m_options;
                pair.traces.clear();
                StudyRunner runner(pair);
                both_table(runner);
            }
        }
        m_result.figures.push_back(std::move(bins));
        return std::move(m_result);
    }

private:
    [[nodiscard]] bool wants(std::string_view part) const {
        return m_options.parts.empty() || std::ranges::find(m_options.parts, part) != m_options.parts.end();
    }
    [[nodiscard]] bool bundled_teacher() const {
        const std::filesystem::path teacher = m_options.base.teacher_dir,
                                    student = m_options.base.student_dir;
        return teacher.parent_path() == student.parent_path();
    }
    [[nodiscard]] bool quick() const { return m_options.limit == 0; }

    // --- long texts ---

    struct LongText {
        std::string kind, name;
        std::vector<int32_t> tokens;
        int64_t prompt;     ///< of them
        int64_t budget = 0; ///< of an answer: a fourth of the prompt's entries
    };

    /// Records of a file, one behind the other, cut into texts of one length; no record is used twice.
    void add_long_texts(StudyRunner& runner, const char* file, const char* kind, int64_t length, int64_t end,
                        std::vector<LongText>& texts) const {
        const int64_t wanted = quick() ? texts_of_a_kind : m_options.limit;
        std::vector<int32_t> tokens;
        int64_t made = 0;
        for (const PromptRecord& record :
             read_prompt_file(m_options.prompts / (std::string(file) + ".jsonl"))) {
            if (made == wanted) break;
            const std::string text = record.prompt + " " + record.response + "\n\n";
            const auto ids = runner.pair().tokenizer->encode(text, false);
            tokens.insert(tokens.end(), ids.begin(), ids.end());
            if (std::ssize(tokens) < length) continue;
            tokens.resize(static_cast<size_t>(length));
            texts.push_back({kind, fmt::format("{} {}", kind, ++made), std::move(tokens), length - end});
            tokens.clear();
        }
    }

    [[nodiscard]] std::vector<LongText> long_texts(StudyRunner& runner) const {
        const LlamaModel& model = *runner.pair().teacher;
        // Half of the context: models are rarely trained on all of it.
        const int64_t most = model.config().max_position;
        if (m_options.length > most)
            throw Error("starting a study", "--length",
                        fmt::format("{} is more than the model's context of {}", m_options.length, most));
        const int64_t length = m_options.length > 0
                                   ? m_options.length
                                   : std::min(quick() ? quick_length : full_length, most / 2);
        if (length < 2 * quick_end)
            throw Error("starting a study", m_options.base.teacher_dir,
                        fmt::format("has a context of {} tokens, too short for long texts",
                                    model.config().max_position));
        const int64_t end = std::min(quick() ? quick_end : full_end, length / 4);
        std::vector<LongText> texts;
        add_long_texts(runner, "passages", "tales", length, end, texts);
        add_long_texts(runner, "story_prompts", "stories", length, end, texts);
        if (texts.empty())
            throw Error("starting a study", m_options.prompts.string(),
                        fmt::format("the files do not make a text of {} tokens", length));
        return texts;
    }

    void text_table(StudyRunner& runner, StudyTable& bins) {
        const LlamaModel& model = *runner.pair().teacher;
        const std::vector<LongText> texts = long_texts(runner);
        const int64_t length = std::ssize(texts[0].tokens), end = length - texts[0].prompt;
        std::vector<NamedPolicy> policies;
        std::vector<int64_t> shares;
        for (const int64_t share : {8, 4}) {
            for (NamedPolicy& policy : compared_policies(length / share)) {
                if (policy.config.is_full() && share != 8) continue;
                policies.push_back(std::move(policy));
                shares.push_back(share);
            }
        }
        std::vector<CachePolicyConfig> configs;
        for (const NamedPolicy& policy : policies)
            configs.push_back(policy.config);
        const auto readings = read_all(model, texts, std::vector(texts.size(), configs), {});
        StudyTable table{
            "text",
            fmt::format(
                "The last {} of {} tokens, {} texts; loss and KL against everything read, nats per token",
                end, length, texts.size()),
            {{"policy"},
             {"budget"},
             {"PPL", 2},
             {"loss above vanilla", 4, true},
             {"low", 4, true},
             {"high", 4, true},
             {"KL", 4},
             {"KL low", 4},
             {"KL high", 4},
             {"entries read", 1},
             {"effective stride", 1}},
            {},
            {}};
        table.plots.push_back({.name = "text",
                               .title = table.title,
                               .facets = {"budget"},
                               .series = {"policy"},
                               .parts = {{"loss above vanilla", {"loss above vanilla"}, false, 0.0},
                                         {"KL to vanilla", {"KL"}, true}}});
        for (size_t p = 0; p < policies.size(); ++p) {
            std::vector<double> above, kl;
            double loss = 0, read = 0, full_share = 0;
            for (size_t t = 0; t < texts.size(); ++t) {
                const CacheReading& reading = readings[t][p];
                above.push_back(reading.nll() - readings[t][0].nll());
                kl.push_back(reading.kl());
                loss += reading.nll() / static_cast<double>(texts.size());
                read += reading.entries_read / static_cast<double>(texts.size());
                full_share +=
                    reading.stride() > 0 ? 1 / reading.stride() / static_cast<double>(texts.size()) : 0;
                for (size_t i = 0; i < reading.logprob.size(); ++i)
                    bins.rows.push_back({texts[t].kind, policies[p].name, shares[p], texts[t].name,
                                         static_cast<int64_t>(i), -reading.logprob[i],
                                         i == 0 ? StudyCell() : StudyCell(reading.kl_nats[i - 1])});
            }
            const bool full = policies[p].config.is_full();
            std::vector<StudyCell> row{
                policies[p].name, full ? std::string("all") : fmt::format("n/{}", shares[p]), std::exp(loss)};
            add_cells(row, above, m_options.seed);
            add_cells(row, kl, m_options.seed);
            row.emplace_back(read);
            row.push_back(full_share > 0 ? StudyCell(1 / full_share) : StudyCell());
            table.rows.push_back(std::move(row));
        }
        m_result.tables.push_back(std::move(table));
        layer_table(policies, shares, readings);
    }

    /// How often each layer read everything.
    void layer_table(const std::vector<NamedPolicy>& policies, const std::vector<int64_t>& shares,
                     const std::vector<std::vector<CacheReading>>& readings) {
        StudyTable layers{"full_steps",
                          "",
                          {{"policy"}, {"share"}, {"layer"}, {"full_steps_per_step"}},
                          {},
                          {{.name = "full_steps",
                            .title = "How often each layer read everything; a share of 8: a budget of n/8",
                            .kind = TablePlot::Kind::curves,
                            .facets = {"share"},
                            .series = {"policy"},
                            .x = "layer",
                            .parts = {{"full steps per step", {"full_steps_per_step"}}}}}};
        for (size_t p = 0; p < policies.size(); ++p) {
            for (size_t layer = 0; layer < readings[0][p].full_step_share.size(); ++layer) {
                double share = 0;
                for (const auto& text : readings)
                    share += text[p].full_step_share[layer] / static_cast<double>(readings.size());
                layers.rows.push_back({policies[p].name, shares[p], static_cast<int64_t>(layer), share});
            }
        }
        m_result.figures.push_back(std::move(layers));
    }

    /// What a policy works out stands still for all cores but one, so two texts read side by side take less time than one after the
    /// other. Each holds the caches of a group of policies, and what these keep of the prompt.
    [[nodiscard]] static size_t texts_at_once(const LlamaModel& model, int threads) {
        if (!model.device().is_cpu()) return 1;
        constexpr int64_t bytes_of_a_text = int64_t{4} << 30;
        const int64_t available = host_memory_available().value_or(0);
        return static_cast<size_t>(std::clamp<int64_t>(available / bytes_of_a_text, 1, threads));
    }

    /// \param policies  of each text; the readings come in this order
    std::vector<std::vector<CacheReading>>
    read_all(const LlamaModel& model, const std::vector<LongText>& texts,
             const std::vector<std::vector<CachePolicyConfig>>& policies, const PolicyAidsFor& aids_for) {
        const std::string fingerprint = model_fingerprint(m_options.base.teacher_dir);
        std::vector<std::vector<CacheReading>> readings(texts.size());
        const int threads = kernels::threads_for(m_options.base.threads);
        double read = 0;  ///< texts
        std::mutex mutex; ///< protects it, and progress
        JobPool pool(texts_at_once(model, threads), threads);
        pool.run(texts.size(), [&](size_t t, JobSlot& slot) {
            const auto done = [&](double of_text) {
                const std::lock_guard lock(mutex);
                read += of_text;
                if (m_options.progress)
                    m_options.progress(read / static_cast<double>(texts.size()), texts[t].name);
            };
            done(0);
            Digest digest;
            digest.add("refreshlab study cache 4");
            digest.add(fingerprint);
            digest.add(json_text(texts[t].tokens));
            digest.add(static_cast<uint64_t>(texts[t].prompt));
            digest.add(m_options.seed);
            // Of each policy by its settings, so that a policy that comes later costs its own reading alone.
            nlohmann::json kept = m_kept.get(digest.hex()).value_or(nlohmann::json::object());
            std::map<std::string, CachePolicyConfig> missing;
            for (const CachePolicyConfig& policy : policies[t]) {
                const std::string key = json_text(to_json(policy));
                if (!kept.contains(key)) missing.emplace(key, policy);
            }
            // What policies keep of a prompt is held while their group reads; a call that is stopped loses a group at most. A method's budgets
            // go to different groups: some methods keep much more than others.
            constexpr size_t at_once = 31; // and the full cache, which each group is compared with
            const size_t groups = (missing.size() + at_once - 1) / at_once;
            for (size_t g = 0; g < groups; ++g) {
                std::vector<CachePolicyConfig> group;
                size_t i = 0;
                for (const auto& [key, policy] : missing)
                    if (i++ % groups == g) group.push_back(policy);
                const Execution execution = slot.execution(m_options.base.kernels);
                const kernels::ExecutionScope scope(*execution);
                const c10::InferenceMode guard;
                const auto made = read_under_policies(model, texts[t].tokens, texts[t].prompt, group,
                                                      m_options.seed, aids_for);
                for (size_t k = 0; k < group.size(); ++k)
                    kept[json_text(to_json(group[k]))] = to_json(made[k]);
                m_kept.put(digest.hex(), kept);
                done(1 / static_cast<double>(groups));
            }
            if (groups == 0) done(1);
            for (const CachePolicyConfig& policy : policies[t])
                readings[t].push_back(
                    cache_reading_from_json(kept.at(json_text(to_json(policy))), "a kept reading"));
        });
        return readings;
    }

    // --- runs ---

    /// The numbers of runs; those that are kept are not made again.
    std::vector<RunNumbers> run_all(StudyRunner& runner, const std::vector<StudyRun>& runs,
                                    const SweepModels& models) {
        std::vector<RunNumbers> numbers(runs.size());
        std::vector<std::string> ids;
        std::vector<size_t> open;
        const std::string almanac = read_file(m_options.prompts / "almanac.json");
        constexpr std::string_view version = "with bytes held";
        for (size_t i = 0; i < runs.size(); ++i) {
            Digest facts;
            facts.add(almanac);
            facts.add(version);
            ids.push_back(cell_id(runs[i].config, facts.hex(), models));
            if (const auto kept = m_kept.get(ids[i])) {
                numbers[i] = numbers_from(*kept);
            } else {
                open.push_back(i);
            }
        }
        runner.expect(std::ssize(open));
        constexpr size_t at_once = 8; // what a call that is stopped loses at most
        for (size_t first = 0; first < open.size(); first += at_once) {
            std::vector<StudyRun> some;
            std::vector<HeldBytes> held(std::min(at_once, open.size() - first));
            for (size_t i = 0; i < held.size(); ++i) {
                some.push_back(runs[open[first + i]]);
                some.back().watch = [&bytes = held[i]](const DecodeSession& session) { bytes.add(session); };
            }
            const auto made = runner.run_all(some);
            for (size_t i = 0; i < made.size(); ++i) {
                numbers[open[first + i]] = numbers_of(*made[i]);
                numbers[open[first + i]].bytes_held = held[i].mean();
                m_kept.put(ids[open[first + i]], to_json(numbers[open[first + i]]));
            }
        }
        return numbers;
    }

    [[nodiscard]] SweepModels models_of(const StudyRunner& runner) const {
        SweepModels models;
        models.teacher = model_fingerprint(m_options.base.teacher_dir);
        if (runner.pair().student) models.student = model_fingerprint(m_options.base.student_dir);
        models.device = runner.pair().teacher->device().is_cuda() ? "cuda" : "cpu";
        return models;
    }

    // --- recall ---

    /// Entries of a KV head: a fourth of the prompt, a chat template's words left out.
    [[nodiscard]] static int64_t recall_budget(const StudyRunner& runner, const PromptRecord& record) {
        return std::max<int64_t>(8, runner.token_count(record.prompt) / 4);
    }
    [[nodiscard]] int64_t recall_records() const { return quick() ? quick_records : m_options.limit; }

    /// Prompts of the recall tasks, with their answers.
    [[nodiscard]] std::vector<LongText> given_answers(StudyRunner& runner) const {
        std::vector<LongText> answers;
        for (const std::string& kind : recall_kinds) {
            for (const PromptRecord& record : runner.records(kind, recall_records())) {
                const RunText text =
                    run_text(runner.pair(), runner.given_config({"", Mode::teacher, {}}, record));
                LongText answer{kind, fmt::format("{} {}", kind, answers.size() + 1), text.prompt.ids,
                                std::ssize(text.prompt.ids), recall_budget(runner, record)};
                const int64_t all = std::ssize(text.given), read = std::min(all, read_of_answer);
                if (read < 2) continue;
                answer.tokens.insert(answer.tokens.end(), text.given.begin(), text.given.begin() + read);
                answers.push_back(std::move(answer));
            }
        }
        return answers;
    }

    /// First choices on given answers: each prompt is read once for all policies.
    void recall_table(StudyRunner& runner) {
        const std::vector<LongText> answers = given_answers(runner);
        std::vector<std::vector<CachePolicyConfig>> policies;
        for (const LongText& answer : answers) {
            auto& configs = policies.emplace_back();
            for (const NamedPolicy& policy : few_policies(answer.budget))
                configs.push_back(policy.config);
        }
        const auto readings = read_all(*runner.pair().teacher, answers, policies, {});
        StudyTable table{
            "recall",
            fmt::format("Answers that stand in the prompt (their first {} tokens), {} records of each kind, "
                        "a budget of a fourth of "
                        "the prompt: share of the answer's tokens that were the first choice, and their loss "
                        "(nats per token)",
                        read_of_answer, recall_records()),
            {{"kind"},
             {"policy"},
             {"token accuracy"},
             {"low"},
             {"high"},
             {"loss"},
             {"loss low"},
             {"loss high"}},
            {},
            {{.name = "recall",
              .title = "Answers that stand in the prompt, given (95 % over records)",
              .facets = {"kind"},
              .series = {"policy"},
              .parts = {{"token accuracy", {"token accuracy"}}, {"loss (nats per token)", {"loss"}, true}}}}};
        std::vector<std::string> shown = recall_kinds;
        shown.emplace_back("all");
        const auto rows = few_policies(1);
        for (const std::string& kind : shown) {
            for (size_t p = 0; p < rows.size(); ++p) {
                std::vector<double> accuracy, loss;
                for (size_t i = 0; i < answers.size(); ++i) {
                    if (kind != "all" && answers[i].kind != kind) continue;
                    accuracy.push_back(readings[i][p].accuracy());
                    loss.push_back(readings[i][p].nll());
                }
                std::vector<StudyCell> cells{kind, rows[p].name};
                add_cells(cells, accuracy, m_options.seed);
                add_cells(cells, loss, m_options.seed);
                table.rows.push_back(std::move(cells));
            }
        }
        m_result.tables.push_back(std::move(table));
    }

    /// What is written, greedily.
    void written_table(StudyRunner& runner) {
        const SweepModels models = models_of(runner);
        StudyTable table{
            "written",
            fmt::format(
                "Answers that stand in the prompt, {} records of each kind, a budget of a fourth of the "
                "prompt: score of what is written (greedy; leading right share, of tables row F1)",
                recall_records()),
            {{"kind"}, {"policy"}, {"score"}, {"low"}, {"high"}},
            {},
            {{.name = "written",
              .title = "Answers that stand in the prompt, written (95 % over records)",
              .facets = {"kind"},
              .series = {"policy"},
              .parts = {{"score", {"score"}}}}}};
        for (const std::string& kind : recall_kinds) {
            const auto records = runner.records(kind, recall_records());
            for (const NamedPolicy& row : writing_policies(1)) {
                std::vector<StudyRun> runs;
                for (size_t i = 0; i < records.size(); ++i) {
                    RunConfig config = runner.given_config({row.name, Mode::teacher, {}}, records[i]);
                    config.given_text.clear();
                    config.max_tokens = static_cast<int32_t>(runner.token_count(records[i].response) + 32);
                    const auto all = writing_policies(recall_budget(runner, records[i]));
                    config.teacher_cache = std::ranges::find(all, row.name, &NamedPolicy::name)->config;
                    runs.push_back({config, fmt::format("{} {} written {}", kind, row.name, i + 1)});
                }
                std::vector<double> score;
                for (const RunNumbers& n : run_all(runner, runs, models))
                    score.push_back(n.score);
                std::vector<StudyCell> cells{kind, row.name};
                add_cells(cells, score, m_options.seed);
                table.rows.push_back(std::move(cells));
            }
        }
        m_result.tables.push_back(std::move(table));
    }

    // --- every method ---

    /// The full cache always is: the others are compared with it.
    [[nodiscard]] bool is_asked_for(const std::string& method) const {
        return m_options.methods.empty() || method == "full" ||
               std::ranges::find(m_options.methods, method) != m_options.methods.end();
    }
    /// The methods of these rows that have all their files, with the digests of those; a note names the others.
    /// \param policy  of a configuration, whose it is  \param aids  told what was read, once for each method that has files
    std::map<std::string, CachePolicyConfig>
    policies_with_files(const ModelPair& pair, const std::vector<ZooRow>& rows, RunConfig config,
                        CachePolicyConfig& (*policy)(RunConfig&),
                        const std::function<void(const std::string&, PolicyAids)>& aids) {
        std::map<std::string, CachePolicyConfig> found;
        std::vector<std::string> missing;
        for (const ZooRow& row : rows) {
            const std::string& method = row.config.policy;
            if (!is_asked_for(method) || found.contains(method) ||
                std::ranges::find(missing, method) != missing.end())
                continue;
            policy(config) = row.config;
            try {
                if (!find_cache_method(method)->files.empty()) aids(method, read_policy_aids(config, pair));
                RunConfig known = with_file_digests(config);
                found.emplace(method, policy(known));
            } catch (const Error&) {
                missing.push_back(method);
            }
        }
        if (!missing.empty())
            m_result.notes.push_back(
                fmt::format("left out, because the models have no gate or profile of them: {}",
                            fmt::join(missing, ", ")));
        return found;
    }
    /// Rows of methods that have their files, which they name by what is in them.
    static std::vector<ZooRow> with_files(std::vector<ZooRow> rows,
                                          const std::map<std::string, CachePolicyConfig>& found) {
        std::erase_if(rows, [&](const ZooRow& row) { return !found.contains(row.config.policy); });
        for (ZooRow& row : rows)
            row.config.files = found.at(row.config.policy).files;
        return rows;
    }

    /// Long texts and recall under every method that this model has the files for.
    void zoo_tables(StudyRunner& runner) {
        const ModelPair& pair = runner.pair();
        std::map<std::string, PolicyAids, std::less<>> aids;
        RunConfig alone = m_options.base;
        alone.mode = Mode::teacher;
        alone.student_dir.clear();
        const std::map<std::string, CachePolicyConfig> found = policies_with_files(
            pair, zoo_rows(1), alone,
            [](RunConfig& config) -> CachePolicyConfig& { return config.teacher_cache; },
            [&](const std::string& method, PolicyAids of_method) {
                aids.emplace(method, std::move(of_method));
            });
        const PolicyAidsFor aids_for = [&](const CachePolicyConfig& policy) {
            const auto of_method = aids.find(policy.policy);
            return of_method == aids.end() ? PolicyAids() : of_method->second;
        };
        const auto rows_of = [&](int64_t prompt) { return with_files(zoo_rows(prompt), found); };
        const auto add = [&](const std::string& name, const std::string& title,
                             const std::vector<LongText>& texts) {
            std::vector<std::vector<CachePolicyConfig>> policies;
            std::vector<std::string> kinds;
            for (const LongText& text : texts) {
                auto& configs = policies.emplace_back();
                for (ZooRow& row : rows_of(text.prompt))
                    configs.push_back(std::move(row.config));
                kinds.push_back(text.kind);
            }
            const auto readings = read_all(*pair.teacher, texts, policies, aids_for);
            m_result.tables.push_back(
                zoo_table(name, title, rows_of(texts[0].prompt), readings, kinds, m_options.seed));
        };
        if (wants("zoo")) {
            const std::vector<LongText> texts = long_texts(runner);
            add("zoo",
                fmt::format(
                    "Every cache method: the last {} of {} tokens, {} texts; shares of the full cache",
                    std::ssize(texts[0].tokens) - texts[0].prompt, texts[0].tokens.size(), texts.size()),
                texts);
        }
        if (!wants("zoo_recall")) return;
        const std::vector<LongText> answers = given_answers(runner);
        add("zoo_recall",
            fmt::format("Every cache method: answers that stand in the prompt (their first {} tokens), {} "
                        "records of each kind; "
                        "shares of the full cache",
                        read_of_answer, recall_records()),
            answers);
    }

    // --- both axes ---

    /// Given texts, read by the student on the teacher's prompt: chronicles, whose names stand in what the student wrote itself, and stories
    /// told again, which stand in the prompt.
    void both_table(StudyRunner& runner) {
        const int64_t limit = quick() ? quick_pairs : m_options.limit;
        const std::vector<StudyCase> refreshes{{"none", Mode::overfill, {}},
                                               {"every 32", Mode::overfill, periodic_policy(32)},
                                               {"entropy gate, 6 bits, redraw", Mode::overfill,
                                                gate_policy("entropy_bits", 6, 1, 4, OnFire::redraw)}};
        const auto found = policies_with_files(
            runner.pair(), axes_rows(1, 1), runner.config(refreshes[0]),
            [](RunConfig& config) -> CachePolicyConfig& { return config.student_cache; },
            [](const std::string&, const PolicyAids&) {});
        AxesRuns axes;
        for (const StudyCase& refresh : refreshes)
            axes.refreshes.push_back(refresh.name);
        std::vector<StudyRun> runs;
        for (const char* kind : {"chronicle", "retell"}) {
            const auto records = runner.records(kind, limit);
            for (size_t i = 0; i < records.size(); ++i) {
                const auto rows = with_files(
                    axes_rows(runner.token_count(records[i].prompt), runner.token_count(records[i].response)),
                    found);
                if (axes.caches.empty()) axes.caches = rows;
                axes.kinds.emplace_back(kind);
                for (const ZooRow& row : rows) {
                    for (const StudyCase& refresh : refreshes) {
                        RunConfig config = runner.given_config(refresh, records[i]);
                        config.student_cache = row.config;
                        runs.push_back({config, fmt::format("{} {}, {}, {}", kind, i + 1, row.config.policy,
                                                            refresh.name)});
                    }
                }
            }
        }
        axes.numbers = run_all(runner, runs, models_of(runner));
        m_result.tables.push_back(axes_table(
            fmt::format(
                "Teacher refresh and cache policy of the student, {} given texts. Shares of bytes are of "
                "the full cache; gain: what the loss is below that of the full cache without a refresh; "
                "saved: below that of the same policy without one; sum: saved, less what the refresh "
                "saves with the full cache (0 where the axes add up)",
                axes.kinds.size()),
            axes, m_options.seed));
    }

    StudyOptions m_options;
    KeptNumbers m_kept;
    StudyResult m_result;
};

} // namespace

StudyResult study_cache(const StudyOptions& options) {
    return CacheStudy(options).run();
}

} // namespace refreshlab
