#pragma once

#include "engine/train/gate_objective.h"

#include <cstdint>
#include <filesystem>
#include <functional>
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

/// Losses of a step, means over its texts.
struct TrainingStep {
    double total = 0;
    std::vector<double> parts;
};

/// Trains a gate with AdamW (libtorch's; weight decay 0.01). The rate rises over the first twentieth of the steps and falls to 0 at the
/// last one (our choice). Each epoch has the texts in an order of its own, drawn from the seed; a step is the mean over its texts.
///
/// Resuming  checkpoint() has weights, moments, step and losses. A training that goes on from it has the bits of one that was never left.
/// Threads   one owner.
class GateTrainer {
public:
    /// \param texts  not empty (asserted); outlive this, as the model does
    GateTrainer(const LlamaModel& model, const std::vector<TrainingText>& texts, GateTraining how);
    ~GateTrainer();

    /// Goes on from a checkpoint. Throws Error{bad_input}: no such file, damaged, or of another training.
    void resume(const std::filesystem::path& path);
    /// Through a temporary file, renamed. Throws Error{failure}.
    void checkpoint(const std::filesystem::path& path) const;

    [[nodiscard]] int64_t steps_done() const;
    [[nodiscard]] const std::vector<TrainingStep>& losses() const;
    [[nodiscard]] const TokenGate& gate() const;

    /// One step. Throws Error{failure} where the loss or a gradient is not finite; nothing has changed then.
    void step();
    /// The loss of texts that are not trained on.
    [[nodiscard]] TrainingStep loss_of(const std::vector<TrainingText>& texts) const;

private:
    struct Impl;
    std::unique_ptr<Impl> m_impl;
};

} // namespace refreshlab
