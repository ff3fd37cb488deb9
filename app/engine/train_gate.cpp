#include "app/base/output.h"
#include "app/engine/carry_out.h"
#include "app/engine/offline_model.h"
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

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <numeric>
#include <optional>

namespace refreshlab::app {

namespace {

namespace fs = std::filesystem;
using Seconds = std::chrono::duration<double>;

constexpr auto training_a_gate = "training a gate";
constexpr Seconds between_checkpoints{20};
constexpr Seconds between_losses{1}; ///< as often a window that shows them sees new ones

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

std::string time_left(double seconds) {
    if (seconds < 90) return fmt::format("{:.0f} s", seconds);
    if (seconds < 5400) return fmt::format("{:.0f} min", seconds / 60);
    return fmt::format("{:.1f} h", seconds / 3600);
}

/// Of the newest steps, so that it follows what is seen.
double mean_loss(const std::vector<TrainingStep>& losses) {
    const auto n = std::min<int64_t>(50, std::ssize(losses));
    double sum = 0;
    for (auto step = losses.end() - n; step != losses.end(); ++step)
        sum += step->total;
    return n > 0 ? sum / static_cast<double>(n) : 0;
}

/// The losses so far into the folder of --csv, as they stand there at the end: what a window follows. Nothing without a folder, or in one
/// that cannot be written, which is said at the end.
void show_losses(const GateTrainer& trainer, const TrainGateOptions& options) {
    if (options.csv.empty()) return;
    StudyResult so_far;
    so_far.figures.push_back(loss_table(options.method, trainer.losses()));
    try {
        write_study(so_far, options.csv);
    } catch (const Error&) { // the training is worth more
    }
}

/// Trains until all steps are made. \return false: it was interrupted, and the checkpoint has all of it
bool train(GateTrainer& trainer, const TrainGateOptions& options, const fs::path& part) {
    const int64_t steps = options.steps;
    using Clock = std::chrono::steady_clock;
    const auto start = Clock::now();
    auto saved = start, shown = start;
    show_losses(trainer, options);
    const int64_t before = trainer.steps_done();
    WorkProgress progress;
    while (trainer.steps_done() < steps) {
        if (interrupted() != 0) {
            if (trainer.steps_done() > 0) trainer.checkpoint(part);
            show_losses(trainer, options);
            return false;
        }
        try {
            trainer.step();
        } catch (const Error& e) {
            const bool kept = fs::exists(part);
            throw Error(e.doing(), e.object(), e.problem(),
                        kept ? fmt::format("{}; {} holds the training before it", e.hint(), part.string())
                             : e.hint(),
                        e.kind());
        }
        const int64_t done = trainer.steps_done();
        const Seconds took = Clock::now() - start;
        progress.show(static_cast<double>(done) / static_cast<double>(steps),
                      fmt::format("step {} of {}, loss {:.5g}, {} left", done, steps,
                                  mean_loss(trainer.losses()),
                                  time_left(took.count() / static_cast<double>(done - before) *
                                            static_cast<double>(steps - done))));
        if (Clock::now() - shown >= between_losses) {
            show_losses(trainer, options);
            shown = Clock::now();
        }
        if (Clock::now() - saved < between_checkpoints) continue;
        trainer.checkpoint(part);
        saved = Clock::now();
    }
    trainer.checkpoint(part);
    return true;
}

int64_t tokens_of(const std::vector<TrainingText>& texts) {
    return std::accumulate(texts.begin(), texts.end(), int64_t{0},
                           [](int64_t sum, const TrainingText& text) { return sum + std::ssize(text.ids); });
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
    const fs::path part = options.out + ".part";
    if (!options.restart && fs::exists(part)) trainer.resume(part);
    say("{} texts, {} tokens; {} more, {} tokens, held out\n", texts[1].size(), tokens_of(texts[1]),
        texts[0].size(), tokens_of(texts[0]));
    if (trainer.steps_done() > 0)
        say("going on after step {} of {} ({})\n", trainer.steps_done(), how.steps, part.string());
    note_interrupts();
    if (!train(trainer, options, part)) {
        say("interrupted after step {}: {} holds it, and the same command goes on\n", trainer.steps_done(),
            part.string());
        return 128 + interrupted();
    }
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
    result.figures.push_back(loss_table(options.method, trainer.losses()));
    result.notes.push_back(fmt::format("Loss of the last steps {:.5g}, of texts held out {:.5g}.",
                                       mean_loss(trainer.losses()), held_out.total));
    if (!options.csv.empty()) write_study(result, options.csv);
    print("{}", to_markdown(result));
    std::error_code ignored;
    fs::remove(part, ignored);
    say("{}: {}\n", options.out, bytes_text(static_cast<int64_t>(fs::file_size(options.out))));
    return interrupted() == 0 ? 0 : 128 + interrupted();
}

} // namespace refreshlab::app
