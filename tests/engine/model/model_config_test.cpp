#include "engine/model/model_config.h"
#include "tests/engine/model/support.h"
#include "tests/support/seed.h"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <nlohmann/json.hpp>

#include <random>

namespace model_config_test {

using Catch::Matchers::ContainsSubstring;
using nlohmann::json;
using refreshlab::Error;
using refreshlab::geometry_difference;
using refreshlab::ModelConfig;
using refreshlab::RopeScaling;
using refreshlab::test::error_of;
using refreshlab::test::ScratchFolder;

namespace {

json llama() {
    return json::parse(
        R"({"model_type": "llama", "vocab_size": 1000, "hidden_size": 48, "intermediate_size": 80,
        "num_hidden_layers": 3, "num_attention_heads": 6, "num_key_value_heads": 2, "max_position_embeddings": 512})");
}

std::string parse_error(const json& config) {
    return error_of([&] { (void)ModelConfig::parse(config, "some/config.json"); });
}

} // namespace

TEST_CASE("config.json: what is silent gets the defaults of the Llama definition", "[model]") {
    const ModelConfig config = ModelConfig::parse(llama(), "config.json");
    CHECK(config.model_type == "llama");
    CHECK(config.head_dim == 8);
    CHECK(config.rms_norm_eps == 1e-6);
    CHECK(config.rope_theta == 10000.0);
    CHECK(config.rope_scaling.kind == RopeScaling::Kind::none);
    CHECK_FALSE(config.tied_head);
    CHECK_FALSE(config.qkv_bias);
    CHECK_FALSE(config.output_bias);
    CHECK_FALSE(config.qk_norm);
    CHECK(config.layer_windows.empty());
    CHECK_FALSE(config.mlp_bias);
    CHECK(config.eos_ids.empty());
    CHECK_FALSE(config.bos_id.has_value());
    CHECK_FALSE(config.attention_dropout.has_value());
    json without_groups = llama();
    without_groups.erase("num_key_value_heads");
    CHECK(ModelConfig::parse(without_groups, "config.json").num_kv_heads == 6);
}

TEST_CASE("config.json: null means absent for every optional key", "[model]") {
    const ModelConfig plain = ModelConfig::parse(llama(), "config.json");
    json nulls = llama();
    for (const char* key :
         {"head_dim", "rms_norm_eps", "rope_theta", "rope_scaling", "rope_parameters", "tie_word_embeddings",
          "attention_bias", "mlp_bias", "hidden_act", "eos_token_id", "bos_token_id", "torch_dtype", "dtype",
          "attention_dropout", "resid_dropout", "quantization_config"}) {
        nulls[key] = nullptr;
    }
    const ModelConfig config = ModelConfig::parse(nulls, "config.json");
    CHECK(config.head_dim == plain.head_dim);
    CHECK(config.rms_norm_eps == plain.rms_norm_eps);
    CHECK(config.eos_ids.empty());
    CHECK(config.stored_dtype.empty());
}

TEST_CASE("config.json: both spellings of rope scaling and of the stored dtype mean the same", "[model]") {
    json old_style = llama();
    old_style["rope_theta"] = 500000;
    old_style["torch_dtype"] = "bfloat16";
    old_style["rope_scaling"] = {{"type", "llama3"},
                                 {"factor", 8},
                                 {"low_freq_factor", 1.0},
                                 {"high_freq_factor", 4.0},
                                 {"original_max_position_embeddings", 256}};
    json new_style = llama();
    new_style["dtype"] = "bfloat16";
    new_style["rope_parameters"] = {{"rope_type", "llama3"},
                                    {"factor", 8.0},
                                    {"low_freq_factor", 1.0},
                                    {"high_freq_factor", 4.0},
                                    {"original_max_position_embeddings", 256},
                                    {"rope_theta", 500000.0}};
    for (const json& style : {old_style, new_style}) {
        const ModelConfig config = ModelConfig::parse(style, "config.json");
        CHECK(config.rope_theta == 500000.0);
        CHECK(config.rope_scaling.kind == RopeScaling::Kind::llama3);
        CHECK(config.rope_scaling.factor == 8.0);
        CHECK(config.rope_scaling.original_max_position == 256);
        CHECK(config.stored_dtype == "bfloat16");
    }
    json silent = new_style;
    silent["rope_parameters"].erase("original_max_position_embeddings");
    CHECK(ModelConfig::parse(silent, "config.json").rope_scaling.original_max_position == 512);
    json linear = llama();
    linear["rope_scaling"] = {{"type", "linear"}, {"factor", 2.0}};
    CHECK(ModelConfig::parse(linear, "config.json").rope_scaling.kind == RopeScaling::Kind::linear);
}

