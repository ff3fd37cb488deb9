#pragma once

#include "engine/model/model_config.h"

#include <ATen/ATen.h>

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

/// Cache policies once more, from their definitions in reference/cache-definitions.md: dense, in float64, over whole recomputations of
/// the text, without a cache. What they share with the engine is the model's configuration.
namespace refreshlab::test {

using PositionSet = std::set<int64_t>;

/// One layer of a recomputation, as a policy sees it.
struct PlainLayer {
    int64_t layer = 0, heads = 0, kv_heads = 0;
    at::Tensor raw_q, q, k, v;         ///< [n, heads or kv_heads, head_dim]; raw_q before RoPE
    at::Tensor raw_k, input, residual; ///< k before RoPE; [n, hidden] after the layer's norm, and before it
    at::Tensor output;                 ///< the output projection, [hidden, heads * head_dim]
    at::Tensor probabilities; ///< [heads, n, n], 0 where a row does not attend; undefined before attention
    [[nodiscard]] int64_t n() const { return k.size(0); }
    [[nodiscard]] int64_t group() const { return heads / kv_heads; }
};

/// What a policy decides. One object serves one text.
class PlainPolicy {
public:
    PlainPolicy() = default;
    PlainPolicy(const PlainPolicy&) = delete;
    PlainPolicy& operator=(const PlainPolicy&) = delete;
    virtual ~PlainPolicy() = default;
    /// Before the first layer.
    virtual void text(std::span<const int32_t> prompt) { (void)prompt; }
    virtual void prompt(const PlainLayer& view) = 0;
    /// What the newest row reads of a KV head, itself included. \param step  1 = the first after the prompt
    [[nodiscard]] virtual PositionSet attended(const PlainLayer& view, int64_t kv_head, int64_t step) = 0;
    virtual void after(const PlainLayer& view) = 0;
    /// What a KV head holds of positions [0, n).
    [[nodiscard]] virtual PositionSet held(int64_t layer, int64_t kv_head, int64_t n) const = 0;
    /// How far the decisions so far were from going the other way, in the units of what was compared.
    [[nodiscard]] double closest() const { return m_closest; }

protected:
    void compared(double difference);

private:
    double m_closest = 1e300;
};

using GateWeights = std::vector<std::vector<at::Tensor>>;

struct PlainLocret {
    int64_t budget = 10, chunk = 16, stabilizers = 4, last_tokens = 5;
};

struct PlainRefreshKv {
    int64_t size = 12, check_every = 3, kernel = 7;
    double similarity = 0.9;
    bool fixed = false, rebuild = true, mean_group = false;
};

[[nodiscard]] std::unique_ptr<PlainPolicy> plain_h2o(int64_t budget);
/// Kernel 5, tau 1.6 and 0.4.
[[nodiscard]] std::unique_ptr<PlainPolicy> plain_cake(int64_t budget, int64_t window);
/// Kernel 5.
[[nodiscard]] std::unique_ptr<PlainPolicy> plain_defensivekv(int64_t budget, int64_t window, bool all_layers);
/// Kernel 5; taus of 10, and nothing coded: every layer keeps as it is what stays.
[[nodiscard]] std::unique_ptr<PlainPolicy> plain_arkv(int64_t budget, int64_t window);
/// It reads prompt and pseudo tokens by a decoder of its own.
[[nodiscard]] std::unique_ptr<PlainPolicy> plain_dapq(int64_t budget, int64_t pseudo_tokens,
                                                      const ModelConfig& config,
                                                      const std::map<std::string, at::Tensor>& weights);
/// It reads prompt and soft tokens by a decoder of its own.
[[nodiscard]] std::unique_ptr<PlainPolicy>
plain_lookahead_kv(int64_t budget, const GateWeights& gate, const ModelConfig& config,
                   const std::map<std::string, at::Tensor>& weights);
/// Kernel 5. \param heads, errors  of each layer
[[nodiscard]] std::unique_ptr<PlainPolicy> plain_compress_kv(int64_t budget, int64_t window, int64_t floor,
                                                             std::vector<std::vector<int64_t>> heads,
                                                             std::vector<double> errors);
[[nodiscard]] std::unique_ptr<PlainPolicy> plain_quest(int64_t budget, int64_t page, int64_t dense_layers);
/// Pairs of half a head's distance.
[[nodiscard]] std::unique_ptr<PlainPolicy> plain_fasa(int64_t budget, int64_t pairs, int64_t queries,
                                                      int64_t dense_layers);
struct PlainInfiniGen {
    double alpha = 1, limit = 0.3;
    int64_t channels = 2, queries = 30;
    bool turned = true, own_norm = false;
};
/// It projects queries of a layer from the input of the layer below.
[[nodiscard]] std::unique_ptr<PlainPolicy> plain_infinigen(const PlainInfiniGen& settings,
                                                           const ModelConfig& config,
                                                           const std::map<std::string, at::Tensor>& weights);
[[nodiscard]] std::unique_ptr<PlainPolicy> plain_mpcache(double theta, int64_t cluster, double coarse_share,
                                                         double fine_share);
/// \param gate  weights of each layer; `residual` and `rotated` as the gate's settings say
[[nodiscard]] std::unique_ptr<PlainPolicy> plain_trim_kv(int64_t budget, int64_t buffer,
                                                         const GateWeights& gate, bool residual);
/// Of TRIM-KV's gate with its default setting.
[[nodiscard]] std::unique_ptr<PlainPolicy> plain_make_each_token_count(int64_t budget, int64_t buffer,
                                                                       const GateWeights& gate);
/// \param budget  0: by the threshold of one half
[[nodiscard]] std::unique_ptr<PlainPolicy> plain_attention_gate(int64_t budget, const GateWeights& gate,
                                                                bool causal);
[[nodiscard]] std::unique_ptr<PlainPolicy> plain_locret(const PlainLocret& settings, const GateWeights& gate,
                                                        bool rotated);
[[nodiscard]] std::unique_ptr<PlainPolicy> plain_refreshkv(const PlainRefreshKv& settings);

/// A llama under a plain policy: the text so far is read anew for every row.
class PlainDecoder {
public:
    PlainDecoder(ModelConfig config, std::map<std::string, at::Tensor> weights, PlainPolicy& policy);

