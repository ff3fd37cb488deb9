#include "engine/base/error.h"
#include "engine/base/json_file.h"
#include "engine/base/json_text.h"
#include "engine/control/derive/derive_spec.h"
#include "engine/model/model_fingerprint.h"
#include "engine/record/recording/recording.h"
#include "engine/results/sweep_store.h"
#include "engine/session/pair/run_text.h"
#include "engine/study/jobs/job_pool.h"
#include "engine/study/studies/derived_pairs.h"
#include "engine/study/studies/derived_tables.h"
#include "engine/study/studies/study_catalog.h"
#include "engine/study/sweep/sweep_cells.h"
#include "engine/text/digest.h"
#include "kernels/execution/cores.h"

#include <c10/core/InferenceMode.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <map>
#include <mutex>
#include <utility>

namespace refreshlab {

namespace {

constexpr std::string_view text_families[] = {"answers", "passages"};
constexpr const char* answer_row = "the teacher's answer";
constexpr int64_t texts_of_quick_study = 3;
constexpr int32_t quick_text_tokens = 64,
                  full_text_tokens = 128; ///< of a text; a quick study has no interval

/// Quick without a number of texts, full with one.
int32_t tokens_of_text(const StudyOptions& options) {
    return options.limit > 0 ? full_text_tokens : quick_text_tokens;
}

/// The study's students of a teacher with so many layers.
std::vector<std::string> study_students(int64_t layers) {
    return {"bits=4,group=192",
            "bits=3,group=32",
            "bits=3,group=32,only=mlp",
            "ffn=0.75",
            "ffn=0.5",
            "skip_attention=" + layers_from(layers, 3, 4),
            fmt::format("skip_attention={0},skip_mlp={0}", layers_from(layers, 7, 8))};
}

/// A given text, before it is read.
struct DerivedText {
    std::string family, name;
    RunConfig config;                  ///< of the run that writes it (answers), or that reads it (passages)
    std::string id;                    ///< of its answer in the store
    std::vector<int32_t> prompt, text; ///< empty until it is known
};

std::string id_of(std::string_view what, const std::string& cell, const std::string& student = {}) {
    Digest digest;
    digest.add("refreshlab study derived 1");
    digest.add(what);
    digest.add(cell);
    digest.add(student);
    return digest.hex();
}

/// Texts, students, and what of it an earlier call has left behind.
class DerivedStudy {
public:
    explicit DerivedStudy(const StudyOptions& options)
        : m_options(checked(options))
        , m_students(derived_students(options, study_students, m_notes))
        , m_runner(m_options) {
        m_models.teacher = model_fingerprint(m_options.base.teacher_dir);
        m_models.device = m_runner.pair().teacher->device().is_cuda() ? "cuda" : "cpu";
        list_texts();
        open_store();
    }

    StudyResult run() {
        write_answers();
        std::vector<DerivedReadings> all;
        for (const std::string_view family : text_families) {
            for (const std::string& student : m_students)
                all.push_back({std::string(family), derive_name(derivation_of(student)), {}, {}});
        }
        for (size_t s = 0; s < m_students.size(); ++s) {
            const std::vector<DerivedReading> readings = read_all(m_students[s]);
            for (size_t t = 0; t < m_texts.size(); ++t) {
                const size_t family = m_texts[t].family == text_families[0] ? 0 : 1;
                DerivedReadings& group = all[family * m_students.size() + s];
                group.texts.push_back(m_texts[t].name);
                group.readings.push_back(readings[t]);
            }
        }
        std::erase_if(all, [](const DerivedReadings& group) { return group.readings.empty(); });
        StudyResult result = derived_tables(all, m_options.seed);
        result.notes = std::move(m_notes);
        return result;
    }

private:
    static StudyOptions checked(const StudyOptions& options) {
        check_parts(options, text_families);
        return teacher_alone(options);
    }

    void list_texts() {
        for (const std::string_view family : text_families) {
            if (!m_runner.wants(std::string(family))) continue;
            const auto runs = family == "answers"
                                  ? m_runner.questions(texts_of_quick_study)
                                  : m_runner.passages({"teacher", Mode::teacher, {}}, texts_of_quick_study);
            for (const StudyRun& run : runs)
                add_text(std::string(family), run.name, run.config);
        }
    }

    void add_text(const std::string& family, std::string name, RunConfig config) {
        config.max_tokens = tokens_of_text(m_options);
        DerivedText text{family, std::move(name), std::move(config), {}, {}, {}};
        text.id = id_of("text", cell_id(text.config, "", m_models));
        m_texts.push_back(std::move(text));
    }

    [[nodiscard]] std::string reading_id(const DerivedText& text, const std::string& student) const {
        return id_of("reading", text.id, model_fingerprint(student));
    }

    /// The plan of a sweep whose rows are the students: so the file is one that `refreshlab` knows.
    void open_store() {
        if (m_options.traces.empty()) return;
        SweepPlan plan;
        plan.name = "study derived";
        plan.models = m_models;
        plan.rows.push_back({answer_row, "teacher", false, {}});
        for (const std::string& student : m_students)
            plan.rows.push_back({derive_name(derivation_of(student)), "overfill", false, {}});
        for (size_t t = 0; t < m_texts.size(); ++t) {
            plan.prompts.push_back({m_texts[t].family, m_texts[t].config.prompt});
            plan.cells.push_back({m_texts[t].id, 0, t, m_texts[t].config.seed});
            for (size_t s = 0; s < m_students.size(); ++s)
                plan.cells.push_back(
                    {reading_id(m_texts[t], m_students[s]), s + 1, t, m_texts[t].config.seed});
        }
        try {
            m_store = SweepStore::open(m_options.traces / "derived.db", plan);
        } catch (const Error& e) {
            throw Error(e.doing(), e.object(), e.problem(), "choose another --traces", e.kind());
        }
        for (const SweepResult& result : m_store->all_results())
            m_found.emplace(result.id, result.summary);
    }

