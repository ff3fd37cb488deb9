// Cache policies against kvpress, an independent implementation: what is kept of given queries, keys and values, and what whole
// runs keep and say. Conventions that differ are options; docs/reference/cache-policies.md has the table of what is compared.
#include "engine/base/json_file.h"
#include "engine/cache/kv_cache.h"
#include "engine/session/decode/decode_session.h"
#include "engine/session/pair/run_text.h"
#include "engine/session/policies/policy_runner.h"
#include "kernels/ops/attention.h"
#include "tests/engine/session/tiny_pair.h"
#include "tests/support/seed.h"
#include "tests/support/share.h"

#include <ATen/ATen.h>
#include <catch2/catch_test_macros.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <numeric>
#include <vector>

namespace kvpress_test {

using namespace refreshlab;
using namespace refreshlab::test;
using nlohmann::json;

namespace {

using Heads = std::vector<std::vector<int64_t>>; ///< kept positions of each KV head

/// A folder of the build in which the script has left its results. \param arguments  as the script takes them
std::filesystem::path reference(const std::string& name, const std::string& arguments) {
    const auto out = std::filesystem::path(RL_BUILD_DIR) / "test-files" / ("kvpress-" + name);
    std::filesystem::create_directories(out.parent_path());
    const std::string command = fmt::format("'{}' -B '{}/tests/engine/session/kvpress_reference.py' '{}' {}",
                                            RL_PYTHON, RL_SOURCE_DIR, out.string(), arguments);
    INFO(command);
    REQUIRE(std::system(command.c_str()) == 0);
    return out;
}

std::vector<float> numbers(const std::filesystem::path& file) {
    const std::string bytes = read_file(file);
    std::vector<float> values(bytes.size() / sizeof(float));
    std::memcpy(values.data(), bytes.data(), bytes.size());
    return values;
}

/// K then V of what every KV head of every layer holds.
std::vector<float> contents(const KvCache& cache) {
    std::vector<float> all;
    for (int64_t layer = 0; layer < cache.num_layers(); ++layer) {
        for (int64_t head = 0; head < cache.num_kv_heads(); ++head) {
            const at::Tensor rows = cache.read(layer, head, cache.held(layer, head)).contiguous();
            all.insert(all.end(), rows.const_data_ptr<float>(), rows.const_data_ptr<float>() + rows.numel());
        }
    }
    return all;
}

std::vector<Heads> held(const KvCache& cache) {
    std::vector<Heads> all(static_cast<size_t>(cache.num_layers()));
    for (int64_t layer = 0; layer < cache.num_layers(); ++layer) {
        for (int64_t head = 0; head < cache.num_kv_heads(); ++head) {
            const auto positions = cache.held(layer, head);
            all[static_cast<size_t>(layer)].emplace_back(positions.begin(), positions.end());
        }
    }
    return all;
}

float largest_difference(const std::vector<float>& a, const std::vector<float>& b) {
    REQUIRE(a.size() == b.size());
    float worst = 0;
    for (size_t i = 0; i < a.size(); ++i)
        worst = std::max(worst, std::abs(a[i] - b[i]));
    return worst;
}

/// In size; at least 1.
float largest_entry(const std::vector<float>& all) {
    float largest = 1;
    for (const float value : all)
        largest = std::max(largest, std::abs(value));
    return largest;
}

/// The queries, keys and values of a case, as the layers of a pass that reads a prompt.
class GivenPrompt {
public:
    GivenPrompt(const json& shape, const std::filesystem::path& file)
        : m_length(shape.at("length").get<int64_t>())
        , m_numbers(numbers(file)) {
        config.num_layers = shape.at("layers").get<int64_t>();
        config.num_heads = shape.at("heads").get<int64_t>();
        config.num_kv_heads = shape.at("kv_heads").get<int64_t>();
        config.head_dim = shape.at("head_dim").get<int64_t>();
        config.rope_theta = std::pow(2.0, static_cast<double>(config.head_dim / 2)); // frequencies 2^-c
        const at::Tensor all = at::from_blob(m_numbers.data(), {std::ssize(m_numbers)}, at::kFloat);
        const int64_t queries = config.num_layers * m_length * config.num_heads * config.head_dim,
                      keys = config.num_layers * m_length * config.num_kv_heads * config.head_dim;
        REQUIRE(std::ssize(m_numbers) == queries + 2 * keys);
        m_q =
            all.narrow(0, 0, queries).view({config.num_layers, m_length, config.num_heads, config.head_dim});
        const std::vector<int64_t> sizes = {config.num_layers, m_length, config.num_kv_heads,
                                            config.head_dim};
        m_k = all.narrow(0, queries, keys).view(sizes);
        m_v = all.narrow(0, queries + keys, keys).view(sizes);
    }

    ModelConfig config;

