#include "engine/model/model_config.h"
#include "tests/engine/model/support.h"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <nlohmann/json.hpp>

namespace family_config_test {

using Catch::Matchers::ContainsSubstring;
using nlohmann::json;
using refreshlab::geometry_difference;
using refreshlab::ModelConfig;
using refreshlab::RopeScaling;
using refreshlab::test::error_of;

namespace {

json family(const std::string& model_type) {
    json config = json::parse(
        R"({"vocab_size": 1000, "hidden_size": 64, "intermediate_size": 80, "num_hidden_layers": 4,
        "num_attention_heads": 8, "num_key_value_heads": 2, "max_position_embeddings": 512})");
    config["model_type"] = model_type;
    return config;
}

ModelConfig parsed(json config, const std::string& patch = "{}") {
    config.update(json::parse(patch));
    return ModelConfig::parse(config, "config.json");
}

std::string refused(json config, const std::string& patch) {
    config.update(json::parse(patch));
    return error_of([&] { (void)ModelConfig::parse(config, "some/config.json"); });
}

using Windows = std::vector<int64_t>;

} // namespace

TEST_CASE("config.json: every family has its own biases, norms and silent values", "[model]") {
    const ModelConfig llama = parsed(family("llama"));
    CHECK((!llama.qkv_bias && !llama.output_bias && !llama.mlp_bias && !llama.qk_norm));
    const ModelConfig biased = parsed(family("llama"), R"({"attention_bias": true, "mlp_bias": true})");
    CHECK((biased.qkv_bias && biased.output_bias && biased.mlp_bias));
    // Mistral and Qwen 2 know no such keys; transformers does not look at them either.
    const ModelConfig mistral = parsed(family("mistral"), R"({"attention_bias": true, "mlp_bias": true})");
    CHECK((!mistral.qkv_bias && !mistral.output_bias && !mistral.mlp_bias));
    const ModelConfig qwen2 = parsed(family("qwen2"), R"({"attention_bias": false})");
    CHECK((qwen2.qkv_bias && !qwen2.output_bias && !qwen2.qk_norm));
    const ModelConfig qwen3 = parsed(family("qwen3"));
    CHECK((!qwen3.qkv_bias && !qwen3.output_bias && qwen3.qk_norm));
    const ModelConfig qwen3_biased = parsed(family("qwen3"), R"({"attention_bias": true})");
    CHECK((qwen3_biased.qkv_bias && qwen3_biased.output_bias && !qwen3_biased.mlp_bias));

    // The head size: 64 / 8, but Qwen 3 assumes 128 where nothing is said.
    CHECK(llama.head_dim == 8);
    CHECK(mistral.head_dim == 8);
    CHECK(qwen2.head_dim == 8);
    CHECK(qwen3.head_dim == 128);
    CHECK(parsed(family("qwen3"), R"({"head_dim": 20})").head_dim == 20);

    // KV heads: silent means 8 for Mistral, 32 for Qwen, and one per head for Llama; null means one per head for all.
    const auto kv_heads = [](const char* type, bool null) {
        json config = family(type);
        config["num_attention_heads"] = 32;
        config["hidden_size"] = 256;
        config.erase("num_key_value_heads");
        if (null) config["num_key_value_heads"] = nullptr;
        return parsed(config).num_kv_heads;
    };
    CHECK(kv_heads("llama", false) == 32);
    CHECK(kv_heads("mistral", false) == 8);
    CHECK(kv_heads("mistral", true) == 32);
    CHECK(kv_heads("qwen2", false) == 32);
    json silent = family("mistral");
    silent.erase("num_key_value_heads");
    silent["num_attention_heads"] = 4;
    CHECK_THAT(refused(silent, "{}"), ContainsSubstring("must be a multiple of num_key_value_heads (8)"));
}

