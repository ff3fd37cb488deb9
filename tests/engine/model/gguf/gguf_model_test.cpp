// Weights and configuration: what a GGUF file gives is what the same model gives from safetensors.
#include "engine/base/model_path.h"
#include "engine/cache/kv_cache.h"
#include "engine/model/checkpoint/checkpoint.h"
#include "engine/model/checkpoint/llama_weights.h"
#include "engine/model/gguf/gguf_config.h"
#include "engine/model/gguf/gguf_weights.h"
#include "engine/model/model_source.h"
#include "kernels/blocks/blocks.h"
#include "tests/engine/model/gguf/gguf_support.h"
#include "tests/support/forward.h"

#include <ATen/ops/equal.h>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <cmath>
#include <set>
#include <sstream>

namespace gguf_model_test {

using namespace refreshlab;
using namespace refreshlab::test;
using Catch::Matchers::ContainsSubstring;

namespace {

at::Tensor logits_of(const LlamaModel& model, const std::vector<int32_t>& tokens) {
    const auto cache = model.make_cache(static_cast<int64_t>(tokens.size()));
    return extend(model, *cache, tokens, Rows::all, Origin::student).clone();
}

ModelConfig config_of(const GgufWriter& writer) {
    const std::string bytes = writer.bytes();
    return gguf_config(parse_gguf(bytes));
}

/// What is said of a file that reads as a GGUF file and not as a model.
template <typename Change>
std::string refused(const Change& change) {
    GgufWriter writer = tiny_gguf();
    change(writer);
    const std::string bytes = writer.bytes();
    return error_of([&] {
        const auto file = std::make_shared<const GgufFile>(parse_gguf(bytes));
        const ModelConfig config = gguf_config(*file);
        const GgufWeights weights(file, config);
        (void)LlamaModel::from_weights(
            config,
            [&](const std::string& name, at::IntArrayRef shape) {
                return weights.read(name, shape, at::kFloat);
            },
            at::kCPU, at::kFloat);
    });
}

} // namespace

TEST_CASE("blocks of every type give the numbers of the gguf package, bit for bit", "[gguf][parity]") {
    const nlohmann::json& types = gguf_manifest().at("types");
    REQUIRE(types.size() == gguf_types().size());
    const Checkpoint expected = Checkpoint::open(gguf_references() / "blocks");
    for (const auto& [name, numbers] : types.items()) {
        INFO(name);
        const GgufType* type = find_gguf_type(numbers[0].get<uint32_t>());
        REQUIRE(type != nullptr);
        CHECK(type->name == name);
        CHECK(type->block == numbers[1]);
        CHECK(type->block_bytes == numbers[2]);
        CHECK(type->quantised() == (type->block > 1));
        const std::string raw = read_file(gguf_references() / "blocks" / (name + ".bin"));
        const auto blocks = static_cast<int64_t>(raw.size()) / type->block_bytes;
        REQUIRE(blocks >= 400);
        std::vector<float> values(static_cast<size_t>(blocks * type->block));
        type->unpack(reinterpret_cast<const std::byte*>(raw.data()), blocks, values.data());
        const at::Tensor wanted = expected.read(name, {blocks * type->block});
        std::set<float> seen;
        int64_t different = 0;
        for (size_t i = 0; i < values.size(); ++i) {
            different += std::memcmp(&values[i], wanted.const_data_ptr<float>() + i, sizeof(float)) != 0;
            seen.insert(values[i]);
        }
        CHECK(different == 0);
        CHECK(seen.size() > 300);
        // blocks may lie anywhere: they are packed without alignment
        const std::string shifted = "x" + raw.substr(0, static_cast<size_t>(type->block_bytes));
        std::vector<float> one(static_cast<size_t>(type->block));
        type->unpack(reinterpret_cast<const std::byte*>(shifted.data()) + 1, 1, one.data());
        CHECK(std::memcmp(one.data(), values.data(), one.size() * sizeof(float)) == 0);
    }
    for (const uint32_t id : {4U, 5U, 9U, 15U, 16U, 29U, 31U, 99U})
        CHECK(find_gguf_type(id) == nullptr);
    CHECK(gguf_type_name(16) == "IQ2_XXS");
    CHECK(gguf_type_name(99) == "number 99");
}

TEST_CASE("a GGUF file and the same weights in safetensors give the same logits, bit for bit",
          "[gguf][parity]") {
    std::set<std::string> types;
    for (const auto& entry : gguf_manifest().at("models")) {
        const auto name = entry.get<std::string>();
        INFO(name);
        const auto folder = gguf_references() / "models" / name;
        const auto file = gguf_references() / "models" / (name + ".gguf");
        const auto theirs = ModelSource::open(folder), ours = ModelSource::open(file);
        const ModelConfig a = theirs->config(), b = ours->config();
        CHECK_FALSE(geometry_difference(a, b));
        CHECK(a.rope_scaling.kind == b.rope_scaling.kind);
        CHECK(a.layer_windows == b.layer_windows);
        CHECK((a.model_type == b.model_type || a.model_type == "mistral")); // its files are llama's
        CHECK(a.multipliers.branch == b.multipliers.branch);
        CHECK(a.multipliers.query == b.multipliers.query);
        CHECK(a.layer_turns == b.layer_turns);
        CHECK(a.rotary() == b.rotary());
        CHECK(a.attention_cap == b.attention_cap);
        CHECK(a.logit_cap == b.logit_cap);
        CHECK(a.query_scale == b.query_scale);
        CHECK(a.experts.used == b.experts.used);
        CHECK(a.rms_norm_eps == b.rms_norm_eps);
        CHECK(a.rope_theta == b.rope_theta);
        CHECK(a.tied_head == b.tied_head);
        CHECK(a.num_parameters() == b.num_parameters());
        CHECK(a.eos_ids == b.eos_ids);
        CHECK(a.bos_id == b.bos_id);
        CHECK(ours->name() == name);
        const auto weights = ours->weights(b);
        CHECK(weights->names() == theirs->weights(a)->names());
        std::istringstream list(weights->stored_types());
        for (std::string type; std::getline(list >> std::ws, type, ',');)
            types.insert(type);
        const std::vector<int32_t> tokens = random_tokens(40, a.vocab_size, seed(32));
        for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16, at::kHalf}) {
            const at::Tensor wanted = logits_of(*LlamaModel::load(folder, at::kCPU, dtype), tokens);
            const at::Tensor found = logits_of(*LlamaModel::load(file, at::kCPU, dtype), tokens);
            REQUIRE(wanted.isfinite().all().item<bool>());
            CHECK(at::equal(wanted, found));
        }
    }
    CHECK(types.size() == gguf_types().size()); // the models have them all between them
}

