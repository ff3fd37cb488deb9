#pragma once

#include "engine/model/model_config.h"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

namespace refreshlab {

/// Inverse frequencies of the channel pairs that turn, [rotary dimension / 2], scaling applied: the fp32 numbers of `transformers`, operation
/// by operation. The checkpoints were trained with them. Where exponents are exact an angle at position 8,192 differs by up to 5e-4.
/// \param context  positions that the whole context may have (KvCache::context()). longrope and dynamic look at it: longrope takes its long factors
///                 for a context beyond the original one, dynamic a larger theta. 0: within the original context
/// \param local    of the layers that turn by local_rope_theta
/// Source: Su et al. 2021 (RoFormer); the scalings as RopeScaling says.
[[nodiscard]] std::vector<float> rope_frequencies(const ModelConfig& config, int64_t context = 0,
                                                  bool local = false);

/// Cosines and sines of the rotation angle of every position, grown on demand: a config.json that claims a context of
/// 16M positions takes no memory by that. One table for each set of frequencies that somebody asks for.
///
/// The angle is the fp32 product position * frequency, as in `transformers`: at position 10^4 the rounding of that
/// product moves an angle by 10^-3, and the model was trained with that. Its cosine and sine are taken in double. Those of a yarn or longrope
/// model are attention_factor times as large.
/// Threads  one owner; rows() may grow a table.
class RopeTable {
public:
    RopeTable() = default;
    RopeTable(const ModelConfig& config, at::Device device);

    /// cos and sin of positions [first_pos, first_pos + n), [n, rotary/2] fp32 on the device, contiguous views. Of layers that turn
    /// nothing: ones and zeros.
    /// \param context  as rope_frequencies()
    [[nodiscard]] std::pair<at::Tensor, at::Tensor> rows(Rope rope, int64_t context, int64_t first_pos,
                                                         int64_t n);
    /// The same as a layer turns its rows.
    [[nodiscard]] std::pair<at::Tensor, at::Tensor> rows_of(int64_t layer, int64_t context, int64_t first_pos,
                                                            int64_t n) {
        return rows(m_config.rope(layer), context, first_pos, n);
    }
    /// How much longer a layer's rotation makes what it turns: attention_factor of a yarn or longrope model, else 1.
    [[nodiscard]] double size_of(int64_t layer) const {
        return m_config.rope(layer) == Rope::global ? m_config.rope_scaling.attention_factor : 1;
    }

private:
    struct Table {
        std::vector<float> frequencies;
        float size = 1;      ///< of what is rotated
        at::Tensor cos, sin; ///< [positions so far, rotary/2]
    };
    void grow(Table& table, int64_t positions) const;

    ModelConfig m_config;
    at::Device m_device = at::kCPU;
    std::map<std::pair<Rope, int64_t>, Table>
        m_tables; ///< by the context that the frequencies depend on, else 0
};

} // namespace refreshlab
