// Training of gates on tiny random models: the pass that gradients flow through, the objectives, the trainer.
#include "engine/base/json_file.h"
#include "engine/cache/kv_cache.h"
#include "engine/model/checkpoint/llama_weights.h"
#include "engine/model/gates/soft_reading.h"
#include "engine/train/frozen_llama.h"
#include "engine/train/gate_trainer.h"
#include "engine/train/judge_gate.h"
#include "engine/train/loss_table.h"
#include "tests/engine/model/support.h"
#include "tests/engine/session/tiny_pair.h"
#include "tests/engine/train/tiny_training.h"
#include "tests/support/refused.h"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>
#include <catch2/catch_approx.hpp>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <cmath>

namespace gate_training_test {

using namespace refreshlab;
using namespace refreshlab::test;
using Catch::Approx;
using Catch::Matchers::ContainsSubstring;

namespace {

GateTraining training(const std::string& method) {
    GateTraining how;
    how.method = method;
    how.width = 8;
    how.steps = 12;
    how.batch = 2;
    how.learning_rate = 0.02;
    how.seed = 5;
    how.settings = default_settings(*find_gate_kind(method));
    const auto kinds = all_objective_kinds();
    for (const GateSetting& point : std::ranges::find(kinds, method, &ObjectiveKind::method)->readings)
        how.objective.readings.emplace(point.key, point.choices.front());
    return how;
}

/// A gate with one beta for all tokens.
std::unique_ptr<TokenGate> constant_gate(const ModelConfig& model, double c) {
    auto gate = TokenGate::untrained(*find_gate_kind("trim_kv"), model, 8, {{"input", "normed"}}, 1);
    for (const auto& layer : gate->weights()) {
        layer[1].zero_();
        layer[2].fill_(c);
    }
    return gate;
}

GateLoss trim_kv_loss(const LlamaModel& model, const TokenGate& gate, const TrainingText& text,
                      const char* decay = "bias") {
    ObjectiveOptions options;
    options.readings = {{"decay", decay}};
    return objective_kinds::trim_kv().make(model, options)->loss(gate, text);
}

bool same_weights(const TokenGate& a, const TokenGate& b) {
    for (size_t layer = 0; layer < a.weights().size(); ++layer)
        for (size_t i = 0; i < a.weights()[layer].size(); ++i)
            if (!at::equal(a.weights()[layer][i], b.weights()[layer][i])) return false;
    return true;
}

/// Attention rows of a pass, of each layer [rows, heads, keys].
class AttentionRows final : public LayerHooks {
public:
    explicit AttentionRows(int64_t from)
        : m_from(from) {}
    [[nodiscard]] LayerTaps taps(int64_t) const override {
        LayerTaps taps;
        taps.attention_from = m_from;
        return taps;
    }
    void observe(const LayerView& view) override { of_layer.push_back(view.attention.clone()); }

private:
    int64_t m_from;

public:
    std::vector<at::Tensor> of_layer;
};

} // namespace

TEST_CASE("the pass that gradients flow through is the model's", "[train]") {
    const auto ids = random_ids(60, 1);
    for (const TinyShape& shape : {small_vocabulary, TinyShape{.heads = 6, .kv_heads = 3, .vocab = 256},
                                   TinyShape{.window = 12, .vocab = 256}}) {
        const auto model = tiny_model(31, shape);
        const auto cache = model->make_cache(60);
        StepInputs in;
        in.tokens = ids;
        in.rows = Rows::all;
        const at::Tensor wanted = model->forward().prefill(*cache, in).logits;
        const at::Tensor got = FrozenLlama(*model).run(ids);
        CHECK((got - wanted).abs().max().item<double>() < 1e-3 * wanted.abs().max().item<double>());
    }
}

TEST_CASE("TRIM-KV's loss: nothing fades, everything fades", "[train]") {
    const auto model = tiny_model(31, small_vocabulary);
    const TrainingText text{random_ids(40, 2), 30};
    const double budget = 10; // a quarter of the text
    const GateLoss lasting = trim_kv_loss(*model, *constant_gate(model->config(), 60), text);
    CHECK(std::abs(lasting.parts[0]) < 1e-5);
    double above = 0; // t + 1 tokens are held at t
    for (int t = 0; t < 40; ++t)
        above += std::max(0.0, t + 1 - budget) / 40 / budget;
    CHECK(lasting.parts[2] == Approx(above).epsilon(1e-4));
    const GateLoss fading = trim_kv_loss(*model, *constant_gate(model->config(), -60), text);
    CHECK(fading.parts[0] > 0.1);
    CHECK(fading.parts[2] == 0); // only the token itself is held
    // One beta: sum_i beta^(t-i) = (1 - beta^(t+1)) / (1 - beta).
    const double beta = 0.95;
    above = 0;
    for (int t = 0; t < 40; ++t)
        above += std::max(0.0, (1 - std::pow(beta, t + 1)) / (1 - beta) - budget) / 40 / budget;
    CHECK(trim_kv_loss(*model, *constant_gate(model->config(), std::log(beta / (1 - beta))), text).parts[2] ==
          Approx(above).epsilon(1e-3));
    CHECK(lasting.total.item<double>() ==
          Approx(lasting.parts[0] + lasting.parts[1] + lasting.parts[2]).epsilon(1e-5));
    // A logit that is multiplied fades to 0 and not to minus infinity: old tokens are still read.
    const GateLoss printed = trim_kv_loss(*model, *constant_gate(model->config(), -60), text, "multiply");
    CHECK(printed.parts[0] > 0.01);
    CHECK(printed.parts[0] != Approx(fading.parts[0]).epsilon(1e-5));
}

TEST_CASE("the gradient of TRIM-KV's loss is its slope", "[train]") {
    const auto model = tiny_model(31, small_vocabulary);
    const TrainingText text{random_ids(24, 3), 18};
    auto gate =
        TokenGate::untrained(*find_gate_kind("trim_kv"), model->config(), 8, {{"input", "normed"}}, 4);
    for (const auto& layer : gate->weights()) {
        layer[2].fill_(2); // where the slope is steep
        for (const at::Tensor& weight : layer)
            const_cast<at::Tensor&>(weight).set_requires_grad(true);
    }
    trim_kv_loss(*model, *gate, text).total.backward();
    const at::Tensor c = gate->weights()[1][2], w2 = gate->weights()[0][1];
    for (const at::Tensor& weight : {c, w2}) {
        const at::Tensor direction = weight.grad() / weight.grad().norm();
        const double wanted = (weight.grad() * direction).sum().item<double>(), step = 0.02;
        const c10::AutoGradMode off(false);
        weight.add_(direction, step);
        const double up = trim_kv_loss(*model, *gate, text).total.item<double>();
        weight.add_(direction, -2 * step);
        const double down = trim_kv_loss(*model, *gate, text).total.item<double>();
        weight.add_(direction, step);
        CHECK((up - down) / (2 * step) == Approx(wanted).epsilon(0.02));
    }
}

TEST_CASE("Make Each Token Count's capacity is that of all layers and heads together", "[train]") {
    const auto model = tiny_model(31, small_vocabulary);
    const TrainingText text{random_ids(24, 3), 18};
    const GateKind& kind = *find_gate_kind("make_each_token_count");
    const auto gate = TokenGate::untrained(kind, model->config(), 8, {{"input", "normed"}}, 4);
    CHECK(gate->weights()[0][1].is_same(gate->weights()[1][1])); // the last projection, and its bias
    CHECK(gate->weights()[0][2].is_same(gate->weights()[1][2]));
    CHECK(!gate->weights()[0][0].is_same(gate->weights()[1][0]));
    // One KV head keeps everything, the other hardly more than the newest.
    gate->weights()[0][1].zero_();
    gate->weights()[0][2][0].fill_(60);
    gate->weights()[0][2][1].fill_(-60);
    const auto capacity = [&](const ObjectiveKind& objective, double share) {
        ObjectiveOptions options;
        options.readings = {{"decay", "bias"}};
        options.capacity = share;
        return objective.make(*model, options)->loss(*gate, text).parts[2];
    };
    // Token t of 24 holds t + 1 and 1: (t + 2) / 2 in the mean, 12.5 at most.
    double alone = 0, both = 0;
    for (int64_t t = 0; t < 24; ++t) {
        alone += std::max(0.0, static_cast<double>(t + 1) - 12) / 12 / 24 / 2;
        both += std::max(0.0, static_cast<double>(t + 2) / 2 - 6) / 6 / 24;
    }
    CHECK(capacity(objective_kinds::trim_kv(), 0.5) == Approx(alone));
    CHECK(capacity(objective_kinds::make_each_token_count(), 0.25) == Approx(both));
    CHECK(capacity(objective_kinds::make_each_token_count(), 0.53) == 0);
}

TEST_CASE("Attention-Gate's answer reads what the gate keeps, and gradients pass the step", "[train]") {
    const auto wild = tiny_model(31, small_vocabulary); // 2 layers
    LlamaWeights weights = wild->weights();
    for (LlamaLayer& layer : weights.layers)
        layer.q = layer.q * 0.2; // no token weighs so much that the millionth that is left of it shows
    const auto model = LlamaModel::of_weights(wild->config(), std::move(weights), at::kCPU, at::kFloat);
    const TrainingText text{random_ids(24, 3), 18};
    const GateKind& kind = *find_gate_kind("attention_gate");
    ObjectiveOptions options;
    options.capacity = 0.25;
    const auto objective = objective_kinds::attention_gate().make(*model, options);
    const auto gate_with = [&](float c) {
        auto gate = TokenGate::untrained(kind, model->config(), 8, default_settings(kind), 4);
        for (const auto& layer : gate->weights()) {
            layer[3].zero_();
            layer[4].fill_(c);
        }
        return gate;
    };
    // Everything stays: the model itself, and the mean score is nearly 1.
    const GateLoss all = objective->loss(*gate_with(20), text);
    CHECK(all.parts[0] == Approx(0).margin(1e-5));
    CHECK(all.parts[2] == Approx(0.75 * 0.75).epsilon(1e-3));
    // Nothing but the prompt's last token: the answer's rows of a model that sees no other.
    const GateLoss none = objective->loss(*gate_with(-20), text);
    const auto masked = [](int64_t, const GateInputs&, const at::Tensor& logits) {
        at::Tensor cut = logits.clone();
        cut.slice(1, 18).slice(2, 0, 17).fill_(-1e9);
        return cut;
    };
    const FrozenLlama frozen(*model);
    const at::Tensor rows = at::log_softmax(frozen.run(text.ids), -1).slice(0, 18),
                     cut = at::log_softmax(frozen.run(text.ids, masked), -1).slice(0, 18);
    CHECK(none.parts[0] == Approx((rows.exp() * (rows - cut)).sum(-1).mean().item<double>()).epsilon(1e-3));
    CHECK(none.parts[0] > 1e-6);
    CHECK(none.parts[2] == Approx(0.25 * 0.25).epsilon(1e-3));
    // A token that is gone has a slope: what it would give the answer if it came back.
    const auto gate = gate_with(-1);
    for (const auto& layer : gate->weights())
        for (const at::Tensor& weight : layer)
            const_cast<at::Tensor&>(weight).set_requires_grad(true);
    objective->loss(*gate, text).total.backward();
    for (const auto& layer : gate->weights()) {
        REQUIRE(layer[4].grad().defined());
        CHECK(at::isfinite(layer[4].grad()).all().item<bool>());
        CHECK(layer[4].grad().abs().max().item<double>() > 1e-6);
        // Next to one kept token many that come back weigh much, but no more than attention's own weights: far below 1 / gone.
        CHECK(layer[4].grad().abs().max().item<double>() < 1e4);
    }
}

TEST_CASE("LookaheadKV's soft tokens are asked to share out their attention as the answer does", "[train]") {
    const auto model = tiny_model(31, small_vocabulary);
    const TrainingText text{random_ids(24, 3), 18};
    const auto gate = TokenGate::untrained(*find_gate_kind("lookahead_kv"), model->config(), 4, {}, 4);
    at::Generator random = at::make_generator<at::CPUGeneratorImpl>(5);
    for (const auto& layer : gate->weights())
        for (size_t b = 2; b < layer.size(); b += 2) // they begin as zeros
            const_cast<at::Tensor&>(layer[b]).normal_(0, 0.1, random);
    // By the model's own passes: the answer behind the prompt, and the soft tokens behind it.
    AttentionRows answer(18), soft(18);
    const auto cache = model->make_cache(64);
    StepInputs in;
    const auto read = [&](std::span<const int32_t> tokens, LayerHooks* hook) {
        in.tokens = tokens;
        in.rows = Rows::none;
        in.hooks = std::span(&hook, 1);
        (void)model->forward().prefill(*cache, in);
    };
    read(text.ids, &answer);
    cache->truncate(18);
    read_soft_tokens(*model, *cache, *gate, soft);
    double kl = 0;
    for (size_t layer = 0; layer < 2; ++layer) {
        REQUIRE(soft.of_layer[layer].size(0) == 32);
        const auto shares = [](const at::Tensor& rows) {
            const at::Tensor sums = rows.slice(2, 0, 18).sum(0);
            return sums / sums.sum(-1, true);
        };
        const at::Tensor wanted = shares(answer.of_layer[layer]), said = shares(soft.of_layer[layer]);
        kl += (wanted * (wanted / said).log()).sum(-1).mean().item<double>() / 2;
    }
    const auto objective = objective_kinds::lookahead_kv().make(*model, {});
    CHECK(kl > 1e-4);
    CHECK(objective->loss(*gate, text).total.item<double>() == Approx(kl).epsilon(1e-3));

    for (const auto& layer : gate->weights())
        for (const at::Tensor& weight : layer)
            const_cast<at::Tensor&>(weight).set_requires_grad(true);
    objective->loss(*gate, text).total.backward();
    for (const at::Tensor& weight : {gate->weights()[0][0], gate->weights()[0][14], gate->weights()[1][2]}) {
        const at::Tensor direction = weight.grad() / weight.grad().norm();
        const double slope = weight.grad().norm().item<double>(), step = 0.002;
        const c10::AutoGradMode off(false);
        weight.add_(direction, step);
        const double up = objective->loss(*gate, text).total.item<double>();
        weight.add_(direction, -2 * step);
        const double down = objective->loss(*gate, text).total.item<double>();
        weight.add_(direction, step);
        CHECK((up - down) / (2 * step) == Approx(slope).epsilon(0.05));
    }
}

TEST_CASE("Locret's gate is asked for the most that the answer gives a token", "[train]") {
    const auto model = tiny_model(31, small_vocabulary); // 4 heads, 2 KV heads
    const TrainingText text{random_ids(40, 6), 28};
    auto gate = TokenGate::untrained(*find_gate_kind("locret"), model->config(), 8, {{"rope", "before"}}, 4);
    for (const auto& layer : gate->weights())
        layer[1].zero_(); // it scores 0
    for (const bool logits : {false, true}) {
        double wanted = 0;
        (void)FrozenLlama(*model).run(text.ids, [&](int64_t, const GateInputs&, const at::Tensor& rows) {
            const at::Tensor causal = rows + at::full({40, 40}, -INFINITY).triu(1);
            const at::Tensor given = (logits ? rows : at::softmax(causal, -1)).slice(1, 28).slice(2, 0, 28);
            const at::Tensor most = given.reshape({2, 2 * 12, 28}).amax(1);
            wanted +=
                at::where(most.abs() < 1, most.square() / 2, most.abs() - 0.5).mean().item<double>() / 2;
            return rows;
        });
        ObjectiveOptions options;
        options.readings = {{"target", logits ? "logits" : "attention"}};
        const GateLoss loss = objective_kinds::locret().make(*model, options)->loss(*gate, text);
        CHECK(loss.parts[0] == Approx(wanted).epsilon(1e-3));
        CHECK(loss.parts[1] == 0);
    }
}

TEST_CASE("training lowers the loss, and goes on from a checkpoint as if it had not stopped", "[train]") {
    const auto model = tiny_model(31, small_vocabulary);
    const auto texts = texts_of(5, 10, 28);
    const ScratchFolder folder("gates");
    const auto part = folder.path() / "gate.part";
    for (const char* method :
         {"trim_kv", "make_each_token_count", "locret", "attention_gate", "lookahead_kv"}) {
        CAPTURE(method);
        GateTrainer straight(*model, texts, training(method)), stopped(*model, texts, training(method));
        const double before = straight.loss_of(texts).total;
        for (int i = 0; i < 12; ++i)
            straight.step();
        CHECK(straight.loss_of(texts).total < before);
        for (int i = 0; i < 5; ++i)
            stopped.step();
        stopped.checkpoint(part);
        GateTrainer resumed(*model, texts, training(method));
        resumed.resume(part);
        CHECK(resumed.steps_done() == 5);
        while (resumed.steps_done() < 12)
            resumed.step();
        CHECK(same_weights(resumed.gate(), straight.gate()));
        for (size_t i = 0; i < 12; ++i)
            CHECK(resumed.losses()[i].total == straight.losses()[i].total);

        GateTraining other = training(method);
        other.seed = 6;
        GateTrainer another(*model, texts, other);
        CHECK(!same_weights(another.gate(), GateTrainer(*model, texts, training(method)).gate()));
        CHECK_THAT(refused([&] { another.resume(part); }), ContainsSubstring("other options"));
        CHECK(another.steps_done() == 0);
        write_file(part, "no training");
        CHECK_THAT(refused([&] { another.resume(part); }), ContainsSubstring("gate.part"));
    }
}

TEST_CASE("a loss that is not finite stops the training before anything changes", "[train]") {
    const auto model = tiny_model(31, small_vocabulary);
    const auto texts = texts_of(2, 20, 28);
    GateTrainer trainer(*model, texts, training("trim_kv"));
    trainer.step();
    const_cast<at::Tensor&>(trainer.gate().weights()[0][2]).detach().fill_(NAN);
    try {
        trainer.step();
        FAIL("went on");
    } catch (const Error& e) {
        CHECK(e.kind() == ErrorKind::failure);
        CHECK_THAT(e.what(), ContainsSubstring("step 2") && ContainsSubstring("not finite"));
    }
    CHECK(trainer.steps_done() == 1);
}

TEST_CASE("training texts: rows with answers, plain pieces, and what cannot be read", "[train][bad-input]") {
    const auto pair = tiny_pair(1, 2);
    const ScratchFolder folder("gates");
    const auto rows = folder.path() / "rows.jsonl", plain = folder.path() / "plain.txt";
    std::string words, lines;
    for (int i = 0; i < 400; ++i)
        words += "The fox counted boats. ";
    write_file(plain, words);
    const std::string answer = words.substr(0, 300);
    for (int i = 0; i < 3; ++i)
        lines += R"({"prompt": "Tell a story about a fox and a crow by the river, please.", "response": ")" +
                 answer + "\"}\n\n";
    write_file(rows, lines);
    const auto texts = read_training_texts(*pair, {rows, plain}, 128);
    REQUIRE(texts.size() > 10);
    for (const TrainingText& text : texts) {
        CHECK((std::ssize(text.ids) >= 32 && std::ssize(text.ids) <= 128));
        CHECK((text.prompt >= 1 && text.prompt <= std::ssize(text.ids) - 2));
    }
    CHECK(texts[0].prompt < 40); // as the row says; of a piece the last quarter is the answer
    CHECK(texts[3].ids.size() == 128);
    CHECK(texts[3].prompt == 96);
    const auto parts = held_out_and_trained(texts);
    CHECK(parts[0].size() == texts.size() / 8);
    CHECK(parts[0].size() + parts[1].size() == texts.size());
    CHECK(parts[0][0].ids == texts[7].ids);
    CHECK(texts_digest(parts[0]) != texts_digest(parts[1]));

