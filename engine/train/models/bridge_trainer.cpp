#include "engine/train/models/bridge_trainer.h"

#include "engine/base/check.h"
#include "engine/base/json_text.h"
#include "engine/cache/kv_cache.h"
#include "engine/train/models/model_trainer.h"
#include "engine/train/text_loss.h"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>
#include <nlohmann/json.hpp>

#include <algorithm>

namespace refreshlab {

namespace {

constexpr const char* training = "training a bridge";

TrainingPlan plan_of(const BridgeTraining& how) {
    TrainingPlan plan;
    plan.doing = training;
    plan.format = "refreshlab bridge training";
    plan.recipe = how.recipe();
    plan.steps = how.steps;
    plan.batch = how.batch;
    plan.learning_rate = how.learning_rate;
    plan.weight_decay = 0; // it begins where the ridge has put it
    plan.clip = 1;
    plan.schedule = TrainingPlan::Schedule::cosine;
    plan.seed = how.seed;
    return plan;
}

Bridge copy_of(const Bridge& bridge) {
    Bridge copy = bridge;
    for (Bridge::Layer& layer : copy.layers)
        for (auto* of : {&layer.key_weight, &layer.value_weight, &layer.key_bias, &layer.value_bias})
            *of = of->detach().clone();
    return copy;
}

} // namespace

std::string BridgeTraining::recipe() const {
    return json_text({{"fit", fit},
                      {"steps", steps},
                      {"batch", batch},
                      {"learning_rate", learning_rate},
                      {"seed", seed},
                      {"shares", {shares.alone, shares.prefix, shares.refreshed()}},
                      {"longest", shares.longest}});
}

BridgeTrainer::BridgeTrainer(const LlamaModel& teacher, const LlamaModel& student, const Bridge& start,
                             const std::vector<TrainingText>& texts, const BridgeTraining& how)
    : Trainer(texts, plan_of(how))
    , m_teacher(teacher)
    , m_student(student)
    , m_how(how)
    , m_bridge(copy_of(start))
    , m_pass(student, training) {
    RL_ASSERT(teacher.device().is_cpu() && student.device().is_cpu() && how.shares.alone == 0);
    std::vector<at::Tensor> weights;
    for (const Bridge::Layer& layer : m_bridge.layers)
        for (const auto& of : {layer.key_weight, layer.value_weight, layer.key_bias, layer.value_bias})
            weights.push_back(of);
    train(std::move(weights));
}
BridgeTrainer::~BridgeTrainer() = default;

Bridge BridgeTrainer::bridge() const {
    return copy_of(m_bridge);
}

TrainablePass::Entries BridgeTrainer::mapped(const KvCache& teacher, int64_t n) const {
    const ModelConfig& config = m_student.config();
    const auto [cos, sin] = m_student.rope_rows(Rope::global, n, 0, n);
    const at::Tensor turning[] = {cos.clone(), sin.clone()}; // these may be made in inference mode
    TrainablePass::Entries entries;
    for (int64_t l = 0; l < config.num_layers; ++l) {
        const Bridge::Layer& layer = m_bridge.layers[static_cast<size_t>(l)];
        const EntryRows rows = bridge_inputs(m_bridge, layer, m_teacher, teacher, 0, n);
        const auto heads = [&](const at::Tensor& made) {
            return made.view({n, config.num_kv_heads, config.head_dim});
        };
        const at::Tensor keys = heads(at::linear(rows.keys, layer.key_weight, layer.key_bias));
        entries.k.push_back(config.turns(l) ? turned_heads(keys, turning[0], turning[1]) : keys);
        entries.v.push_back(heads(at::linear(rows.values, layer.value_weight, layer.value_bias)));
    }
    return entries;
}

TrainingLoss BridgeTrainer::loss(const TrainingText& text, int64_t number) const {
    const int64_t n = std::ssize(text.ids);
    const ReadingPlan plan = drawn_reading(m_how.shares, n, m_how.seed, number);
    const int64_t seen = plan.refreshed.empty() ? plan.first : plan.refreshed.back();
    const TeacherReading teacher = read_with(m_teacher, text.ids);
    const TrainablePass::Entries before = mapped(*teacher.cache, seen);
    const auto own = std::span(text.ids).subspan(static_cast<size_t>(plan.first));
    const TrainablePass::Text read{std::ssize(own), &before, plan.first, plan.refreshed};
    TrainablePass::Around around;
    around.texts = {&read, 1};
    const at::Tensor logits = m_pass.logits_of(m_pass.run(m_pass.embedded(own), around));
    // Over the tokens that both have.
    const int64_t vocab = std::min(logits.size(1), teacher.rows.size(1));
    const auto shared = [&](const at::Tensor& rows) { return at::log_softmax(rows.narrow(1, 0, vocab), -1); };
    const TextLoss loss = text_loss(shared(teacher.rows.narrow(0, plan.first, n - plan.first)),
                                    shared(logits), text, plan.first);
    return {loss.kl, {loss.kl.item<double>(), loss.next_token.item<double>()}};
}

} // namespace refreshlab