TEST_CASE("config.json: each bad value is refused by file, key and reason", "[model]") {
    struct Case {
        const char* patch;
        std::vector<std::string> parts;
    };
    const auto bad = GENERATE(values<Case>({
        {R"({"model_type": null})", {"model_type is missing"}},
        {R"({"model_type": "mamba"})", {"model_type", "mamba", "supported: llama"}},
        {R"({"vocab_size": null})", {"vocab_size is missing"}},
        {R"({"hidden_size": null})", {"hidden_size is missing"}},
        {R"({"intermediate_size": null})", {"intermediate_size is missing"}},
        {R"({"num_hidden_layers": null})", {"num_hidden_layers is missing"}},
        {R"({"num_attention_heads": null})", {"num_attention_heads is missing"}},
        {R"({"max_position_embeddings": null})", {"max_position_embeddings is missing"}},
        {R"({"vocab_size": 0})", {"vocab_size must be in 1 .."}},
        {R"({"vocab_size": -5})", {"vocab_size must be in 1 ..", "-5"}},
        {R"({"vocab_size": 18446744073709551615})", {"vocab_size must be in"}},
        {R"({"hidden_size": 9223372036854775807})", {"hidden_size must be in"}},
        {R"({"hidden_size": 48.0})", {"hidden_size must be an integer"}},
        {R"({"hidden_size": "48"})", {"hidden_size must be an integer"}},
        {R"({"hidden_size": 50})", {"hidden_size (50) must be a multiple of num_attention_heads (6)"}},
        {R"({"num_hidden_layers": 1000000})", {"num_hidden_layers must be in"}},
        {R"({"num_key_value_heads": 4})", {"num_attention_heads (6) must be a multiple", "(4)"}},
        {R"({"num_key_value_heads": 12})", {"must be a multiple"}},
        {R"({"head_dim": 7})", {"head_dim (7) must be even"}},
        {R"({"head_dim": 0})", {"head_dim must be in"}},
        {R"({"hidden_size": 54})", {"head_dim (9) must be even"}},
        {R"({"max_position_embeddings": 1099511627776})", {"max_position_embeddings must be in"}},
        {R"({"hidden_act": "gelu"})", {"hidden_act", "gelu", "silu"}},
        {R"({"hidden_act": 3})", {"hidden_act must be a string"}},
        {R"({"rms_norm_eps": 0})", {"rms_norm_eps must be in"}},
        {R"({"rms_norm_eps": "small"})", {"rms_norm_eps must be a number"}},
        {R"({"rope_theta": -1})", {"rope_theta must be in"}},
        {R"({"rope_theta": 1e300})", {"rope_theta must be in"}},
        {R"({"rope_scaling": 3})", {"rope_scaling must be an object"}},
        {R"({"rope_scaling": {"type": "mrope", "factor": 2.0}})",
         {"rope_scaling.type", "mrope", "supported"}},
        {R"({"rope_scaling": {"type": "dynamic"}})", {"rope_scaling.factor is missing"}},
        {R"({"rope_parameters": {"rope_type": "longrope", "factor": 2.0}})",
         {"rope_parameters.short_factor is missing"}},
        {R"({"rope_scaling": {"type": "linear"}})", {"rope_scaling.factor is missing"}},
        {R"({"rope_scaling": {"type": "linear", "factor": 0.5}})", {"rope_scaling.factor must be in"}},
        {R"({"rope_scaling": {"type": "llama3", "factor": 8.0, "low_freq_factor": 4.0, "high_freq_factor": 4.0}})",
         {"rope_scaling.high_freq_factor must be above low_freq_factor"}},
        {R"({"partial_rotary_factor": 0.5})", {"partial_rotary_factor"}},
        {R"({"tie_word_embeddings": 1})", {"tie_word_embeddings must be true or false"}},
        {R"({"attention_bias": "yes"})", {"attention_bias must be true or false"}},
        {R"({"eos_token_id": 1000})", {"eos_token_id must be in 0 .. 999"}},
        {R"({"eos_token_id": [2, -1]})", {"eos_token_id must be in 0 .. 999"}},
        {R"({"eos_token_id": ["2"]})", {"eos_token_id must be an integer"}},
        {R"({"bos_token_id": 1.5})", {"bos_token_id must be an integer"}},
        {R"({"torch_dtype": 16})", {"torch_dtype must be a string"}},
        {R"({"attention_dropout": 1.0})", {"attention_dropout must be in"}},
        {R"({"quantization_config": {"bits": 4}})", {"quantization_config", "quantised"}},
    }));
    json config = llama();
    config.update(json::parse(bad.patch));
    CAPTURE(bad.patch);
    const std::string message = parse_error(config);
    CHECK_THAT(message, ContainsSubstring("some/config.json"));
    for (const std::string& part : bad.parts)
        CHECK_THAT(message, ContainsSubstring(part));
}

