#include "engine/model/repeated_heads.h"

#include "engine/base/error.h"
#include "engine/model/checkpoint/llama_weights.h"
#include "kernels/blocks/blocks.h"

#include <c10/core/InferenceMode.h>
#include <fmt/format.h>

#include <utility>
#include <vector>

namespace refreshlab {

namespace {

constexpr int64_t rows_of_tile = 16; // kernels/blocks/blocks.h

/// Rows of each KV head, one after the other for the query heads that share it. \param rows_per_head  in the tensor's first dimension
at::Tensor repeated(const at::Tensor& weight, int64_t rows_per_head, const ModelConfig& config) {
    if (!weight.defined()) return weight;
    std::vector<int64_t> split{config.num_kv_heads, 1, rows_per_head}, wide = split, joined{-1};
    wide[1] = config.num_heads / config.num_kv_heads;
    for (int64_t dim = 1; dim < weight.dim(); ++dim) {
        for (auto* sizes : {&split, &wide, &joined})
            sizes->push_back(weight.size(dim));
    }
    return weight.view(split).expand(wide).reshape(joined).contiguous();
}

at::Tensor repeated_matrix(const at::Tensor& weight, const ModelConfig& config) {
    if (!kernels::is_blocks(weight)) return repeated(weight, config.head_dim, config);
    if (config.head_dim % rows_of_tile != 0)
        throw Error("repeating KV heads", "compat_per_query_head",
                    fmt::format("the weights are in blocks of {} rows, and a head has {}", rows_of_tile,
                                config.head_dim),
                    "take dtype f32 or bf16");
    return repeated(weight, config.head_dim / rows_of_tile, config);
}

} // namespace

std::unique_ptr<LlamaModel> with_kv_per_query_head(const LlamaModel& model) {
    const c10::InferenceMode guard;
    LlamaWeights weights = model.weights();
    for (LlamaLayer& layer : weights.layers) {
        for (at::Tensor* matrix : {&layer.k, &layer.v}) {
            weights.bytes -= static_cast<int64_t>(matrix->nbytes());
            *matrix = repeated_matrix(*matrix, model.config());
            weights.bytes += static_cast<int64_t>(matrix->nbytes());
        }
        for (at::Tensor* bias : {&layer.k_bias, &layer.v_bias})
            *bias = repeated(*bias, model.config().head_dim, model.config());
        // Over all heads: each number as often as every other, so the mean of squares stays.
        if (model.config().qk_norm_whole)
            layer.k_norm = repeated(layer.k_norm, model.config().head_dim, model.config());
    }
    ModelConfig config = model.config();
    config.num_kv_heads = config.num_heads;
    return LlamaModel::of_weights(config, std::move(weights), model.device(), model.dtype(),
                                  model.keeps_blocks());
}

} // namespace refreshlab
