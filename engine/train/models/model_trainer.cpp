#include "engine/train/models/model_trainer.h"

#include "engine/base/check.h"
#include "engine/base/json_text.h"
#include "engine/cache/kv_cache.h"
#include "engine/train/models/withheld_facts.h"
#include "engine/train/text_loss.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <c10/core/GradMode.h>
#include <c10/core/InferenceMode.h>
#include <nlohmann/json.hpp>

#include <array>
#include <cmath>
#include <random>

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
    plan.pack = how.pack;
    if (how.products == TrainablePass::Products::bf16) plan.muon_products = at::kBFloat16;
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

/// A generator of its own for each pass, so that a training that goes on draws what it would have drawn.
at::Generator dropout_generator(uint64_t seed, int64_t number) {
    std::seed_seq words{static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32),
                        static_cast<uint32_t>(number), static_cast<uint32_t>(number >> 32), 2U};
    std::array<uint32_t, 2> drawn{};
    words.generate(drawn.begin(), drawn.end());
    return at::detail::createCPUGenerator(uint64_t{drawn[0]} << 32 | drawn[1]);
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
                        {"optimizer", muon ? "muon" : "adamw"},
                        {"pack", pack},
                        {"products", products == TrainablePass::Products::bf16 ? "bf16" : "f32"},
                        {"dropout", {dropout.attention, dropout.residual, dropout.embedding}},
                        {"next_token", next_token},
                        {"shares", {shares.alone, shares.prefix, shares.refreshed()}},
                        {"longest", shares.longest},
                        {"teacher", teacher},
                        {"student", student},
                        {"texts", texts}};
    if (!withheld.empty()) json["withheld"] = withheld;
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
    , m_pass(student, how.name == "heal" ? "healing a student" : "training a " + how.name, how.products) {
    RL_ASSERT(teacher == nullptr || (!geometry_difference(teacher->config(), student.config()) &&
                                     teacher->config().vocab_size == student.config().vocab_size));
    RL_ASSERT(teacher != nullptr || (!how.low_rank && how.next_token == 1));
    if (how.low_rank) m_updates.emplace(student.config(), m_pass.weights(), *how.low_rank, how.seed);
    std::vector<at::Tensor> weights, plain, matrices;
    if (m_updates) (how.muon ? matrices : weights) = m_updates->matrices();
    m_pass.weights().visit(student.config(), [&](const WeightPlace& place, const at::Tensor& weight) {
        const bool matrix = weight.dim() == 2;
        if (m_updates && (matrix || !how.low_rank->norms)) return;
        (!matrix ? plain : how.muon && projection_of(place) ? matrices : weights).push_back(weight);
    });
    train(std::move(weights), plain, matrices);
}
ModelTrainer::~ModelTrainer() = default;

std::vector<std::string> ModelTrainer::parts(bool teacher) {
    return teacher ? std::vector<std::string>{"KL to the teacher", "next token"}
                   : std::vector<std::string>{"next token"};
}

at::Tensor ModelTrainer::logits(std::span<const int32_t> ids, const ReadingPlan& plan,
                                const TrainablePass::Entries* entries) const {
    const Reading one{ids, plan, entries};
    return logits({&one, 1}, {});
}

at::Tensor ModelTrainer::logits(std::span<const Reading> readings, std::optional<int64_t> number) const {
    TrainablePass::Around around;
    if (m_updates)
        around.added = [this](int64_t layer, Projection place, const at::Tensor& rows) {
            return m_updates->added(layer, place, rows);
        };
    if (const Dropout& d = m_how.dropout; number && (d.attention > 0 || d.residual > 0 || d.embedding > 0))
        around.dropping = {d, dropout_generator(m_how.seed, *number)};
    std::vector<TrainablePass::Text> texts;
    std::vector<TrainablePass::Entries> before(readings.size());
    std::vector<int32_t> ids;
    for (size_t i = 0; i < readings.size(); ++i) {
        const auto& [all, plan, entries] = readings[i];
        const auto rows = all.subspan(static_cast<size_t>(plan.first));
        TrainablePass::Text text{std::ssize(rows), nullptr, plan.first, plan.refreshed};
        // No row reads a teacher's entry behind the last refresh.
        if (const int64_t seen = plan.refreshed.empty() ? plan.first : plan.refreshed.back(); seen > 0) {
            RL_ASSERT(entries != nullptr);
            for (size_t layer = 0; layer < entries->k.size(); ++layer) {
                before[i].k.push_back(entries->k[layer].narrow(0, 0, seen));
                before[i].v.push_back(entries->v[layer].narrow(0, 0, seen));
            }
            text.before = &before[i];
        }
        texts.push_back(text);
        ids.insert(ids.end(), rows.begin(), rows.end());
    }
    around.texts = texts;
    return m_pass.logits_of(m_pass.run(m_pass.embedded(ids), around));
}

TrainingLoss ModelTrainer::loss(const TrainingText& text, int64_t number) const {
    const TrainingText* const one = &text;
    return loss_together({&one, 1}, number);
}

TrainingLoss ModelTrainer::loss_together(std::span<const TrainingText* const> texts, int64_t number) const {
    std::vector<Reading> readings;
    std::vector<at::Tensor> teacher_rows; // of the rows that are read
    std::vector<TrainablePass::Entries> entries(texts.size());
    std::vector<int64_t> sizes;
    for (size_t i = 0; i < texts.size(); ++i) {
        const std::vector<int32_t>& ids = texts[i]->ids;
        Reading reading{ids, {}, nullptr};
        if (m_teacher != nullptr) {
            const TeacherReading teacher = read_with(*m_teacher, ids);
            entries[i] = entries_of(*teacher.cache, std::ssize(ids));
            reading.plan =
                drawn_reading(m_how.shares, std::ssize(ids), m_how.seed, number + static_cast<int64_t>(i));
            reading.entries = &entries[i];
            teacher_rows.push_back(
                teacher.rows.narrow(0, reading.plan.first, std::ssize(ids) - reading.plan.first));
        }
        sizes.push_back(std::ssize(ids) - reading.plan.first);
        readings.push_back(std::move(reading));
    }
    const at::Tensor all = at::log_softmax(
        logits(readings, at::GradMode::is_enabled() ? std::optional(number) : std::nullopt), -1);
    const std::vector<at::Tensor> rows = all.split_with_sizes(sizes);
    TrainingLoss sum{at::zeros({}, all.options().requires_grad(false)),
                     std::vector<double>(parts(m_teacher != nullptr).size(), 0)};
    for (size_t i = 0; i < texts.size(); ++i) {
        const int64_t first = readings[i].plan.first;
        const RowTargets targets = withheld_rows(*texts[i], readings[i].plan);
        if (m_teacher == nullptr) {
            const at::Tensor next = next_token_loss(rows[i], *texts[i], first, targets);
            sum.total = sum.total + next;
            sum.parts[0] += next.item<double>();
            continue;
        }
        const TextLoss one = text_loss(teacher_rows[i].to(all.device()), rows[i], *texts[i], first, targets);
        sum.total = sum.total + m_how.next_token * one.next_token + (1 - m_how.next_token) * one.kl;
        sum.parts[0] += one.kl.item<double>();
        sum.parts[1] += one.next_token.item<double>();
    }
    return sum;
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
