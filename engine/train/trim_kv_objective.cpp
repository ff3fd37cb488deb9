// What TRIM-KV's gate is trained for: while it trains nothing is evicted, but attention to a token fades by beta with every step, so that
// gradients reach beta. Loss: KL(model || model with fading) + next token + capacity, where capacity is what is held above the budget M:
// max(0, sum_i beta_i^(t-i) - M) / M, mean over tokens t, KV heads and layers. Make Each Token Count sums over KV heads and layers
// before it compares, with the budget of all of them.
// Source: reference/cache-definitions.md, section 11; Bui et al. 2025 and 2026. M is a share of the text, because texts here differ in length; its
// loss is divided by M for the same reason (our choices).
#include "engine/train/frozen_llama.h"
#include "engine/train/gate_objective.h"
#include "engine/train/text_loss.h"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>

#include <algorithm>

namespace refreshlab {

namespace {

class TrimKvObjective final : public GateObjective {
public:
    TrimKvObjective(const LlamaModel& model, ObjectiveOptions options, bool one_budget)
        : m_model(model)
        , m_one_budget(one_budget)
        , m_group(model.config().num_heads / model.config().num_kv_heads)
        , m_options(std::move(options)) {}

    [[nodiscard]] GateLoss loss(const TokenGate& gate, const TrainingText& text) const override {
        const auto n = static_cast<int64_t>(text.ids.size());
        const double budget = std::max(1.0, m_options.capacity * static_cast<double>(n));
        const bool multiplies = m_options.readings.find("decay")->second == "multiply";
        at::Tensor model_rows;
        {
            const c10::AutoGradMode off(false);
            model_rows = at::log_softmax(m_model.run(text.ids), -1);
        }
        at::Tensor held;  // [n], mean over layers and KV heads, where they have one budget
        at::Tensor above; // capacity loss where each has its own, mean over layers
        const double share = 1 / static_cast<double>(gate.weights().size());
        const auto excess = [&](const at::Tensor& of) { return at::relu(of - budget).mean() / budget; };
        const auto add = [](at::Tensor& sum, const at::Tensor& part) {
            sum = sum.defined() ? sum + part : part;
        };
        const at::Tensor rows = at::log_softmax(
            m_model.run(text.ids,
                        [&](int64_t layer, const GateInputs& in, const at::Tensor& logits) {
                            const at::Tensor fade = fading(gate.scores(layer, in, training_math()));
                            const at::Tensor of_heads = at::tril(fade.exp()).sum(-1); // [kv_heads, n]
                            if (m_one_budget) {
                                add(held, of_heads.mean(0) * share);
                            } else {
                                add(above, excess(of_heads) * share);
                            }
                            const at::Tensor by_head = fade.repeat_interleave(m_group, 0);
                            return multiplies ? logits * by_head.exp() : logits + by_head;
                        }),
            -1);
        const TextLoss of_text = text_loss(model_rows, rows, text, 0);
        const at::Tensor capacity = m_one_budget ? excess(held) : above;
        return {of_text.kl + of_text.next_token + m_options.capacity_weight * capacity,
                {of_text.kl.item<double>(), of_text.next_token.item<double>(), capacity.item<double>()}};
    }

private:
    /// (t - i) ln beta_i of each KV head, [kv_heads, n, n]; 0 where i is after t. \param ln_beta  [n, kv_heads]
    [[nodiscard]] static at::Tensor fading(const at::Tensor& ln_beta) {
        const at::Tensor position = at::arange(ln_beta.size(0), ln_beta.options());
        const at::Tensor age = at::relu(position.unsqueeze(1) - position.unsqueeze(0));
        return age.unsqueeze(0) * ln_beta.t().unsqueeze(1);
    }

    FrozenLlama m_model;
    bool m_one_budget;
    int64_t m_group;
    ObjectiveOptions m_options;
};

} // namespace

ObjectiveKind objective_kinds::trim_kv() {
    ObjectiveKind kind;
    kind.method = "trim_kv";
    kind.learning_rate = 3e-3;
    kind.parts = {"kl", "next_token", "capacity"};
    kind.readings = {
        {"decay",
         "beta^(t-i) scales what attention gives a token (its logarithm is added to the logit), or the logit "
         "itself is multiplied by it, as the paper prints",
         {"bias", "multiply"}}};
    kind.make = [](const LlamaModel& model,
                   const ObjectiveOptions& options) -> std::unique_ptr<GateObjective> {
        return std::make_unique<TrimKvObjective>(model, options, false);
    };
    return kind;
}

ObjectiveKind objective_kinds::make_each_token_count() {
    ObjectiveKind kind = trim_kv();
    kind.method = "make_each_token_count";
    kind.make = [](const LlamaModel& model,
                   const ObjectiveOptions& options) -> std::unique_ptr<GateObjective> {
        return std::make_unique<TrimKvObjective>(model, options, true);
    };
    return kind;
}

} // namespace refreshlab