TEST_CASE("config.json: sliding windows follow the rules of the family", "[model]") {
    CHECK(parsed(family("llama"), R"({"sliding_window": 16})").layer_windows.empty()); // Llama has none
    CHECK(parsed(family("mistral")).layer_windows == Windows(4, 4096));
    CHECK(parsed(family("mistral"), R"({"sliding_window": null})").layer_windows.empty());
    CHECK(parsed(family("mistral"), R"({"sliding_window": 16})").layer_windows == Windows(4, 16));
    CHECK(parsed(family("mistral"), R"({"sliding_window": 16})").window(3) == 16);

    for (const char* type : {"qwen2", "qwen3"}) {
        CAPTURE(type);
        CHECK(
            parsed(family(type), R"({"sliding_window": 16, "max_window_layers": 1})").layer_windows.empty());
        CHECK(parsed(family(type), R"({"use_sliding_window": true, "sliding_window": 16})")
                  .layer_windows.empty());
        CHECK(parsed(family(type),
                     R"({"use_sliding_window": true, "sliding_window": 16, "max_window_layers": 3})")
                  .layer_windows == Windows{0, 0, 0, 16});
        CHECK(parsed(family(type), R"({"use_sliding_window": true, "max_window_layers": 0})").layer_windows ==
              Windows(4, 4096));
        CHECK(parsed(family(type),
                     R"({"use_sliding_window": true, "sliding_window": null, "max_window_layers": 0})")
                  .layer_windows.empty());
        CHECK(
            parsed(family(type), R"({"use_sliding_window": true, "sliding_window": 7, "max_window_layers": 0,
            "layer_types": ["full_attention", "sliding_attention", "full_attention", "full_attention"]})")
                .layer_windows == Windows{0, 7, 0, 0});
    }

    CHECK_THAT(refused(family("mistral"), R"({"sliding_window": 0})"),
               ContainsSubstring("sliding_window must be in 1"));
    CHECK_THAT(refused(family("mistral"), R"({"sliding_window": 16, "layer_types":
        ["full_attention", "sliding_attention", "full_attention", "full_attention"]})"),
               ContainsSubstring("layer_types names full_attention"));
    CHECK_THAT(refused(family("qwen2"), R"({"layer_types": ["full_attention"]})"),
               ContainsSubstring("layer_types must be a list of num_hidden_layers (4)"));
    CHECK_THAT(refused(family("qwen2"), R"({"layer_types":
        ["full_attention", "chunked_attention", "full_attention", "full_attention"]})"),
               ContainsSubstring("chunked_attention") && ContainsSubstring("supported: full_attention"));
    CHECK_THAT(refused(family("qwen3"), R"({"layer_types":
        ["full_attention", "sliding_attention", "full_attention", "full_attention"]})"),
               ContainsSubstring("no window is on"));
    CHECK_THAT(refused(family("qwen2"), R"({"max_window_layers": -1})"),
               ContainsSubstring("max_window_layers"));
    CHECK_THAT(refused(family("qwen2"), R"({"use_sliding_window": 1})"), ContainsSubstring("true or false"));
}

TEST_CASE("config.json: families and settings that the forward pass would get wrong are refused by name",
          "[model]") {
    for (const char* type : {"mixtral", "qwen2_moe", "gemma2", "phi3", "Llama"}) {
        CHECK_THAT(refused(family("llama"), "{\"model_type\": \"" + std::string(type) + "\"}"),
                   ContainsSubstring(type) &&
                       ContainsSubstring("supported: llama, mistral, qwen2, qwen3, granite, smollm3"));
    }
    const auto foreign = GENERATE(values<std::string>(
        {R"({"num_experts": 8})", R"({"num_local_experts": 2})", R"({"final_logit_softcapping": 30.0})",
         R"({"attn_logit_softcapping": 50.0})", R"({"logits_scaling": 8.0})",
         R"({"residual_multiplier": 0.22})", R"({"clip_qkv": 8.0})", R"({"no_rope_layers": [1, 0]})",
         R"({"is_encoder_decoder": true})", R"({"use_bidirectional_attention": true})",
         R"({"attention_chunk_size": 8192})"}));
    CAPTURE(foreign);
    CHECK_THAT(refused(family("llama"), foreign),
               ContainsSubstring(json::parse(foreign).begin().key()) && ContainsSubstring("not supported"));
    CHECK_NOTHROW(parsed(family("llama"), R"({"num_experts": 0, "num_local_experts": 1, "clip_qkv": null,
        "logits_scaling": 1.0, "is_encoder_decoder": false, "no_rope_layers": [], "pretraining_tp": 2})"));

    CHECK_THAT(refused(family("qwen2"), R"({"rope_scaling": {"type": "longrope", "factor": 4.0,
        "original_max_position_embeddings": 32768}})"),
               ContainsSubstring("longrope") &&
                   ContainsSubstring("supported: default, linear, llama3, yarn"));
    CHECK_THAT(refused(family("qwen3"), R"({"rope_parameters": {"full_attention": {"rope_type": "default"},
        "sliding_attention": {"rope_type": "default"}}})"),
               ContainsSubstring("one RoPE per layer type"));
    CHECK_THAT(refused(family("mistral"), R"({"hidden_act": "gelu_pytorch_tanh"})"),
               ContainsSubstring("silu"));
}

