#pragma once

#include "engine/train/gate_objective.h"
#include "engine/train/trainer.h"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace refreshlab {

/// How a gate is trained. With the texts and the model it decides on every bit, for one number of threads on one kind of processor.
struct GateTraining {
    std::string method;
    int64_t width = 0; ///< inner
    int64_t steps = 3000;
    int64_t batch = 4; ///< texts of a step
    double learning_rate = 0;
    uint64_t seed = 0;
    GateSettings settings = {}; ///< of the gate
    ObjectiveOptions objective = {};
    std::string model;                        ///< model_fingerprint()
    std::string texts;                        ///< texts_digest() of those that are trained on
    [[nodiscard]] std::string recipe() const; ///< all of it as JSON
};

/// Trains a gate, with weight decay 0.01 on all of it.
class GateTrainer final : public Trainer {
public:
    /// \param texts  not empty (asserted); outlive this, as the model does
    GateTrainer(const LlamaModel& model, const std::vector<TrainingText>& texts, GateTraining how);
    ~GateTrainer() override;

    [[nodiscard]] const TokenGate& gate() const { return *m_gate; }

private:
    [[nodiscard]] TrainingLoss loss(const TrainingText& text, int64_t number) const override;

    std::unique_ptr<TokenGate> m_gate;
    std::unique_ptr<GateObjective> m_objective;
};

} // namespace refreshlab
