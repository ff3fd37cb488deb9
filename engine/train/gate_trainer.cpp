#include "engine/train/gate_trainer.h"

#include "engine/base/check.h"
#include "engine/base/error.h"
#include "engine/base/json_text.h"
#include "engine/text/digest.h"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <torch/optim/adamw.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

namespace refreshlab {

namespace {

constexpr const char* checkpoint_format = "refreshlab gate training";
constexpr double weight_decay = 0.01, warm_share = 0.05;

const ObjectiveKind& objective_of(const std::string& method) {
    const auto kinds = all_objective_kinds();
    const auto found = std::ranges::find(kinds, method, &ObjectiveKind::method);
    RL_ASSERT(found != kinds.end());
    return *found;
}

/// The order of an epoch's texts. Fisher and Yates by hand: std::shuffle differs between libraries.
std::vector<size_t> order_of(size_t texts, uint64_t seed, uint64_t epoch) {
    std::vector<size_t> order(texts);
    std::iota(order.begin(), order.end(), 0);
    std::seed_seq words{static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32),
                        static_cast<uint32_t>(epoch)};
    std::mt19937_64 random(words);
    for (size_t i = texts; i > 1; --i)
        std::swap(order[i - 1], order[random() % i]);
    return order;
}

std::string digest_of(const std::string& text) {
    Digest digest;
    digest.add(text);
    return digest.hex();
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

struct GateTrainer::Impl {
    Impl(const LlamaModel& model, const std::vector<TrainingText>& all, GateTraining training)
        : texts(all)
        , how(std::move(training))
        , gate(TokenGate::untrained(*find_gate_kind(how.method), model.config(), how.width, how.settings,
                                    how.seed))
        , objective(objective_of(how.method).make(model, how.objective)) {
        RL_ASSERT(!texts.empty() && how.steps > 0 && how.batch > 0);
        for (const auto& layer : gate->weights()) {
            for (const at::Tensor& weight : layer) {
                const auto is_it = [&](const at::Tensor& known) { return known.is_same(weight); };
                if (std::ranges::any_of(weights, is_it)) continue; // layers share it
                weights.push_back(weight);
                weights.back().set_requires_grad(true);
            }
        }
        optimizer = std::make_unique<torch::optim::AdamW>(
            weights, torch::optim::AdamWOptions(how.learning_rate).weight_decay(weight_decay));
    }

    [[nodiscard]] int64_t done() const { return std::ssize(losses); }
    /// Of the step that comes.
    [[nodiscard]] double rate() const {
        const double at = static_cast<double>(done()), all = static_cast<double>(how.steps);
        const double warm = std::max(1.0, std::floor(warm_share * all));
        return how.learning_rate * std::min((at + 1) / warm, 1.0) * (1 - at / all);
    }
    [[nodiscard]] const TrainingText& text_at(int64_t number) {
        const auto n = static_cast<int64_t>(texts.size());
        if (order.empty() || epoch != number / n) {
            epoch = number / n;
            order = order_of(texts.size(), how.seed, static_cast<uint64_t>(epoch));
        }
        return texts[order[static_cast<size_t>(number % n)]];
    }
    [[nodiscard]] torch::optim::AdamWParamState& moments(const at::Tensor& weight) const {
        auto& state = optimizer->state()[weight.unsafeGetTensorImpl()];
        if (!state) {
            auto fresh = std::make_unique<torch::optim::AdamWParamState>();
            fresh->step(0);
            fresh->exp_avg(at::zeros_like(weight).detach());
            fresh->exp_avg_sq(at::zeros_like(weight).detach());
            state = std::move(fresh);
        }
        return static_cast<torch::optim::AdamWParamState&>(*state);
    }

    const std::vector<TrainingText>& texts;
    GateTraining how;
    std::unique_ptr<TokenGate> gate;
    std::unique_ptr<GateObjective> objective;
    std::vector<at::Tensor> weights; ///< of the gate, layer after layer
    std::unique_ptr<torch::optim::AdamW> optimizer;
    std::vector<TrainingStep> losses;
    std::vector<size_t> order; ///< of the epoch
    int64_t epoch = 0;
};

GateTrainer::GateTrainer(const LlamaModel& model, const std::vector<TrainingText>& texts, GateTraining how)
    : m_impl(std::make_unique<Impl>(model, texts, std::move(how))) {}
GateTrainer::~GateTrainer() = default;

int64_t GateTrainer::steps_done() const {
    return m_impl->done();
}
const std::vector<TrainingStep>& GateTrainer::losses() const {
    return m_impl->losses;
}
const TokenGate& GateTrainer::gate() const {
    return *m_impl->gate;
}

void GateTrainer::step() {
    Impl& m = *m_impl;
    RL_ASSERT(m.done() < m.how.steps);
    m.optimizer->zero_grad();
    TrainingStep mean{0, std::vector<double>(objective_of(m.how.method).parts.size(), 0)};
    const auto share = 1 / static_cast<double>(m.how.batch);
    bool finite = true;
    for (int64_t i = 0; i < m.how.batch && finite; ++i) {
        const GateLoss loss = m.objective->loss(*m.gate, m.text_at(m.done() * m.how.batch + i));
        (loss.total * share).backward();
        mean.total += share * loss.total.item<double>();
        for (size_t part = 0; part < loss.parts.size(); ++part)
            mean.parts[part] += share * loss.parts[part];
        finite = std::isfinite(mean.total);
    }
    for (const at::Tensor& weight : m.weights)
        finite = finite && (!weight.grad().defined() || at::isfinite(weight.grad()).all().item<bool>());
    if (!finite)
        throw Error("training a gate", fmt::format("step {}", m.done() + 1),
                    "the loss or a gradient is not finite", "try a smaller --learning-rate",
                    ErrorKind::failure);
    static_cast<torch::optim::AdamWOptions&>(m.optimizer->param_groups().front().options()).lr(m.rate());
    m.optimizer->step();
    m.losses.push_back(std::move(mean));
}

TrainingStep GateTrainer::loss_of(const std::vector<TrainingText>& texts) const {
    const c10::AutoGradMode off(false);
    TrainingStep mean{0, std::vector<double>(objective_of(m_impl->how.method).parts.size(), 0)};
    const double share = 1 / static_cast<double>(std::max<size_t>(texts.size(), 1));
    for (const TrainingText& text : texts) {
        const GateLoss loss = m_impl->objective->loss(*m_impl->gate, text);
        mean.total += share * loss.total.item<double>();
        for (size_t part = 0; part < loss.parts.size(); ++part)
            mean.parts[part] += share * loss.parts[part];
    }
    return mean;
}

void GateTrainer::checkpoint(const std::filesystem::path& path) const {
    const Impl& m = *m_impl;
    std::vector<NamedTensor> tensors;
    for (size_t i = 0; i < m.weights.size(); ++i) {
        const auto& moments = m.moments(m.weights[i]);
        tensors.push_back({fmt::format("weights.{}", i), m.weights[i].detach().contiguous()});
        tensors.push_back({fmt::format("exp_avg.{}", i), moments.exp_avg().contiguous()});
        tensors.push_back({fmt::format("exp_avg_sq.{}", i), moments.exp_avg_sq().contiguous()});
    }
    nlohmann::json losses = nlohmann::json::array();
    for (const TrainingStep& step : m.losses)
        losses.push_back({step.total, step.parts});
    write_safetensors(path,
                      {{"format", checkpoint_format},
                       {"training", digest_of(m.how.recipe())},
                       {"steps_done", std::to_string(m.done())},
                       {"losses", json_text(losses)}},
                      tensors);
}

void GateTrainer::resume(const std::filesystem::path& path) {
    Impl& m = *m_impl;
    const SafetensorsFile file(path);
    const auto refuse = [&](const std::string& problem) {
        throw Error("going on with a training", path.string(), problem,
                    "remove it to begin again, or give the options that it was begun with");
    };
    const auto text = [&](const std::string& key) -> std::string {
        const auto found = file.metadata().find(key);
        return found == file.metadata().end() ? std::string() : found->second;
    };
    if (text("format") != checkpoint_format) refuse("is no checkpoint of a training");
    if (text("training") != digest_of(m.how.recipe()))
        refuse("was begun with another model, other texts or other options");
    std::vector<TrainingStep> losses;
    try {
        for (const nlohmann::json& step : nlohmann::json::parse(text("losses")))
            losses.push_back({step.at(0).get<double>(), step.at(1).get<std::vector<double>>()});
    } catch (const nlohmann::json::exception&) {
        refuse("its losses cannot be read");
    }
    if (losses.empty() || std::ssize(losses) > m.how.steps) refuse("its losses are not those of its steps");
    std::vector<at::Tensor> read;
    for (size_t i = 0; i < m.weights.size(); ++i) {
        for (const char* part : {"weights", "exp_avg", "exp_avg_sq"})
            read.push_back(file.read(fmt::format("{}.{}", part, i), m.weights[i].sizes(), at::kFloat));
    }
    const c10::AutoGradMode off(false);
    for (size_t i = 0; i < m.weights.size(); ++i) {
        auto& moments = m.moments(m.weights[i]);
        m.weights[i].copy_(read[3 * i]);
        moments.exp_avg().copy_(read[3 * i + 1]);
        moments.exp_avg_sq().copy_(read[3 * i + 2]);
        moments.step(std::ssize(losses));
    }
    m.losses = std::move(losses);
}

} // namespace refreshlab
