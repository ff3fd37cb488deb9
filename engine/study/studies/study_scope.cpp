#include "engine/base/error.h"
#include "engine/control/derive/derive_spec.h"
#include "engine/model/model_fingerprint.h"
#include "engine/record/recording/recording.h"
#include "engine/results/sweep_store.h"
#include "engine/study/jobs/job_pool.h"
#include "engine/study/studies/derived_pairs.h"
#include "engine/study/studies/kept_numbers.h"
#include "engine/study/studies/scope_study_tables.h"
#include "engine/study/studies/study_catalog.h"
#include "engine/text/digest.h"
#include "kernels/execution/cores.h"

#include <c10/core/InferenceMode.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <mutex>
#include <numeric>
#include <random>
#include <utility>

namespace refreshlab {

namespace {

constexpr int64_t texts_of_quick_study = 3;
constexpr int32_t quick_text_tokens = 50,
                  full_text_tokens = 82; ///< of a text: two and four refreshes with a horizon behind each
constexpr size_t draws_of_layers = 3;

std::vector<std::string> scope_students(int64_t layers) {
    return {"bits=4,group=192", "bits=3,group=32", "skip_attention=" + layers_from(layers, 3, 4)};
}

struct ScopeText {
    std::string name;
    RunConfig config;
    std::vector<int32_t> prompt, text;
};

/// The layers with the largest gains, so many.
std::vector<uint8_t> best_layers(const std::vector<double>& gains, size_t count) {
    std::vector<size_t> order(gains.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::ranges::stable_sort(order, [&](size_t a, size_t b) { return gains[a] > gains[b]; });
    std::vector<uint8_t> chosen(gains.size(), 0);
    for (size_t i = 0; i < count; ++i)
        chosen[order[i]] = 1;
    return chosen;
}

class ScopeStudy {
public:
    explicit ScopeStudy(const StudyOptions& options)
        : m_options(teacher_alone(options))
        , m_students(derived_students(options, scope_students, m_notes))
        , m_runner(m_options)
        , m_kept(options.traces, "scope")
        , m_teacher(model_fingerprint(m_options.base.teacher_dir)) {}

    StudyResult run() {
        write_texts();
        std::vector<StudentScopes> all;
        for (const std::string& student : m_students)
            all.push_back(read(student));
        StudyResult result = scope_study_tables(all, m_options.seed);
        result.notes.insert(result.notes.end(), m_notes.begin(), m_notes.end());
        return result;
    }

private:
    /// What the teacher answers.
    void write_texts() {
        std::vector<StudyRun> runs = m_runner.questions(texts_of_quick_study);
        const int32_t tokens = m_options.limit > 0 ? full_text_tokens : quick_text_tokens;
        for (StudyRun& run : runs)
            run.config.max_tokens = tokens;
        m_runner.expect(std::ssize(runs));
        const auto made = m_runner.run_all(runs);
        for (size_t i = 0; i < made.size(); ++i) {
            if (made[i]->num_tokens() < 2 + scope_study_stride + scope_study_horizon) {
                m_notes.push_back(fmt::format("{} is left out: it has {} tokens, too few for a refresh",
                                              runs[i].name, made[i]->num_tokens()));
                continue;
            }
            m_texts.push_back(
                {runs[i].name, runs[i].config, made[i]->info().prompt_ids, made[i]->token_ids()});
        }
        if (m_texts.empty()) throw Error("starting a study", {}, "every answer is too short for a refresh");
    }

    StudentScopes read(const std::string& student) {
        StudentScopes group{derive_name(derivation_of(student)), {}, {}, {}};
        const size_t n = m_texts.size();
        group.shares.resize(n);
        const bool per_text = derivation_of(student).depends_on_prompt();
        const auto shared = per_text ? nullptr : pair_for(student, m_texts[0], {});
        const auto each = [&](const char* what, const std::function<void(size_t, const LlamaModel&)>& work) {
            const int threads = kernels::threads_for(m_options.base.threads);
            const bool cpu = m_runner.pair().teacher->device().is_cpu();
            JobPool pool(std::min(cpu ? static_cast<size_t>(threads) : 1, n), threads);
            pool.run(n, [&](size_t text, JobSlot& slot) {
                say(fmt::format("{}, {}: {}", group.student, m_texts[text].name, what));
                const Execution execution = slot.execution(m_options.base.kernels);
                const kernels::ExecutionScope scope(*execution);
                const c10::InferenceMode guard;
                const auto pair = shared ? shared : pair_for(student, m_texts[text], execution);
                work(text, *pair->student);
                const std::lock_guard lock(m_mutex);
                ++m_done;
            });
        };
        each("parts", [&](size_t text, const LlamaModel& model) {
            const std::string id = id_of(student, m_texts[text], {});
            if (const auto known = kept(id)) {
                group.shares[text] = scope_shares_from_json(*known, "stored shares");
                return;
            }
            group.shares[text] = scope_shares(model, teacher_text(text), m_options.seed + text);
            keep(id, to_json(group.shares[text]));
        });
        for (const ScopeText& text : m_texts)
            group.texts.push_back(text.name);
        if (n < 2) return group;
        group.carried.resize(n);
        each("layers", [&](size_t text, const LlamaModel& model) {
            const auto sets = layer_sets(group.shares, text);
            const std::string id = id_of(student, m_texts[text], sets);
            std::vector<double> gains;
            if (const auto known = kept(id)) {
                gains = known->get<std::vector<double>>();
            } else {
                gains = layer_set_gains(model, teacher_text(text), sets);
                keep(id, gains);
            }
            LayerChoice& choice = group.carried[text];
            choice.own = gains[0];
            choice.others = gains[1];
            for (size_t draw = 0; draw < draws_of_layers; ++draw)
                choice.at_random += gains[2 + draw] / static_cast<double>(draws_of_layers);
        });
        return group;
    }

    /// The best third on this text, on the others, and some draws.
    [[nodiscard]] std::vector<std::vector<uint8_t>> layer_sets(const std::vector<ScopeShares>& shares,
                                                               size_t text) const {
        const size_t layers = shares[text].layers.size(), count = std::max<size_t>(layers / 3, 1);
        std::vector<double> others(layers, 0), draw(layers);
        for (size_t t = 0; t < shares.size(); ++t)
            for (size_t layer = 0; t != text && layer < layers; ++layer)
                others[layer] += shares[t].layers[layer];
        std::vector<std::vector<uint8_t>> sets{best_layers(shares[text].layers, count),
                                               best_layers(others, count)};
        std::mt19937_64 random(m_options.seed + text);
        for (size_t i = 0; i < draws_of_layers; ++i) {
            for (double& one : draw)
                one = static_cast<double>(random() >> 11U);
            sets.push_back(best_layers(draw, count));
        }
        return sets;
    }

    [[nodiscard]] TeacherText teacher_text(size_t text) const {
        return {*m_runner.pair().teacher, m_texts[text].prompt, m_texts[text].text};
    }

    [[nodiscard]] std::shared_ptr<const ModelPair> pair_for(const std::string& student, const ScopeText& text,
                                                            const Execution& execution) const {
        return derived_pair(m_runner.pair(), text.config, student, text.prompt, text.text, execution);
    }

    [[nodiscard]] std::string id_of(const std::string& student, const ScopeText& text,
                                    const std::vector<std::vector<uint8_t>>& sets) const {
        const nlohmann::json what{"study scope 1",
                                  m_teacher,
                                  model_fingerprint(student),
                                  text.prompt,
                                  text.text,
                                  m_options.seed,
                                  sets,
                                  m_runner.pair().teacher->device().is_cpu()};
        Digest digest;
        digest.add(what.dump());
        return digest.hex();
    }

    std::optional<nlohmann::json> kept(const std::string& id) {
        const std::lock_guard lock(m_mutex);
        return m_kept.get(id);
    }
    void keep(const std::string& id, const nlohmann::json& numbers) {
        const std::lock_guard lock(m_mutex);
        m_kept.put(id, numbers);
    }

    void say(const std::string& what) {
        const std::lock_guard lock(m_mutex);
        const double all = static_cast<double>(2 * m_texts.size() * m_students.size());
        if (m_options.progress) m_options.progress(static_cast<double>(m_done) / all, what);
    }

    StudyOptions m_options;
    std::vector<std::string> m_notes, m_students;
    StudyRunner m_runner;
    KeptNumbers m_kept;
    std::string m_teacher;
    std::vector<ScopeText> m_texts;
    std::mutex m_mutex; ///< protects stored numbers and progress while jobs run; held for a file
    size_t m_done = 0;
};

} // namespace

StudyResult study_scope(const StudyOptions& options) {
    check_parts(options, {});
    return ScopeStudy(options).run();
}

} // namespace refreshlab
