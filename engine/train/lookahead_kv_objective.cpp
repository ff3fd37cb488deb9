// What LookaheadKV's soft tokens are trained for: together they attend to a prompt as the true answer does.
//   s[h][j] = mean over the answer's queries of their attention on prompt entry j, divided by its sum over the prompt; s' the same of soft rows
// Loss: KL(s || s'), mean over query heads and layers.
// Source: reference/cache-definitions.md, section 11; Ahn et al. 2026 (LookaheadKV).
#include "engine/train/frozen_llama.h"
#include "engine/train/gate_objective.h"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>

namespace refreshlab {

namespace {

constexpr double least_share = 1e-12; ///< of a prompt; what a sliding window hides has none, and no logarithm

class LookaheadKvObjective final : public GateObjective {
public:
    explicit LookaheadKvObjective(const LlamaModel& model)
        : m_model(model) {}

    [[nodiscard]] GateLoss loss(const TokenGate& gate, const TrainingText& text) const override {
        FrozenLlama::Entries prompt;
        std::vector<at::Tensor> answers;
        {
            const c10::AutoGradMode off(false);
            static_cast<void>(m_model.run(
                text.ids, {}, [&](int64_t, const GateInputs& in, const at::Tensor& probabilities) {
                    prompt.k.push_back(in.k.narrow(0, 0, text.prompt));
                    prompt.v.push_back(in.v.narrow(0, 0, text.prompt));
                    const int64_t answer = probabilities.size(1) - text.prompt;
                    answers.push_back(shares(probabilities.narrow(1, text.prompt, answer), text.prompt));
                }));
        }
        at::Tensor kl; // sum over layers
        m_model.run_soft(prompt, gate, [&](int64_t layer, const GateInputs&, const at::Tensor& rows) {
            const at::Tensor &wanted = answers[static_cast<size_t>(layer)], &said = shares(rows, text.prompt);
            const at::Tensor of_layer = (wanted * (wanted.log() - said.log())).sum(-1).mean();
            kl = kl.defined() ? kl + of_layer : of_layer;
        });
        return {kl / static_cast<double>(answers.size()), {}};
    }

private:
    /// Of each head, how the attention of rows is shared among the prompt's entries, [heads, prompt].
    [[nodiscard]] static at::Tensor shares(const at::Tensor& probabilities, int64_t prompt) {
        const at::Tensor sums = probabilities.narrow(2, 0, prompt).mean(1);
        return (sums / sums.sum(-1, true).clamp_min(least_share)).clamp_min(least_share);
    }

    FrozenLlama m_model;
};

} // namespace

ObjectiveKind objective_kinds::lookahead_kv() {
    ObjectiveKind kind;
    kind.method = "lookahead_kv";
    kind.learning_rate = 2e-3;
    kind.make = [](const LlamaModel& model, const ObjectiveOptions&) -> std::unique_ptr<GateObjective> {
        return std::make_unique<LookaheadKvObjective>(model);
    };
    return kind;
}

} // namespace refreshlab
