#pragma once

#include "engine/model/bridge/bridge.h"
#include "engine/train/models/reading_plan.h"
#include "engine/train/trainable_pass.h"
#include "engine/train/trainer.h"

#include <cstdint>
#include <string>
#include <vector>

namespace refreshlab {

/// How a bridge is trained, after its fit. With texts, models and fit it decides on every bit, for one number of threads on one kind of processor.
struct BridgeTraining {
    int64_t steps = 1;
    int64_t batch = 4; ///< texts of a step
    double learning_rate = 1e-3;
    uint64_t seed = 0;
    ReadingShares shares{0, 0.25}; ///< no text is read without the teacher's entries
    std::string fit;               ///< recipe of the bridge that it begins with

    [[nodiscard]] std::string recipe() const; ///< all of it as JSON
};

/// Trains the maps of a bridge for what the student makes of them: the student reads each text as a session with the bridge does, mapped
/// entries below the last refresh and its own from there on, and its rows shall be the teacher's. Both models are frozen. So a map may
/// carry what the student could not have read by itself, which the fit to its own entries cannot.
///
/// Loss  KL(teacher || student), nats, mean over the rows behind the prefix, over the tokens that both models have. Definition:
///       reference/refresh.md, section 13. Source: the objective of Cache-to-Cache (Fu et al. 2025), with a teacher's rows for its texts.
class BridgeTrainer final : public Trainer {
public:
    /// Both models on the CPU; all outlive this. Throws Error{bad_input} as TrainablePass.
    BridgeTrainer(const LlamaModel& teacher, const LlamaModel& student, const Bridge& start,
                  const std::vector<TrainingText>& texts, const BridgeTraining& how);
    ~BridgeTrainer() override;

    /// As it is now, with weights of its own.
    [[nodiscard]] Bridge bridge() const;
    /// The student's columns [0, n) as the bridge gives them for these columns of the teacher's cache, with gradients.
    [[nodiscard]] TrainablePass::Entries mapped(const KvCache& teacher, int64_t n) const;

private:
    [[nodiscard]] TrainingLoss loss(const TrainingText& text, int64_t number) const override;

    const LlamaModel &m_teacher, &m_student;
    BridgeTraining m_how;
    Bridge m_bridge;
    TrainablePass m_pass;
};

} // namespace refreshlab
