#pragma once

#include "engine/model/checkpoint/safetensors_file.h"
#include "engine/model/model_config.h"
#include "engine/model/projection.h"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace refreshlab {

/// What a gate may look at: tokens in one layer, each by itself. fp32, on the gate's device.
struct GateInputs {
    at::Tensor
        input; ///< [rows, held hidden width]: what q, k and v are projected from, after the layer's norm
    at::Tensor residual;  ///< the same before it
    at::Tensor q;         ///< [rows, heads, head_dim], after RoPE; undefined unless the kind reads queries
    at::Tensor k, v;      ///< [rows, kv_heads, head_dim]; k after RoPE
    at::Tensor cos, sin;  ///< [rows, head_dim / 2]: of the rows' rotations, as they were turned
    double rope_size = 1; ///< how much longer these rotations make a row (RopeScaling::attention_factor)
};

/// Operations that gates are made of, so that a definition stands once: for runs, where a row's bits depend on no other row, and for
/// training, where they can be differentiated.
struct GateMath {
    at::Tensor (*linear)(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias);
    at::Tensor (*silu)(const at::Tensor& x);
    at::Tensor (*log_sigmoid)(const at::Tensor& x);
};
[[nodiscard]] const GateMath& running_math();  ///< kernels/ops/dense.h
[[nodiscard]] const GateMath& training_math(); ///< ATen with autograd

/// A point in which the sources can be read in more than one way; the first choice is the default.
struct GateSetting {
    std::string_view key, help;
    std::vector<std::string_view> choices;
};
using GateSettings = std::map<std::string, std::string, std::less<>>;

/// One tensor of a gate in one layer.
struct GateWeight {
    std::string_view name;
    std::vector<int64_t> shape; ///< [out, in], or [out] of a bias
    bool held_in = false; ///< `in` is a hidden or intermediate width, which models hold padded (LlamaWeights)
    double first = 0;     ///< of a bias: where training begins
    bool shared = false;  ///< one tensor, the same in all layers
    bool held_out = false;       ///< `out` is such a width
    bool begins_as_zero = false; ///< a matrix; the others begin at random
};
/// A weight of a gate with its widths as models hold them, the padding zero; and as they are said to be.
[[nodiscard]] at::Tensor padded(const at::Tensor& weight, const GateWeight& place);
[[nodiscard]] at::Tensor unpadded(const at::Tensor& weight, const GateWeight& place);

/// A kind of gate: the definition of a method's network. Its file in this folder has all of it.
struct GateKind {
    std::string_view method; ///< of the cache policy: "trim_kv"
    int64_t width = 64;      ///< usual inner width; papers have more, for larger models
    bool reads_queries = false;
    std::vector<GateSetting> settings;
    std::vector<GateWeight> (*weights)(const ModelConfig& model, int64_t width) = nullptr;
    /// \param weights  of one layer, in their order
    /// \return [rows, kv_heads]; of a gate with `together` what that needs of each token, [rows, n]. Null where soft tokens are read instead
    at::Tensor (*scores)(std::span<const at::Tensor> weights, const GateSettings& settings,
                         const GateInputs& in, const GateMath& math) = nullptr;
    /// Of a gate whose score of a token depends on the other tokens of a prompt: from all of them the scores, [length, kv_heads]. Null: a
    /// token's score is its own
    at::Tensor (*together)(std::span<const at::Tensor> weights, const GateSettings& settings,
                           const at::Tensor& rows, const GateMath& math) = nullptr;
    /// Of a gate that scores no token, but has vectors that are read behind a prompt (soft_reading.h): these, [n, held hidden width]
    at::Tensor (*soft_tokens)(std::span<const at::Tensor> weights) = nullptr;
    /// What is added to a projection of their rows. \param x  [n, in], what is projected. \return [n, out]
    at::Tensor (*change)(std::span<const at::Tensor> weights, Projection place, const at::Tensor& x,
                         const GateMath& math) = nullptr;
};
namespace gate_kinds {
[[nodiscard]] GateKind trim_kv();
[[nodiscard]] GateKind make_each_token_count();
[[nodiscard]] GateKind locret();
[[nodiscard]] GateKind attention_gate();
[[nodiscard]] GateKind lookahead_kv();
} // namespace gate_kinds
[[nodiscard]] std::span<const GateKind> all_gate_kinds();
[[nodiscard]] const GateKind* find_gate_kind(std::string_view method); ///< null: there is none

/// A gate of one model, all its layers. Threads  const.
class TokenGate {
public:
    /// \param settings  of the kind, each with one of its choices                                      (asserted)
    /// \param weights   [layers][weights], of the shapes of the kind, hidden widths padded as the model holds them
    TokenGate(const GateKind& kind, int64_t width, GateSettings settings,
              std::vector<std::vector<at::Tensor>> weights);
    /// Weights as training begins with them: uniform within 1 / sqrt(in), by a seed; biases as the kind says.
    [[nodiscard]] static std::unique_ptr<TokenGate> untrained(const GateKind& kind, const ModelConfig& model,
                                                              int64_t width, GateSettings settings,
                                                              uint64_t seed);

    [[nodiscard]] const GateKind& kind() const { return m_kind; }
    [[nodiscard]] int64_t width() const { return m_width; }
    [[nodiscard]] at::Device device() const { return m_weights.front().front().device(); }
    [[nodiscard]] const GateSettings& settings() const { return m_settings; }
    [[nodiscard]] const std::vector<std::vector<at::Tensor>>& weights() const { return m_weights; }

    /// [rows, kv_heads]; see GateKind
    [[nodiscard]] at::Tensor scores(int64_t layer, const GateInputs& in, const GateMath& math) const;
    /// Scores of a whole prompt. \param rows  what scores() gave its tokens, one after the other
    [[nodiscard]] at::Tensor together(int64_t layer, const at::Tensor& rows, const GateMath& math) const;
    /// GateKind::soft_tokens() and change(), of a kind that has them                                     (asserted)
    [[nodiscard]] at::Tensor soft_tokens() const;
    [[nodiscard]] at::Tensor change(int64_t layer, Projection place, const at::Tensor& x,
                                    const GateMath& math) const;
    /// A copy on another device.
    [[nodiscard]] std::shared_ptr<const TokenGate> on(at::Device device) const;

private:
    const GateKind& m_kind;
    int64_t m_width;
    GateSettings m_settings;
    std::vector<std::vector<at::Tensor>> m_weights;
};

/// Gates that are at hand, by method.
using ModelGates = std::map<std::string, std::shared_ptr<const TokenGate>, std::less<>>;
/// One of every kind with the weights that training begins with: for measurements that need some gate.
[[nodiscard]] ModelGates untrained_gates(const ModelConfig& model, at::Device device, uint64_t seed);

/// The default of every setting.
[[nodiscard]] GateSettings default_settings(const GateKind& kind);

} // namespace refreshlab
