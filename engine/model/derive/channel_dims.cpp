#include "engine/model/derive/channel_dims.h"

#include <ATen/ops/zeros.h>

#include <string_view>

namespace refreshlab {

int64_t channel_dim(const WeightPlace& place) {
    if (place.name.find(".mlp.") == std::string::npos) return -1;
    if (place.name.ends_with("down_proj.weight")) return 1;
    return place.name.ends_with("down_proj.bias") ? -1 : 0;
}

int64_t hidden_dim(const WeightPlace& place) {
    const auto is = [&](std::string_view part) { return place.name.find(part) != std::string::npos; };
    if (is(".q_norm.") || is(".k_norm.")) return -1;
    if (is(".o_proj.") || is(".down_proj.") || is("norm.")) return 0; // what is added to the residual
    return place.name.ends_with(".bias") ? -1 : 1;                    // what reads it
}

at::Tensor without_padding(at::Tensor tensor, const std::vector<int64_t>& shape) {
    for (size_t d = 0; d < shape.size(); ++d)
        tensor = tensor.narrow(static_cast<int64_t>(d), 0, shape[d]);
    return tensor;
}

at::Tensor with_padding(const at::Tensor& tensor, const std::vector<int64_t>& shape) {
    if (tensor.sizes() == at::IntArrayRef(shape)) return tensor.contiguous();
    at::Tensor padded = at::zeros(shape, tensor.options());
    without_padding(padded, tensor.sizes().vec()).copy_(tensor);
    return padded;
}

} // namespace refreshlab
