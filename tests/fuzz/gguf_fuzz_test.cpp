#include "engine/base/error.h"
#include "engine/model/gguf/gguf_config.h"
#include "engine/model/gguf/gguf_text.h"
#include "engine/model/gguf/gguf_weights.h"
#include "engine/text/chat_template.h"
#include "engine/text/tokenizer/tokenizer.h"
#include "tests/fuzz/fuzz_support.h"

#include <catch2/catch_test_macros.hpp>

#include <atomic>
#include <cstring>
#include <memory>
#include <set>
#include <stdexcept>
#include <string_view>

namespace gguf_fuzz_test {

using namespace refreshlab;
using namespace refreshlab::fuzz;

namespace {

void promise(bool kept, const char* what) {
    if (!kept) throw std::logic_error(what);
}

void check_container(const GgufFile& file, const std::string& input) {
    const auto* const begin = reinterpret_cast<const std::byte*>(input.data());
    const std::byte* const end = begin + input.size();
    std::set<std::string> names;
    const std::byte* at = begin;
    for (const GgufTensor& tensor : file.tensors()) {
        promise(names.insert(tensor.name).second, "names that differ");
        promise(tensor.type != nullptr && !tensor.shape.empty() && tensor.shape.size() <= 4,
                "a type and a shape");
        int64_t elements = 1;
        for (const int64_t n : tensor.shape) {
            promise(n > 0, "a shape of positive sizes");
            elements *= n;
        }
        promise(tensor.shape.back() % tensor.type->block == 0, "rows of whole blocks");
        promise(static_cast<int64_t>(tensor.bytes.size()) ==
                    elements / tensor.type->block * tensor.type->block_bytes,
                "bytes of its shape");
        promise(tensor.bytes.data() >= at && tensor.bytes.data() + tensor.bytes.size() <= end,
                "tensors one after the other, in the file");
        at = tensor.bytes.data() + tensor.bytes.size();
        promise(file.tensor(tensor.name) == &tensor, "found by its name");
    }
    for (const auto& [key, value] : file.values())
        promise(value.bytes.data() >= begin && value.bytes.data() + value.bytes.size() <= end,
                "values in the file");
}

/// What the metadata and the tensors give, read once; Error is a verdict like any other.
void use_model(const GgufFile& parsed) {
    const auto file = std::make_shared<const GgufFile>(parsed);
    const ModelConfig config = gguf_config(*file);
    promise(config.num_layers > 0 && config.num_heads % config.num_kv_heads == 0 && config.head_dim % 2 == 0,
            "a shape that can run");
    promise(config.rms_norm_eps > 0 && config.rope_theta >= 1 && config.max_position > 0,
            "numbers that can run");
    promise(2 * config.num_layers * config.num_kv_heads * config.head_dim <=
                INT64_MAX / 8 / config.max_position,
            "a cache whose bytes can be counted");
    for (const int32_t id : config.eos_ids)
        promise(id >= 0 && id < config.vocab_size, "end tokens of the vocabulary");
    promise(!geometry_difference(config, config), "of its own geometry");
    const GgufWeights weights(file, config);
    for (const std::string& name : weights.names()) {
        const GgufTensor& tensor = *weights.blocks(name).tensor;
        if (tensor.shape.size() > 2 ||
            (weights.blocks(name).head_dim > 0 && tensor.shape.front() % config.head_dim != 0))
            continue;
        promise(weights.read(name, tensor.shape, at::kBFloat16).sizes() == at::IntArrayRef(tensor.shape),
                "readable");
    }
}

void use_text(const GgufFile& file) {
    const auto tokenizer = gguf_tokenizer(file);
    for (const int32_t id : tokenizer->encode("ab abc\n<x>\u00e9 cab  12", true))
        promise(id >= 0 && id < tokenizer->vocab_size(), "ids of the vocabulary");
    const auto chat = gguf_chat_template(file);
    RenderOptions options;
    options.max_work = 300'000;
    if (chat) static_cast<void>(chat->render({{"user", "hi"}}, options));
}

/// Little-endian numbers that a length or a count must not be believed with.
std::vector<std::string> words() {
    std::vector<std::string> result = {
        "GGUF",        "llama.", "qwen2.",  "qwen3.", "tokenizer.ggml.", "general.alignment",
        "split.count", "blk.0.", ".weight", ".bias"};
    for (const uint64_t number : {uint64_t{0}, uint64_t{1}, uint64_t{3}, uint64_t{9}, uint64_t{1} << 31,
                                  uint64_t{1} << 40, uint64_t{INT64_MAX}, UINT64_MAX}) {
        std::string bytes(sizeof(number), '\0');
        std::memcpy(bytes.data(), &number, sizeof(number));
        result.push_back(bytes);
        result.push_back(bytes.substr(0, 4));
    }
    return result;
}

} // namespace

TEST_CASE("fuzz: a GGUF file is read as promised or refused", "[fuzz]") {
    std::atomic<int64_t> models{0}, texts{0};
    const Outcome outcome = run_target(
        "gguf",
        [&](const std::string& input, size_t) {
            const GgufFile file =
                GgufFile::parse(std::as_bytes(std::span(input.data(), input.size())), "input.gguf");
            check_container(file, input);
            const auto counted = [](std::atomic<int64_t>& count, const auto& use) {
                try {
                    use();
                    ++count;
                } catch (const Error& error) { // refused further on
                    promise(std::string_view(error.what()).find('\n') == std::string_view::npos, "one line");
                }
            };
            counted(models, [&] { use_model(file); });
            // Making a tokenizer takes a hundred times as long as reading a header: for one input in eight.
            if (std::hash<std::string>()(input) % 8 == 0) counted(texts, [&] { use_text(file); });
        },
        words());
    CHECK(outcome.accepted > fuzz_runs() / 50);
    CHECK(outcome.refused > fuzz_runs() / 10);
    CHECK(models > fuzz_runs() / 100);
    CHECK(texts > fuzz_runs() / 2000);
}

} // namespace gguf_fuzz_test
