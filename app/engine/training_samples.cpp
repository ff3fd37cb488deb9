#include "app/engine/training_samples.h"

#include "app/base/output.h"
#include "engine/base/error.h"
#include "engine/record/trace/trace_store.h"
#include "engine/session/driver/run_driver.h"
#include "engine/session/pair/run_text.h"

#include <fmt/format.h>

#include <utility>
#include <vector>

namespace refreshlab::app {

namespace {

constexpr int32_t sample_tokens = 48;

std::shared_ptr<const RunText> prompt_of(const TrainingText& text, const Tokenizer& tokenizer) {
    auto run = std::make_shared<RunText>();
    run->prompt.ids.assign(text.ids.begin(), text.ids.begin() + text.prompt);
    run->prompt.text = tokenizer.decode(run->prompt.ids, false);
    return run;
}

} // namespace

TrainingSamples::TrainingSamples(std::filesystem::path path, int64_t every, const ModelPair& pair, Mode mode,
                                 std::string name, const TrainingText& text)
    : m_path(std::move(path))
    , m_every(every)
    , m_pair(pair)
    , m_mode(mode)
    , m_name(std::move(name))
    , m_text(prompt_of(text, *pair.tokenizer)) {}

void TrainingSamples::take(const ModelTrainer& trainer) {
    if (m_path.empty() || m_failed || trainer.steps_done() % m_every != 0) return;
    try {
        add(trainer);
    } catch (const Error& e) { // the training is worth more
        say("no more samples: {}\n", e.what());
        m_failed = true;
    }
}

void TrainingSamples::add(const ModelTrainer& trainer) const {
    auto pair = std::make_shared<ModelPair>(m_pair);
    pair->derived.reset();
    const std::shared_ptr<const LlamaModel> model = trainer.model(at::kFloat);
    RunConfig config;
    config.mode = m_mode;
    config.device = model->device().str();
    config.max_tokens = sample_tokens;
    config.prompt = m_text->prompt.text;
    config.raw_prompt = true;
    config.threads = kernels::num_threads();
    config.teacher_dir = m_pair.teacher_dir;
    if (m_mode == Mode::teacher) {
        pair->teacher = model;
        config.teacher_dir = pair->teacher_dir = m_name;
    } else {
        pair->student = model;
        config.student_dir = pair->student_dir = m_name;
    }
    RunDriver driver({.pair = pair, .config = config, .text = m_text});
    driver.run();
    const std::string label = fmt::format("step {}", trainer.steps_done());
    std::vector<SavedRun> runs;
    if (std::filesystem::exists(m_path)) {
        LabelledRuns before = load_labelled_trace(m_path);
        for (size_t i = 0; i < before.runs.size(); ++i) {
            if (before.labels[i].name != label) // made before a kill, from the same weights
                runs.push_back({before.runs[i], {}, 0, before.labels[i]});
        }
    }
    runs.push_back({driver.recording(), {}, 0, {label, {}}});
    save_traces(m_path, runs);
}

} // namespace refreshlab::app
