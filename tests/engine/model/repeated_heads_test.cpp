// A model with keys and values of its own for every query head is the same model.
#include "engine/cache/kv_cache.h"
#include "engine/model/checkpoint/llama_weights.h"
#include "engine/model/derive/weight_changes.h"
#include "engine/model/repeated_heads.h"
#include "tests/engine/model/support.h"
#include "tests/support/forward.h"
#include "tests/support/seed.h"

#include <ATen/ATen.h>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <utility>

namespace repeated_heads_test {

using namespace refreshlab;
using namespace refreshlab::test;

namespace {

void check_same(const LlamaModel& model, uint64_t draw) {
    const auto wide = with_kv_per_query_head(model);
    const ModelConfig& config = model.config();
    REQUIRE(wide->config().num_kv_heads == config.num_heads);
    const std::vector<int32_t> tokens = random_tokens(24, config.vocab_size, draw);
    const auto a = model.make_cache(24), b = wide->make_cache(24);
    const auto prompt = std::span(tokens).first(20);
    CHECK(at::equal(extend(model, *a, prompt, Rows::all, Origin::student),
                    extend(*wide, *b, prompt, Rows::all, Origin::student)));
    for (size_t t = 20; t < tokens.size(); ++t)
        CHECK(at::equal(step(model, *a, tokens[t], Origin::student).row,
                        step(*wide, *b, tokens[t], Origin::student).row));
    const int64_t group = config.num_heads / config.num_kv_heads;
    for (int64_t layer = 0; layer < config.num_layers; ++layer)
        for (int64_t head = 0; head < config.num_heads; ++head) {
            CHECK(at::equal(a->keys(layer)[head / group], b->keys(layer)[head]));
            CHECK(at::equal(a->values(layer)[head / group], b->values(layer)[head]));
        }
    CHECK(b->bytes_used() == group * a->bytes_used());
    CHECK(wide->weight_bytes() > model.weight_bytes());
}

std::unique_ptr<LlamaModel> in_blocks(const ModelConfig& config, uint64_t draw) {
    const auto source = lively_llama(config, draw);
    LlamaWeights weights = source->weights();
    for (LlamaLayer& layer : weights.layers)
        for (at::Tensor* matrix : {&layer.q, &layer.k, &layer.v, &layer.o})
            *matrix = round_to_blocks(*matrix, 8, 32, true);
    return LlamaModel::of_weights(config, std::move(weights), at::kCPU, at::kFloat, true);
}

} // namespace

TEST_CASE("a KV head for every query head changes no bit", "[model]") {
    ModelConfig config = tiny_config();
    check_same(*lively_llama(config, seed(81)), seed(82));
    config.qkv_bias = config.qk_norm = true;
    config.layer_windows = {4, 0, 4};
    check_same(*lively_llama(config, seed(83)), seed(84));
}

TEST_CASE("the same in blocks, where a head is whole tiles", "[model][blocks]") {
    ModelConfig config = tiny_config();
    config.hidden_size = 64;
    config.intermediate_size = 96;
    config.num_heads = 4;
    config.num_kv_heads = 2;
    config.head_dim = 16;
    check_same(*in_blocks(config, seed(85)), seed(86));
    config.num_heads = 8;
    config.num_kv_heads = 4;
    config.head_dim = 8;
    const auto narrow = in_blocks(config, seed(87));
    CHECK_THAT(error_of([&] { static_cast<void>(with_kv_per_query_head(*narrow)); }),
               Catch::Matchers::ContainsSubstring("blocks of 16 rows, and a head has 8"));
}

} // namespace repeated_heads_test