TEST_CASE("config.json: rope_scaling wins over rope_parameters, dtype over torch_dtype, as in transformers",
          "[model]") {
    const ModelConfig config = parsed(family("llama"), R"({"rope_theta": 20000.0, "dtype": "float16",
        "torch_dtype": "bfloat16", "rope_scaling": {"type": "linear", "factor": 4.0},
        "rope_parameters": {"rope_type": "default", "rope_theta": 500000.0}})");
    CHECK(config.rope_scaling.kind == RopeScaling::Kind::linear);
    CHECK(config.rope_theta == 20000.0);
    CHECK(config.stored_dtype == "float16");
}

TEST_CASE("config.json: granite's multipliers go into weights and eps, and other families refuse them",
          "[model]") {
    const ModelConfig plain = parsed(family("granite"), R"({"attention_multiplier": 0.5})");
    CHECK(plain.multipliers.query == 0.5 * std::sqrt(8.0));
    CHECK(
        (plain.multipliers.embedding == 1 && plain.multipliers.branch == 1 && plain.multipliers.logits == 1));
    const ModelConfig all =
        parsed(family("granite"), R"({"embedding_multiplier": 12.0, "residual_multiplier": 0.24,
        "attention_multiplier": 0.0625, "logits_scaling": 8.0, "rms_norm_eps": 1e-5, "mlp_bias": true})");
    CHECK(all.multipliers.embedding == 12);
    CHECK(std::abs(all.multipliers.branch - 0.02) < 1e-15);
    CHECK(all.multipliers.logits == 0.125);
    CHECK(std::abs(all.rms_norm_eps - 1e-5 / 144) < 1e-18);
    CHECK((all.mlp_bias && !all.qkv_bias));
    CHECK_THAT(refused(family("granite"), R"({"embedding_multiplier": 0.0})"),
               ContainsSubstring("embedding_multiplier"));
    CHECK_THAT(refused(family("llama"), R"({"embedding_multiplier": 12.0})"),
               ContainsSubstring("embedding_multiplier") && ContainsSubstring("not supported"));
}

TEST_CASE("config.json: which layers of smollm3 turn nothing", "[model]") {
    using Turns = std::vector<bool>;
    const ModelConfig usual = parsed(family("smollm3"));
    CHECK(usual.layer_turns == Turns{true, true, true, false});
    CHECK((usual.tied_head && usual.rope_theta == 2000000.0 && usual.num_kv_heads == 2));
    CHECK(parsed(family("smollm3"), R"({"no_rope_layer_interval": 2})").layer_turns ==
          Turns{true, false, true, false});
    CHECK(parsed(family("smollm3"), R"({"no_rope_layers": [0, 1, 1, 1, 0]})").layer_turns ==
          Turns{false, true, true, true});
    CHECK(parsed(family("smollm3"), R"({"no_rope_layers": [1, 1, 1, 1]})").layer_turns.empty());
    CHECK(parsed(family("llama")).turns(3));
    CHECK(!usual.turns(3));
    CHECK_THAT(refused(family("smollm3"), R"({"no_rope_layers": [1, 0]})"),
               ContainsSubstring("no_rope_layers"));
    CHECK_THAT(refused(family("smollm3"), R"({"no_rope_layers": [1, 0, 2, 1]})"),
               ContainsSubstring("no_rope_layers"));
    CHECK_THAT(refused(family("smollm3"), R"({"use_sliding_window": true})"),
               ContainsSubstring("use_sliding_window"));
    CHECK_THAT(geometry_difference(usual, parsed(family("smollm3"), R"({"no_rope_layer_interval": 3})"))
                   .value_or(""),
               ContainsSubstring("RoPE of layer 2: teacher yes, student no"));
}