    /// \param m_mutex is held where several threads work
    void store(const std::string& id, const nlohmann::json& numbers, double tokens) {
        if (!m_store) return;
        SweepResult result;
        result.id = id;
        result.config = "{}";
        result.summary = json_text(numbers);
        Digest digest;
        digest.add(result.summary);
        result.digest = digest.hex();
        value_of(result.metrics, Metric::tokens) = tokens;
        m_store->add(result);
    }

    /// What the teacher writes after the prompts, and the ids of the passages.
    void write_answers() {
        std::vector<size_t> open;
        for (size_t t = 0; t < m_texts.size(); ++t) {
            DerivedText& text = m_texts[t];
            if (const auto found = m_found.find(text.id); found != m_found.end()) {
                const nlohmann::json ids = parse_json(found->second, "a stored text");
                text.prompt = ids.value("prompt", std::vector<int32_t>());
                text.text = ids.value("text", std::vector<int32_t>());
            } else if (text.family == "answers") {
                open.push_back(t);
            } else {
                const RunText run = run_text(m_runner.pair(), text.config);
                keep(text, run.prompt.ids, run.given);
            }
        }
        m_runner.expect(std::ssize(open));
        const auto at_once = static_cast<size_t>(kernels::threads_for(m_options.base.threads));
        for (size_t first = 0; first < open.size(); first += at_once) {
            std::vector<StudyRun> runs;
            for (size_t i = first; i < std::min(first + at_once, open.size()); ++i)
                runs.push_back({m_texts[open[i]].config, m_texts[open[i]].name + " by the teacher"});
            const auto made = m_runner.run_all(runs);
            for (size_t i = 0; i < made.size(); ++i)
                keep(m_texts[open[first + i]], made[i]->info().prompt_ids, made[i]->token_ids());
        }
        std::erase_if(m_texts, [&](const DerivedText& text) {
            const bool too_short = text.text.size() < 3;
            if (too_short) m_notes.push_back(text.name + " is left out: it has fewer than three tokens");
            return too_short;
        });
        if (m_texts.empty()) throw Error("starting a study", {}, "no text has three tokens or more");
    }

    void keep(DerivedText& text, const std::vector<int32_t>& prompt, std::vector<int32_t> ids) {
        ids.resize(std::min(ids.size(), static_cast<size_t>(tokens_of_text(m_options))));
        text.prompt = prompt;
        text.text = std::move(ids);
        store(text.id, {{"prompt", text.prompt}, {"text", text.text}}, static_cast<double>(text.text.size()));
    }

    /// By text. Those that are there already are not read again.
    std::vector<DerivedReading> read_all(const std::string& student) {
        std::vector<DerivedReading> readings(m_texts.size());
        std::vector<size_t> open;
        for (size_t t = 0; t < m_texts.size(); ++t) {
            const auto found = m_found.find(reading_id(m_texts[t], student));
            if (found == m_found.end()) {
                open.push_back(t);
            } else {
                readings[t] = derived_reading_from_json(parse_json(found->second, "a stored reading"),
                                                        "a stored reading");
            }
        }
        m_done += m_texts.size() - open.size();
        if (open.empty()) return readings;
        const bool per_text = derivation_of(student).depends_on_prompt();
        const int threads = kernels::threads_for(m_options.base.threads);
        const bool cpu = m_models.device == "cpu";
        JobPool pool(std::min(cpu ? static_cast<size_t>(threads) : 1, open.size()), threads);
        const auto shared = per_text ? nullptr : make_pair(student, m_texts[open[0]]);
        pool.run(open.size(), [&](size_t job, JobSlot& slot) {
            const DerivedText& text = m_texts[open[job]];
            say(student, text);
            const Execution execution = slot.execution(m_options.base.kernels);
            const kernels::ExecutionScope scope(*execution);
            const c10::InferenceMode guard;
            const auto pair = shared ? shared : make_pair(student, text, execution);
            readings[open[job]] =
                read_all_ways(*pair->student, TeacherText(*pair->teacher, text.prompt, text.text));
            const std::lock_guard lock(m_mutex);
            ++m_done;
            store(reading_id(text, student), to_json(readings[open[job]]),
                  static_cast<double>(readings[open[job]].tokens));
        });
        return readings;
    }

    [[nodiscard]] std::shared_ptr<const ModelPair>
    make_pair(const std::string& student, const DerivedText& text, const Execution& execution = {}) const {
        return derived_pair(m_runner.pair(), text.config, student, text.prompt, text.text, execution);
    }

    void say(const std::string& student, const DerivedText& text) {
        const std::lock_guard lock(m_mutex);
        const double all = static_cast<double>(m_texts.size() * m_students.size());
        if (m_options.progress)
            m_options.progress(static_cast<double>(m_done) / all,
                               fmt::format("{}, {}", derive_name(derivation_of(student)), text.name));
    }

    StudyOptions m_options;
    std::vector<std::string> m_notes, m_students;
    StudyRunner m_runner;
    SweepModels m_models;
    std::vector<DerivedText> m_texts;
    std::unique_ptr<SweepStore> m_store;        ///< null: nothing is kept
    std::map<std::string, std::string> m_found; ///< stored numbers by id
    std::mutex m_mutex; ///< protects store and progress while jobs run; held for one transaction
    size_t m_done = 0;
};

} // namespace

StudyResult study_derived(const StudyOptions& options) {
    return DerivedStudy(options).run();
}

} // namespace refreshlab
