#pragma once

#include "engine/base/error.h"
#include "engine/model/llama_model.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/ones.h>
#include <catch2/catch_test_macros.hpp>
#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <vector>

namespace refreshlab::test {

/// A folder of this process under the build directory, gone with the object.
class ScratchFolder {
public:
    explicit ScratchFolder(const std::string& name)
        : m_path(std::filesystem::path(RL_BUILD_DIR) / "scratch" /
                 (name + "-" + std::to_string(::getpid()))) {
        std::filesystem::remove_all(m_path);
        std::filesystem::create_directories(m_path);
    }
    ScratchFolder(const ScratchFolder&) = delete;
    ScratchFolder& operator=(const ScratchFolder&) = delete;
    ~ScratchFolder() {
        std::error_code ignored;
        std::filesystem::remove_all(m_path, ignored);
    }

    [[nodiscard]] const std::filesystem::path& path() const { return m_path; }
    void write(const std::string& name, std::string_view bytes) const {
        std::ofstream(m_path / name, std::ios::binary) << bytes;
    }
    void clear() const {
        for (const auto& entry : std::filesystem::directory_iterator(m_path))
            std::filesystem::remove_all(entry);
    }

private:
    std::filesystem::path m_path;
};

/// The message of the Error that `action` throws; fails the test when it throws none.
template <class Action>
std::string error_of(Action&& action) {
    try {
        action();
    } catch (const Error& error) {
        CHECK(error.kind() == ErrorKind::bad_input);
        CHECK(std::string_view(error.what()).find('\n') == std::string_view::npos);
        return error.what();
    }
    FAIL("no Error was thrown");
    return {};
}

/// Small, with everything that trips indexing: grouped heads, head_dim apart from hidden / heads, odd widths.
inline ModelConfig tiny_config() {
    ModelConfig config;
    config.model_type = "llama";
    config.vocab_size = 97;
    config.hidden_size = 37;
    config.intermediate_size = 53;
    config.num_layers = 3;
    config.num_heads = 6;
    config.num_kv_heads = 2;
    config.head_dim = 10;
    config.max_position = 2048;
    return config;
}

/// A random model whose attention and logits are far from uniform (initialisation of width 0.02 gives nearly flat ones).
inline std::unique_ptr<LlamaModel> lively_llama(const ModelConfig& config, uint64_t seed,
                                                at::ScalarType dtype = at::kFloat,
                                                at::Device device = at::kCPU) {
    at::Generator generator = at::detail::createCPUGenerator(seed);
    return LlamaModel::from_weights(
        config,
        [&](const std::string& name, at::IntArrayRef shape) {
            const bool norm = name.find("norm.weight") != std::string::npos;
            const auto options = at::TensorOptions().dtype(at::kFloat);
            return at::empty(shape, options).normal_(norm ? 1.0 : 0.0, 0.2, generator);
        },
        device, dtype);
}

inline std::vector<int32_t> random_tokens(int64_t n, int64_t vocab_size, uint64_t seed) {
    std::mt19937_64 random(seed);
    std::uniform_int_distribution<int32_t> id(0, static_cast<int32_t>(vocab_size) - 1);
    std::vector<int32_t> tokens(static_cast<size_t>(n));
    for (int32_t& token : tokens)
        token = id(random);
    return tokens;
}

} // namespace refreshlab::test