    /// What a policy keeps of it, and with which contents.
    /// \param prompt  so many positions; the others are steps
    /// \param next    with what it does to them before the next token is read; this token is not held any more
    [[nodiscard]] std::unique_ptr<KvCache> read_under(const CachePolicyConfig& policy, int64_t prompt,
                                                      bool next) const {
        PolicyRunner runner(policy, config, config, at::kCPU, prompt, 1);
        auto cache = std::make_unique<KvCache>(config.num_layers, config.num_kv_heads, m_length + 4,
                                               config.head_dim, at::kFloat, at::kCPU, runner.layout());
        std::vector<int64_t> positions(static_cast<size_t>(prompt));
        std::iota(positions.begin(), positions.end(), 0);
        for (int64_t layer = 0; layer < config.num_layers; ++layer) {
            LayerView view = written(*cache, layer, positions);
            const LayerTaps taps = runner.taps(layer);
            const at::Tensor rows = attention(*cache, layer, positions);
            if (taps.attention_from < prompt)
                view.attention = rows.narrow(0, taps.attention_from, prompt - taps.attention_from);
            for (int64_t row = 0; row < prompt && taps.sums.defined(); ++row)
                const_cast<at::Tensor&>(taps.sums).add_(rows[row]);
            runner.observe(view);
        }
        cache->commit(prompt, Origin::student_prefill);
        runner.finish_prompt(*cache);
        for (int64_t position = prompt; position < m_length; ++position) {
            runner.begin_step(position - prompt + 1);
            for (int64_t layer = 0; layer < config.num_layers; ++layer) {
                LayerView view = written(*cache, layer, {&position, 1});
                REQUIRE(runner.select(view) == nullptr);
                view.attention = attention(*cache, layer, view.positions);
                runner.observe(view);
            }
            cache->commit(1, Origin::student);
        }
        if (!next) return cache;
        runner.begin_step(1);
        for (int64_t layer = 0; layer < config.num_layers; ++layer) {
            cache->write(layer, at::zeros_like(m_k[layer].narrow(0, 0, 1)),
                         at::zeros_like(m_v[layer].narrow(0, 0, 1)));
            LayerView view;
            view.layer = layer;
            view.positions = {&m_length, 1};
            static_cast<void>(runner.select(view));
        }
        cache->commit(1, Origin::student);
        cache->truncate(m_length);
        return cache;
    }

private:
    /// A pass over these positions has written its columns of a layer.
    [[nodiscard]] LayerView written(KvCache& cache, int64_t layer, std::span<const int64_t> positions) const {
        const auto of = [&](const at::Tensor& all) {
            return all[layer].narrow(0, positions.front(), std::ssize(positions));
        };
        cache.write(layer, of(m_k), of(m_v));
        LayerView view;
        view.layer = layer;
        view.cache = &cache;
        view.positions = positions;
        view.q = of(m_q);
        return view;
    }

    /// The rows of these positions over all that is held, [rows, heads, keys], by the kernel that models use.
    [[nodiscard]] at::Tensor attention(const KvCache& cache, int64_t layer,
                                       std::span<const int64_t> positions) const {
        const LayerEntries entries = cache.entries(layer);
        std::vector<int64_t> visible(positions.begin(), positions.end());
        for (int64_t& n : visible)
            ++n;
        kernels::AttentionInputs in;
        in.q = m_q[layer].narrow(0, positions.front(), std::ssize(positions));
        in.k_cache = entries.k;
        in.v_cache = entries.v;
        in.lists = entries.lists;
        in.num_visible = visible;
        in.scale = 1.0 / std::sqrt(static_cast<double>(config.head_dim));
        at::Tensor probabilities;
        static_cast<void>(kernels::attention(in, &probabilities));
        return probabilities;
    }