TEST_CASE("matrices that stay in blocks hold the file's numbers and as many bytes as are said",
          "[gguf][blocks]") {
    std::set<std::string> kept;
    for (const auto& entry : gguf_manifest().at("models")) {
        const auto path = gguf_references() / "models" / (entry.get<std::string>() + ".gguf");
        INFO(path);
        const auto source = ModelSource::open(path);
        const ModelConfig config = source->config();
        const auto weights = source->weights(config);
        const auto file = std::make_shared<const GgufFile>(GgufFile::open(path));
        const GgufWeights blocks(file, config);
        LlamaWeights{}.visit(config, [&](const WeightPlace& place, const at::Tensor&) {
            const at::Tensor packed = weights->read_blocks(place.name, place.stored);
            CHECK(packed.defined() == weights->stays_in_blocks(place.name, place.stored));
            if (!packed.defined()) return;
            kept.emplace(blocks.blocks(place.name).tensor->type->name);
            CHECK(static_cast<int64_t>(packed.nbytes()) == weights->stored_bytes(place.name));
            CHECK(at::equal(kernels::block_values(packed),
                            weights->read(place.name, place.stored, at::kFloat)));
        });
        const auto model = LlamaModel::load(path, at::kCPU, at::kBFloat16, {}, true);
        CHECK(model->keeps_blocks());
        CHECK(model->weight_bytes() == LlamaModel::weight_bytes_in_blocks(*source, config));
        const auto plain = LlamaModel::load(path, at::kCPU, at::kBFloat16);
        CHECK_FALSE(plain->keeps_blocks());
        const std::vector<int32_t> tokens = random_tokens(30, config.vocab_size, seed(34));
        const at::Tensor a = logits_of(*model, tokens), b = logits_of(*plain, tokens);
        CHECK((a - b).norm().item<double>() <
              0.1 * b.norm().item<double>()); // weights rounded to bf16 or not
    }
    CHECK(kept == std::set<std::string>{"Q4_0", "Q4_1", "Q8_0"});
}

