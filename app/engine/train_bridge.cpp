#include "app/base/output.h"
#include "app/engine/carry_out.h"
#include "app/engine/offline_model.h"
#include "app/engine/training_run.h"
#include "app/engine/work_progress.h"
#include "app/options/train_bridge_options.h"
#include "engine/base/bytes_text.h"
#include "engine/base/error.h"
#include "engine/base/interrupt.h"
#include "engine/base/json_text.h"
#include "engine/base/model_path.h"
#include "engine/model/bridge/bridge_file.h"
#include "engine/model/model_fingerprint.h"
#include "engine/train/bridge_fit.h"
#include "engine/train/loss_table.h"
#include "engine/train/models/bridge_trainer.h"
#include "engine/train/training_text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <filesystem>

namespace refreshlab::app {

namespace {

constexpr auto fitting = "fitting a bridge";

std::string recipe_of(const TrainBridgeOptions& options, const BridgeFit& fit, const std::string& texts) {
    return json_text({{"layers", options.layers},
                      {"reach", options.reach},
                      {"inputs", options.inputs},
                      {"lambda", options.lambda ? nlohmann::json(*options.lambda) : nlohmann::json(nullptr)},
                      {"length", options.length},
                      {"positions", fit.positions(false)},
                      {"positions_held_out", fit.positions(true)},
                      {"texts", texts}});
}

/// What each map explains of the student's entries on texts held out.
void print_fit(const BridgeFit::Result& result) {
    app::print(
        "| layer | teacher's | keys, held out | fitted | lambda | values, held out | fitted | lambda |\n"
        "|---:|---|---:|---:|---:|---:|---:|---:|\n");
    for (size_t l = 0; l < result.layers.size(); ++l) {
        const auto& [keys, values] = result.layers[l];
        app::print("| {} | {} | {:.4f} | {:.4f} | {:g} | {:.4f} | {:.4f} | {:g} |\n", l,
                   fmt::join(result.bridge.layers[l].from, ", "), keys.held_out, keys.fitted, keys.lambda,
                   values.held_out, values.fitted, values.lambda);
    }
}

} // namespace

int carry_out(const TrainBridgeOptions& options) {
    check_files_of_work(options.teacher, options.texts, options.out, "--teacher");
    check_files_of_work(options.student, options.texts, options.out, "--student");
    RunConfig config;
    config.mode = Mode::teacher;
    config.teacher_dir = options.teacher;
    config.student_dir = options.student;
    config.bridge.path = no_bridge;
    config.device = "cpu";
    config.threads = options.threads;
    const OfflineModel offline(config);
    const LlamaModel &teacher = offline.model(), &student = *offline.pair().student;
    if (!offline.pair().geometry_difference)
        throw Error(fitting, options.student,
                    "teacher and student have one KV geometry, so a bridge is not needed",
                    "entries of this pair are copied as they are");
    if (options.length > offline.pair().context())
        throw Error(fitting, "--length",
                    fmt::format("{} tokens are more than the models' context of {}", options.length,
                                offline.pair().context()));
    const auto texts = held_out_and_trained(
        read_training_texts(offline.pair(), {options.texts.begin(), options.texts.end()}, options.length));
    const BridgeInputs inputs = options.inputs == "own" ? BridgeInputs::own : BridgeInputs::both;
    const LayerPairing pairing = options.layers == "spread" ? LayerPairing::spread : LayerPairing::last;
    BridgeFit fit(
        teacher, student, inputs,
        paired_layers(teacher.config().num_layers, student.config().num_layers, pairing, options.reach));
    note_interrupts();
    {
        WorkProgress progress;
        size_t done = 0;
        for (const bool held_out : {false, true}) {
            for (const TrainingText& text : texts[held_out ? 0 : 1]) {
                if (interrupted() != 0) {
                    say("interrupted: nothing was written\n");
                    return 128 + interrupted();
                }
                fit.add(text.ids, held_out);
                progress.show(static_cast<double>(++done) /
                                  static_cast<double>(texts[0].size() + texts[1].size()),
                              fmt::format("{} texts", texts[0].size() + texts[1].size()));
            }
        }
    }
    const BridgeFit::Result result = fit.solve(options.lambda);
    const std::string fitted = recipe_of(options, fit, texts_digest(texts[1]));
    BridgeOrigin origin{model_fingerprint(options.teacher), model_fingerprint(options.student),
                        model_name(options.teacher), model_name(options.student), fitted};
    print_fit(result);
    if (options.steps == 0) {
        save_bridge(options.out, result.bridge, origin);
    } else {
        BridgeTraining how{
            options.steps, options.batch, options.learning_rate, options.seed, {0, 0.25, options.longest},
            fitted};
        origin.recipe = how.recipe();
        BridgeTrainer trainer(teacher, student, result.bridge, texts[1], how);
        const TrainingStep before = trainer.loss_of(texts[0]);
        const TrainingFiles files{options.out + ".part", options.csv};
        const TrainingLock lock(files.part);
        begin_training(trainer, files, options.restart, texts);
        const auto losses = [&] {
            return loss_table("Training of " + options.out, {"KL to the teacher", "next token"},
                              trainer.losses());
        };
        if (!train_to_end(trainer, files, losses)) return 128 + interrupted();
        save_bridge(options.out, trainer.bridge(), origin);
        const TrainingStep after = trainer.loss_of(texts[0]);
        print("\nKL to the teacher on texts held out, nats a token: {:.4f} with the fit, {:.4f} after {} "
              "steps.\n",
              before.total, after.total, options.steps);
        if (!options.csv.empty()) {
            StudyResult all;
            all.figures.push_back(losses());
            write_study(all, options.csv);
        }
        std::error_code ignored;
        std::filesystem::remove(files.part, ignored);
    }
    say("{}: {}, of {} positions, {} more held out\n", options.out,
        bytes_text(static_cast<int64_t>(std::filesystem::file_size(options.out))), fit.positions(false),
        fit.positions(true));
    return 0;
}

} // namespace refreshlab::app