    /// The row after the prompt, [vocab].
    /// \param soft  weights of LookaheadKV: its soft tokens are read behind the prompt, as a part of it; outlives this
    [[nodiscard]] at::Tensor prompt(std::span<const int32_t> tokens, const GateWeights* soft = nullptr);
    /// The row after one more token.
    [[nodiscard]] at::Tensor step(int32_t token);
    /// The newest row of the last recomputation, [heads, n].
    [[nodiscard]] const at::Tensor& attention(int64_t layer) const {
        return m_rows[static_cast<size_t>(layer)];
    }
    [[nodiscard]] const PositionSet& read(int64_t layer, int64_t kv_head) const {
        return m_reads[static_cast<size_t>(layer * m_config.num_kv_heads + kv_head)].back();
    }
    [[nodiscard]] int64_t length() const { return std::ssize(m_tokens); }

private:
    [[nodiscard]] const at::Tensor& weight(const std::string& name) const { return m_weights.at(name); }
    [[nodiscard]] at::Tensor norm(const at::Tensor& x, const std::string& name) const;
    [[nodiscard]] at::Tensor rotated(const at::Tensor& x) const;
    [[nodiscard]] at::Tensor recompute();
    [[nodiscard]] at::Tensor attend(PlainLayer& view, const at::Tensor& v);

    ModelConfig m_config;
    std::map<std::string, at::Tensor> m_weights;
    PlainPolicy& m_policy;
    std::vector<int64_t> m_tokens;
    const GateWeights* m_soft = nullptr;
    int64_t m_soft_rows = 0; ///< the last of the tokens
    int64_t m_prompt = 0;
    std::vector<std::vector<PositionSet>> m_reads; ///< [layers * kv_heads], of every row after the prompt
    std::vector<at::Tensor> m_rows;
};

} // namespace refreshlab::test
