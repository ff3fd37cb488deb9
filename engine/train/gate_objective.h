#pragma once

#include "engine/model/gates/token_gate.h"
#include "engine/model/llama_model.h"
#include "engine/train/trainer.h"
#include "engine/train/training_text.h"

#include <ATen/core/Tensor.h>

#include <memory>
#include <span>
#include <string_view>
#include <vector>

namespace refreshlab {

/// How hard an objective is asked for.
struct ObjectiveOptions {
    /// TRIM-KV: the budget M as a share of a text's tokens; Attention-Gate: the share of a prompt that shall stay
    double capacity = 0.25;
    double capacity_weight = 1; ///< of the loss of what is above it, or differs from it
    double smoothness = 0.0025; ///< Locret: weight of the squared difference of neighbouring scores
    GateSettings readings = {}; ///< of the kind of objective; each one of its choices
};

/// Loss of a gate on one text; parts in the order of ObjectiveKind::parts.
using GateLoss = TrainingLoss;

/// What a gate is trained for, with a frozen model. Threads  one owner.
class GateObjective {
public:
    GateObjective() = default;
    GateObjective(const GateObjective&) = delete;
    GateObjective& operator=(const GateObjective&) = delete;
    virtual ~GateObjective() = default;
    [[nodiscard]] virtual GateLoss loss(const TokenGate& gate, const TrainingText& text) const = 0;
};

/// The objective of a method. Its file in this folder has all of it.
struct ObjectiveKind {
    std::string_view method;
    double learning_rate = 1e-3;              ///< usual
    std::vector<std::string_view> parts = {}; ///< of a loss; none where it is one number
    std::vector<GateSetting> readings;        ///< points in which the source is ambiguous
    std::unique_ptr<GateObjective> (*make)(const LlamaModel& model,
                                           const ObjectiveOptions& options) = nullptr;
};
namespace objective_kinds {
[[nodiscard]] ObjectiveKind trim_kv();
[[nodiscard]] ObjectiveKind make_each_token_count();
[[nodiscard]] ObjectiveKind locret();
[[nodiscard]] ObjectiveKind attention_gate();
[[nodiscard]] ObjectiveKind lookahead_kv();
} // namespace objective_kinds
/// One for each kind of gate, in the same order.
[[nodiscard]] std::span<const ObjectiveKind> all_objective_kinds();

} // namespace refreshlab