TEST_CASE("config.json: something other than an object is refused", "[model]") {
    CHECK_THAT(parse_error(json::array({1, 2})), ContainsSubstring("JSON object"));
    CHECK_THAT(parse_error(json(nullptr)), ContainsSubstring("JSON object"));
}

TEST_CASE("generation_config.json wins for the end tokens", "[model]") {
    const ScratchFolder folder("config");
    json config = llama();
    config["eos_token_id"] = 2;
    folder.write("config.json", config.dump());
    CHECK(ModelConfig::load(folder.path()).eos_ids == std::vector<int32_t>{2});
    folder.write("generation_config.json", R"({"eos_token_id": [7, 9, 7]})");
    CHECK(ModelConfig::load(folder.path()).eos_ids == std::vector<int32_t>{7, 9});
    folder.write("generation_config.json", R"({"eos_token_id": null})");
    CHECK(ModelConfig::load(folder.path()).eos_ids == std::vector<int32_t>{2});
    folder.write("generation_config.json", R"({"eos_token_id": 5000})");
    CHECK_THAT(error_of([&] { (void)ModelConfig::load(folder.path()); }),
               ContainsSubstring("generation_config.json") && ContainsSubstring("eos_token_id"));
    folder.write("generation_config.json", "[]");
    CHECK_THAT(error_of([&] { (void)ModelConfig::load(folder.path()); }), ContainsSubstring("JSON object"));
}

TEST_CASE("loading a configuration names the folder or file that is missing", "[model]") {
    const ScratchFolder folder("config");
    CHECK_THAT(error_of([&] { (void)ModelConfig::load(folder.path() / "nowhere"); }),
               ContainsSubstring("nowhere") && ContainsSubstring("no such model folder"));
    CHECK_THAT(error_of([&] { (void)ModelConfig::load(folder.path()); }), ContainsSubstring("config.json"));
    folder.write("config.json", "{\n \"model_type\": llama}");
    CHECK_THAT(error_of([&] { (void)ModelConfig::load(folder.path()); }), ContainsSubstring("line 2"));
}

