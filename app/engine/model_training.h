#pragma once

#include "app/base/output.h"
#include "app/engine/training_run.h"
#include "app/options/train_model_options.h"
#include "engine/model/model_source.h"
#include "engine/session/pair/model_pair.h"
#include "engine/tasks/almanac.h"
#include "engine/train/models/model_trainer.h"

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>

namespace refreshlab::app {

/// Refuses before the work what cannot be an output or an input. Throws Error{bad_input}.
/// \param inputs  what else the command reads: models
void check_training_files(const TrainModelOptions& options, std::vector<NamedFile> inputs);
/// Steps, batch, rate, optimiser and the like of the options. Throws Error{bad_input} where config.json declares a dropout that is none.
/// \param learning_rate  the command's own
/// \param source         whose config.json declares the dropout that the options leave out
[[nodiscard]] ModelTraining training_of(const TrainModelOptions& options, const std::string& name,
                                        double learning_rate, const ModelSource& source);
/// The configuration of a pair that is read for a training: f32, on the device asked for.
[[nodiscard]] RunConfig pair_to_train(const TrainModelOptions& options, const std::string& teacher,
                                      const std::string& student);
/// The shares of the options, or these. Throws Error{bad_input} where they are no shares.
[[nodiscard]] ReadingShares shares_of(const StudentReadingOptions& options, double alone, double prefix);

/// A model that was trained, as it stands in its folder.
struct TrainedModel {
    const ModelTrainer& trainer;
    const LlamaModel& model; ///< read again from the folder, in f32
    std::filesystem::path folder;
    const std::vector<TrainingText>& held_out; ///< as many as shall be judged
    const std::function<bool(double)>& progress;
};
/// What a command says of it: tables and sentences for the screen and the folder's README.md, whose head is in `card`; nothing where it was
/// cancelled. It may put more files into the folder.
struct Finding {
    StudyResult result;
    std::string card;
};
using Judge = std::function<std::optional<Finding>(const TrainedModel&)>;

/// Reads texts, trains, writes the folder, judges, and prints. The folder has its name when it is whole.
/// \param pair      tokenizer and template for the texts
/// \param teacher   null: none
/// \param source    of the student's configuration and tokenizer
/// \param withheld  facts that the student shall not learn by heart; nothing: none
/// \return the exit status
[[nodiscard]] int train_model(const TrainModelOptions& options, ModelTraining how, const ModelPair& pair,
                              const LlamaModel* teacher, const LlamaModel& student, const ModelSource& source,
                              const Judge& judge, const std::optional<Almanac>& withheld = {});

// --- of students ---
/// Throws Error{bad_input} where the student can read no entry of the teacher.
void require_one_geometry(const std::string& doing, const ModelPair& pair);
/// The almanac of --withhold. Throws Error{bad_input}.
[[nodiscard]] std::optional<Almanac> withheld_facts(const StudentReadingOptions& options);
/// What the student's card says of it; empty without one.
[[nodiscard]] std::string withheld_words(const StudentReadingOptions& options);
/// Where a student's configuration and tokenizer are: its teacher's, of a derived one.
[[nodiscard]] std::shared_ptr<const ModelSource> source_of_student(const ModelPair& pair);
/// The loss split of the pair's student and of the trained one; nothing where it was cancelled.
[[nodiscard]] std::optional<StudyResult> split_before_and_after(const ModelPair& pair,
                                                                const TrainedModel& trained);

/// Bytes of all files in a folder.
[[nodiscard]] int64_t folder_bytes(const std::filesystem::path& folder);

} // namespace refreshlab::app
