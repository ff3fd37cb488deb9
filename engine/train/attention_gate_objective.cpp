// What Attention-Gate's gate is trained for: an answer that reads only what the gate keeps of the prompt. A token is kept where its score is
// above one half; that step has no slope, so gradients pass it as if the score itself stood there (straight-through). Loss: KL(model ||
// model under the gate) + next token, over the answer, + the squared difference of the mean score and the share that shall stay.
// Source: reference/cache-definitions.md, section 11; Zeng et al. 2024.
#include "engine/train/frozen_llama.h"
#include "engine/train/gate_objective.h"
#include "engine/train/text_loss.h"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>

namespace refreshlab {

namespace {

/// What stands in the logarithm of a token that is gone: a millionth of the weight that it would have is left to it, so that it has a slope.
constexpr double gone = 1e-6;

class AttentionGateObjective final : public GateObjective {
public:
    AttentionGateObjective(const LlamaModel& model, ObjectiveOptions options)
        : m_model(model)
        , m_group(model.config().num_heads / model.config().num_kv_heads)
        , m_options(std::move(options)) {}

    [[nodiscard]] GateLoss loss(const TokenGate& gate, const TrainingText& text) const override {
        const auto n = static_cast<int64_t>(text.ids.size()), answer = n - text.prompt;
        const auto answers = [&](const at::Tensor& rows) { return rows.narrow(0, text.prompt, answer); };
        at::Tensor model_rows;
        {
            const c10::AutoGradMode off(false);
            model_rows = at::log_softmax(answers(m_model.run(text.ids)), -1);
        }
        at::Tensor kept; // sum over layers of the mean score
        const at::Tensor rows = at::log_softmax(
            answers(m_model.run(text.ids,
                                [&](int64_t layer, const GateInputs& in, const at::Tensor& logits) {
                                    const at::Tensor scores = prompt_scores(gate, layer, in, text.prompt);
                                    kept = kept.defined() ? kept + scores.mean() : scores.mean();
                                    return logits + masked(scores, n).repeat_interleave(m_group, 0);
                                })),
            -1);
        const TextLoss of_text = text_loss(model_rows, rows, text, text.prompt);
        const at::Tensor share =
            (kept / static_cast<double>(gate.weights().size()) - m_options.capacity).square();
        return {of_text.kl + of_text.next_token + m_options.capacity_weight * share,
                {of_text.kl.item<double>(), of_text.next_token.item<double>(), share.item<double>()}};
    }

private:
    /// [prompt, kv_heads]
    [[nodiscard]] static at::Tensor prompt_scores(const TokenGate& gate, int64_t layer, const GateInputs& in,
                                                  int64_t prompt) {
        GateInputs of_prompt;
        of_prompt.input = in.input.narrow(0, 0, prompt);
        of_prompt.residual = in.residual.narrow(0, 0, prompt);
        return gate.together(layer, gate.scores(layer, of_prompt, training_math()), training_math());
    }
    /// What is added to the logits, [kv_heads, n, n]: the answer's queries do not see what is gone; the prompt's last token stays.
    [[nodiscard]] static at::Tensor masked(const at::Tensor& scores, int64_t n) {
        at::Tensor hard = scores.detach().gt(0.5).to(at::kFloat);
        hard[hard.size(0) - 1].fill_(1);
        const at::Tensor through = hard + scores - scores.detach(); // [prompt, kv_heads]
        const int64_t prompt = scores.size(0);
        const at::Tensor row = (through + gone).log().t().unsqueeze(1); // [kv_heads, 1, prompt]
        return at::constant_pad_nd(row.expand({row.size(0), n - prompt, prompt}), {0, n - prompt, prompt, 0});
    }

    FrozenLlama m_model;
    int64_t m_group;
    ObjectiveOptions m_options;
};

} // namespace

ObjectiveKind objective_kinds::attention_gate() {
    ObjectiveKind kind;
    kind.method = "attention_gate";
    kind.learning_rate = 3e-3;
    kind.parts = {"kl", "next_token", "kept"};
    kind.make = [](const LlamaModel& model,
                   const ObjectiveOptions& options) -> std::unique_ptr<GateObjective> {
        return std::make_unique<AttentionGateObjective>(model, options);
    };
    return kind;
}

} // namespace refreshlab
