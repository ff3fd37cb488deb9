#include "engine/session/policies/window_embeddings.h"

#include "engine/model/checkpoint/llama_weights.h"
#include "engine/model/llama_model.h"
#include "kernels/blocks/blocks.h"
#include "kernels/ops/dense.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/stack.h>

#include <algorithm>
#include <vector>

namespace refreshlab {

at::Tensor embedded_windows(const LlamaModel& model, std::span<const int32_t> tokens, int64_t window) {
    const at::Tensor& embedding = model.weights().embedding;
    const auto embedded = [&](std::span<const int32_t> ids) {
        if (kernels::is_blocks(embedding)) return kernels::embedded(embedding, ids);
        at::Tensor index = at::empty({std::ssize(ids)}, at::TensorOptions().dtype(at::kInt));
        std::ranges::copy(ids, index.mutable_data_ptr<int32_t>());
        return embedding.index_select(0, index.to(model.device())).to(at::kFloat);
    };
    std::vector<at::Tensor> means;
    const int64_t n = std::ssize(tokens);
    for (int64_t end = n - (n - 1) / window * window; end <= n; end += window) {
        const int64_t begin = std::max<int64_t>(end - window, 0);
        means.push_back(
            embedded(tokens.subspan(static_cast<size_t>(begin), static_cast<size_t>(end - begin))).mean(0));
    }
    return at::stack(means);
}

} // namespace refreshlab
