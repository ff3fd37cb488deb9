#include "engine/cache/kv_cache.h"
#include "engine/model/llama_model.h"
#include "tests/engine/model/support.h"
#include "tests/support/forward.h"

#include <ATen/ATen.h>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <nlohmann/json.hpp>

#include <cstring>
#include <map>

namespace loading_test {

using Catch::Matchers::ContainsSubstring;
using nlohmann::json;
using refreshlab::Error;
using refreshlab::LlamaModel;
using refreshlab::ModelConfig;
using refreshlab::Origin;
using refreshlab::Rows;
using refreshlab::test::error_of;
using refreshlab::test::extend;
using refreshlab::test::random_tokens;
using refreshlab::test::ScratchFolder;
using refreshlab::test::tiny_config;

namespace {

constexpr Origin origin = Origin::student;
using Weights = std::map<std::string, at::Tensor>;

std::string stored_name(at::ScalarType type) {
    switch (type) {
    case at::kDouble:
        return "F64";
    case at::kFloat:
        return "F32";
    case at::kBFloat16:
        return "BF16";
    default:
        return "F16";
    }
}

std::string safetensors(const Weights& weights) {
    json header = json::object();
    std::string data;
    for (const auto& [name, weight] : weights) {
        const at::Tensor dense = weight.contiguous();
        const size_t begin = data.size();
        data.append(static_cast<const char*>(dense.const_data_ptr()), dense.nbytes());
        header[name] = {{"dtype", stored_name(dense.scalar_type())},
                        {"shape", dense.sizes().vec()},
                        {"data_offsets", {begin, data.size()}}};
    }
    const std::string text = header.dump();
    uint64_t size = text.size();
    std::string bytes(sizeof(size), '\0');
    std::memcpy(bytes.data(), &size, sizeof(size));
    return bytes + text + data;
}

json config_json(const ModelConfig& c) {
    return {{"model_type", "llama"},
            {"vocab_size", c.vocab_size},
            {"hidden_size", c.hidden_size},
            {"intermediate_size", c.intermediate_size},
            {"num_hidden_layers", c.num_layers},
            {"num_attention_heads", c.num_heads},
            {"num_key_value_heads", c.num_kv_heads},
            {"head_dim", c.head_dim},
            {"max_position_embeddings", c.max_position},
            {"tie_word_embeddings", c.tied_head}};
}

/// Weights of the tiny model in f64.
Weights tiny_weights(const ModelConfig& config) {
    Weights weights;
    at::Generator generator = at::detail::createCPUGenerator(3);
    (void)LlamaModel::from_weights(
        config,
        [&](const std::string& name, at::IntArrayRef shape) {
            weights[name] = at::empty(shape, at::kDouble)
                                .normal_(name.find("norm") != name.npos ? 1.0 : 0.0, 0.2, generator);
            return weights[name];
        },
        at::kCPU, at::kFloat);
    return weights;
}

at::Tensor rows_of(const LlamaModel& model) {
    const auto cache = model.make_cache(16);
    return extend(model, *cache, random_tokens(12, 97, 5), Rows::all, origin);
}

} // namespace

TEST_CASE("every stored dtype becomes every wanted dtype, as conversion tensor by tensor would", "[model]") {
    const auto stored = GENERATE(at::kDouble, at::kFloat, at::kBFloat16, at::kHalf);
    const auto wanted = GENERATE(at::kFloat, at::kBFloat16, at::kHalf);
    CAPTURE(stored, wanted);
    const ModelConfig config = tiny_config();
    Weights weights = tiny_weights(config);
    for (auto& [name, weight] : weights)
        weight = weight.to(stored);
    const ScratchFolder folder("dtypes");
    folder.write("config.json", config_json(config).dump());
    folder.write("model.safetensors", safetensors(weights));
    const auto model = LlamaModel::load(folder.path(), at::kCPU, wanted);
    CHECK(model->dtype() == wanted);
    const auto expected = LlamaModel::from_weights(
        config, [&](const std::string& name, at::IntArrayRef) { return weights.at(name).to(wanted); },
        at::kCPU, wanted);
    CHECK(at::equal(rows_of(*model), rows_of(*expected)));
}

TEST_CASE("loading can be cancelled before every tensor, and tells the fraction of bytes", "[model]") {
    const ModelConfig config = tiny_config();
    const Weights weights = tiny_weights(config);
    const ScratchFolder folder("cancel");
    folder.write("config.json", config_json(config).dump());
    folder.write("model.safetensors", safetensors(weights));
    std::vector<std::pair<double, std::string>> told;
    (void)LlamaModel::load(folder.path(), at::kCPU, at::kFloat,
                           [&](double fraction, const std::string& what) {
                               told.emplace_back(fraction, what);
                               return true;
                           });
    // config.json, each tensor, "ready".
    REQUIRE(told.size() == weights.size() + 2);
    double total = 0;
    for (const auto& [name, weight] : weights)
        total += static_cast<double>(weight.nbytes());
    double before = 0;
    for (size_t i = 1; i + 1 < told.size(); ++i) {
        CHECK(std::abs(told[i].first - before / total) < 1e-12);
        before += static_cast<double>(weights.at(told[i].second).nbytes());
    }
    CHECK(told.back().first == 1.0);
    for (size_t stop = 0; stop < told.size(); ++stop) {
        size_t calls = 0;
        try {
            (void)LlamaModel::load(folder.path(), at::kCPU, at::kFloat,
                                   [&](double, const std::string&) { return calls++ != stop; });
            FAIL("loading went on");
        } catch (const Error& error) {
            CHECK(error.problem() == "cancelled");
            CHECK(calls == stop + 1);
        }
    }
}

TEST_CASE("weights that the family has no place for are refused by file and name", "[model]") {
    const ModelConfig config = tiny_config();
    const ScratchFolder folder("unread");
    folder.write("config.json", config_json(config).dump());
    const auto load = [&] { (void)LlamaModel::load(folder.path(), at::kCPU, at::kFloat); };
    for (const char* extra :
         {"model.layers.0.self_attn.q_proj.bias", "model.layers.1.self_attn.q_norm.weight",
          "model.layers.3.input_layernorm.weight", "model.layers.0.mlp.gate.weight"}) {
        Weights weights = tiny_weights(config);
        weights[extra] = at::zeros({4}, at::kFloat);
        folder.write("model.safetensors", safetensors(weights));
        CHECK_THAT(error_of(load), ContainsSubstring("model.safetensors") && ContainsSubstring(extra) &&
                                       ContainsSubstring("no place in a llama model"));
    }
    // Buffers of older libraries, and a stored copy of a tied head, are no part of the model.
    ModelConfig tied = config;
    tied.tied_head = true;
    Weights weights = tiny_weights(config);
    weights["model.layers.0.self_attn.rotary_emb.inv_freq"] = at::zeros({5}, at::kFloat);
    folder.write("config.json", config_json(tied).dump());
    folder.write("model.safetensors", safetensors(weights));
    CHECK_NOTHROW(load());
}

} // namespace loading_test