TEST_CASE("the bundled student in a GGUF file is the bundled student", "[gguf]") {
    const auto folder = std::filesystem::path(RL_SOURCE_DIR) / "assets/models/llama-tales-student";
    const auto file = gguf_references() / "models/bundled.gguf";
    const auto from_folder = LlamaModel::load(folder, at::kCPU, at::kBFloat16);
    double last = -1;
    const auto from_file =
        LlamaModel::load(file, at::kCPU, at::kBFloat16, [&](double fraction, const std::string&) {
            CHECK(fraction >= last);
            last = fraction;
            return true;
        });
    CHECK(last == 1.0);
    CHECK(from_file->weight_bytes() == from_folder->weight_bytes());
    const std::vector<int32_t> tokens = random_tokens(100, 4096, seed(33));
    CHECK(at::equal(logits_of(*from_folder, tokens), logits_of(*from_file, tokens)));
    try {
        (void)LlamaModel::load(file, at::kCPU, at::kFloat,
                               [](double fraction, const std::string&) { return fraction < 0.5; });
        FAIL("not cancelled");
    } catch (const Error& error) {
        CHECK_THAT(error.what(), ContainsSubstring("cancelled"));
    }
}

TEST_CASE("the blocks of a tensor stay within reach, with the rows that they stand for", "[gguf]") {
    const auto path = gguf_references() / "models/llama.gguf";
    const auto file = std::make_shared<const GgufFile>(GgufFile::open(path));
    const ModelConfig config = gguf_config(*file);
    const GgufWeights weights(file, config);
    for (const std::string& name : weights.names()) {
        const GgufWeights::Blocks& blocks = weights.blocks(name);
        const GgufTensor& tensor = *blocks.tensor;
        CHECK(weights.stored_bytes(name) == static_cast<int64_t>(tensor.bytes.size()));
        CHECK(weights.stored_name(name) == tensor.name);
        if (tensor.shape.size() < 2) continue;
        const bool turned =
            name.find("q_proj") != std::string::npos || name.find("k_proj") != std::string::npos;
        CHECK((blocks.head_dim != 0) == turned);
        const at::Tensor whole = weights.read(name, tensor.shape, at::kFloat).to(at::kFloat);
        const int64_t width = tensor.shape[1], row_blocks = width / tensor.type->block;
        std::vector<float> row(static_cast<size_t>(width));
        std::set<int64_t> rows;
        for (int64_t r = 0; r < tensor.shape[0]; ++r) {
            const int64_t from = blocks.source_row(r);
            rows.insert(from);
            tensor.type->unpack(tensor.bytes.data() + from * row_blocks * tensor.type->block_bytes,
                                row_blocks, row.data());
            REQUIRE(std::memcmp(row.data(), whole.const_data_ptr<float>() + r * width,
                                row.size() * sizeof(float)) == 0);
        }
        CHECK(static_cast<int64_t>(rows.size()) == tensor.shape[0]);
    }
}

