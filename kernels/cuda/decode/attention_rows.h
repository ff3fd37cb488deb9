#pragma once

#include "kernels/cuda/build.h"
#include "kernels/cuda/decode/decode_kernels.h"
#include "kernels/decode/device_decoder.h"

#include <cstdint>

namespace refreshlab::kernels::RL_GPU {

/// Attention rows of a step for the host, of all layers that it wants to see, by one launch behind the last layer: what the layers'
/// attention has left in `scores` becomes probabilities, and goes straight to memory of the host.
struct AttentionRowsInputs {
    static constexpr int64_t most_layers = 1024; ///< of any model (ModelConfig::max_layers)
    const StepState* state = nullptr;
    const float* scores = nullptr;     ///< [taps, heads, capacity]
    const float* score_sums = nullptr; ///< [taps, heads, 2]
    const int64_t* windows = nullptr;  ///< [layers] sliding windows; 0 = all
    uint16_t* halves =
        nullptr; ///< mapped pinned memory as the device sees it, [taps, heads * capacity]; a row of a tap is
                 ///< [heads, position + 1] at its beginning. Null: not wanted
    float* floats = nullptr; ///< the same
    int64_t taps = 0, heads = 0, capacity = 0;
    /// Not 0: a row of halves is the sums of its bins by position (kernels/shared/attention_bins.h), [heads, bins] at its beginning, dense or
    /// through lists alike. Rows of fp32 are whole all the same; where both are wanted they are two launches.
    int64_t bins = 0;
    /// Lists of all layers, [layers, kv_heads, capacity], and their lengths; null: dense. Then a row of a tap is [heads, capacity], number i
    /// of entry i of the head's list.
    const ListEntry* entries = nullptr;
    const int32_t* counts = nullptr;
    int64_t kv_heads = 0;
    uint16_t layers[most_layers] =
        {}; ///< [taps]: whose rows they are. By value, so that a graph keeps its own
    bool dependent = false;
};
RL_LAUNCHER void launch_attention_rows(const AttentionRowsInputs& in, void* stream);

} // namespace refreshlab::kernels::RL_GPU
