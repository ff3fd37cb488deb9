#include "engine/bench/numbers/bytes_per_token.h"

#include "engine/base/check.h"
#include "engine/model/checkpoint/llama_weights.h"
#include "engine/model/llama_model.h"

#include <initializer_list>

namespace refreshlab::bench {

namespace {

int64_t bytes_of(std::initializer_list<const at::Tensor*> tensors) {
    int64_t bytes = 0;
    for (const at::Tensor* tensor : tensors)
        if (tensor->defined()) bytes += tensor->numel() * tensor->element_size();
    return bytes;
}

} // namespace

BytesPerToken bytes_per_token(const LlamaModel& model) {
    const LlamaWeights& weights = model.weights();
    const ModelConfig& config = model.config();
    BytesPerToken bytes;
    for (size_t i = 0; i < weights.layers.size(); ++i) {
        const LlamaLayer& layer = weights.layers[i];
        const int64_t written = bytes_of({&layer.k, &layer.v});
        int64_t rest = 0;
        if (layer.attends) rest += bytes_of({&layer.q, &layer.o});
        if (layer.has_mlp && layer.router.defined()) {
            int64_t experts = 0; // all of one size; a token reads some of them
            for (const ExpertWeights& expert : layer.experts)
                experts += bytes_of({&expert.gate, &expert.up, &expert.down});
            rest += bytes_of({&layer.router}) + experts / config.experts.count * config.experts.used;
        } else if (layer.has_mlp) {
            rest += bytes_of({&layer.gate, &layer.up, &layer.down});
        }
        bytes.weights += written + rest;
        bytes.refresh += written + (i + 1 < weights.layers.size() ? rest : 0);
    }
    bytes.weights += bytes_of({&weights.head});
    bytes.kv = 2 * config.num_layers * config.num_kv_heads * config.head_dim *
               static_cast<int64_t>(c10::elementSize(model.dtype()));
    return bytes;
}

double floor_ms(double bytes, double gigabytes_per_second) {
    RL_ASSERT(gigabytes_per_second > 0);
    return bytes / gigabytes_per_second * 1e-6;
}

} // namespace refreshlab::bench
