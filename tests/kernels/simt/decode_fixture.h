#pragma once

#include "kernels/cuda/decode/decode_kernels.h"
#include "kernels/ops/dense.h"
#include "kernels/simt/harness.h"
#include "tests/kernels/kernel_fixture.h"

#include <algorithm>
#include <span>

/// Weights as a decode step's kernels take them, and as the plain references do.
namespace refreshlab::test::decode_simt {

namespace gpu = kernels::RL_GPU;
using kernels::WeightType;
using simt::Array;
using simt::Contents;

inline const std::vector<WeightType> weight_types{WeightType::f32, WeightType::bf16, WeightType::f16};

[[nodiscard]] inline at::ScalarType dtype_of(WeightType type) {
    return type == WeightType::f32 ? at::kFloat : type == WeightType::bf16 ? at::kBFloat16 : at::kHalf;
}

/// A tensor's bytes where kernels see them.
[[nodiscard]] inline Array<uint8_t> bytes_on_device(const at::Tensor& t, const std::string& name,
                                                    Contents contents = Contents::read_only) {
    const at::Tensor c = t.contiguous();
    return {std::span(static_cast<const uint8_t*>(c.const_data_ptr()), c.nbytes()), name, contents};
}
[[nodiscard]] inline Array<float> floats_on_device(const at::Tensor& t, const std::string& name,
                                                   Contents contents = Contents::read_only) {
    const at::Tensor c = t.contiguous();
    return {std::span(c.const_data_ptr<float>(), static_cast<size_t>(c.numel())), name, contents};
}
template <typename T>
[[nodiscard]] at::Tensor tensor_of(const Array<T>& array, at::IntArrayRef shape,
                                   at::ScalarType dtype = at::kFloat) {
    at::Tensor t = at::empty(shape, dtype);
    REQUIRE(t.nbytes() == array.size() * sizeof(T));
    if (t.nbytes() > 0) std::memcpy(t.mutable_data_ptr(), array.data(), t.nbytes());
    return t;
}

/// Asserted of what was launched since forget_launches(): from `least` to `most` launches, all dependent. A GPU counts nothing.
inline void require_dependent_launches([[maybe_unused]] size_t least, [[maybe_unused]] size_t most) {
#ifdef REFRESHLAB_SIMT
    const simt::Activity activity = simt::take_activity();
    REQUIRE(activity.launches.size() >= least);
    REQUIRE(activity.launches.size() <= most);
    REQUIRE(std::ranges::all_of(activity.launches, &simt::LaunchRecord::dependent));
#endif
}
inline void forget_launches() {
#ifdef REFRESHLAB_SIMT
    (void)simt::take_activity();
#endif
}

[[nodiscard]] inline Array<gpu::StepState> state_on_device(int64_t passes, int64_t position = 0,
                                                           int32_t token = 0, uint64_t seed = 0) {
    gpu::StepState state;
    state.token = token;
    state.passes = static_cast<int32_t>(passes);
    state.position = position;
    state.seed = seed;
    return {std::vector<gpu::StepState>{state}, "state", Contents::read_only};
}

/// Numbers of the type, for the references as fp32 and for kernels as they are stored.
struct Weights {
    Weights(Random& random, at::IntArrayRef shape, WeightType type, const std::string& name, double sd = 1.0,
            double mean = 0.0)
        : Weights((random.normal(shape, sd) + mean).to(dtype_of(type)), name) {}
    Weights(const at::Tensor& stored, const std::string& name)
        : values(stored.to(at::kFloat))
        , device(bytes_on_device(stored, name)) {}
    at::Tensor values;
    Array<uint8_t> device;
};

/// What models differ in: norms, or none in front of a product; the activation; a cap of logits.
struct Kind {
    bool normed = true;
    double norm_offset = 0, cap = 0;
    kernels::Activation activation = kernels::Activation::silu;
    /// \param width  0: that of x
    [[nodiscard]] at::Tensor norm(const at::Tensor& x, const Weights& weights, double eps,
                                  int64_t width = 0) const {
        if (!normed) return x;
        return kernels::reference::rms_norm(x, weights.values + norm_offset, eps,
                                            width > 0 ? width : x.size(1));
    }
};
inline const std::vector<Kind> other_kinds{{false, 0, 0.9, kernels::Activation::gelu_tanh}, {true, 1.0}};

/// An attention of a step, and what is done to its heads.
struct AttentionShape {
    WeightType type{};
    int64_t kv_heads = 1, group = 1, head_dim = 32, position = 0, window = 0, rows = 1;
    bool q_norm = false, k_norm = false;
    float dropout = 0;
    /// What models differ in: channels of a head that turn (-1: all), norms by an offset + weight, scores.
    int64_t turned = -1;
    double norm_offset = 0, query_scale = 1, cap = 0;
    [[nodiscard]] int64_t pairs() const { return (turned < 0 ? head_dim : turned) / 2; }
    void draw_kind(Random& random) {
        turned = random.pick(std::vector<int64_t>{-1, -1, 0, head_dim / 16 * 8});
        norm_offset = random.pick(std::vector<double>{0, 1});
        query_scale = random.pick(std::vector<double>{1, 1.7});
        cap = random.pick(std::vector<double>{0, 1.5});
    }
    [[nodiscard]] int64_t heads() const { return kv_heads * group; }
    [[nodiscard]] int64_t first() const {
        return window > 0 ? std::max<int64_t>(position - window + 1, 0) : 0;
    }
};

/// A matrix with or without a bias.
struct TestMatrix {
    TestMatrix(Random& random, int64_t outputs, int64_t inputs, WeightType type, bool with_bias,
               const std::string& name)
        : weight(random, {outputs, inputs}, type, name, 1.0 / std::sqrt(static_cast<double>(inputs)))
        , bias(random, {outputs}, type, name + " bias")
        , in_use{weight.device.data(), with_bias ? bias.device.data() : nullptr, outputs, inputs} {}
    [[nodiscard]] at::Tensor reference_bias() const {
        return in_use.bias == nullptr ? at::Tensor() : bias.values;
    }
    Weights weight, bias;
    gpu::Matrix in_use;
};

} // namespace refreshlab::test::decode_simt