    CHECK_THAT(refused([&] { (void)read_training_texts(*pair, {folder.path() / "none.txt"}, 128); }),
               ContainsSubstring("none.txt"));
    write_file(rows, "{\"prompt\": \"a\"}\n");
    CHECK_THAT(refused([&] { (void)read_training_texts(*pair, {rows}, 128); }),
               ContainsSubstring("row 1") && ContainsSubstring("response"));
    write_file(rows, "{\"text\": \"too short\"}\n");
    CHECK_THAT(refused([&] { (void)read_training_texts(*pair, {rows}, 128); }),
               ContainsSubstring("give 0 texts"));
    write_file(plain, "\xFF\xFE");
    CHECK_THAT(refused([&] { (void)read_training_texts(*pair, {plain}, 128); }),
               ContainsSubstring("not UTF-8"));
}

TEST_CASE("a gate is judged beside others with as many entries", "[train]") {
    const auto pair = tiny_pair(1, 2);
    const std::vector<TrainingText> texts{{random_ids(60, 30), 44}, {random_ids(50, 31), 30}};
    for (const char* method : {"trim_kv", "make_each_token_count", "locret", "attention_gate"}) {
        CAPTURE(method);
        const auto table =
            judge_gate(*pair->teacher, pair->teacher_gates.at(method), texts, 1, [](double) { return true; });
        REQUIRE(table);
        const size_t policies = find_cache_method(method)->prompt_only ? 5 : 4;
        REQUIRE(table->rows.size() == 1 + 3 * policies);
        CHECK(std::get<double>(table->rows[0][2]) == 0);
        const auto read = [&](size_t row) { return std::get<double>(table->rows[row].back()); };
        for (size_t row = 1; row < table->rows.size(); ++row) {
            CHECK(std::get<double>(table->rows[row][2]) > 0);
            const size_t own = 1 + (row - 1) / policies * policies;
            CHECK(read(row) >
                  read(own) - 1.5); // nobody reads less than the gate's policy; one more is its newest
        }
        CHECK(!judge_gate(*pair->teacher, pair->teacher_gates.at(method), texts, 1,
                          [](double) { return false; }));
    }
    std::vector<TrainingStep> losses(1200);
    for (size_t i = 0; i < losses.size(); ++i)
        losses[i] = {static_cast<double>(i), {1, 2}};
    const StudyTable table = loss_table("Training", {"KL", "next token"}, losses);
    REQUIRE(table.rows.size() == 400);
    CHECK(std::get<double>(table.rows[0][1]) == 1); // steps 1 to 3
    CHECK(std::get<int64_t>(table.rows[0][0]) == 3);
}

} // namespace gate_training_test
