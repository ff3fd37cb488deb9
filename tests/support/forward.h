#pragma once

#include "engine/cache/kv_cache.h"
#include "engine/model/forward.h"
#include "engine/model/forward/captures.h"
#include "engine/model/llama_model.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <utility>
#include <vector>

/// The passes of a model in one line each.
namespace refreshlab::test {

using HookList = std::initializer_list<LayerHooks*>;

/// \return logits, [rows, vocab]; undefined for Rows::none
inline at::Tensor extend(const LlamaModel& model, KvCache& cache, std::span<const int32_t> tokens, Rows rows,
                         Origin origin, HookList hooks = {}) {
    StepInputs in;
    in.tokens = tokens;
    in.origin = origin;
    in.rows = rows;
    in.hooks = std::span(hooks.begin(), hooks.size());
    return model.forward().prefill(cache, in).logits;
}

struct StepRows {
    at::Tensor row; ///< [vocab]
    at::Tensor mc;  ///< [N, vocab]; undefined without MC
};
inline StepRows step(const LlamaModel& model, KvCache& cache, int32_t token, Origin origin,
                     const McRequest& mc = {}, HookList hooks = {}) {
    StepInputs in;
    in.tokens = std::span(&token, 1);
    in.origin = origin;
    in.mc = mc;
    in.hooks = std::span(hooks.begin(), hooks.size());
    const StepOutputs out = model.forward().step(cache, in);
    return {out.logits[0], out.mc_logits};
}

/// \return [vocab]
inline at::Tensor read_only_step(const LlamaModel& model, const KvCache& cache, int32_t token,
                                 int64_t position, HookList hooks = {}) {
    StepInputs in;
    in.tokens = std::span(&token, 1);
    in.hooks = std::span(hooks.begin(), hooks.size());
    return model.forward().read_only(cache, position, in).logits[0];
}

/// The captured rows as they were shown.
class SeenAttention final : public AttentionCapture {
public:
    SeenAttention(const ModelConfig& config, std::vector<int32_t> layers, int64_t position)
        : AttentionCapture(config, std::move(layers), position)
        , m_rows(at::empty({static_cast<int64_t>(this->layers().size()), heads(), position + 1})) {}
    /// [layers asked, heads, position + 1]; undefined before the pass
    [[nodiscard]] at::Tensor rows() const { return is_complete() ? m_rows : at::Tensor(); }

private:
    void keep(size_t index, std::span<const float> row) override {
        std::ranges::copy(row, m_rows[static_cast<int64_t>(index)].mutable_data_ptr<float>());
    }
    at::Tensor m_rows;
};

} // namespace refreshlab::test