TEST_CASE("config.json: what yarn leaves out is what transformers assumes", "[model]") {
    const auto yarn = [](const char* more) { return parsed(family("qwen2"), more).rope_scaling; };
    const RopeScaling usual = yarn(R"({"max_position_embeddings": 512, "rope_scaling": {"type": "yarn",
        "factor": 4.0, "original_max_position_embeddings": 128}})");
    CHECK(usual.kind == RopeScaling::Kind::yarn);
    CHECK(usual.factor == 4);
    CHECK(usual.original_max_position == 128);
    CHECK((usual.beta_fast == 32 && usual.beta_slow == 1 && usual.truncate));
    CHECK(std::abs(usual.attention_factor - (1 + 0.1 * std::log(4.0))) < 1e-12);
    const RopeScaling own = yarn(R"({"rope_scaling": {"rope_type": "yarn", "factor": 8.0, "beta_fast": 16,
        "beta_slow": 2, "truncate": false, "attention_factor": 0.75, "mscale": 1.0, "mscale_all_dim": 0.5}})");
    CHECK((own.beta_fast == 16 && own.beta_slow == 2 && !own.truncate && own.attention_factor == 0.75));
    const RopeScaling two = yarn(R"({"rope_scaling": {"rope_type": "yarn", "factor": 8.0, "mscale": 1.0,
        "mscale_all_dim": 0.5}})");
    CHECK(std::abs(two.attention_factor - (1 + 0.1 * std::log(8.0)) / (1 + 0.05 * std::log(8.0))) < 1e-12);
    const RopeScaling ratio = yarn(R"({"max_position_embeddings": 512, "rope_scaling": {"rope_type": "yarn",
        "original_max_position_embeddings": 64}})");
    CHECK(ratio.factor == 8); // of the two contexts
    CHECK_THAT(
        refused(family("qwen2"), R"({"rope_theta": 1.0, "rope_scaling": {"type": "yarn", "factor": 2.0}})"),
        ContainsSubstring("rope_theta above 1"));
    CHECK_THAT(refused(family("qwen2"), R"({"rope_scaling": {"type": "yarn", "factor": 0.5}})"),
               ContainsSubstring("rope_scaling.factor"));
    CHECK_THAT(
        refused(family("qwen2"),
                R"({"rope_scaling": {"type": "yarn", "factor": 2.0, "beta_fast": 1, "beta_slow": 3}})"),
        ContainsSubstring("beta_fast"));
}

TEST_CASE("geometry: families may differ, what the columns mean may not", "[model]") {
    const ModelConfig llama = parsed(family("llama"));
    const auto difference = [&](const ModelConfig& other) {
        return geometry_difference(llama, other).value_or("none");
    };
    CHECK(difference(parsed(family("mistral"), R"({"sliding_window": null})")) == "none");
    CHECK(difference(parsed(family("qwen2"))) == "none");
    CHECK(difference(parsed(family("qwen2"), R"({"hidden_size": 80, "num_attention_heads": 10})")) == "none");
    CHECK_THAT(difference(parsed(family("qwen3"), R"({"head_dim": 8})")),
               ContainsSubstring("q/k norm: teacher no, student yes"));
    CHECK_THAT(difference(parsed(family("mistral"), R"({"sliding_window": 100})")),
               ContainsSubstring("sliding window of layer 0: teacher none, student 100"));
    CHECK_THAT(difference(parsed(family("qwen2"), R"({"use_sliding_window": true, "max_window_layers": 2})")),
               ContainsSubstring("none")); // 4096 hides nothing in a context of 512
    CHECK_THAT(
        difference(parsed(family("qwen2"),
                          R"({"use_sliding_window": true, "max_window_layers": 2, "sliding_window": 511})")),
        ContainsSubstring("sliding window of layer 2: teacher none, student 511"));
    CHECK_THAT(difference(parsed(family("llama"), R"({"rope_scaling": {"type": "llama3", "factor": 8.0,
        "low_freq_factor": 1.0, "high_freq_factor": 4.0}})")),
               ContainsSubstring("rope scaling: teacher none, student llama3"));
    const char* scaled = R"({"rope_scaling": {"type": "llama3", "factor": 8.0, "low_freq_factor": 1.0,
        "high_freq_factor": 4.0, "original_max_position_embeddings": 256}})";
    ModelConfig a = parsed(family("llama"), scaled), b = a;
    CHECK_FALSE(geometry_difference(a, b).has_value());
    b.rope_scaling.original_max_position = 128;
    CHECK_THAT(geometry_difference(a, b).value_or(""), ContainsSubstring("original_max_position"));
    b = a;
    b.rope_scaling.kind = RopeScaling::Kind::yarn;
    ModelConfig c = b;
    CHECK_FALSE(geometry_difference(b, c).has_value());
    c.rope_scaling.attention_factor = 1.2;
    CHECK_THAT(geometry_difference(b, c).value_or(""), ContainsSubstring("attention_factor"));
    b = a;
    b.rope_scaling.low_freq_factor = 2.0;
    CHECK_THAT(geometry_difference(a, b).value_or(""), ContainsSubstring("low_freq_factor"));
}

} // namespace family_config_test
