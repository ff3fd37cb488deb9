// Bridges: the fit against another solver, pairs whose map is exact, sessions with a bridge under every contract, files.
#include "engine/base/error.h"
#include "engine/base/json_file.h"
#include "engine/cache/kv_cache.h"
#include "engine/model/bridge/bridge_file.h"
#include "engine/model/checkpoint/safetensors_file.h"
#include "engine/model/repeated_heads.h"
#include "engine/record/runs/rebuild.h"
#include "engine/session/decode/decode_session.h"
#include "engine/session/driver/replay.h"
#include "engine/session/pair/run_text.h"
#include "engine/session/readings/text_readings.h"
#include "engine/train/bridge_fit.h"
#include "engine/train/models/bridge_trainer.h"
#include "tests/engine/model/support.h"
#include "tests/engine/session/tiny_pair.h"
#include "tests/support/refused.h"
#include "tests/support/seed.h"

#include <ATen/ATen.h>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators_all.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <random>
#include <utility>

namespace bridge_test {

using namespace refreshlab;
using namespace refreshlab::test;
using Catch::Matchers::ContainsSubstring;

namespace {

constexpr TinyShape deep{.layers = 3, .heads = 4, .kv_heads = 4, .head_dim = 6};

std::vector<std::vector<int32_t>> random_texts(uint32_t salt, size_t count, size_t length) {
    std::mt19937 random(seed(salt));
    std::vector<std::vector<int32_t>> texts(count);
    for (auto& text : texts)
        for (size_t i = 0; i < length; ++i)
            text.push_back(static_cast<int32_t>(random() % 4096));
    return texts;
}

double mean_of(const std::vector<TrainingStep>& losses, size_t first, size_t end) {
    double sum = 0;
    for (size_t i = first; i < end; ++i)
        sum += losses[i].total / static_cast<double>(end - first);
    return sum;
}

/// Every fourth text is held out.
void read_all(BridgeFit& fit, const std::vector<std::vector<int32_t>>& texts) {
    for (size_t i = 0; i < texts.size(); ++i)
        fit.add(texts[i], i % 4 == 3);
}

std::shared_ptr<const ModelPair> with_bridge(const ModelPair& pair, Bridge bridge) {
    auto bridged = std::make_shared<ModelPair>(pair);
    bridged->geometry_difference = geometry_difference(pair.teacher->config(), pair.student->config());
    bridged->bridge_file = BridgeFile{"a test's bridge", true, "its digest"};
    bridged->bridge = std::make_shared<const Bridge>(std::move(bridge));
    return bridged;
}

/// A teacher and a student of other layers and KV heads, with a bridge of random texts.
std::shared_ptr<const ModelPair> bridged_pair() {
    static const std::shared_ptr<const ModelPair> pair = [] {
        const auto plain = tiny_pair(31, 32, deep);
        BridgeFit fit(*plain->teacher, *plain->student, BridgeInputs::both,
                      paired_layers(3, 2, LayerPairing::last, 0));
        read_all(fit, random_texts(1, 8, 60));
        return with_bridge(*plain, fit.solve({}).bridge);
    }();
    return pair;
}

/// The pair of one geometry, and the same with a teacher that has every KV head twice and a bridge that picks the first of the two.
std::pair<std::shared_ptr<const ModelPair>, std::shared_ptr<const ModelPair>> repeated_pair() {
    const auto plain = tiny_pair(41, 42);
    auto wide = std::make_shared<ModelPair>(*plain);
    wide->teacher = with_kv_per_query_head(*plain->teacher);
    const ModelConfig& s = plain->student->config();
    const int64_t d = s.head_dim, out = s.num_kv_heads * d, in = wide->teacher->config().num_kv_heads * d;
    const at::Tensor pick = at::zeros({out, in});
    for (int64_t head = 0; head < s.num_kv_heads; ++head)
        for (int64_t i = 0; i < d; ++i)
            pick[head * d + i][head * (s.num_heads / s.num_kv_heads) * d + i] = 1;
    Bridge bridge{BridgeInputs::own, {}};
    for (int64_t layer = 0; layer < s.num_layers; ++layer)
        bridge.layers.push_back({{layer}, pick, pick.clone(), at::zeros({out}), at::zeros({out})});
    return {plain, with_bridge(*wide, std::move(bridge))};
}

RunConfig refreshed(int32_t every, int32_t max_tokens = 36) {
    RunConfig config = tiny_run(max_tokens);
    config.policy = policy_of({trigger("steps_since_refresh", Comparison::at_least, every)});
    return config;
}

std::shared_ptr<Recording> whole(const std::shared_ptr<const ModelPair>& pair, const RunConfig& config) {
    DecodeSession session(pair, config);
    while (session.step()) {
    }
    session.score();
    return session.recording();
}

/// Policies that touch every way in which a teacher's entry reaches the student.
std::vector<RunConfig> many_runs() {
    std::vector<RunConfig> runs(6, refreshed(7));
    runs[1].policy = policy_of({trigger("kl_nats", Comparison::above, 0.01, 5)}, 4, OnFire::redraw);
    runs[2].policy.lag = 3;
    runs[2].shadow = true;
    runs[3].policy.on_fire = OnFire::verify;
    runs[3].sampler.temperature = 0.9;
    runs[4].policy.scope.parts = ScopeParts::values;
    runs[4].policy.scope.positions = ScopePositions::drift;
    runs[4].policy.scope.count = 3;
    runs[5].student_cache = cache_policy_defaults("streaming_llm", "a test");
    runs[5].student_cache.values["budget"] = 16;
    return runs;
}

} // namespace

TEST_CASE("layers are paired from the last one down, or evenly, with their neighbours", "[bridge]") {
    using Layers = std::vector<std::vector<int64_t>>;
    CHECK(paired_layers(5, 3, LayerPairing::last, 0) == Layers{{2}, {3}, {4}});
    CHECK(paired_layers(5, 3, LayerPairing::spread, 0) == Layers{{0}, {2}, {4}});
    CHECK(paired_layers(2, 4, LayerPairing::last, 0) == Layers{{0}, {0}, {0}, {1}});
    CHECK(paired_layers(4, 2, LayerPairing::spread, 1) == Layers{{0, 1}, {2, 3}});
    CHECK(paired_layers(3, 1, LayerPairing::spread, 0) == Layers{{2}});
}

TEST_CASE("the fit is that of a solver which sees every row", "[bridge]") {
    const auto pair = tiny_pair(51, 52, deep);
    const BridgeInputs inputs = GENERATE(BridgeInputs::both, BridgeInputs::own);
    const int64_t reach = GENERATE(0, 1);
    const double lambda = 1e-3;
    BridgeFit fit(*pair->teacher, *pair->student, inputs, paired_layers(3, 2, LayerPairing::last, reach));
    const auto texts = random_texts(2, 8, 60);
    read_all(fit, texts);
    const BridgeFit::Result result = fit.solve(lambda);

    for (size_t map = 0; map < 4; ++map) {
        const auto layer = static_cast<int64_t>(map / 2);
        std::array<std::vector<at::Tensor>, 2> xs, ys; // fitted, held out
        for (size_t i = 0; i < texts.size(); ++i) {
            const auto n = static_cast<int64_t>(texts[i].size());
            const auto read = [&](const LlamaModel& model) {
                auto cache = model.make_cache(n);
                StepInputs in;
                in.tokens = texts[i];
                in.rows = Rows::none;
                (void)model.forward().prefill(*cache, in);
                return cache;
            };
            const auto of_teacher = read(*pair->teacher), of_student = read(*pair->student);
            std::vector<at::Tensor> keys, values;
            for (const int64_t from : result.bridge.layers[map / 2].from) {
                const EntryRows rows = entry_rows(*pair->teacher, *of_teacher, from, 0, n);
                keys.push_back(rows.keys);
                values.push_back(rows.values);
            }
            std::vector<at::Tensor> x = map % 2 == 0 || inputs == BridgeInputs::both ? keys : values;
            if (inputs == BridgeInputs::both) x.insert(x.end(), values.begin(), values.end());
            const EntryRows own = entry_rows(*pair->student, *of_student, layer, 0, n);
            xs[i % 4 == 3 ? 1 : 0].push_back(at::cat(x, 1).to(at::kDouble));
            ys[i % 4 == 3 ? 1 : 0].push_back((map % 2 == 0 ? own.keys : own.values).to(at::kDouble));
        }
        // Least squares over the centred rows with sqrt(lambda n var) under each input: by orthogonal factors, without normal equations.
        const at::Tensor x = at::cat(xs[0]), y = at::cat(ys[0]);
        const at::Tensor x0 = x - x.mean(0), y0 = y - y.mean(0);
        const at::Tensor under = at::diag((x0.square().sum(0) * lambda).sqrt());
        const at::Tensor w = std::get<0>(
            at::linalg_lstsq(at::cat({x0, under}),
                             at::cat({y0, at::zeros({x.size(1), y.size(1)}, y.options())}), {}, "gelsd"));
        const Bridge::Layer& made = result.bridge.layers[map / 2];
        const at::Tensor &weight = map % 2 == 0 ? made.key_weight : made.value_weight,
                         &bias = map % 2 == 0 ? made.key_bias : made.value_bias;
        const at::Tensor off = y.mean(0) - at::mv(w.t(), x.mean(0));
        CHECK((weight - w.t()).abs().max().item<double>() < 1e-5 * w.abs().max().item<double>() + 1e-6);
        CHECK((bias - off).abs().max().item<double>() < 1e-5);
        for (const size_t part : {size_t{0}, size_t{1}}) {
            const at::Tensor px = at::cat(xs[part]), py = at::cat(ys[part]);
            const double error = (py - at::mm(px, w) - off).square().sum().item<double>(),
                         variance = (py - py.mean(0)).square().sum().item<double>();
            const auto& told = result.layers[map / 2][map % 2];
            CHECK(std::abs((part == 0 ? told.fitted : told.held_out) - (1 - error / variance)) < 1e-6);
        }
    }
}

TEST_CASE("texts that are too short for a map are refused with what it needs", "[bridge]") {
    const auto pair = tiny_pair(53, 54, deep);
    BridgeFit fit(*pair->teacher, *pair->student, BridgeInputs::both,
                  paired_layers(3, 2, LayerPairing::last, 0));
    CHECK(fit.positions_needed() == 2 * 4 * 6 + 1);
    fit.add(random_texts(3, 1, 40).front(), false);
    CHECK_THAT(refused([&] { (void)fit.solve({}); }),
               ContainsSubstring("40") && ContainsSubstring("48 inputs need 49"));
}

TEST_CASE("where the teacher's entries are the student's, said otherwise, the fit finds the map",
          "[bridge]") {
    const auto plain = tiny_pair(43, 43); // one model
    auto wide = std::make_shared<ModelPair>(*plain);
    wide->teacher = with_kv_per_query_head(*plain->teacher);
    BridgeFit fit(*wide->teacher, *wide->student, GENERATE(BridgeInputs::both, BridgeInputs::own),
                  paired_layers(2, 2, LayerPairing::last, 0));
    read_all(fit, random_texts(4, 8, 60));
    const BridgeFit::Result result = fit.solve({});
    for (const auto& [keys, values] : result.layers) {
        CHECK(keys.held_out > 1 - 1e-9);
        CHECK(values.held_out > 1 - 1e-9);
    }
    const auto bridged = with_bridge(*wide, result.bridge);
    CHECK(whole(bridged, refreshed(6))->token_ids() == whole(plain, refreshed(6))->token_ids());
}

TEST_CASE("a pair with an exact bridge writes the text of the pair without", "[bridge]") {
    const auto [plain, bridged] = repeated_pair();
    REQUIRE(bridged->geometry_difference);
    for (const RunConfig& config : many_runs()) {
        INFO(config.policy.name << " " << config.student_cache.policy);
        const auto a = whole(plain, config), b = whole(bridged, config);
        CHECK(a->token_ids() == b->token_ids());
        REQUIRE(a->refreshes().size() == b->refreshes().size());
        for (size_t i = 0; i < a->refreshes().size(); ++i) {
            CHECK(a->refreshes()[i].spliced == b->refreshes()[i].spliced);
            CHECK(std::abs(a->refreshes()[i].mean_drift - b->refreshes()[i].mean_drift) < 1e-4F);
        }
        CHECK_FALSE(b->info().rebuild);
        CHECK_THAT(b->info().note, ContainsSubstring("bridge: "));
        CHECK(b->info().config.bridge.digest == "its digest");
    }
}

TEST_CASE("what the student reads was mapped, and a refresh maps again", "[bridge]") {
    const auto pair = bridged_pair();
    RunConfig config = refreshed(5);
    DecodeSession session(pair, config);
    const int64_t prompt = session.splice_watermark();
    for (int i = 0; i < 10; ++i)
        REQUIRE(session.step());
    const KvCache &student = *session.student_cache(), &teacher = *session.teacher_cache();
    CHECK(student.origin(0) == Origin::teacher_prefill);
    CHECK(student.origin(prompt) == Origin::teacher_refresh);
    BridgedCache again(*pair->bridge, *pair->teacher, *pair->student, teacher.capacity());
    again.follow(teacher);
    const int64_t n = session.splice_watermark();
    REQUIRE(n >= prompt + 5);
    CHECK(at::equal(again.cache().keys(0, n), student.keys(0, n)));
    CHECK(at::equal(again.cache().values(0, n), student.values(0, n)));
    // By hand, in f64, from the teacher's own entries.
    const Bridge::Layer& layer = pair->bridge->layers[1];
    const EntryRows rows = entry_rows(*pair->teacher, teacher, layer.from.front(), 0, n);
    const at::Tensor x = at::cat({rows.keys, rows.values}, 1).to(at::kDouble);
    const EntryRows own = entry_rows(*pair->student, student, 1, 0, n);
    const auto close = [&](const at::Tensor& made, const at::Tensor& weight, const at::Tensor& bias) {
        return (at::mm(x, weight.to(at::kDouble).t()) + bias - made).abs().max().item<double>() < 1e-4;
    };
    CHECK(close(own.keys, layer.key_weight, layer.key_bias));
    CHECK(close(own.values, layer.value_weight, layer.value_bias));
    // Another prompt cache than the student's own, and other tokens than in rebuild mode.
    RunConfig none = config;
    auto rebuild = std::make_shared<ModelPair>(*pair);
    rebuild->bridge = nullptr;
    rebuild->bridge_file.reset();
    const auto own_text = whole(rebuild, none);
    CHECK(own_text->info().rebuild);
    CHECK(own_text->info().config.bridge.digest == no_bridge);
    CHECK(own_text->token_ids() != whole(pair, config)->token_ids());
}

TEST_CASE("with a bridge a rewind, a branch and a replay give every bit again", "[bridge]") {
    const auto pair = bridged_pair();
    for (const RunConfig& config : many_runs()) {
        INFO(config.policy.name << " " << config.student_cache.policy);
        DecodeSession session(pair, config);
        for (int i = 0; i < 23; ++i)
            REQUIRE(session.step());
        const auto first = session.recording();
        session.rewind(9);
        while (session.step()) {
        }
        const auto straight = [&] {
            DecodeSession other(pair, config);
            while (other.step()) {
            }
            return other.recording();
        }();
        CHECK(session.recording()->token_ids() == straight->token_ids());
        if (config.policy.on_fire != OnFire::verify)
            CHECK(first_difference(*session.recording(), *straight).value_or("") == "");
        CHECK(first_difference(*replay(*straight, pair), *straight).value_or("") == "");
        MadeAgain made = make_again(
            rebuild_of(*straight, 15), pair, [](int64_t) { return true; }, straight.get());
        CHECK(made.difference.value_or("") == "");
        RunConfig one_thread = config;
        one_thread.threads = 1;
        CHECK(whole(pair, one_thread)->token_ids() == whole(pair, config)->token_ids());
    }
}

TEST_CASE("columns have the same bits however many are mapped together", "[bridge]") {
    const auto pair = bridged_pair();
    const auto text = random_texts(5, 1, 300).front();
    auto cache = pair->teacher->make_cache(300);
    BridgedCache steps(*pair->bridge, *pair->teacher, *pair->student, 300),
        once(*pair->bridge, *pair->teacher, *pair->student, 300);
    for (const size_t n : {1, 7, 92, 200}) {
        StepInputs in;
        in.tokens = std::span(text).subspan(static_cast<size_t>(cache->length()), n);
        in.origin = n == 1 ? Origin::teacher_prefill : Origin::teacher_decode;
        in.rows = Rows::none;
        (void)pair->teacher->forward().prefill(*cache, in);
        steps.follow(*cache);
    }
    once.follow(*cache);
    CHECK(at::equal(steps.cache().keys(0, 300), once.cache().keys(0, 300)));
    CHECK(at::equal(steps.cache().values(0, 300), once.cache().values(0, 300)));
    CHECK(once.cache().origin(0) == Origin::teacher_prefill);
    CHECK(once.cache().origin(1) == Origin::teacher_decode);
    steps.truncate(50);
    steps.follow(*cache);
    CHECK(at::equal(steps.cache().keys(0, 300), once.cache().keys(0, 300)));
}

TEST_CASE("readings of a text have a bridged session's bits", "[bridge]") {
    const auto pair = bridged_pair();
    const auto ids = random_texts(6, 2, 40);
    const TeacherText text(*pair, ids[0], ids[1]);
    StudentReadings readings(*pair->student, text);
    const TextNumbers numbers = readings.refreshed(readings.every(8));
    RunConfig config = refreshed(8, 40);
    config.shadow = true;
    auto run = std::make_shared<RunText>();
    run->prompt.ids = ids[0];
    run->given = ids[1];
    RunDriver driver({.pair = pair, .config = config, .text = run});
    driver.run();
    for (int64_t t = 1; t < 40; ++t) {
        CHECK(numbers.logprob[static_cast<size_t>(t - 1)] ==
              driver.recording()->signal(t + 1, *signal_id("logprob")));
        CHECK(numbers.kl_nats[static_cast<size_t>(t - 1)] ==
              driver.recording()->signal(t, *signal_id("kl_nats")));
    }
}

TEST_CASE("cache policies that look at the prompt are refused by name with a bridge", "[bridge]") {
    const auto pair = bridged_pair();
    for (const char* policy : {"snapkv", "h2o"}) {
        RunConfig config = refreshed(7);
        config.student_cache = cache_policy_defaults(policy, "a test");
        CHECK_THAT(refused([&] { DecodeSession session(pair, config); }),
                   ContainsSubstring(policy) && ContainsSubstring("num_layers"));
    }
}

TEST_CASE("a bridge's file gives it back, and one that is damaged or foreign is refused", "[bridge]") {
    const auto pair = bridged_pair();
    const ScratchFolder folder("bridge");
    const std::filesystem::path path = folder.path() / "bridge.safetensors";
    const ModelConfig &t = pair->teacher->config(), &s = pair->student->config();
    save_bridge(path, *pair->bridge, {"of t", "of s", "big", "small", "{}"});
    const Bridge read = load_bridge(path, t, s);
    REQUIRE(read.layers.size() == pair->bridge->layers.size());
    CHECK(read.inputs == pair->bridge->inputs);
    for (size_t l = 0; l < read.layers.size(); ++l) {
        CHECK(read.layers[l].from == pair->bridge->layers[l].from);
        CHECK(at::equal(read.layers[l].key_weight, pair->bridge->layers[l].key_weight));
        CHECK(at::equal(read.layers[l].value_bias, pair->bridge->layers[l].value_bias));
    }
    const BridgeOrigin origin = bridge_origin(path);
    check_bridge_of(path, origin, "of t", "of s");
    CHECK_THAT(refused([&] { check_bridge_of(path, origin, "of t", "of another"); }),
               ContainsSubstring("made for other models (big to small)"));
    CHECK_THAT(refused([&] { (void)load_bridge(path, s, s); }), ContainsSubstring("bridge.safetensors"));
    CHECK_THAT(refused([&] { (void)load_bridge(path, t, t); }), ContainsSubstring("layers"));

    const std::string bytes = read_file(path);
    write_file(path, bytes.substr(0, bytes.size() - 9));
    CHECK_THAT(refused([&] { (void)bridge_origin(path); }), ContainsSubstring("bridge.safetensors"));
    write_safetensors(path, {{"format", "refreshlab gate"}}, std::vector<NamedTensor>{{"x", at::zeros({1})}});
    CHECK_THAT(refused([&] { (void)bridge_origin(path); }), ContainsSubstring("is no bridge"));
    Bridge broken = *pair->bridge;
    broken.layers[1].value_weight = broken.layers[1].value_weight / 0;
    save_bridge(path, broken, origin);
    CHECK_THAT(refused([&] { (void)load_bridge(path, t, s); }),
               ContainsSubstring("layers.1.values.weight") && ContainsSubstring("not finite"));
}

TEST_CASE("a bridge is trained for what the student makes of it", "[train][bridge]") {
    const auto pair = bridged_pair();
    std::vector<TrainingText> texts, held_out;
    for (auto& ids : random_texts(7, 12, 40))
        (texts.size() < 8 ? texts : held_out).push_back({std::move(ids), 20});
    BridgeTraining how;
    how.steps = 40;
    how.batch = 2;
    how.learning_rate = 5e-3;
    how.shares.longest = 8;
    BridgeTrainer trainer(*pair->teacher, *pair->student, *pair->bridge, texts, how);

    // Its columns are those of a session.
    const std::vector<int32_t>& ids = texts[0].ids;
    const auto cache = pair->teacher->make_cache(std::ssize(ids));
    StepInputs in;
    in.tokens = ids;
    in.rows = Rows::none;
    static_cast<void>(pair->teacher->forward().prefill(*cache, in));
    BridgedCache follows(*pair->bridge, *pair->teacher, *pair->student, std::ssize(ids));
    follows.follow(*cache);
    const auto columns = trainer.mapped(*cache, 33);
    for (int64_t layer = 0; layer < pair->student->config().num_layers; ++layer) {
        const auto rows = [](const at::Tensor& storage) { return storage.narrow(1, 0, 33).transpose(0, 1); };
        const auto at = static_cast<size_t>(layer);
        CHECK(at::allclose(columns.k[at], rows(follows.cache().keys(layer)), 1e-4, 1e-5));
        CHECK(at::allclose(columns.v[at], rows(follows.cache().values(layer)), 1e-4, 1e-5));
    }

    const double before = trainer.loss_of(held_out).total;
    for (int i = 0; i < 20; ++i)
        trainer.step();
    const ScratchFolder folder("bridge-training");
    const auto part = folder.path() / "bridge.part";
    trainer.checkpoint(part);
    BridgeTrainer again(*pair->teacher, *pair->student, *pair->bridge, texts, how);
    again.resume(part);
    for (int i = 0; i < 20; ++i) {
        trainer.step();
        again.step();
    }
    const Bridge made = trainer.bridge(), other = again.bridge();
    for (size_t l = 0; l < made.layers.size(); ++l) {
        CHECK(at::equal(made.layers[l].key_weight, other.layers[l].key_weight));
        CHECK(at::equal(made.layers[l].value_bias, other.layers[l].value_bias));
        CHECK_FALSE(at::equal(made.layers[l].key_weight, pair->bridge->layers[l].key_weight));
    }
    CHECK(mean_of(trainer.losses(), 30, 40) < mean_of(trainer.losses(), 0, 10));
    CAPTURE(before);
    CHECK(trainer.loss_of(held_out).total < before);
    // A session reads through it.
    CHECK(whole(with_bridge(*pair, made), refreshed(6))->steps() == 36);
}

} // namespace bridge_test
