#include "engine/train/frozen_llama.h"

#include "engine/base/error.h"

#include <ATen/ATen.h>

namespace refreshlab {

FrozenLlama::FrozenLlama(const LlamaModel& model)
    : m_pass(model, "training a gate") {
    for (const LlamaLayer& layer : model.weights().layers) {
        if (!layer.attends || !layer.has_mlp)
            throw Error("training a gate", {}, "the student leaves sublayers out",
                        "train it for the teacher");
    }
}

at::Tensor FrozenLlama::run(std::span<const int32_t> ids, const Change& change, const Watch& watch) const {
    TrainablePass::Around around;
    around.change = change;
    around.watch = watch;
    return m_pass.logits_of(m_pass.run(m_pass.embedded(ids), around));
}

void FrozenLlama::run_soft(const Entries& text, const TokenGate& gate, const Watch& watch) const {
    const at::Tensor soft = gate.soft_tokens();
    const TrainablePass::Text behind{soft.size(0), &text, text.k.front().size(0)};
    TrainablePass::Around around;
    around.texts = {&behind, 1};
    around.added = [&](int64_t layer, Projection place, const at::Tensor& rows) {
        return gate.change(layer, place, rows, training_math());
    };
    around.watch = watch;
    static_cast<void>(m_pass.run(soft, around));
}

} // namespace refreshlab
