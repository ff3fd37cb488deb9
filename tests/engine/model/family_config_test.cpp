#include "engine/model/forward/rope_table.h"
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
    for (const char* type : {"deepseek_v3", "qwen2_moe", "gemma3", "phimoe", "Llama"}) {
        CHECK_THAT(
            refused(family("llama"), "{\"model_type\": \"" + std::string(type) + "\"}"),
            ContainsSubstring(type) &&
                ContainsSubstring("supported: llama, mistral, qwen2, qwen3, granite, smollm3, olmo2, phi3, "
                                  "gemma2, gemma3_text, mixtral, qwen3_moe; docs/howto/add-a-family.md"));
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

    CHECK_THAT(refused(family("qwen2"), R"({"rope_scaling": {"type": "mrope", "factor": 4.0}})"),
               ContainsSubstring("mrope") &&
                   ContainsSubstring("supported: default, linear, llama3, yarn, longrope, dynamic"));
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

TEST_CASE("config.json: longrope and dynamic have contexts of their own", "[model]") {
    const char* longrope = R"({"max_position_embeddings": 512, "original_max_position_embeddings": 64,
        "rope_scaling": {"type": "longrope", "short_factor": [1, 1, 1.5, 2], "long_factor": [1, 2, 4, 8]}})";
    const ModelConfig phi = parsed(family("phi3"), longrope);
    const RopeScaling& scaling = phi.rope_scaling;
    CHECK(scaling.kind == RopeScaling::Kind::longrope);
    CHECK((scaling.factors == std::vector<float>{1, 1, 1.5F, 2} &&
           scaling.long_factors == std::vector<float>{1, 2, 4, 8}));
    CHECK((scaling.original_max_position == 64 && phi.rotary() == 8 && phi.fused_projections));
    CHECK(std::abs(scaling.attention_factor - std::sqrt(1 + std::log(8.0) / std::log(64.0))) < 1e-12);
    for (const char* older : {"su", "yarn"}) {
        json config = json::parse(longrope);
        config["rope_scaling"]["type"] = older;
        CHECK(parsed(family("phi3"), config.dump()).rope_scaling.kind == RopeScaling::Kind::longrope);
    }
    // The context decides, beyond 64 positions.
    const auto within = refreshlab::rope_frequencies(phi, 64), beyond = refreshlab::rope_frequencies(phi, 65);
    CHECK((within[3] == refreshlab::rope_frequencies(phi)[3] && within[3] == 4 * beyond[3]));
    CHECK(parsed(family("phi3"), R"({"partial_rotary_factor": 0.5})").rotary() == 4);
    CHECK_THAT(refused(family("phi3"), R"({"partial_rotary_factor": 0.4})"), ContainsSubstring("no pairs"));
    CHECK_THAT(refused(family("qwen2"), R"({"partial_rotary_factor": 0.5})"),
               ContainsSubstring("partial_rotary_factor"));
    CHECK_THAT(refused(family("phi3"), R"({"rope_scaling": {"type": "longrope", "short_factor": [1, 1, 1],
        "long_factor": [1, 2, 4, 8]}})"),
               ContainsSubstring("short_factor must be a list of 4 numbers"));
    CHECK_THAT(geometry_difference(phi, parsed(family("phi3"))).value_or(""),
               ContainsSubstring("rope scaling"));

    const ModelConfig dynamic =
        parsed(family("llama"), R"({"rope_scaling": {"type": "dynamic", "factor": 4.0}})");
    CHECK((dynamic.max_position == 2048 && dynamic.rope_scaling.original_max_position == 512));
    CHECK(refreshlab::rope_frequencies(dynamic, 512) == refreshlab::rope_frequencies(dynamic));
    CHECK(refreshlab::rope_frequencies(dynamic, 1024)[1] < refreshlab::rope_frequencies(dynamic, 513)[1]);
    CHECK(refreshlab::missing_in(refreshlab::Kernels::sinks, dynamic));
    CHECK_FALSE(refreshlab::missing_in(refreshlab::Kernels::gpu, dynamic));
}

