#pragma once

#include "engine/train/models/low_rank.h"
#include "engine/train/models/reading_plan.h"
#include "engine/train/trainable_pass.h"
#include "engine/train/trainer.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace refreshlab {

class KvCache;

/// How a model is trained. With texts and models it decides on every bit, for one number of threads on one kind of processor.
struct ModelTraining {
    std::string name; ///< "heal", "student", "teacher"
    int64_t steps = 1000;
    int64_t batch = 4; ///< texts of a step
    double learning_rate = 1e-3, weight_decay = 0.01, clip = 1;
    TrainingPlan::Schedule schedule = TrainingPlan::Schedule::cosine;
    uint64_t seed = 0;
    int64_t pack = 0; ///< as TrainingPlan
    TrainablePass::Products products = TrainablePass::Products::f32;
    std::optional<LowRank> low_rank; ///< nothing: all weights are trained
    bool muon = false;               ///< Muon trains the matrices of layers, or of updates; AdamW the rest
    Dropout dropout;                 ///< while gradients are wanted
    double next_token =
        0; ///< weight w of the loss of the text's next token; that of KL to the teacher is 1 - w
    ReadingShares shares;
    std::string teacher, student; ///< fingerprints
    std::string texts;            ///< texts_digest() of those that are trained on
    std::string withheld;         ///< almanac_digest() of the facts that are noted in them; empty: none are

    [[nodiscard]] std::string recipe() const; ///< all of it as JSON
};

/// A text as the teacher reads it.
struct TeacherReading {
    std::shared_ptr<const KvCache> cache;
    at::Tensor rows; ///< [n, vocab] log-probabilities
};
/// No gradients. \param ids  within the teacher's context
[[nodiscard]] TeacherReading read_with(const LlamaModel& teacher, std::span<const int32_t> ids);
/// The first n columns of a dense cache, as fp32 copies.
[[nodiscard]] TrainablePass::Entries entries_of(const KvCache& cache, int64_t n);

/// Trains a student to read a teacher's cache, or a model by itself.
///
/// Pass  of all rows of a text together, of several texts at once where the plan packs them: row t reads the teacher's entries below its last refresh and the student's own from there on.
///       It is what a session in mode overfill computes on the text with refreshes there (a test compares).
/// Loss  w * (-log p of the next token) + (1 - w) * KL(teacher || student), both in nats, means over the rows behind the prefix. The
///       teacher's rows are those of the teacher alone. Without a teacher the first part alone, and every row reads the model's own entries.
///       Facts that are noted in a text have targets of their own (withheld_facts.h).
class ModelTrainer final : public Trainer {
public:
    /// Throws Error{bad_input} as TrainablePass.
    /// \param teacher  null: none. Outlives this, as student and texts do; one geometry and vocabulary      (asserted)
    ModelTrainer(const LlamaModel* teacher, const LlamaModel& student, const std::vector<TrainingText>& texts,
                 const ModelTraining& how);
    ~ModelTrainer() override;

    /// Logits of the student as it is now, of rows plan.first .. ids.size() - 1, [rows, vocab].
    /// \param entries  the teacher's of all ids; null only where plan.first is 0                            (asserted)
    [[nodiscard]] at::Tensor logits(std::span<const int32_t> ids, const ReadingPlan& plan,
                                    const TrainablePass::Entries* entries) const;
    /// The student as it is now, with its updates in its matrices.
    [[nodiscard]] std::unique_ptr<LlamaModel> model(at::ScalarType dtype) const;
    /// Null where all weights are trained.
    [[nodiscard]] const LowRankUpdates* updates() const { return m_updates ? &*m_updates : nullptr; }
    /// Of TrainingStep::parts.
    [[nodiscard]] static std::vector<std::string> parts(bool teacher);

private:
    struct Reading {
        std::span<const int32_t> ids;
        ReadingPlan plan;
        const TrainablePass::Entries* entries = nullptr;
    };
    /// Of all rows of all readings, one behind the other. \param number  of the first text; nothing: no dropout
    [[nodiscard]] at::Tensor logits(std::span<const Reading> readings, std::optional<int64_t> number) const;
    [[nodiscard]] TrainingLoss loss(const TrainingText& text, int64_t number) const override;
    [[nodiscard]] TrainingLoss loss_together(std::span<const TrainingText* const> texts,
                                             int64_t number) const override;

    const LlamaModel* m_teacher;
    const LlamaModel& m_student;
    ModelTraining m_how;
    TrainablePass m_pass;
    std::optional<LowRankUpdates> m_updates;
};

/// A model of a shape with weights drawn for training: N(0, 0.02), those that add to the residual divided by sqrt(2 * layers), biases 0, norms 1.
/// Source: Radford et al. 2019, 2.3.
[[nodiscard]] std::unique_ptr<LlamaModel> new_model(const ModelConfig& config, uint64_t seed,
                                                    at::Device device);

} // namespace refreshlab