TEST_CASE("metadata become a configuration as a config.json does", "[gguf]") {
    const ModelConfig plain = config_of(tiny_gguf());
    CHECK(plain.model_type == "llama");
    CHECK(plain.vocab_size == 10);
    CHECK(plain.head_dim == 4);
    CHECK(plain.num_kv_heads == 1);
    CHECK(plain.rms_norm_eps == 1e-5);
    CHECK(plain.tied_head);
    CHECK_FALSE(plain.qkv_bias);
    CHECK(plain.rope_scaling.kind == RopeScaling::Kind::none);
    CHECK(plain.layer_windows.empty());
    CHECK(plain.bos_id == 0);
    CHECK(plain.eos_ids == std::vector<int32_t>{1});

    GgufWriter writer = tiny_gguf();
    writer.remove("llama.attention.head_count_kv")
        .remove("llama.rope.freq_base")
        .remove("llama.rope.dimension_count");
    CHECK(config_of(writer).num_kv_heads == 2); // as many as heads
    CHECK(config_of(writer).rope_theta == 10000.0);
    writer.set("llama.context_length", 10, GgufWriter::raw<uint64_t>(77))
        .number("llama.expert_count", 0)
        .number("llama.vocab_size", 10);
    CHECK(config_of(writer).max_position == 77);
    writer.number("llama.attention.sliding_window", 20);
    CHECK(config_of(writer).layer_windows == std::vector<int64_t>{20, 20});
    writer.number("llama.attention.sliding_window", 77); // hides nothing
    CHECK(config_of(writer).layer_windows.empty());
    writer.real("llama.rope.scale_linear", 2.0F);
    CHECK(config_of(writer).rope_scaling.kind == RopeScaling::Kind::linear);
    writer.text("llama.rope.scaling.type", "linear")
        .real("llama.rope.scaling.factor", 4.0F)
        .remove("llama.rope.scale_linear");
    CHECK(config_of(writer).rope_scaling.factor == 4.0);
    writer.text("llama.rope.scaling.type", "yarn").number("llama.rope.scaling.original_context_length", 16);
    const RopeScaling yarn = config_of(writer).rope_scaling;
    CHECK((yarn.kind == RopeScaling::Kind::yarn && yarn.factor == 4 && yarn.original_max_position == 16));
    CHECK(std::abs(yarn.attention_factor - (1 + 0.1 * std::log(4.0))) < 1e-12);
    writer.text("llama.rope.scaling.type", "none").remove("llama.rope.scaling.factor");
    writer.remove("llama.rope.scaling.original_context_length");
    writer.floats("rope_freqs.weight", {2}, 3.0F);
    const ModelConfig factors = config_of(writer);
    REQUIRE(factors.rope_scaling.kind == RopeScaling::Kind::factors);
    CHECK(factors.rope_scaling.factors == std::vector<float>{3.0F, 3.0F * 1.001F});
    ModelConfig other = factors;
    CHECK_FALSE(geometry_difference(factors, other));
    other.rope_scaling.factors[1] = 5.0F;
    CHECK(geometry_difference(factors, other));
    CHECK(geometry_difference(factors, plain));
    writer.drop("rope_freqs.weight")
        .tensor("rope_freqs.weight", {2}, 0, GgufWriter::raw(1.0F) + GgufWriter::raw(1.0F));
    CHECK(config_of(writer).rope_scaling.kind == RopeScaling::Kind::none);

    writer = tiny_gguf();
    writer.floats("output.weight", {8, 10})
        .floats("blk.0.attn_q.bias", {8})
        .floats("blk.0.attn_output.bias", {8})
        .floats("blk.0.ffn_up.bias", {12});
    const ModelConfig biased = config_of(writer);
    CHECK_FALSE(biased.tied_head);
    CHECK(biased.qkv_bias);
    CHECK(biased.output_bias);
    CHECK(biased.mlp_bias);

    // every token that ends an answer, by its key or by its name
    writer = tiny_gguf();
    writer.texts("tokenizer.ggml.tokens", {"<s>", "</s>", "<|im_end|>", "<|eot_id|>", "b", "c", "d", "ab",
                                           "<|end|>", "<end_of_turn>"});
    writer.numbers("tokenizer.ggml.token_type", {3, 3, 3, 3, 1, 1, 1, 1, 1, 3})
        .number("tokenizer.ggml.eot_token_id", 5);
    CHECK(config_of(writer).eos_ids == std::vector<int32_t>{1, 5, 2, 3, 9});
}

