// What Locret's gate is trained for: the score of a prompt's token is the most that the answer's queries give it, over the query heads of
// its KV head. Loss: SmoothL1 of score and target, and `smoothness` times the squared difference of neighbouring scores; mean over layers.
// Source: reference/cache-definitions.md, section 11; Huang et al. 2024. The target is the attention itself, or its logit (q k / sqrt(d)):
// a softmax depends on what comes later, and a logit does not.
#include "engine/cache/kv_cache.h"
#include "engine/model/gates/gate_inputs.h"
#include "engine/train/gate_objective.h"

#include <ATen/ATen.h>

#include <cmath>

namespace refreshlab {

namespace {

/// Keeps what the layers of a pass show: inputs of the gate for every token, and for the prompt's tokens what the answer gives them.
class LayerWatch final : public LayerHooks {
public:
    LayerWatch(const ModelConfig& model, int64_t prompt, bool logits)
        : m_model(model)
        , m_prompt(prompt)
        , m_logits(logits)
        , m_parts(static_cast<size_t>(model.num_layers))
        , m_most(static_cast<size_t>(model.num_layers))
        , m_rope(model, at::kCPU) {}

    [[nodiscard]] LayerTaps taps(int64_t) const override {
        LayerTaps taps;
        taps.all_rows = true;
        taps.attention_from = m_logits ? LayerTaps::no_rows : m_prompt;
        return taps;
    }
    void observe(const LayerView& view) override {
        const auto layer = static_cast<size_t>(view.layer);
        m_parts[layer].push_back(gate_inputs(view, m_rope));
        const int64_t answer = std::min(view.positions.back() + 1 - m_prompt, std::ssize(view.positions));
        if (answer <= 0) return;
        const at::Tensor given = m_logits ? logits(view, answer) : view.attention;
        const at::Tensor most = given.narrow(2, 0, m_prompt)
                                    .amax(0) // over the answer's queries
                                    .view({m_model.num_kv_heads, -1, m_prompt})
                                    .amax(1); // over the group
        m_most[layer] = m_most[layer].defined() ? at::maximum(m_most[layer], most) : most;
    }

    /// Of the prompt's tokens; tensors that autograd may keep.
    [[nodiscard]] GateInputs inputs(size_t layer) const {
        const auto joined = [&](at::Tensor GateInputs::*part) {
            std::vector<at::Tensor> all;
            for (const GateInputs& some : m_parts[layer])
                all.push_back(some.*part);
            return at::cat(all).narrow(0, 0, m_prompt).clone();
        };
        return {joined(&GateInputs::input), joined(&GateInputs::residual),   joined(&GateInputs::q),
                joined(&GateInputs::k),     joined(&GateInputs::v),          joined(&GateInputs::cos),
                joined(&GateInputs::sin),   m_parts[layer].front().rope_size};
    }
    /// [prompt, kv_heads]
    [[nodiscard]] at::Tensor target(size_t layer) const { return m_most[layer].t().clone(); }

private:
    /// q k / sqrt(d) of the last rows and the prompt's keys, [rows, heads, prompt].
    [[nodiscard]] at::Tensor logits(const LayerView& view, int64_t rows) const {
        std::vector<at::Tensor> keys;
        for (const GateInputs& some : m_parts[static_cast<size_t>(view.layer)])
            keys.push_back(some.k);
        const at::Tensor k = at::cat(keys)
                                 .narrow(0, 0, m_prompt)
                                 .repeat_interleave(m_model.num_heads / m_model.num_kv_heads, 1);
        const at::Tensor q = view.q.narrow(0, view.q.size(0) - rows, rows).to(at::kFloat);
        return at::einsum("rhd,phd->rhp", {q, k}) / std::sqrt(static_cast<double>(m_model.head_dim));
    }

    const ModelConfig& m_model;
    int64_t m_prompt;
    bool m_logits;
    std::vector<std::vector<GateInputs>> m_parts; ///< of each layer, chunk after chunk
    std::vector<at::Tensor> m_most;               ///< [kv_heads, prompt]
    RopeTable m_rope;
};

class LocretObjective final : public GateObjective {
public:
    LocretObjective(const LlamaModel& model, ObjectiveOptions options)
        : m_model(model)
        , m_options(std::move(options)) {}

    [[nodiscard]] GateLoss loss(const TokenGate& gate, const TrainingText& text) const override {
        LayerWatch watch(m_model.config(), text.prompt,
                         m_options.readings.find("target")->second == "logits");
        LayerHooks* const hooks[] = {&watch};
        const auto cache = m_model.make_cache(std::ssize(text.ids));
        StepInputs in;
        in.tokens = text.ids;
        in.rows = Rows::none;
        in.logits = false;
        in.hooks = hooks;
        static_cast<void>(m_model.forward().prefill(*cache, in));
        at::Tensor fit, rough;
        const size_t layers = gate.weights().size();
        for (size_t layer = 0; layer < layers; ++layer) {
            const at::Tensor scores =
                gate.scores(static_cast<int64_t>(layer), watch.inputs(layer), training_math());
            const at::Tensor off = at::smooth_l1_loss(scores, watch.target(layer));
            const at::Tensor steps = scores.diff(1, 0).square().mean();
            fit = fit.defined() ? fit + off : off;
            rough = rough.defined() ? rough + steps : steps;
        }
        fit = fit / static_cast<double>(layers);
        rough = rough / static_cast<double>(layers);
        return {fit + m_options.smoothness * rough, {fit.item<double>(), rough.item<double>()}};
    }

private:
    const LlamaModel& m_model;
    ObjectiveOptions m_options;
};

} // namespace

ObjectiveKind objective_kinds::locret() {
    ObjectiveKind kind;
    kind.method = "locret";
    kind.learning_rate = 2e-3; // the paper has 5e-4 for gates 32 times as wide
    kind.parts = {"fit", "roughness"};
    kind.readings = {{"target",
                      "What a score is to be: the attention of the answer's queries, or its logit before the "
                      "softmax",
                      {"attention", "logits"}}};
    kind.make = [](const LlamaModel& model,
                   const ObjectiveOptions& options) -> std::unique_ptr<GateObjective> {
        return std::make_unique<LocretObjective>(model, options);
    };
    return kind;
}

} // namespace refreshlab
