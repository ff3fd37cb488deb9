#pragma once

#include "engine/model/model_config.h"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace refreshlab {

/// One decoder block. All matrices [out, in], row-major; biases undefined where the checkpoint has none.
struct LlamaLayer {
    at::Tensor input_norm, q, k, v, o, post_norm, gate, up, down;
    at::Tensor q_bias, k_bias, v_bias, o_bias, gate_bias, up_bias, down_bias;
};

/// The weights of a model on its device, in its dtype.
struct LlamaWeights {
    at::Tensor embedding;  ///< [vocab, hidden]
    at::Tensor final_norm; ///< [hidden]
    at::Tensor head;       ///< [vocab, hidden]; the embedding itself where the head is tied
    std::vector<LlamaLayer> layers;
    int64_t bytes = 0; ///< a tied head counts once

    /// Gives the tensor of a Hugging Face name, of the shape asked for, any float dtype and device.
    using Source = std::function<at::Tensor(const std::string& name, at::IntArrayRef shape)>;
    /// Asks `source` for every tensor of the configuration, in the order of use.
    [[nodiscard]] static LlamaWeights gather(const ModelConfig& config, const Source& source,
                                             at::Device device, at::ScalarType dtype);
};

} // namespace refreshlab
