#include "app/base/output.h"
#include "app/engine/carry_out.h"
#include "app/engine/offline_model.h"
#include "app/engine/training_run.h"
#include "app/engine/work_progress.h"
#include "app/options/train_gate_options.h"
#include "engine/base/bytes_text.h"
#include "engine/base/error.h"
#include "engine/base/interrupt.h"
#include "engine/base/model_path.h"
#include "engine/model/gates/gate_file.h"
#include "engine/model/model_fingerprint.h"
#include "engine/signals/nearest_name.h"
#include "engine/train/gate_trainer.h"
#include "engine/train/judge_gate.h"
#include "engine/train/loss_table.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>

namespace refreshlab::app {

namespace {

namespace fs = std::filesystem;

constexpr auto training_a_gate = "training a gate";

const ObjectiveKind& objective_named(const std::string& method) {
    const auto kinds = all_objective_kinds();
    const auto found = std::ranges::find(kinds, method, &ObjectiveKind::method);
    if (found != kinds.end()) return *found;
    std::vector<std::string_view> names;
    for (const ObjectiveKind& kind : kinds)
        names.push_back(kind.method);
    throw Error(training_a_gate, method, "is no cache policy with a gate that can be trained",
                name_hint(method, names, "methods"));
}

/// Takes KEY=CHOICE into the settings that have the key. \return false: none has
bool take_reading(std::span<const GateSetting> points, std::string_view key, std::string_view choice,
                  GateSettings& settings) {
    const auto point = std::ranges::find(points, key, &GateSetting::key);
    if (point == points.end()) return false;
    if (std::ranges::find(point->choices, choice) == point->choices.end())
        throw Error("reading --reading", std::string(key), fmt::format("'{}' is no choice", choice),
                    fmt::format("{}", fmt::join(point->choices, " or ")));
    settings.find(key)->second = choice;
    return true;
}

GateTraining training_of(const TrainGateOptions& options) {
    const ObjectiveKind& objective = objective_named(options.method);
    const GateKind& kind = *find_gate_kind(options.method);
    GateTraining how;
    how.method = options.method;
    how.width = options.width > 0 ? options.width : kind.width;
    how.steps = options.steps;
    how.batch = options.batch;
    how.learning_rate = options.learning_rate > 0 ? options.learning_rate : objective.learning_rate;
    how.seed = options.seed;
    how.settings = default_settings(kind);
    how.objective.capacity = options.capacity;
    how.objective.capacity_weight = options.capacity_weight;
    how.objective.smoothness = options.smoothness;
    for (const GateSetting& point : objective.readings)
        how.objective.readings.emplace(point.key, point.choices.front());
    for (const std::string& reading : options.readings) {
        const size_t equals = reading.find('=');
        const std::string key = reading.substr(0, equals),
                          choice = equals == std::string::npos ? "" : reading.substr(equals + 1);
        if (!take_reading(kind.settings, key, choice, how.settings) &&
            !take_reading(objective.readings, key, choice, how.objective.readings))
            throw Error("reading --reading", reading, fmt::format("{} has no such point", options.method),
                        "see --help");
    }
    return how;
}

StudyTable losses_of(const GateTrainer& trainer, const std::string& method) {
    const ObjectiveKind& kind = objective_named(method);
    return loss_table("Training of a gate of " + method, {kind.parts.begin(), kind.parts.end()},
                      trainer.losses());
}

} // namespace

int carry_out(const TrainGateOptions& options) {
    GateTraining how = training_of(options);
    check_files_of_work(options.model, options.texts, options.out);
    const OfflineModel offline(options.model, options.threads);
    const LlamaModel& model = offline.model();
    if (options.length > model.config().max_position)
        throw Error(training_a_gate, "--length",
                    fmt::format("{} tokens are more than the model's context of {}", options.length,
                                model.config().max_position));
    const auto texts = held_out_and_trained(
        read_training_texts(offline.pair(), {options.texts.begin(), options.texts.end()}, options.length));
    how.model = model_fingerprint(options.model);
    how.texts = texts_digest(texts[1]);
    GateTrainer trainer(model, texts[1], how);
    const TrainingFiles files{options.out + ".part", options.csv};
    const TrainingLock lock(files.part);
    begin_training(trainer, files, options.restart, texts);
    const auto losses = [&] { return losses_of(trainer, options.method); };
    if (!train_to_end(trainer, files, losses)) return 128 + interrupted();
    save_gate(options.out, trainer.gate(), model.config(),
              {how.model, model_name(options.model), how.recipe()});
    // Judged as it is stored.
    const std::shared_ptr<const TokenGate> gate =
        load_gate(options.out, options.method, model.config(), how.model);
    StudyResult result;
    {
        WorkProgress progress;
        auto judged = judge_gate(model, gate, texts[0], options.seed, [&](double done) {
            progress.show(done, "comparing on texts held out");
            return interrupted() == 0;
        });
        if (judged) result.tables.push_back(*std::move(judged));
    }
    const TrainingStep held_out = trainer.loss_of(texts[0]);
    result.figures.push_back(losses());
    result.notes.push_back(fmt::format("Loss of the last steps {:.5g}, of texts held out {:.5g}.",
                                       newest_loss(trainer.losses()), held_out.total));
    if (!options.csv.empty()) write_study(result, options.csv);
    print("{}", to_markdown(result));
    std::error_code ignored;
    fs::remove(files.part, ignored);
    say("{}: {}\n", options.out, bytes_text(static_cast<int64_t>(fs::file_size(options.out))));
    return interrupted() == 0 ? 0 : 128 + interrupted();
}

} // namespace refreshlab::app