    int64_t m_length;
    std::vector<float> m_numbers;
    at::Tensor m_q, m_k, m_v; ///< [layers, length, heads, head_dim]; keys after RoPE
};

/// kvpress turns all keys to their places in the cache; RefreshLab turns the sinks alone, to the newest entries. So all keys of ours
/// turned back by the gap, which is the newest entry's distance from its place, are those of kvpress.
void turn_back(std::vector<float>& all, const KvCache& cache) {
    const auto d = static_cast<size_t>(cache.head_dim()), half = d / 2;
    size_t at = 0;
    for (int64_t layer = 0; layer < cache.num_layers(); ++layer) {
        for (int64_t head = 0; head < cache.num_kv_heads(); ++head) {
            const auto positions = cache.held(layer, head);
            const auto gap = static_cast<double>(positions.back() - (std::ssize(positions) - 1));
            for (size_t slot = 0; slot < positions.size(); ++slot, at += d) {
                for (size_t c = 0; c < half; ++c) {
                    const double angle = -gap * std::pow(2.0, -static_cast<double>(c));
                    const auto x = static_cast<double>(all[at + c]),
                               y = static_cast<double>(all[at + c + half]);
                    all[at + c] = static_cast<float>(x * std::cos(angle) - y * std::sin(angle));
                    all[at + c + half] = static_cast<float>(y * std::cos(angle) + x * std::sin(angle));
                }
            }
            at += positions.size() * d; // values
        }
    }
}

/// The runs of a model under each press, and the same runs here.
void compare_runs(const std::filesystem::path& out, const std::string& model) {
    RunConfig config;
    config.teacher_dir = model;
    config.mode = Mode::teacher;
    config.prompt = "given as ids";
    config.ignore_stop = true;
    config.threads = 2;
    config.policy = preset_policy("none");
    const auto pair = load_pair(config);
    const json cases = read_json_file(out / "manifest.json");
    REQUIRE(cases.size() == 8);
    for (const json& one : cases) {
        INFO(one.at("name").get<std::string>());
        REQUIRE(one.at("closest").get<double>() > 5e-4); // no step of the reference is a tie
        const RunText text{{"", one.at("ids").get<std::vector<int32_t>>(), 0}, {}};
        config.teacher_cache = cache_policy_from_json(one.at("policy"), "a reference");
        const auto said = one.at("said").get<std::vector<int32_t>>();
        config.max_tokens = static_cast<int32_t>(said.size());
        DecodeSession session(pair, config, {}, &text);
        if (one.contains("kept")) {
            CHECK(held(*session.teacher_cache()) == one.at("kept").get<std::vector<Heads>>());
            const std::vector<float> theirs = numbers(out / one.at("entries").get<std::string>()),
                                     ours = contents(*session.teacher_cache());
            const float largest = largest_entry(theirs);
            // Both computed in fp32, in different orders, through every layer.
            INFO("largest difference " << largest_difference(ours, theirs) << ", largest entry " << largest);
            CHECK(largest_difference(ours, theirs) <= 1e-5F * largest);
        }
        while (session.step()) {
        }
        if (one.contains("held"))
            CHECK(held(*session.teacher_cache()) == one.at("held").get<std::vector<Heads>>());
        INFO("kvpress says: " << one.at("text").get<std::string>());
        CHECK(session.recording()->token_ids() == said);
    }
}

} // namespace

TEST_CASE("of given queries, keys and values kvpress keeps the same entries", "[session][kvpress][parity]") {
    const auto out = reference("vectors", fmt::format("{} vectors", seed(71) % 1'000'000));
    const json cases = read_json_file(out / "manifest.json");
    REQUIRE(cases.size() == 6 * 10);
    for (const json& one : cases) {
        INFO(one.at("name").get<std::string>()
             << " " << one.at("shape").dump() << " " << one.at("policy").dump());
        const GivenPrompt prompt(one.at("shape"), out / one.at("vectors").get<std::string>());
        const bool turns = one.at("name").get<std::string>().starts_with("streaming_llm reindexed");
        const auto cache = prompt.read_under(cache_policy_from_json(one.at("policy"), "a reference"),
                                             one.at("prompt").get<int64_t>(), turns);
        CHECK(held(*cache) == one.at("kept").get<std::vector<Heads>>());
        std::vector<float> ours = contents(*cache);
        if (turns) turn_back(ours, *cache);
        const std::vector<float> theirs = numbers(out / one.at("entries").get<std::string>());
        // Values of CaM are sums, of attention as well, whose rounding differs.
        const bool sums = one.at("policy").at("policy") == "cam";
        CHECK(largest_difference(ours, theirs) <= 1e-6F * (sums ? largest_entry(theirs) : 1));
    }
}

TEST_CASE("the bundled teacher keeps and says the same with kvpress", "[session][kvpress][parity]") {
    const std::string model = RL_SOURCE_DIR "/assets/models/llama-tales-teacher";
    compare_runs(reference("teacher", fmt::format("100 model '{}'", model)), model);
}

TEST_CASE("a published model keeps and says the same with kvpress", "[session][kvpress][real][parity]") {
    if (!has_turn(1, "kvpress on a published model")) SKIP("another commit's share");
    const char* const named = std::getenv("REFRESHLAB_MODELS");
    const auto model =
        std::filesystem::path(named != nullptr ? named : RL_MODELS) / "SmolLM2-135M-Instruct.Q4_1.gguf";
    if (!std::filesystem::exists(model)) SKIP(model.string() + " is not there");
    const char* const extent = std::getenv("REFRESHLAB_PARITY");
    const bool full = extent != nullptr && std::string_view(extent) == "full";
    compare_runs(reference(full ? "published-full" : "published",
                           fmt::format("{} model '{}'", full ? 100 : 16, model.string())),
                 model.string());
}

} // namespace kvpress_test
