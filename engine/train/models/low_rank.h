#pragma once

#include "engine/model/checkpoint/safetensors_file.h"
#include "engine/train/trainable_pass.h"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace refreshlab {

/// Which matrices of a model get updates of low rank, and how large.
struct LowRank {
    int64_t rank = 16;
    double alpha = 32;
    std::vector<Projection> places; ///< not empty
    bool norms = false;             ///< the RMSNorms are trained too, all of them
};

/// Updates of low rank: a matrix W [out, in] becomes W + alpha / rank * B A, with A [rank, in] drawn uniformly from +-1/sqrt(in) and B [out,
/// rank] zero at first. Sublayers that a model leaves out have none.
/// Source: Hu et al. 2021, equation 3; A's distribution as in its program.
class LowRankUpdates {
public:
    /// \param weights  held, with the places where updates go
    LowRankUpdates(const ModelConfig& config, const LlamaWeights& weights, const LowRank& how, uint64_t seed);

    /// A and B of all matrices.
    [[nodiscard]] std::vector<at::Tensor> matrices() const;
    /// For TrainablePass::Around.
    [[nodiscard]] at::Tensor added(int64_t layer, Projection place, const at::Tensor& rows) const;
    /// B A as it is added to a matrix, [out, in] as held; undefined where there is none.
    [[nodiscard]] at::Tensor change(const WeightPlace& place) const;
    /// A and B under the names that PEFT gives them ("base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight"), without padding.
    [[nodiscard]] std::vector<NamedTensor> named() const;

private:
    struct Update {
        at::Tensor a, b;
        WeightPlace place;
    };
    std::map<std::pair<int64_t, Projection>, Update> m_updates;
    double m_scale;
};

/// The linear map of a layer that a tensor is the matrix of; nothing for all other tensors.
[[nodiscard]] std::optional<Projection> projection_of(const WeightPlace& place);
/// "q", "k", "v", "o", "gate", "up", "down".
[[nodiscard]] std::string_view to_string(Projection place);

} // namespace refreshlab
