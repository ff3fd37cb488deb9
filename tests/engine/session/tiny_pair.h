#pragma once

#include "engine/model/model_config.h"
#include "engine/session/pair/model_pair.h"

#include <c10/core/Device.h>

#include <cstdint>
#include <memory>
#include <string>

namespace refreshlab::test {

/// Shape of a tiny random model with the bundled tokenizer's vocabulary.
struct TinyShape {
    int64_t hidden = 24, intermediate = 40, layers = 2, heads = 4, kv_heads = 2, head_dim = 6,
            max_position = 512;
    double attention_dropout = 0;
    int32_t end_id = 1;
    int64_t window = 0;                      ///< a sliding window of every layer; 0: none
    int64_t vocab = 4096;                    ///< smaller: of the bundled tokenizer's tokens the first
    void (*differs)(ModelConfig&) = nullptr; ///< sets what else a family has, before weights are drawn
};

/// Random weights, wide enough that entropies differ from step to step. Same seed and shape: same weights.
[[nodiscard]] std::shared_ptr<const LlamaModel> tiny_model(uint64_t seed, const TinyShape& shape = {},
                                                           at::Device device = at::kCPU);

/// Two tiny models with one KV geometry (unless shapes say otherwise) and the bundled tokenizer.
[[nodiscard]] std::shared_ptr<const ModelPair> tiny_pair(uint64_t teacher_seed, uint64_t student_seed,
                                                         const TinyShape& teacher = {},
                                                         const TinyShape& student = {},
                                                         at::Device teacher_device = at::kCPU,
                                                         at::Device student_device = at::kCPU);

/// A short greedy run on such a pair, end token off.
[[nodiscard]] RunConfig tiny_run(int32_t max_tokens = 40);

/// The generated ids of a whole run.
[[nodiscard]] std::vector<int32_t> text_of(const std::shared_ptr<const ModelPair>& pair,
                                           const RunConfig& config);

[[nodiscard]] Trigger trigger(std::string signal, Comparison comparison, double threshold, int32_t every = 1,
                              int32_t cooldown = 0);
[[nodiscard]] RefreshPolicy policy_of(std::vector<Trigger> triggers, std::optional<int32_t> window = {},
                                      OnFire on_fire = OnFire::keep);

} // namespace refreshlab::test