TEST_CASE("what a GGUF file says that cannot be computed is refused by key or tensor", "[gguf]") {
    CHECK_THAT(refused([](auto& w) { w.remove("general.architecture"); }),
               ContainsSubstring("key general.architecture is missing"));
    CHECK_THAT(refused([](auto& w) { w.text("general.architecture", "bert"); }),
               ContainsSubstring("key general.architecture is bert, which is not supported") &&
                   ContainsSubstring("supported: llama, qwen2, qwen3, granite, smollm3, olmo2, phi3, gemma2, "
                                     "gemma3, qwen3moe; docs/howto/add-a-family.md"));
    for (const char* key :
         {"llama.block_count", "llama.context_length", "llama.embedding_length", "llama.feed_forward_length",
          "llama.attention.head_count", "llama.attention.layer_norm_rms_epsilon"}) {
        CHECK_THAT(refused([&](auto& w) { w.remove(key); }),
                   ContainsSubstring(std::string("key ") + key + " is missing"));
        CHECK_THAT(refused([&](auto& w) { w.text(key, "x"); }),
                   ContainsSubstring(std::string("key ") + key + " is a text"));
    }
    CHECK_THAT(refused([](auto& w) { w.number("llama.block_count", 0); }),
               ContainsSubstring("llama.block_count must be in 1 .. 1024"));
    CHECK_THAT(refused([](auto& w) { w.number("llama.context_length", UINT32_MAX); }),
               ContainsSubstring("llama.context_length must be in"));
    CHECK_THAT(refused([](auto& w) {
                   w.numbers("llama.attention.head_count", {2, 2});
               }),
               ContainsSubstring("llama.attention.head_count is a list"));
    CHECK_THAT(refused([](auto& w) { w.number("llama.attention.head_count_kv", 3); }),
               ContainsSubstring("llama.attention.head_count (2) must be a multiple"));
    CHECK_THAT(refused([](auto& w) {
                   w.number("llama.attention.head_count", 3).number("llama.attention.head_count_kv", 1);
               }),
               ContainsSubstring("llama.embedding_length"));
    CHECK_THAT(refused([](auto& w) { w.number("llama.attention.key_length", 5); }),
               ContainsSubstring("must be even"));
    CHECK_THAT(refused([](auto& w) { w.number("llama.attention.value_length", 8); }),
               ContainsSubstring("llama.attention.value_length is 8, and the head size is 4"));
    CHECK_THAT(refused([](auto& w) { w.number("llama.rope.dimension_count", 2); }),
               ContainsSubstring("llama.rope.dimension_count is 2"));
    CHECK_THAT(refused([](auto& w) { w.number("llama.expert_count", 8); }),
               ContainsSubstring("key llama.expert_used_count is missing"));
    CHECK_THAT(refused([](auto& w) { w.real("llama.logit_scale", 0.5F); }),
               ContainsSubstring("key llama.logit_scale is 0.5"));
    CHECK_THAT(refused([](auto& w) { w.real("llama.attention.scale", 0.1F); }),
               ContainsSubstring("key llama.attention.scale"));
    CHECK_THAT(refused([](auto& w) { w.flag("llama.attention.causal", false); }),
               ContainsSubstring("llama.attention.causal is false"));
    CHECK_THAT(refused([](auto& w) { w.text("llama.rope.scaling.type", "longrope"); }),
               ContainsSubstring("tensor \"rope_factors_short.weight\": missing"));
    CHECK_THAT(refused([](auto& w) { w.floats("rope_factors_long.weight", {2}); }),
               ContainsSubstring("tensor \"rope_factors_short.weight\": missing"));
    CHECK_THAT(
        refused([](auto& w) { w.number("llama.expert_count", 2).number("llama.expert_used_count", 2); }),
        ContainsSubstring("blk.0.ffn_gate.weight") && ContainsSubstring("no place in a mixtral model"));
    CHECK_THAT(refused([](auto& w) { w.text("llama.rope.scaling.type", "yarn"); }),
               ContainsSubstring("llama.rope.scaling.factor is missing"));
    CHECK_THAT(refused([](auto& w) {
                   w.text("llama.rope.scaling.type", "yarn").real("llama.rope.scaling.factor", 4.0F);
                   w.real("llama.rope.scaling.yarn_ext_factor", 0.5F);
               }),
               ContainsSubstring("yarn_ext_factor is 0.5"));
    CHECK_THAT(refused([](auto& w) { w.text("llama.rope.scaling.type", "linear"); }),
               ContainsSubstring("llama.rope.scaling.factor is missing"));
    CHECK_THAT(refused([](auto& w) { w.real("llama.rope.freq_base", 0.0F); }),
               ContainsSubstring("llama.rope.freq_base must be in"));
    CHECK_THAT(refused([](auto& w) { w.real("llama.rope.freq_base", std::nanf("")); }),
               ContainsSubstring("llama.rope.freq_base must be in"));
    CHECK_THAT(refused([](auto& w) { w.number("llama.vocab_size", 11); }),
               ContainsSubstring("key llama.vocab_size is 11, and token_embd.weight has 10 rows"));
    CHECK_THAT(refused([](auto& w) { w.number("tokenizer.ggml.eos_token_id", 10); }),
               ContainsSubstring("tokenizer.ggml.eos_token_id must be in 0 .. 9"));
    CHECK_THAT(refused([](auto& w) { w.floats("rope_freqs.weight", {3}); }),
               ContainsSubstring("tensor \"rope_freqs.weight\": must be 2 values"));
    CHECK_THAT(refused([](auto& w) { w.floats("rope_freqs.weight", {2}, -1.0F); }),
               ContainsSubstring("rope_freqs.weight") && ContainsSubstring("factor -1"));

    CHECK_THAT(refused([](auto& w) { w.drop("token_embd.weight"); }),
               ContainsSubstring("tensor \"token_embd.weight\": missing"));
    CHECK_THAT(refused([](auto& w) { w.drop("blk.1.ffn_down.weight"); }),
               ContainsSubstring("tensor \"blk.1.ffn_down.weight\": missing"));
    CHECK_THAT(refused([](auto& w) { w.drop("output_norm.weight"); }),
               ContainsSubstring("tensor \"output_norm.weight\": missing"));
    CHECK_THAT(refused([](auto& w) {
                   w.drop("blk.0.attn_q.weight").floats("blk.0.attn_q.weight", {8, 6});
               }),
               ContainsSubstring(
                   "tensor \"blk.0.attn_q.weight\": its shape is [6, 8], the metadata ask for [8, 8]"));
    for (const char* name : {"blk.2.ffn_down.weight", "blk.0.attn_qkv.weight", "blk.0.ffn_gate_exps.weight",
                             "blk.0.attn_q_norm.weight", "blk.00.attn_q.weight", "blk.-1.attn_q.weight",
                             "blk..weight", "blk.0.", "attn_q.weight", "blk.0.attn_q.scale", "x"}) {
        CHECK_THAT(refused([&](auto& w) { w.floats(name, {4}); }),
                   ContainsSubstring(std::string("tensor \"") + name +
                                     "\": has no place in a llama model of 2 layers"));
    }
    CHECK_THAT(refused([](auto& w) { w.text("general.architecture", "qwen2"); }),
               ContainsSubstring("key qwen2.block_count is missing"));
}