TEST_CASE("the bundled pair shares its KV geometry; each differing field is named", "[model]") {
    const std::filesystem::path models = std::filesystem::path(RL_SOURCE_DIR) / "assets" / "models";
    const ModelConfig teacher = ModelConfig::load(models / "llama-tales-teacher");
    const ModelConfig student = ModelConfig::load(models / "llama-tales-student");
    CHECK_FALSE(geometry_difference(teacher, student).has_value());
    CHECK(teacher.hidden_size != student.hidden_size);
    CHECK(teacher.attention_dropout == 0.05);
    CHECK(teacher.resid_dropout == 0.05);

    const auto difference = [&](auto change) {
        ModelConfig other = student;
        change(other);
        return geometry_difference(teacher, other).value_or("none");
    };
    CHECK_THAT(difference([](ModelConfig& c) { c.num_layers = 4; }),
               ContainsSubstring("num_layers: teacher 5, student 4"));
    CHECK_THAT(difference([](ModelConfig& c) { c.num_kv_heads = 6; }), ContainsSubstring("num_kv_heads"));
    CHECK_THAT(difference([](ModelConfig& c) { c.head_dim = 32; }), ContainsSubstring("head_dim"));
    CHECK_THAT(difference([](ModelConfig& c) { c.rope_theta = 5e5; }), ContainsSubstring("rope_theta"));
    CHECK_THAT(difference([](ModelConfig& c) { c.rope_scaling.kind = RopeScaling::Kind::linear; }),
               ContainsSubstring("rope scaling"));
    CHECK_THAT(difference([](ModelConfig& c) { c.max_position = 4096; }), ContainsSubstring("max_position"));
}

TEST_CASE("mutated configurations are read or refused, never anything else", "[model]") {
    const uint64_t seed = refreshlab::test::seed(20240611);
    CAPTURE(seed);
    std::mt19937_64 random(seed);
    json base = llama();
    base["head_dim"] = 16;
    base["eos_token_id"] = {1, 2};
    base["rms_norm_eps"] = 1e-5;
    base["rope_scaling"] = {{"rope_type", "llama3"},
                            {"factor", 8.0},
                            {"low_freq_factor", 1.0},
                            {"high_freq_factor", 4.0},
                            {"original_max_position_embeddings", 256}};
    const std::vector<json> values = {nullptr,
                                      true,
                                      0,
                                      -1,
                                      1,
                                      2,
                                      INT64_MIN,
                                      INT64_MAX,
                                      UINT64_MAX,
                                      1e308,
                                      -0.0,
                                      5e-324,
                                      "llama",
                                      "",
                                      "\xff\xfe",
                                      json::array(),
                                      json::object(),
                                      json::array({1, json::array({2})}),
                                      16777216,
                                      1048576};
    const auto pick = [&](size_t n) { return std::uniform_int_distribution<size_t>(0, n - 1)(random); };
    int refused = 0;
    int accepted = 0;
    for (int round = 0; round < 4000; ++round) {
        json config = base;
        for (size_t change = 0, changes = 1 + pick(3); change < changes; ++change) {
            json& target =
                pick(4) == 0 && config["rope_scaling"].is_object() ? config["rope_scaling"] : config;
            if (target.empty()) continue;
            auto it = target.begin();
            std::advance(it, static_cast<std::ptrdiff_t>(pick(target.size())));
            if (pick(5) == 0) {
                target.erase(it);
            } else {
                *it = values[pick(values.size())];
            }
        }
        try {
            const ModelConfig parsed = ModelConfig::parse(config, "config.json");
            REQUIRE(parsed.num_parameters() > 0);
            REQUIRE(parsed.num_heads % parsed.num_kv_heads == 0);
            ++accepted;
        } catch (const Error&) {
            ++refused;
        }
    }
    CHECK(refused > 1000);
    CHECK(accepted > 100);
}

} // namespace model_config_test