TEST_CASE("config.json: Gemma's windows alternate, its norms, scales and caps are set", "[model]") {
    const ModelConfig two =
        parsed(family("gemma2"), R"({"query_pre_attn_scalar": 64, "sliding_window": 16})");
    CHECK(
        (two.head_dim == 256 && two.tied_head && two.branch_norms && two.pre_norms && two.norm_offset == 1));
    CHECK((two.embedding_scale == 8 && two.query_scale == 2));
    CHECK((two.attention_cap == 50 && two.logit_cap == 30));
    CHECK(two.layer_windows == Windows{16, 0, 16, 0});
    const ModelConfig bare = parsed(family("gemma2"), R"({"attn_logit_softcapping": null})");
    CHECK((bare.attention_cap == 0 && bare.logit_cap == 30 && bare.query_scale == 1));
    const ModelConfig three =
        parsed(family("gemma3_text"),
               R"({"num_hidden_layers": 7, "sliding_window": 16, "attn_logit_softcapping": 50.0,
        "rope_theta": 2000000.0, "rope_local_base_freq": 5000.0, "rope_scaling": {"rope_type": "linear", "factor": 8.0}})");
    CHECK(three.layer_windows == Windows{16, 16, 16, 16, 16, 0, 16});
    CHECK((three.qk_norm && three.attention_cap == 0 && three.rope_theta == 2000000 &&
           three.local_rope_theta == 5000));
    CHECK((three.rope(0) == refreshlab::Rope::local && three.rope(5) == refreshlab::Rope::global));
    CHECK(three.rope_scaling.factor == 8);
    CHECK_THAT(refused(family("gemma2"), R"({"sliding_window": null})"), ContainsSubstring("sliding_window"));
    CHECK_THAT(refused(family("gemma2"), R"({"hidden_activation": "gelu"})"),
               ContainsSubstring("gelu_pytorch_tanh"));
    CHECK_THAT(refused(family("gemma3_text"), R"({"use_bidirectional_attention": true})"),
               ContainsSubstring("use_bidirectional_attention"));
    CHECK_THAT(refused(family("gemma3_text"), R"({"rope_parameters": {"sliding_attention":
        {"rope_type": "linear", "factor": 2.0}}})"),
               ContainsSubstring("sliding_attention.rope_type must be default"));
    CHECK_THAT(geometry_difference(parsed(family("gemma2")), bare).value_or(""),
               ContainsSubstring("soft cap"));
    CHECK_FALSE(refreshlab::missing_in(refreshlab::Kernels::gpu, two));
    CHECK(refreshlab::missing_in(refreshlab::Kernels::training, two) ==
          "norms of what attention and MLP add");
    ModelConfig part = parsed(family("phi3"));
    for (const auto& [channels, computed] : {std::pair<int64_t, bool>{8, true}, {16, true}, {20, false}}) {
        part.head_dim = 32;
        part.rotary_dim = channels;
        CHECK(refreshlab::missing_in(refreshlab::Kernels::gpu, part).has_value() != computed);
    }
}

TEST_CASE("config.json: experts, and the layers that have them", "[model]") {
    const ModelConfig eight = parsed(family("mixtral"));
    CHECK((eight.experts.count == 8 && eight.experts.used == 2 && eight.experts.width == 80));
    CHECK((eight.experts.normalised && eight.routed(3) && eight.layer_windows.empty()));
    const ModelConfig some = parsed(family("qwen3_moe"), R"({"num_experts": 4, "num_experts_per_tok": 3,
        "moe_intermediate_size": 20, "decoder_sparse_step": 2, "mlp_only_layers": [3]})");
    CHECK((some.experts.width == 20 && !some.experts.normalised && some.qk_norm));
    CHECK((!some.routed(0) && some.routed(1) && !some.routed(2) && !some.routed(3)));
    CHECK(parsed(family("qwen3_moe"), R"({"mlp_only_layers": [0, 1, 2, 3]})").experts.count == 0);
    CHECK(some.num_parameters() -
              parsed(family("qwen3_moe"), R"({"mlp_only_layers": [0, 1, 2, 3]})").num_parameters() ==
          4 * 64 * (1 + 3 * 20) - 3 * 64 * 80);
    CHECK_THAT(refused(family("mixtral"), R"({"num_local_experts": 2, "num_experts_per_tok": 3})"),
               ContainsSubstring("num_experts_per_tok (3)"));
    CHECK_THAT(refused(family("qwen3"), R"({"num_experts": 8})"), ContainsSubstring("num_experts"));
    CHECK_FALSE(refreshlab::missing_in(refreshlab::Kernels::gpu, eight));
    CHECK(refreshlab::missing_in(refreshlab::Kernels::training, eight) == "routed experts");
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
