#pragma once

#include "engine/train/training_text.h"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace refreshlab {

/// How a training goes on, whatever is trained.
struct TrainingPlan {
    enum class Schedule : uint8_t {
        linear, ///< to 0 at the last step
        cosine, ///< half a cosine, to a tenth of the rate
    };

    std::string doing = "training"; ///< for messages
    std::string format;             ///< of its checkpoints
    std::string recipe;             ///< all that decides on its bits; a checkpoint of another one is refused
    int64_t steps = 1;
    int64_t batch = 1; ///< texts of a step
    double learning_rate = 1e-3;
    double weight_decay = 0.01;
    double clip = 0;  ///< the largest norm of all gradients together; 0: any
    int64_t pack = 0; ///< texts of a step with so many tokens together are read at once; a longer one alone
    at::ScalarType muon_products = at::kFloat; ///< of Muon, where the training gives it matrices
    Schedule schedule = Schedule::linear;
    uint64_t seed = 0; ///< of the order of texts
};

/// Loss of one text, or the sum over some.
struct TrainingLoss {
    at::Tensor total;          ///< scalar, with gradients to what is trained
    std::vector<double> parts; ///< unweighted, in an order that does not change
};

/// Losses of a step, means over its texts.
struct TrainingStep {
    double total = 0;
    std::vector<double> parts;
};

/// Trains weights with AdamW (libtorch's), and matrices with Muon where the training says so. The rate rises over the first twentieth of the steps and then falls (our choice). Each epoch has
/// the texts in an order of its own, drawn from the seed; a step is the mean over its texts.
///
/// Resuming  checkpoint() has weights, moments, step and losses. A training that goes on from it has the bits of one that was never left,
///           with the same number of threads on the same kind of processor.
/// Threads   one owner.
class Trainer {
public:
    Trainer(const Trainer&) = delete;
    Trainer& operator=(const Trainer&) = delete;
    virtual ~Trainer();

    /// Goes on from a checkpoint. Throws Error{bad_input}: no such file, damaged, or of another training.
    void resume(const std::filesystem::path& path);
    /// Through a temporary file, renamed. Throws Error{failure}.
    void checkpoint(const std::filesystem::path& path) const;

    [[nodiscard]] int64_t steps() const; ///< that it shall make
    [[nodiscard]] int64_t steps_done() const;
    [[nodiscard]] const std::vector<TrainingStep>& losses() const;
    /// Of the texts that the steps so far have read.
    [[nodiscard]] int64_t tokens_read() const;

    /// One step. Throws Error{failure} where the loss or a gradient is not finite; nothing has changed then.
    void step();
    /// The loss of texts that are not trained on.
    [[nodiscard]] TrainingStep loss_of(const std::vector<TrainingText>& texts) const;

protected:
    /// \param texts  not empty (asserted); outlive this
    Trainer(const std::vector<TrainingText>& texts, TrainingPlan plan);
    /// Says what is trained; once, before anything else.
    /// \param plain     weights without decay
    /// \param matrices  what Muon trains
    void train(std::vector<at::Tensor> weights, const std::vector<at::Tensor>& plain = {},
               const std::vector<at::Tensor>& matrices = {});
    /// \param number  of the text among all that the training reads, repetitions too: what is drawn for it depends on this and on nothing else
    [[nodiscard]] virtual TrainingLoss loss(const TrainingText& text, int64_t number) const = 0;
    /// The sum over texts that are read at once. Where this is not overridden it reads one after the other.
    /// \param number  of the first; the others follow
    [[nodiscard]] virtual TrainingLoss loss_together(std::span<const TrainingText* const> texts,
                                                     int64_t number) const;

private:
    struct Impl;
    std::unique_ptr<Impl> m_impl;
};

} // namespace refreshlab
