#include "engine/cache/kv_cache.h"
#include "engine/model/checkpoint.h"
#include "engine/model/llama_model.h"
#include "tests/engine/model/support.h"

#include <ATen/Context.h>
#include <ATen/ops/argmax.h>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <span>

using refreshlab::AttentionCapture;
using refreshlab::Checkpoint;
using refreshlab::LlamaModel;
using refreshlab::Origin;
using refreshlab::test::ScratchFolder;
using Rows = refreshlab::LlamaModel::Rows;

namespace {

constexpr int64_t prompt_length = 70;
constexpr int64_t num_steps = 32;
constexpr int64_t length = prompt_length + num_steps;
constexpr double tolerance = 1e-4;
constexpr auto origin = static_cast<uint8_t>(Origin::student);

std::filesystem::path bundled(const std::string& name) {
    return std::filesystem::path(RL_SOURCE_DIR) / "assets" / "models" / ("llama-tales-" + name);
}

/// What the Python script beside this file wrote; made once per process.
const std::filesystem::path& references() {
    static const ScratchFolder folder("parity");
    static const bool made = [] {
        const std::string command = fmt::format(
            "'{}' '{}/tests/engine/model/transformers_reference.py' '{}' 'teacher={}' 'student={}'",
            RL_PYTHON, RL_SOURCE_DIR, folder.path().string(), bundled("teacher").string(),
            bundled("student").string());
        return std::system(command.c_str()) == 0;
    }();
    if (!made) FAIL("transformers_reference.py failed; its message is above");
    return folder.path();
}

std::filesystem::path checkpoint_of(const std::string& name) {
    return name == "teacher" || name == "student" ? bundled(name) : references() / name;
}

std::vector<at::Device> devices() {
    std::vector<at::Device> result = {at::kCPU};
    if (at::globalContext().hasCUDA()) result.emplace_back(at::kCUDA, 0);
    return result;
}

std::vector<int32_t> tokens_of(const Checkpoint& reference, const std::string& name, int64_t n) {
    const at::Tensor ids = reference.read(name, {n});
    std::vector<int32_t> tokens;
    for (int64_t i = 0; i < n; ++i)
        tokens.push_back(static_cast<int32_t>(ids.data_ptr<double>()[i]));
    return tokens;
}

double max_difference(const at::Tensor& a, const at::Tensor& b) {
    return (a.to(at::kCPU) - b).abs().max().item<double>();
}

struct Decoded {
    at::Tensor logits;                 ///< [length, vocab]
    at::Tensor keys, values;           ///< [layers, kv_heads, length, head_dim]
    std::vector<at::Tensor> attention; ///< of the last prompt token and of each step, [layers, heads, n]
};

Decoded decode(const LlamaModel& model, std::span<const int32_t> tokens, std::span<const int64_t> chunks) {
    Decoded result;
    const auto cache = model.make_cache(length);
    result.logits = at::empty({length, model.config().vocab_size}, at::TensorOptions().dtype(at::kFloat));
    AttentionCapture capture;
    int64_t at = 0;
    for (const int64_t n : chunks) {
        const auto chunk = tokens.subspan(static_cast<size_t>(at), static_cast<size_t>(n));
        result.logits.narrow(0, at, n).copy_(model.extend(*cache, chunk, Rows::all, origin, &capture));
        at += n;
    }
    REQUIRE(at == prompt_length);
    result.attention.push_back(capture.rows);
    for (; at < length; ++at) {
        result.logits.select(0, at).copy_(
            model.step(*cache, tokens[static_cast<size_t>(at)], origin, {}, &capture).row);
        result.attention.push_back(capture.rows);
    }
    result.keys = cache->keys(0, length);
    result.values = cache->values(0, length);
    return result;
}

} // namespace

