#include "engine/train/gate_trainer.h"

#include "engine/base/check.h"
#include "engine/base/json_text.h"

#include <ATen/ATen.h>
#include <nlohmann/json.hpp>

#include <algorithm>

namespace refreshlab {

namespace {

const ObjectiveKind& objective_of(const std::string& method) {
    const auto kinds = all_objective_kinds();
    const auto found = std::ranges::find(kinds, method, &ObjectiveKind::method);
    RL_ASSERT(found != kinds.end());
    return *found;
}

TrainingPlan plan_of(const GateTraining& how) {
    TrainingPlan plan;
    plan.doing = "training a gate";
    plan.format = "refreshlab gate training";
    plan.recipe = how.recipe();
    plan.steps = how.steps;
    plan.batch = how.batch;
    plan.learning_rate = how.learning_rate;
    plan.seed = how.seed;
    return plan;
}

} // namespace

std::span<const ObjectiveKind> all_objective_kinds() {
    static const std::vector<ObjectiveKind> kinds{
        objective_kinds::trim_kv(), objective_kinds::make_each_token_count(), objective_kinds::locret(),
        objective_kinds::attention_gate(), objective_kinds::lookahead_kv()};
    return kinds;
}

std::string GateTraining::recipe() const {
    return json_text({{"method", method},
                      {"width", width},
                      {"steps", steps},
                      {"batch", batch},
                      {"learning_rate", learning_rate},
                      {"seed", seed},
                      {"settings", settings},
                      {"capacity", objective.capacity},
                      {"capacity_weight", objective.capacity_weight},
                      {"smoothness", objective.smoothness},
                      {"readings", objective.readings},
                      {"model", model},
                      {"texts", texts}});
}

GateTrainer::GateTrainer(const LlamaModel& model, const std::vector<TrainingText>& texts, GateTraining how)
    : Trainer(texts, plan_of(how))
    , m_gate(TokenGate::untrained(*find_gate_kind(how.method), model.config(), how.width, how.settings,
                                  how.seed))
    , m_objective(objective_of(how.method).make(model, how.objective)) {
    std::vector<at::Tensor> weights;
    for (const auto& layer : m_gate->weights()) {
        for (const at::Tensor& weight : layer) {
            const auto is_it = [&](const at::Tensor& known) { return known.is_same(weight); };
            if (std::ranges::none_of(weights, is_it)) weights.push_back(weight); // layers may share it
        }
    }
    train(std::move(weights));
}
GateTrainer::~GateTrainer() = default;

TrainingLoss GateTrainer::loss(const TrainingText& text, int64_t) const {
    return m_objective->loss(*m_gate, text);
}

} // namespace refreshlab
