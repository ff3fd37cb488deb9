// H2O, CAKE, DefensiveKV, ARKV, DapQ, LookaheadKV, Quest, FASA, MPCache, TRIM-KV, Locret and RefreshKV in sessions against plain ones that read the whole text anew at every step.
#include "engine/cache/kv_cache.h"
#include "engine/record/recording/recording.h"
#include "engine/session/decode/decode_session.h"
#include "tests/engine/session/plain_policies.h"
#include "tests/engine/session/tiny_pair.h"
#include "tests/support/seed.h"

#include <ATen/Parallel.h>
#include <catch2/catch_test_macros.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <cmath>
#include <functional>
#include <random>

namespace plain_policies_test {

using namespace refreshlab;
using namespace refreshlab::test;

namespace {

/// A random model with its weights at hand, as its own teacher.
struct Plain {
    ModelConfig config;
    std::map<std::string, at::Tensor> weights;
    std::shared_ptr<const ModelPair> pair;
};

Plain plain_model(uint64_t number, const TinyShape& shape) {
    Plain plain;
    const auto like = tiny_pair(1, 1, shape, shape);
    plain.config = like->student->config();
    std::mt19937_64 random(number);
    const auto weight = [&](const std::string& name, at::IntArrayRef sizes) {
        const bool norm = name.find("norm") != std::string::npos;
        std::normal_distribution<float> normal(norm ? 1.0F : 0.0F, norm ? 0.1F : 0.3F);
        at::Tensor values = at::empty(sizes, at::kFloat);
        for (int64_t i = 0; i < values.numel(); ++i)
            values.mutable_data_ptr<float>()[i] = normal(random);
        plain.weights.emplace(name, values.clone());
        return values;
    };
    auto pair = std::make_shared<ModelPair>(*like);
    pair->student = pair->teacher = LlamaModel::from_weights(plain.config, weight, at::kCPU, at::kFloat);
    plain.pair = pair;
    return plain;
}

/// The model once more with keys and values of its own for every query head.
Plain repeated(const Plain& model) {
    Plain wide = model;
    const int64_t group = model.config.num_heads / model.config.num_kv_heads, d = model.config.head_dim;
    wide.config.num_kv_heads = model.config.num_heads;
    for (auto& [name, weight] : wide.weights) {
        if (name.find("k_proj") == std::string::npos && name.find("v_proj") == std::string::npos) continue;
        std::vector<at::Tensor> rows;
        for (int64_t head = 0; head < model.config.num_heads; ++head)
            rows.push_back(weight.narrow(0, head / group * d, d));
        weight = at::cat(rows);
    }
    return wide;
}

CachePolicyConfig settings(const char* name, const std::map<std::string, double>& values) {
    CachePolicyConfig policy = cache_policy_defaults(name, "a test");
    for (const auto& [key, value] : values)
        policy.values.at(key) = value;
    return policy;
}

double entropy_bits(const at::Tensor& row) {
    const at::Tensor log_p = at::log_softmax(row, 0);
    return -(log_p.exp() * log_p).sum().item<double>() / std::log(2.0);
}

/// The recorded row of the newest position: which positions of a KV head it gave attention to, and how much.
/// \return the first difference; empty: there is none
std::string difference_of_rows(const AttentionRows& recorded, const PlainDecoder& plain,
                               const ModelConfig& config) {
    const int64_t group = config.num_heads / config.num_kv_heads;
    REQUIRE(recorded.keys == plain.length());
    for (int64_t layer = 0; layer < config.num_layers; ++layer) {
        for (int64_t head = 0; head < config.num_heads; ++head) {
            const PositionSet& read = plain.read(layer, head / group);
            const at::Tensor row = plain.attention(layer)[head].contiguous();
            for (int64_t p = 0; p < recorded.keys; ++p) {
                const float weight = half_to_float(
                    recorded
                        .weights[static_cast<size_t>((layer * recorded.heads + head) * recorded.keys + p)]);
                const double wanted = row.const_data_ptr<double>()[p];
                if (std::abs(static_cast<double>(weight) - wanted) > 1e-3 + 1e-3 * wanted ||
                    (weight > 0 && !read.contains(p)) || (weight == 0 && wanted > 1e-6)) {
                    return fmt::format("layer {}, head {}, position {}: {} in place of {}{}", layer, head, p,
                                       weight, wanted, read.contains(p) ? "" : ", which is not read");
                }
            }
        }
    }
    return {};
}

/// The model with a gate whose settings are these, and weights that tell tokens well apart.
Plain with_gate(const Plain& model, const char* method, const GateSettings& settings) {
    Plain gated = model;
    auto pair = std::make_shared<ModelPair>(*model.pair);
    const GateKind& kind = *find_gate_kind(method);
    const std::shared_ptr<TokenGate> gate = TokenGate::untrained(kind, model.config, 16, settings, seed(77));
    for (const auto& layer : gate->weights())
        if (&layer == &gate->weights().front() || !layer[1].is_same(gate->weights().front()[1]))
            layer[1].mul_(20); // once, where layers share it
    pair->student_gates[method] = gate;
    gated.pair = pair;
    return gated;
}

using MakePlain = std::function<std::unique_ptr<PlainPolicy>(const Plain& model)>;

/// One model under a policy, beside its second implementation.
/// \return false: they differ, and a decision was so close that rounding may have made it (two tokens are alike)
bool agrees(const Plain& model, const CachePolicyConfig& policy, const MakePlain& make, bool sometimes_all) {
    constexpr int64_t steps = 30;
    RunConfig config = tiny_run(steps + 1);
    config.prompt = "Once upon a time a fox and a crow lived by the river, and every morning the crow "
                    "sang of the mill, the bridge and the seven hills, while the fox counted boats.";
    config.mode = Mode::student;
    config.student_cache = policy;
    config.capture.top_k = max_top_k;
    DecodeSession session(model.pair, config);
    const auto rule = make(model);
    PlainDecoder plain(model.config, model.weights, *rule);
    at::Tensor row = plain.prompt(session.recording()->info().prompt_ids);
    const size_t entropy = require_signal("entropy_bits", "a test");
    int64_t least = plain.length(), whole = 0;
    for (int64_t t = 1; t <= steps; ++t) {
        CAPTURE(t);
        REQUIRE(session.step());
        const StepRecord& record = session.recording()->step(t);
        REQUIRE(record.token_id == row.argmax().item<int64_t>());
        row = plain.step(record.token_id);
        INFO("closest decision so far " << rule->closest());
        const bool undecided = rule->closest() < 1e-7;
        // Kept and attended sets.
        for (int64_t layer = 0; layer < model.config.num_layers; ++layer) {
            for (int64_t head = 0; head < model.config.num_kv_heads; ++head) {
                const auto held = session.student_cache()->held(layer, head);
                const PositionSet ours(held.begin(), held.end()),
                    theirs = rule->held(layer, head, plain.length());
                if (undecided && ours != theirs) return false;
                CHECK(ours == theirs);
                const int64_t read = std::ssize(plain.read(layer, head));
                least = std::min(least, read);
                if (read == plain.length()) ++whole;
            }
        }
        const auto attention = session.recording()->attention(plain.length() - 1, false);
        REQUIRE(attention != nullptr);
        const std::string difference = difference_of_rows(*attention, plain, model.config);
        if (undecided && !difference.empty()) return false;
        CHECK(difference.empty());
        // Logits, as far as a record has them.
        const at::Tensor p = at::softmax(row, 0);
        for (size_t i = 0; i < record.top_k; ++i)
            CHECK(std::abs(static_cast<double>(record.top_probs[i]) - p[record.top_ids[i]].item<double>()) <
                  2e-5);
        CHECK(std::abs(static_cast<double>(session.recording()->signal(t, entropy)) - entropy_bits(row)) <
              2e-4);
    }
    CHECK(least < plain.length() / 2); // the policy had something to do
    CHECK((whole > 0) == sometimes_all);
    return true;
}

/// \param sometimes_all  some steps read everything, others do not
/// \param change         of the model, before a run
void compare(const CachePolicyConfig& policy, const MakePlain& make, bool sometimes_all,
             const std::function<Plain(const Plain&)>& change = {}) {
    const auto per_query_head = policy.values.find("compat_per_query_head");
    const bool wide = per_query_head != policy.values.end() && per_query_head->second != 0;
    at::set_num_threads(1); // tensors of a few hundred numbers: more threads only wait for one another
    const TinyShape shapes[] = {
        {.layers = 3}, {.layers = 2, .heads = 6, .kv_heads = 3}, {.layers = 3, .heads = 4, .kv_heads = 1}};
    uint32_t number = 0;
    for (const TinyShape& shape : shapes) {
        bool agreed = false;
        for (uint32_t model_number = 0; !agreed && model_number < 12; ++model_number) {
            CAPTURE(to_json(policy).dump(), number, model_number);
            const Plain given = plain_model(seed(900 + number + 100 * model_number), shape);
            agreed = agrees(wide     ? repeated(given)
                            : change ? change(given)
                                     : given,
                            policy, make, sometimes_all);
        }
        CHECK(agreed); // of so many models one has no close decision
        ++number;
    }
}

} // namespace

TEST_CASE("H2O decides as its definition does, step by step", "[session][cache_policy][plain]") {
    compare(
        settings("h2o", {{"budget", 16}}), [](const Plain&) { return plain_h2o(16); }, false);
    compare(
        settings("h2o", {{"budget", 9}}), [](const Plain&) { return plain_h2o(9); }, false);
}

TEST_CASE("H2O per query head is H2O of a model that has a KV head for each",
          "[session][cache_policy][plain]") {
    compare(
        settings("h2o", {{"budget", 12}, {"compat_per_query_head", 1}}),
        [](const Plain&) { return plain_h2o(12); }, false);
}

TEST_CASE("CAKE shares and keeps as its definition does", "[session][cache_policy][plain]") {
    compare(
        settings("cake", {{"budget", 16}, {"window", 4}}), [](const Plain&) { return plain_cake(16, 4); },
        false);
    compare(
        settings("cake", {{"budget", 9}, {"window", 2}}), [](const Plain&) { return plain_cake(9, 2); },
        false);
}

TEST_CASE("CompressKV keeps what the heads of its profile attend to, more where errors are larger",
          "[session][cache_policy][plain]") {
    const std::vector<double> errors{0.35, 0.05, 0.15};
    const std::vector<std::vector<int64_t>> heads{{3, 0, 2, 1}, {1, 2, 0, 3}, {0, 3, 1, 2}},
        of_six{{5, 0, 2, 3}, {4, 1, 0, 5}};
    compare(
        settings("compress_kv", {{"budget", 13}, {"window", 4}, {"floor", 6}}),
        [&](const Plain& model) {
            return plain_compress_kv(13, 4, 6, model.config.num_heads == 6 ? of_six : heads,
                                     {errors.begin(), errors.begin() + model.config.num_layers});
        },
        false,
        [&](const Plain& model) {
            Plain profiled = model;
            auto pair = std::make_shared<ModelPair>(*model.pair);
            auto profile = std::make_shared<CacheProfile>(*pair->student_profiles.at("compress_kv"));
            for (size_t layer = 0; layer < profile->layers.size(); ++layer) {
                const auto& own = (model.config.num_heads == 6 ? of_six : heads)[layer];
                profile->layers[layer]["heads"] = {own.begin(), own.end()};
                profile->layers[layer]["error"] = {errors[layer]};
            }
            pair->student_profiles["compress_kv"] = profile;
            profiled.pair = pair;
            return profiled;
        });
}

TEST_CASE("DefensiveKV weighs and keeps as its definition does, by layer and over the model",
          "[session][cache_policy][plain]") {
    for (const bool all_layers : {false, true}) {
        const char* name = all_layers ? "layer_defensivekv" : "defensivekv";
        compare(
            settings(name, {{"budget", 12}, {"window", 4}}),
            [&](const Plain&) { return plain_defensivekv(12, 4, all_layers); }, false);
    }
}

TEST_CASE("ARKV evicts as its definition does, step by step", "[session][cache_policy][plain]") {
    compare(
        settings("arkv", {{"budget", 12}, {"window", 4}, {"tau1", 10}, {"tau2", 10}, {"tau3", 10}}),
        [](const Plain&) { return plain_arkv(12, 4); }, false);
}

TEST_CASE("DapQ keeps what its pseudo tokens attend to", "[session][cache_policy][plain]") {
    compare(
        settings("dapq", {{"budget", 10}, {"pseudo_tokens", 8}}),
        [](const Plain& model) { return plain_dapq(10, 8, model.config, model.weights); }, false);
}

TEST_CASE("Quest reads what its definition reads, step by step", "[session][cache_policy][plain]") {
    compare(
        settings("quest", {{"budget", 16}, {"page", 4}, {"dense_layers", 1}}),
        [](const Plain&) { return plain_quest(16, 4, 1); }, true);
    compare(
        settings("quest", {{"budget", 10}, {"page", 8}, {"dense_layers", 0}}),
        [](const Plain&) { return plain_quest(10, 8, 0); }, false);
}

TEST_CASE("FASA reads what its definition reads, step by step", "[session][cache_policy][plain]") {
    compare(
        settings("fasa", {{"budget", 12}, {"pairs", 1}, {"dense_layers", 1}, {"profile_queries", 4}}),
        [](const Plain&) { return plain_fasa(12, 1, 4, 1); }, true);
    compare(
        settings("fasa", {{"budget", 9}, {"pairs", 2}, {"dense_layers", 0}, {"profile_queries", 8}}),
        [](const Plain&) { return plain_fasa(9, 2, 8, 0); }, false);
}

TEST_CASE("InfiniGen guesses and reads as its definition does, step by step",
          "[session][cache_policy][plain]") {
    const auto both = [](const PlainInfiniGen& s, double channels) {
        compare(
            settings("infinigen", {{"margin", s.alpha},
                                   {"limit", s.limit},
                                   {"channels", channels},
                                   {"profile_queries", static_cast<double>(s.queries)},
                                   {"turned", s.turned ? 1.0 : 0.0},
                                   {"own_norm", s.own_norm ? 1.0 : 0.0}}),
            [&](const Plain& model) { return plain_infinigen(s, model.config, model.weights); }, true);
    };
    both({.alpha = 0.05, .limit = 0.3, .channels = 2, .queries = 30}, 0.25);
    both({.alpha = 0.02, .limit = 0.9, .channels = 3, .queries = 12, .turned = false}, 0.5);
    both({.alpha = 0.05, .limit = 0.3, .channels = 2, .queries = 30, .own_norm = true}, 0.25);
}

TEST_CASE("MPCache evicts once and reads what its definition reads, step by step",
          "[session][cache_policy][plain]") {
    compare(
        settings("mpcache", {{"theta", 0.02}, {"cluster", 2}, {"coarse_share", 0.5}, {"fine_share", 0.2}}),
        [](const Plain&) { return plain_mpcache(0.02, 2, 0.5, 0.2); }, false);
    compare(
        settings("mpcache", {{"theta", 0}, {"cluster", 4}, {"coarse_share", 0.4}, {"fine_share", 0.1}}),
        [](const Plain&) { return plain_mpcache(0, 4, 0.4, 0.1); }, false);
}

TEST_CASE("TRIM-KV lets entries fade as its definition does, step by step",
          "[session][cache_policy][plain]") {
    for (const bool residual : {false, true}) {
        compare(
            settings("trim_kv", {{"budget", 12}, {"buffer", residual ? 5.0 : 1.0}}),
            [&](const Plain& model) {
                return plain_trim_kv(12, residual ? 5 : 1, model.pair->student_gates.at("trim_kv")->weights(),
                                     residual);
            },
            false,
            [&](const Plain& model) {
                return with_gate(model, "trim_kv", {{"input", residual ? "residual" : "normed"}});
            });
    }
}

TEST_CASE("Make Each Token Count has one budget for layers and heads, step by step",
          "[session][cache_policy][plain]") {
    for (const double buffer : {1.0, 4.0})
        compare(
            settings("make_each_token_count", {{"budget", 12}, {"buffer", buffer}}),
            [&](const Plain& model) {
                return plain_make_each_token_count(
                    12, static_cast<int64_t>(buffer),
                    model.pair->student_gates.at("make_each_token_count")->weights());
            },
            false,
            [](const Plain& model) {
                return with_gate(model, "make_each_token_count", {{"input", "normed"}});
            });
}

TEST_CASE("Attention-Gate keeps what its block over the prompt wants, by threshold and by budget",
          "[session][cache_policy][plain]") {
    for (const bool by_budget : {false, true}) {
        compare(
            settings("attention_gate", {{"choose", by_budget ? 1.0 : 0.0}, {"budget", 9}}),
            [&](const Plain& model) {
                return plain_attention_gate(
                    by_budget ? 9 : 0, model.pair->student_gates.at("attention_gate")->weights(), by_budget);
            },
            false,
            [&](const Plain& model) {
                Plain gated = with_gate(model, "attention_gate",
                                        {{"input", "normed"}, {"sees", by_budget ? "earlier" : "prompt"}});
                for (const auto& layer : gated.pair->student_gates.at("attention_gate")->weights()) {
                    layer[3].mul_(20); // scores on both sides of one half, few above it
                    layer[4].fill_(-2);
                }
                return gated;
            });
    }
}

TEST_CASE("LookaheadKV keeps what its soft tokens attend to", "[session][cache_policy][plain]") {
    compare(
        settings("lookahead_kv", {{"budget", 10}}),
        [](const Plain& model) {
            return plain_lookahead_kv(10, model.pair->student_gates.at("lookahead_kv")->weights(),
                                      model.config, model.weights);
        },
        false,
        [](const Plain& model) {
            Plain gated = with_gate(model, "lookahead_kv", {});
            std::mt19937_64 random(seed(78));
            std::normal_distribution<float> normal(0, 0.05F);
            const auto places = find_gate_kind("lookahead_kv")->weights(model.config, 16);
            for (const auto& layer : gated.pair->student_gates.at("lookahead_kv")->weights()) {
                for (size_t b = 2; b < layer.size(); b += 2) { // training begins with zeros
                    for (int64_t i = 0; i < layer[b].numel(); ++i)
                        layer[b].mutable_data_ptr<float>()[i] = normal(random);
                    layer[b].copy_(padded(unpadded(layer[b], places[b]), places[b])); // the padding stays 0
                }
            }
            return gated;
        });
}

TEST_CASE("Locret prunes a prompt chunk by chunk as its definition does", "[session][cache_policy][plain]") {
    for (const bool rotated : {false, true}) {
        const PlainLocret s = rotated
                                  ? PlainLocret{.budget = 7, .chunk = 10, .stabilizers = 9, .last_tokens = 3}
                                  : PlainLocret{};
        compare(
            settings("locret", {{"budget", static_cast<double>(s.budget)},
                                {"chunk", static_cast<double>(s.chunk)},
                                {"stabilizers", static_cast<double>(s.stabilizers)},
                                {"last_tokens", static_cast<double>(s.last_tokens)}}),
            [&](const Plain& model) {
                return plain_locret(s, model.pair->student_gates.at("locret")->weights(), rotated);
            },
            false,
            [&](const Plain& model) {
                return with_gate(model, "locret", {{"rope", rotated ? "after" : "before"}});
            });
    }
}

TEST_CASE("RefreshKV reads what its definition reads, step by step", "[session][cache_policy][plain]") {
    const auto both = [](const PlainRefreshKv& s) {
        compare(
            settings("refreshkv", {{"partial", static_cast<double>(s.size)},
                                   {"check_every", static_cast<double>(s.check_every)},
                                   {"similarity", s.similarity},
                                   {"schedule", s.fixed ? 1.0 : 0.0},
                                   {"rebuild", s.rebuild ? 1.0 : 0.0},
                                   {"kernel", static_cast<double>(s.kernel)},
                                   {"group", s.mean_group ? 1.0 : 0.0}}),
            [&](const Plain&) { return plain_refreshkv(s); }, true);
    };
    both({});
    both({.size = 7, .check_every = 1, .similarity = 0.5});
    both({.size = 12, .check_every = 5, .fixed = true});
    both({.size = 12, .check_every = 4, .rebuild = false});
    both({.size = 10, .check_every = 2, .kernel = 1, .mean_group = true});
}

} // namespace plain_policies_test
