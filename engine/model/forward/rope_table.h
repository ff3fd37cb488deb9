#pragma once

#include "engine/model/model_config.h"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <utility>
#include <vector>

namespace refreshlab {

/// Inverse frequencies of the head's channel pairs, [head_dim / 2], scaling applied. Computed in double and rounded to
/// fp32 once, because the checkpoints were trained with fp32 frequencies.
/// Source: Su et al. 2021 (RoFormer); "linear" Chen et al. 2023; "llama3" the Llama 3.1 release; "yarn" Peng et al. 2023.
[[nodiscard]] std::vector<float> rope_frequencies(const ModelConfig& config);

/// Cosines and sines of the rotation angle of every position, grown on demand: a config.json that claims a context of
/// 16M positions takes no memory by that.
///
/// The angle is the fp32 product position * frequency, as in `transformers`: at position 10^4 the rounding of that
/// product moves an angle by 10^-3, and the model was trained with that. Its cosine and sine are taken in double. Those of a yarn model
/// are attention_factor times as large.
/// Threads  one owner; rows() may grow the table.
class RopeTable {
public:
    RopeTable() = default;
    RopeTable(const ModelConfig& config, at::Device device);
    /// Of layers that turn nothing: ones and zeros.
    [[nodiscard]] static RopeTable still(const ModelConfig& config, at::Device device);

    /// cos and sin of positions [first_pos, first_pos + n), [n, head_dim/2] fp32 on the device, contiguous views.
    [[nodiscard]] std::pair<at::Tensor, at::Tensor> rows(int64_t first_pos, int64_t n);

    /// The same as a layer turns its rows: ones and zeros where it turns none (ModelConfig::turns).
    [[nodiscard]] std::pair<at::Tensor, at::Tensor> rows_of(int64_t layer, int64_t first_pos, int64_t n);
    /// How much longer a layer's rotation makes a row: attention_factor of a yarn model, else 1.
    [[nodiscard]] double size_of(int64_t layer) const {
        return turns(layer) ? static_cast<double>(m_size) : 1;
    }

private:
    [[nodiscard]] bool turns(int64_t layer) const {
        return m_layer_turns.empty() || m_layer_turns[static_cast<size_t>(layer)];
    }
    void grow(int64_t positions);

    std::vector<float> m_frequencies;
    std::vector<bool> m_layer_turns;
    float m_size = 1; ///< of what is rotated
    at::Device m_device = at::kCPU;
    at::Tensor m_cos, m_sin; ///< [positions so far, head_dim/2]
};

} // namespace refreshlab
