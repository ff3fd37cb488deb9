#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace refreshlab::test {

/// Makes GGUF files by hand, right ones and wrong ones: every part can be replaced before it is written.
class GgufWriter {
public:
    std::string magic = "GGUF";
    uint32_t version = 3;
    uint64_t alignment = 32; ///< of the data; written as a key only by number()
    bool last_padding = true;

    struct Entry {
        std::string key, value; ///< the value with its type
    };
    struct Tensor {
        std::string name;
        std::vector<uint64_t> dims; ///< the contiguous axis first
        uint32_t type = 0;
        std::string data;
    };
    std::vector<Entry> entries;
    std::vector<Tensor> tensors;

    template <typename T>
    static std::string raw(T value) {
        std::string bytes(sizeof(value), '\0');
        std::memcpy(bytes.data(), &value, sizeof(value));
        return bytes;
    }
    static std::string text_bytes(std::string_view text) {
        return raw<uint64_t>(text.size()) + std::string(text);
    }

    /// \param type  GGUF's number of the value type; the bytes are the value's
    GgufWriter& set(const std::string& key, uint32_t type, const std::string& bytes) {
        for (Entry& entry : entries) {
            if (entry.key != key) continue;
            entry.value = raw(type) + bytes;
            return *this;
        }
        entries.push_back({key, raw(type) + bytes});
        return *this;
    }
    GgufWriter& number(const std::string& key, uint32_t value) { return set(key, 4, raw(value)); }
    GgufWriter& real(const std::string& key, float value) { return set(key, 6, raw(value)); }
    GgufWriter& flag(const std::string& key, bool value) { return set(key, 7, raw<uint8_t>(value ? 1 : 0)); }
    GgufWriter& text(const std::string& key, std::string_view value) {
        return set(key, 8, text_bytes(value));
    }
    GgufWriter& texts(const std::string& key, const std::vector<std::string>& values) {
        std::string bytes = raw<uint32_t>(8) + raw<uint64_t>(values.size());
        for (const std::string& value : values)
            bytes += text_bytes(value);
        return set(key, 9, bytes);
    }
    GgufWriter& numbers(const std::string& key, const std::vector<int32_t>& values) {
        std::string bytes = raw<uint32_t>(5) + raw<uint64_t>(values.size());
        for (const int32_t value : values)
            bytes += raw(value);
        return set(key, 9, bytes);
    }
    GgufWriter& reals(const std::string& key, const std::vector<float>& values) {
        std::string bytes = raw<uint32_t>(6) + raw<uint64_t>(values.size());
        for (const float value : values)
            bytes += raw(value);
        return set(key, 9, bytes);
    }
    GgufWriter& remove(const std::string& key) {
        std::erase_if(entries, [&](const Entry& entry) { return entry.key == key; });
        return *this;
    }

    GgufWriter& tensor(const std::string& name, std::vector<uint64_t> dims, uint32_t type, std::string data) {
        tensors.push_back({name, std::move(dims), type, std::move(data)});
        return *this;
    }
    /// An F32 tensor of small numbers.
    GgufWriter& floats(const std::string& name, std::vector<uint64_t> dims, float first = 1.0F) {
        uint64_t elements = 1;
        for (const uint64_t n : dims)
            elements *= n;
        std::string data;
        for (uint64_t i = 0; i < elements; ++i)
            data += raw(first * (1.0F + 0.001F * static_cast<float>(i % 97)));
        return tensor(name, std::move(dims), 0, std::move(data));
    }
    GgufWriter& drop(const std::string& name) {
        std::erase_if(tensors, [&](const Tensor& tensor) { return tensor.name == name; });
        return *this;
    }

    [[nodiscard]] std::string header() const {
        std::string bytes =
            magic + raw(version) + raw<uint64_t>(tensors.size()) + raw<uint64_t>(entries.size());
        for (const Entry& entry : entries)
            bytes += text_bytes(entry.key) + entry.value;
        uint64_t offset = 0;
        for (const Tensor& tensor : tensors) {
            bytes += text_bytes(tensor.name) + raw(static_cast<uint32_t>(tensor.dims.size()));
            for (const uint64_t n : tensor.dims)
                bytes += raw(n);
            bytes += raw(tensor.type) + raw(offset);
            offset += padded(tensor.data.size());
        }
        return bytes;
    }
    [[nodiscard]] std::string bytes() const {
        std::string file = header();
        file.resize(padded(file.size()), '\0');
        for (const Tensor& tensor : tensors) {
            file += tensor.data;
            if (last_padding || &tensor != &tensors.back()) file.resize(padded(file.size()), '\0');
        }
        return file;
    }

private:
    [[nodiscard]] uint64_t padded(uint64_t n) const { return (n + alignment - 1) / alignment * alignment; }
};

/// A whole tiny Llama with a byte-level tokenizer of a few pieces: 2 layers, width 8, 2 heads on 1 KV head of 4.
inline GgufWriter tiny_gguf() {
    GgufWriter file;
    file.text("general.architecture", "llama")
        .number("llama.block_count", 2)
        .number("llama.context_length", 64);
    file.number("llama.embedding_length", 8).number("llama.feed_forward_length", 12);
    file.number("llama.attention.head_count", 2).number("llama.attention.head_count_kv", 1);
    file.real("llama.attention.layer_norm_rms_epsilon", 1e-5F).real("llama.rope.freq_base", 10000.0F);
    file.number("llama.rope.dimension_count", 4);
    const std::vector<std::string> tokens = {"<s>", "</s>",   "<x>", "a",   "b",
                                             "c",   "\u0120", "ab",  "abc", "\u0120a"};
    file.text("tokenizer.ggml.model", "gpt2")
        .text("tokenizer.ggml.pre", "gpt-2")
        .texts("tokenizer.ggml.tokens", tokens);
    file.numbers("tokenizer.ggml.token_type", {3, 3, 4, 1, 1, 1, 1, 1, 1, 1});
    file.texts("tokenizer.ggml.merges", {"a b", "ab c", "\u0120 a"});
    file.number("tokenizer.ggml.bos_token_id", 0).number("tokenizer.ggml.eos_token_id", 1);
    file.floats("token_embd.weight", {8, 10}, 0.1F);
    for (const char* layer : {"blk.0.", "blk.1."}) {
        const std::string prefix = layer;
        file.floats(prefix + "attn_norm.weight", {8}).floats(prefix + "attn_q.weight", {8, 8}, 0.05F);
        file.floats(prefix + "attn_k.weight", {8, 4}, -0.05F).floats(prefix + "attn_v.weight", {8, 4}, 0.07F);
        file.floats(prefix + "attn_output.weight", {8, 8}, 0.02F).floats(prefix + "ffn_norm.weight", {8});
        file.floats(prefix + "ffn_gate.weight", {8, 12}, 0.03F)
            .floats(prefix + "ffn_up.weight", {8, 12}, 0.04F);
        file.floats(prefix + "ffn_down.weight", {12, 8}, 0.06F);
    }
    file.floats("output_norm.weight", {8});
    return file;
}

} // namespace refreshlab::test
