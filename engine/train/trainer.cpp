#include "engine/train/trainer.h"

#include "engine/base/check.h"
#include "engine/base/error.h"
#include "engine/base/json_text.h"
#include "engine/model/checkpoint/safetensors_file.h"
#include "engine/text/digest.h"
#include "engine/train/muon.h"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <torch/optim/adamw.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>
#include <optional>
#include <random>

namespace refreshlab {

namespace {

constexpr double warm_share = 0.05, last_share = 0.1;

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

void add(TrainingStep& mean, const TrainingLoss& loss, double share) {
    mean.total += share * loss.total.item<double>();
    mean.parts.resize(loss.parts.size(), 0);
    for (size_t part = 0; part < loss.parts.size(); ++part)
        mean.parts[part] += share * loss.parts[part];
}

} // namespace

struct Trainer::Impl {
    [[nodiscard]] int64_t done() const { return std::ssize(losses); }
    /// Of the step that comes.
    [[nodiscard]] double rate() const {
        const double at = static_cast<double>(done()), all = static_cast<double>(plan.steps);
        const double warm = std::max(1.0, std::floor(warm_share * all));
        const double fall =
            plan.schedule == TrainingPlan::Schedule::linear
                ? 1 - at / all
                : last_share + (1 - last_share) * (1 + std::cos(std::numbers::pi * at / all)) / 2;
        return plan.learning_rate * std::min((at + 1) / warm, 1.0) * fall;
    }
    [[nodiscard]] const TrainingText& text_at(int64_t number) {
        const auto n = static_cast<int64_t>(texts.size());
        if (order.empty() || epoch != number / n) {
            epoch = number / n;
            order = order_of(texts.size(), plan.seed, static_cast<uint64_t>(epoch));
        }
        return texts[order[static_cast<size_t>(number % n)]];
    }
    /// The state of the optimisers, as it stands: a name and a tensor for each part of each weight.
    [[nodiscard]] std::vector<NamedTensor> state() const {
        std::vector<NamedTensor> tensors;
        const size_t adam = weights.size() - (muon ? muon->momenta().size() : 0);
        for (size_t i = 0; i < weights.size(); ++i) {
            tensors.push_back({fmt::format("weights.{}", i), weights[i].detach()});
            if (i < adam) {
                const auto& both = moments(weights[i]);
                tensors.push_back({fmt::format("exp_avg.{}", i), both.exp_avg()});
                tensors.push_back({fmt::format("exp_avg_sq.{}", i), both.exp_avg_sq()});
            } else {
                tensors.push_back({fmt::format("momentum.{}", i), muon->momenta()[i - adam]});
            }
        }
        return tensors;
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
    /// Whether all gradients are finite; larger ones than the plan allows are made smaller, all by one factor.
    [[nodiscard]] bool bounded() const {
        double squares = 0;
        for (const at::Tensor& weight : weights) {
            if (!weight.grad().defined()) continue;
            if (!at::isfinite(weight.grad()).all().item<bool>()) return false;
            if (plan.clip > 0) squares += weight.grad().square().sum(at::kDouble).item<double>();
        }
        if (const double norm = std::sqrt(squares); plan.clip > 0 && norm > plan.clip) {
            for (const at::Tensor& weight : weights)
                if (weight.grad().defined()) weight.grad().mul_(plan.clip / norm);
        }
        return true;
    }

    const std::vector<TrainingText>& texts;
    TrainingPlan plan;
    std::vector<at::Tensor> weights = {};
    std::unique_ptr<torch::optim::AdamW> optimizer = {};
    std::optional<Muon> muon = {}; ///< of the last weights
    std::vector<TrainingStep> losses = {};
    std::vector<size_t> order = {}; ///< of the epoch
    int64_t epoch = 0;
};

Trainer::Trainer(const std::vector<TrainingText>& texts, TrainingPlan plan)
    : m_impl(new Impl{texts, std::move(plan)}) {
    RL_ASSERT(!texts.empty() && m_impl->plan.steps > 0 && m_impl->plan.batch > 0);
}
Trainer::~Trainer() = default;

void Trainer::train(std::vector<at::Tensor> weights, const std::vector<at::Tensor>& plain,
                    const std::vector<at::Tensor>& matrices) {
    Impl& m = *m_impl;
    RL_ASSERT(m.optimizer == nullptr);
    const auto options = [&](double decay) {
        return torch::optim::AdamWOptions(m.plan.learning_rate).weight_decay(decay);
    };
    const auto group = [&](const std::vector<at::Tensor>& tensors, double decay) {
        return torch::optim::OptimizerParamGroup(
            tensors, std::make_unique<torch::optim::AdamWOptions>(options(decay)));
    };
    std::vector<torch::optim::OptimizerParamGroup> groups;
    if (!weights.empty()) groups.push_back(group(weights, m.plan.weight_decay));
    if (!plain.empty()) groups.push_back(group(plain, 0));
    weights.insert(weights.end(), plain.begin(), plain.end());
    weights.insert(weights.end(), matrices.begin(), matrices.end());
    RL_ASSERT(!weights.empty());
    for (at::Tensor& weight : weights)
        weight.set_requires_grad(true);
    m.weights = std::move(weights);
    m.optimizer = std::make_unique<torch::optim::AdamW>(std::move(groups), options(m.plan.weight_decay));
    if (!matrices.empty()) m.muon.emplace(matrices, m.plan.weight_decay, m.plan.muon_products);
}

int64_t Trainer::steps() const {
    return m_impl->plan.steps;
}
int64_t Trainer::steps_done() const {
    return m_impl->done();
}
const std::vector<TrainingStep>& Trainer::losses() const {
    return m_impl->losses;
}

void Trainer::step() {
    Impl& m = *m_impl;
    RL_ASSERT(m.done() < m.plan.steps);
    for (at::Tensor& weight : m.weights)
        weight.mutable_grad().reset();
    TrainingStep mean;
    const auto share = 1 / static_cast<double>(m.plan.batch);
    bool finite = true;
    const int64_t end = (m.done() + 1) * m.plan.batch;
    for (int64_t first = m.done() * m.plan.batch, next = first; first < end && finite; first = next) {
        std::vector<const TrainingText*> together;
        int64_t tokens = 0;
        do {
            together.push_back(&m.text_at(next++));
            tokens += std::ssize(together.back()->ids);
        } while (next < end && tokens + std::ssize(m.text_at(next).ids) <= m.plan.pack);
        const TrainingLoss some = loss_together(together, first);
        (some.total * share).backward();
        add(mean, some, share);
        finite = std::isfinite(mean.total);
    }
    if (!finite || !m.bounded())
        throw Error(m.plan.doing, fmt::format("step {}", m.done() + 1),
                    "the loss or a gradient is not finite", "try a smaller --learning-rate",
                    ErrorKind::failure);
    for (auto& group : m.optimizer->param_groups())
        static_cast<torch::optim::AdamWOptions&>(group.options()).lr(m.rate());
    m.optimizer->step();
    if (m.muon) m.muon->step(m.rate());
    m.losses.push_back(std::move(mean));
}

TrainingLoss Trainer::loss_together(std::span<const TrainingText* const> texts, int64_t number) const {
    TrainingLoss sum = loss(*texts.front(), number);
    for (size_t i = 1; i < texts.size(); ++i) {
        const TrainingLoss one = loss(*texts[i], number + static_cast<int64_t>(i));
        sum.total = sum.total + one.total;
        for (size_t part = 0; part < sum.parts.size(); ++part)
            sum.parts[part] += one.parts[part];
    }
    return sum;
}

int64_t Trainer::tokens_read() const {
    const Impl& m = *m_impl;
    const int64_t all = m.done() * m.plan.batch, n = std::ssize(m.texts), epochs = all / n;
    const auto tokens = [&](size_t text) { return std::ssize(m.texts[text].ids); };
    int64_t epoch = 0, rest = 0;
    for (size_t text = 0; text < m.texts.size(); ++text)
        epoch += tokens(text);
    const auto order = order_of(m.texts.size(), m.plan.seed, static_cast<uint64_t>(epochs));
    for (int64_t i = 0; i < all % n; ++i)
        rest += tokens(order[static_cast<size_t>(i)]);
    return epochs * epoch + rest;
}

TrainingStep Trainer::loss_of(const std::vector<TrainingText>& texts) const {
    const c10::AutoGradMode off(false);
    TrainingStep mean;
    const double share = 1 / static_cast<double>(std::max<size_t>(texts.size(), 1));
    for (size_t i = 0; i < texts.size(); ++i)
        add(mean, loss(texts[i], static_cast<int64_t>(i)), share);
    return mean;
}

void Trainer::checkpoint(const std::filesystem::path& path) const {
    const Impl& m = *m_impl;
    std::vector<NamedTensor> tensors = m.state();
    for (NamedTensor& tensor : tensors)
        tensor.tensor = tensor.tensor.contiguous();
    nlohmann::json losses = nlohmann::json::array();
    for (const TrainingStep& step : m.losses)
        losses.push_back({step.total, step.parts});
    write_safetensors(path,
                      {{"format", m.plan.format},
                       {"training", digest_of(m.plan.recipe)},
                       {"steps_done", std::to_string(m.done())},
                       {"losses", json_text(losses)}},
                      tensors);
}

void Trainer::resume(const std::filesystem::path& path) {
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
    if (text("format") != m.plan.format) refuse("is no checkpoint of a training");
    if (text("training") != digest_of(m.plan.recipe))
        refuse("was begun with another model, other texts or other options");
    std::vector<TrainingStep> losses;
    try {
        for (const nlohmann::json& step : nlohmann::json::parse(text("losses")))
            losses.push_back({step.at(0).get<double>(), step.at(1).get<std::vector<double>>()});
    } catch (const nlohmann::json::exception&) {
        refuse("its losses cannot be read");
    }
    if (losses.empty() || std::ssize(losses) > m.plan.steps) refuse("its losses are not those of its steps");
    const std::vector<NamedTensor> state = m.state();
    std::vector<at::Tensor> read;
    for (const auto& [name, tensor] : state)
        read.push_back(file.read(name, tensor.sizes(), at::kFloat));
    const c10::AutoGradMode off(false);
    for (size_t i = 0; i < state.size(); ++i)
        at::Tensor(state[i].tensor).copy_(read[i]);
    for (const auto& group : m.optimizer->param_groups())
        for (const at::Tensor& weight : group.params())
            m.moments(weight).step(std::ssize(losses));
    m.losses = std::move(losses);
}

} // namespace refreshlab