TEST_CASE("a weight of a GGUF file that is no number is refused by its name there", "[gguf]") {
    const ScratchFolder folder("gguf-nan");
    GgufWriter writer = tiny_gguf();
    for (auto& tensor : writer.tensors) {
        if (tensor.name == "blk.1.ffn_up.weight") tensor.data.replace(20, 4, GgufWriter::raw(std::nanf("")));
    }
    folder.write("x.gguf", writer.bytes());
    CHECK_THAT(error_of([&] { (void)LlamaModel::load(folder.path() / "x.gguf", at::kCPU, at::kFloat); }),
               ContainsSubstring("tensor \"blk.1.ffn_up.weight\": value 5 is nan"));
}

TEST_CASE("a model source is a folder or a file, and says which file is meant", "[gguf]") {
    const ScratchFolder folder("source");
    folder.write("some-model.Q4_1.gguf", tiny_gguf().bytes());
    folder.write("named.bin", tiny_gguf().bytes());
    folder.write("notes.txt", "hello");
    const auto source = ModelSource::open(folder.path() / "some-model.Q4_1.gguf");
    CHECK(source->name() == "some-model.Q4_1");
    CHECK(source->config_name() == "metadata");
    CHECK(source->config().num_layers == 2);
    REQUIRE(source->files().size() == 1);
    CHECK(ModelSource::open(folder.path() / "named.bin")->name() == "named.bin"); // by its content
    CHECK(model_name("/a/b/llama/") == "llama");
    CHECK(model_name(".gguf") == ".gguf");
    CHECK(may_be_model(folder.path() / "some-model.Q4_1.gguf"));
    CHECK(may_be_model(folder.path() / "named.bin"));
    CHECK(may_be_model(RL_SOURCE_DIR "/assets/models/llama-tales-student"));
    for (const char* other : {"notes.txt", "nowhere", ".", "/dev/zero"})
        CHECK_FALSE(may_be_model(folder.path() / other));
    CHECK_THAT(error_of([&] { (void)ModelSource::open(folder.path() / "nowhere"); }),
               ContainsSubstring("no such model folder or .gguf file"));
    CHECK_THAT(error_of([&] { (void)ModelSource::open(folder.path() / "notes.txt"); }),
               ContainsSubstring("notes.txt") && ContainsSubstring("is no GGUF file"));
    CHECK_THAT(error_of([&] { (void)ModelSource::open(folder.path())->config(); }),
               ContainsSubstring("has no config.json") && ContainsSubstring("some-model.Q4_1.gguf"));
}

} // namespace gguf_model_test
