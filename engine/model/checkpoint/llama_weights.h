#pragma once

#include "engine/model/model_config.h"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace refreshlab {

/// An expert of a layer whose MLP is routed. Matrices as an MLP has them, of ModelConfig::experts' width.
struct ExpertWeights {
    at::Tensor gate, up, down;
};

/// One decoder block. All matrices are [out, in], row-major. A tensor that the family does not have is undefined.
/// Widths are those held (LlamaWeights, "Padding").
struct LlamaLayer {
    at::Tensor input_norm, q, k, v, o, post_norm, gate, up, down; ///< post_norm: of what the MLP reads
    at::Tensor q_bias, k_bias, v_bias, o_bias, gate_bias, up_bias, down_bias;
    at::Tensor q_norm, k_norm;    ///< [head_dim], or of all heads (ModelConfig::qk_norm_whole)
    at::Tensor o_norm, down_norm; ///< of what attention and the MLP add to the residual
    at::Tensor router;            ///< [experts, hidden]; with it gate, up and down are the experts'
    std::vector<ExpertWeights> experts;
    /// Off in a derived student (engine/model/derive): the sublayer adds nothing to the residual. K and V are made all the same.
    bool attends = true, has_mlp = true;
};

/// Where a tensor stands, and its shape in a checkpoint and as it is held.
struct WeightPlace {
    std::string name;   ///< Hugging Face's
    int64_t layer = -1; ///< -1: outside the layers
    enum class Part : uint8_t {
        other,
        attention,
        mlp
    } part = Part::other; ///< whose matrix it is; norms and biases: other
    std::vector<int64_t> stored, held;
};

/// The weights of a model on its device, in its dtype.
///
/// Padding: a hidden or intermediate width that is no multiple of 16 is held as the next multiple of 32, filled with
/// zeros (1689 -> 1696, 4505 -> 4512). The CPU kernels read 16 elements at once. Fast GPU products ask for an alignment
/// of 16 bytes, which are 8 elements of bf16. The padding is zero in every matrix, norm and bias. So padded channels of
/// the residual are exactly 0, and those of the MLP as well (silu(0) * 0). Norms divide by the true width
/// (kernels::rms_norm, `width`). Rescaling their weights by sqrt(D / D') would round them once more, in bf16 to three
/// digits. Source: reference/refresh.md, 4.
struct LlamaWeights {
    at::Tensor embedding;  ///< [vocab, hidden]
    at::Tensor final_norm; ///< [hidden]
    at::Tensor head;       ///< [vocab, hidden]; the embedding itself where the head is tied
    std::vector<LlamaLayer> layers;
    int64_t bytes = 0; ///< held, padding included; a tied head counts once

    /// Rows of one batch of a prefill. 512 keeps the activations of a 3B model near 20 MB. More rows would save
    /// nothing: the cost of reading the weights is spread over enough of them. On the CPU any other number gives the
    /// same bits (kernels/ops/dense.h).
    static constexpr int64_t chunk_rows = 512;

    /// Gives the tensor of a Hugging Face name, of the shape asked for (the checkpoint's, without padding), any float
    /// dtype and device.
    using Source = std::function<at::Tensor(const std::string& name, at::IntArrayRef shape)>;
    /// Asks `source` for every tensor of the configuration, in the order of use.
    [[nodiscard]] static LlamaWeights gather(const ModelConfig& config, const Source& source,
                                             at::Device device, at::ScalarType dtype);
    /// What a stored tensor's numbers are multiplied by as they are held (ModelConfig::multipliers). \param name  of a WeightPlace
    [[nodiscard]] static double multiplier(const ModelConfig& config, const std::string& name);
    /// Calls see(place, tensor) for every tensor of the configuration, in the order of use; a tied head is none of its own.
    void visit(const ModelConfig& config,
               const std::function<void(const WeightPlace& place, const at::Tensor& tensor)>& see) const;
    /// The same with tensors that may be replaced; see() gives what shall stand there. `bytes` is left alone.
    void replace(const ModelConfig& config,
                 const std::function<at::Tensor(const WeightPlace& place, const at::Tensor& tensor)>& see);
    /// The names that gather() asks for.
    [[nodiscard]] static std::vector<std::string> names(const ModelConfig& config);
    /// Elements that gather() holds: bytes = held_elements * size of the dtype.
    [[nodiscard]] static int64_t held_elements(const ModelConfig& config);
    /// The width at which a hidden or intermediate width is held.
    [[nodiscard]] static constexpr int64_t held_width(int64_t width) {
        return width % 16 == 0 ? width : (width + 31) / 32 * 32;
    }
};

} // namespace refreshlab
