#include "engine/train/models/model_trainer.h"

#include "engine/base/check.h"
#include "engine/base/json_text.h"
#include "engine/cache/kv_cache.h"
#include "engine/train/text_loss.h"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>
#include <c10/core/InferenceMode.h>
#include <nlohmann/json.hpp>

#include <cmath>

namespace refreshlab {

namespace {

TrainingPlan plan_of(const ModelTraining& how) {
    TrainingPlan plan;
    plan.doing = how.name == "heal" ? "healing a student" : "training a " + how.name;
    plan.format = "refreshlab " + how.name + " training";
    plan.recipe = how.recipe();
    plan.steps = how.steps;
    plan.batch = how.batch;
    plan.learning_rate = how.learning_rate;
    plan.weight_decay = how.weight_decay;
    plan.clip = how.clip;
    plan.schedule = how.schedule;
    plan.seed = how.seed;
    return plan;
}

/// The model's own sum of numbers in another dtype, and their bytes.
std::unique_ptr<LlamaModel>
model_of(const LlamaModel& like, const LlamaWeights& from, at::ScalarType dtype,
         const std::function<at::Tensor(const WeightPlace&, const at::Tensor&)>& see) {
    const c10::InferenceMode guard;
    LlamaWeights weights = from;
    weights.bytes = 0;
    weights.replace(like.config(), [&](const WeightPlace& place, const at::Tensor& weight) {
        const at::Tensor made = see(place, weight).detach().to(dtype, false, true).contiguous();
        weights.bytes += static_cast<int64_t>(made.nbytes());
        return made;
    });
    if (like.config().tied_head) weights.head = weights.embedding.narrow(0, 0, like.config().vocab_size);
    return LlamaModel::of_weights(like.config(), std::move(weights), like.device(), dtype);
}

} // namespace

std::string ModelTraining::recipe() const {
    nlohmann::json json{{"train", name},
                        {"steps", steps},
                        {"batch", batch},
                        {"learning_rate", learning_rate},
                        {"weight_decay", weight_decay},
                        {"clip", clip},
                        {"schedule", schedule == TrainingPlan::Schedule::linear ? "linear" : "cosine"},
                        {"seed", seed},
                        {"next_token", next_token},
                        {"shares", {shares.alone, shares.prefix, shares.refreshed()}},
                        {"longest", shares.longest},
                        {"teacher", teacher},
                        {"student", student},
                        {"texts", texts}};
    if (low_rank) {
        nlohmann::json places = nlohmann::json::array();
        for (const Projection place : low_rank->places)
            places.push_back(to_string(place));
        json["low_rank"] = {{"rank", low_rank->rank},
                            {"alpha", low_rank->alpha},
                            {"places", places},
                            {"norms", low_rank->norms}};
    }
    return json_text(json);
}

TeacherReading read_with(const LlamaModel& teacher, std::span<const int32_t> ids) {
    const c10::AutoGradMode off(false);
    const auto n = static_cast<int64_t>(ids.size());
    const std::shared_ptr<KvCache> cache = teacher.make_cache(n);
    StepInputs in;
    in.tokens = ids;
    in.rows = Rows::all;
    TeacherReading reading;
    const at::Tensor logits = teacher.forward().prefill(*cache, in).logits;
    // Copies, which autograd may keep: the pass computes in inference mode.
    reading.rows = at::log_softmax(logits.to(at::kFloat, false, true), -1);
    reading.cache = cache;
    return reading;
}

TrainablePass::Entries entries_of(const KvCache& cache, int64_t n) {
    const c10::AutoGradMode off(false);
    TrainablePass::Entries entries;
    for (int64_t layer = 0; layer < cache.num_layers(); ++layer) {
        const auto rows = [&](const at::Tensor& storage) { // [n, kv_heads, head_dim]
            return storage.narrow(1, 0, n).transpose(0, 1).to(at::kFloat, false, true).contiguous();
        };
        entries.k.push_back(rows(cache.keys(layer)));
        entries.v.push_back(rows(cache.values(layer)));
    }
    return entries;
}

ModelTrainer::ModelTrainer(const LlamaModel* teacher, const LlamaModel& student,
                           const std::vector<TrainingText>& texts, const ModelTraining& how)
    : Trainer(texts, plan_of(how))
    , m_teacher(teacher)
    , m_student(student)
    , m_how(how)
    , m_pass(student, how.name == "heal" ? "healing a student" : "training a " + how.name) {
    RL_ASSERT(teacher == nullptr || (!geometry_difference(teacher->config(), student.config()) &&
                                     teacher->config().vocab_size == student.config().vocab_size));
    RL_ASSERT(teacher != nullptr || (!how.low_rank && how.next_token == 1));
    if (how.low_rank) m_updates.emplace(student.config(), m_pass.weights(), *how.low_rank, how.seed);
    std::vector<at::Tensor> weights = m_updates ? m_updates->matrices() : std::vector<at::Tensor>(), plain;
    m_pass.weights().visit(student.config(), [&](const WeightPlace&, const at::Tensor& weight) {
        const bool matrix = weight.dim() == 2;
        if (m_updates && (matrix || !how.low_rank->norms)) return;
        (matrix ? weights : plain).push_back(weight);
    });
    train(std::move(weights), plain);
}
ModelTrainer::~ModelTrainer() = default;

std::vector<std::string> ModelTrainer::parts(bool teacher) {
    return teacher ? std::vector<std::string>{"KL to the teacher", "next token"}
                   : std::vector<std::string>{"next token"};
}

at::Tensor ModelTrainer::logits(std::span<const int32_t> ids, const ReadingPlan& plan,
                                const TrainablePass::Entries* entries) const {
    TrainablePass::Around around;
    around.first = plan.first;
    around.refreshed = plan.refreshed;
    if (m_updates)
        around.added = [this](int64_t layer, Projection place, const at::Tensor& rows) {
            return m_updates->added(layer, place, rows);
        };
    TrainablePass::Entries before;
    // No row reads a teacher's entry behind the last refresh.
    if (const int64_t seen = plan.refreshed.empty() ? plan.first : plan.refreshed.back(); seen > 0) {
        RL_ASSERT(entries != nullptr);
        for (size_t layer = 0; layer < entries->k.size(); ++layer) {
            before.k.push_back(entries->k[layer].narrow(0, 0, seen));
            before.v.push_back(entries->v[layer].narrow(0, 0, seen));
        }
        around.before = &before;
    }
    const auto rows = ids.subspan(static_cast<size_t>(plan.first));
    return m_pass.logits_of(m_pass.run(m_pass.embedded(rows), around));
}

TrainingLoss ModelTrainer::loss(const TrainingText& text, int64_t number) const {
    if (m_teacher == nullptr) {
        const at::Tensor rows = at::log_softmax(logits(text.ids, {}, nullptr), -1);
        const at::Tensor next = next_token_loss(rows, text, 0);
        return {next, {next.item<double>()}};
    }
    const TeacherReading teacher = read_with(*m_teacher, text.ids);
    const ReadingPlan plan = drawn_reading(m_how.shares, std::ssize(text.ids), m_how.seed, number);
    const TrainablePass::Entries entries = entries_of(*teacher.cache, std::ssize(text.ids));
    const at::Tensor rows = at::log_softmax(logits(text.ids, plan, &entries), -1);
    const at::Tensor teacher_rows =
        teacher.rows.to(rows.device()).narrow(0, plan.first, std::ssize(text.ids) - plan.first);
    const TextLoss loss = text_loss(teacher_rows, rows, text, plan.first);
    return {m_how.next_token * loss.next_token + (1 - m_how.next_token) * loss.kl,
            {loss.kl.item<double>(), loss.next_token.item<double>()}};
}

std::unique_ptr<LlamaModel> ModelTrainer::model(at::ScalarType dtype) const {
    const c10::AutoGradMode off(false);
    return model_of(m_student, m_pass.weights(), dtype,
                    [&](const WeightPlace& place, const at::Tensor& weight) {
                        const at::Tensor change = m_updates ? m_updates->change(place) : at::Tensor();
                        return change.defined() ? weight + change : weight;
                    });
}

std::unique_ptr<LlamaModel> new_model(const ModelConfig& config, uint64_t seed, at::Device device) {
    const auto drawn = random_llama(config, seed, device, at::kFloat);
    const double share = 1 / std::sqrt(2 * static_cast<double>(config.num_layers));
    return model_of(*drawn, drawn->weights(), at::kFloat,
                    [&](const WeightPlace& place, const at::Tensor& weight) {
                        if (place.name.ends_with(".bias")) return at::zeros_like(weight);
                        const auto map = projection_of(place);
                        return map == Projection::o || map == Projection::down ? weight * share : weight;
                    });
}

} // namespace refreshlab