TEST_CASE("logits, K/V and attention rows are those of transformers: prefill, chunked prefill, cached steps",
          "[model][parity]") {
    const auto name =
        GENERATE(values<std::string>({"gqa", "separate", "odd", "linear", "teacher", "student"}));
    CAPTURE(name);
    const Checkpoint reference = Checkpoint::open(references() / (name + "-reference"));
    for (const at::Device device : devices()) {
        CAPTURE(device.str());
        const auto model = LlamaModel::load(checkpoint_of(name), device, at::kFloat);
        const auto& config = model->config();
        const std::vector<int32_t> tokens = tokens_of(reference, "tokens", length);
        const at::Tensor logits = reference.read("logits", {length, config.vocab_size});
        const std::vector<int64_t> kv_shape = {config.num_layers, config.num_kv_heads, length,
                                               config.head_dim};
        const at::Tensor keys = reference.read("keys", kv_shape);
        const at::Tensor values = reference.read("values", kv_shape);
        REQUIRE(logits.abs().max().item<double>() > 2.0); // nearly flat logits would prove nothing

        for (const std::vector<int64_t>& chunks :
             {std::vector<int64_t>{prompt_length}, std::vector<int64_t>{1, 30, 2, 37}}) {
            CAPTURE(chunks);
            const Decoded ours = decode(*model, tokens, chunks);
            CHECK(max_difference(ours.logits, logits) < tolerance);
            CHECK(max_difference(ours.keys, keys) < tolerance);
            CHECK(max_difference(ours.values, values) < tolerance);
            for (int64_t i = 0; i <= num_steps; ++i) {
                const at::Tensor row =
                    reference.read("attention." + std::to_string(i),
                                   {config.num_layers, config.num_heads, prompt_length + i});
                const at::Tensor& our_row = ours.attention[static_cast<size_t>(i)];
                REQUIRE(our_row.sizes() == row.sizes());
                CHECK(max_difference(our_row, row) < tolerance);
            }
        }
    }
}

TEST_CASE("logits at the end of the context are those of transformers", "[model][parity]") {
    const auto name = GENERATE(values<std::string>({"odd", "linear", "teacher"}));
    CAPTURE(name);
    const Checkpoint reference = Checkpoint::open(references() / (name + "-reference"));
    const auto model = LlamaModel::load(checkpoint_of(name), at::kCPU, at::kFloat);
    const int64_t n = model->config().max_position;
    const std::vector<int32_t> tokens = tokens_of(reference, "far_tokens", n);
    const auto cache = model->make_cache(n);
    (void)model->extend(*cache, std::span(tokens).first(static_cast<size_t>(n - 8)), Rows::none, origin);
    const at::Tensor rows = model->extend(*cache, std::span(tokens).last(8), Rows::all, origin);
    CHECK(max_difference(rows, reference.read("far_logits", {8, model->config().vocab_size})) < tolerance);
}

TEST_CASE("in bf16 the greedy token is that of transformers wherever it leads by more than 0.1",
          "[model][parity]") {
    const auto name = GENERATE(values<std::string>({"gqa", "separate", "odd", "teacher", "student"}));
    CAPTURE(name);
    const Checkpoint reference = Checkpoint::open(references() / (name + "-reference"));
    for (const at::Device device : devices()) {
        CAPTURE(device.str());
        const auto model = LlamaModel::load(checkpoint_of(name), device, at::kBFloat16);
        CHECK(model->make_cache(4)->dtype() == at::kBFloat16);
        const at::Tensor theirs = reference.read("bf16_logits", {length, model->config().vocab_size});
        const at::Tensor exact = reference.read("rounded_logits", {length, model->config().vocab_size});
        const std::vector<int32_t> tokens = tokens_of(reference, "tokens", length);
        const auto cache = model->make_cache(length);
        const at::Tensor ours = model->extend(*cache, tokens, Rows::all, origin).to(at::kCPU);
        CHECK(ours.scalar_type() == at::kFloat);
        CHECK(max_difference(ours, exact) < (device.is_cpu() ? 0.1 : 0.5)); // CPU: only K/V are rounded

        // Their bf16 rows carry rounding of up to 0.2 of their own: the lead must show in fp32 as well.
        const auto [top, ids] = theirs.topk(2, 1);
        const at::Tensor exact_top = std::get<0>(exact.topk(2, 1));
        int64_t compared = 0;
        for (int64_t row = 0; row < length; ++row) {
            const double gap = std::min((top[row][0] - top[row][1]).item<double>(),
                                        (exact_top[row][0] - exact_top[row][1]).item<double>());
            if (gap <= 0.1) continue;
            ++compared;
            CAPTURE(row, gap);
            CHECK(ours[row].argmax().item<int64_t>() == ids[row][0].item<int64_t>());
        }
        CHECK(compared > length / 2);
    }
}
