// Profiles of cache policies: texts with needles, and what is measured on them, against the definition in whole matrices.
#include "engine/model/checkpoint/llama_weights.h"
#include "engine/train/compress_kv_profile.h"
#include "engine/train/frozen_llama.h"
#include "tests/engine/session/tiny_pair.h"
#include "tests/support/refused.h"

#include <ATen/ATen.h>
#include <catch2/catch_approx.hpp>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <algorithm>
#include <random>

namespace profile_test {

using namespace refreshlab;
using namespace refreshlab::test;
using Catch::Approx;
using Catch::Matchers::ContainsSubstring;

namespace {

constexpr int64_t window = 8;

/// Most of the vocabulary is the needle, so that the first choice of a random model is often in it.
NeedleText wide_needle(uint32_t salt) {
    std::mt19937 random(salt);
    NeedleText text;
    for (int i = 0; i < 230; ++i)
        text.ids.push_back(static_cast<int32_t>(random() % 96));
    text.needle_begin = 20;
    text.needle_end = 120;
    text.answer_begin = 200;
    return text;
}

const auto go_on = [](double) { return true; };

/// [layers][heads, n, n] after softmax, and the layers' values.
struct WholeAttention {
    std::vector<at::Tensor> rows, values;
    at::Tensor choices;
    WholeAttention(const LlamaModel& model, const NeedleText& text) {
        const FrozenLlama frozen(model);
        const auto n = static_cast<int64_t>(text.ids.size());
        choices = frozen
                      .run(text.ids,
                           [&](int64_t, const GateInputs& in, const at::Tensor& logits) {
                               rows.push_back(at::softmax(logits + at::full({n, n}, -INFINITY).triu(1), -1));
                               values.push_back(in.v.repeat_interleave(
                                   model.config().num_heads / model.config().num_kv_heads, 1));
                               return logits;
                           })
                      .argmax(1);
    }
};

} // namespace

TEST_CASE("a needle stands in its text and is asked for at the end", "[train]") {
    const auto tokenizer = Tokenizer::load(RL_SOURCE_DIR "/assets/models/llama-tales-student");
    std::vector<TrainingText> hay;
    for (int32_t i = 0; i < 7; ++i)
        hay.push_back({std::vector<int32_t>(static_cast<size_t>(40 + i), 300 + i), 30});
    const auto texts = needle_texts(*tokenizer, hay, 3);
    REQUIRE(texts.size() == 7);
    const auto words_of = [&](auto begin, auto end) {
        return joined_text(*tokenizer, {}, std::vector<int32_t>(begin, end));
    };
    for (size_t i = 0; i < texts.size(); ++i) {
        const NeedleText& text = texts[i];
        const auto at = [&](int64_t place) { return text.ids.begin() + place; };
        const std::string needle = words_of(at(text.needle_begin), at(text.needle_end)),
                          answer = words_of(at(text.answer_begin), text.ids.end());
        CHECK_THAT(needle, ContainsSubstring("The secret word of the ") && ContainsSubstring(" is "));
        CHECK(needle.ends_with(answer));
        CHECK(answer.size() > 10);
        CHECK(text.needle_begin ==
              std::max<int64_t>((40 + static_cast<int64_t>(i)) * (2 * (i % 5) + 1) / 10, 1));
        CHECK(std::count(text.ids.begin(), text.ids.end(), hay[i].ids[0]) >= 40);
        const std::string question = needle.substr(0, needle.size() - answer.size());
        const auto asked = std::ssize(tokenizer->encode(question, false));
        CHECK(words_of(at(text.answer_begin - asked), at(text.answer_begin)) == question);
    }
    CHECK(needle_texts(*tokenizer, hay, 3)[2].ids == texts[2].ids);
    CHECK(needle_texts(*tokenizer, hay, 4)[2].ids != texts[2].ids);
}

TEST_CASE("CompressKV's profile is that of its definition", "[train]") {
    const auto model = tiny_model(51, {.layers = 3, .heads = 6, .kv_heads = 2, .vocab = 96});
    const std::vector<NeedleText> texts{wide_needle(1), wide_needle(2)};
    const auto profile = measure_compress_kv(*model, texts, 0.15, go_on);
    REQUIRE(profile);
    REQUIRE(profile->layers.size() == 3);
    CHECK(profile->method == "compress_kv");
    std::vector<at::Tensor> given{at::zeros({6}), at::zeros({6}), at::zeros({6})};
    int64_t found = 0;
    std::vector<WholeAttention> whole;
    for (const NeedleText& text : texts) {
        const WholeAttention& all = whole.emplace_back(*model, text);
        const auto n = static_cast<int64_t>(text.ids.size());
        for (int64_t row = text.answer_begin - 1; row + 1 < n; ++row) {
            const auto first = text.ids.begin() + text.needle_begin,
                       last = text.ids.begin() + text.needle_end;
            if (std::find(first, last, all.choices[row].item<int64_t>()) == last) continue;
            ++found;
            for (size_t layer = 0; layer < 3; ++layer)
                given[layer] += all.rows[layer].select(1, row).slice(1, 20, 120).sum(1);
        }
    }
    REQUIRE(found > 5);
    for (size_t layer = 0; layer < 3; ++layer) {
        CAPTURE(layer);
        at::Tensor best = std::get<1>(given[layer].topk(4)).to(at::kDouble);
        best = std::get<0>(best.sort());
        CHECK(profile->of(layer, "heads") ==
              std::vector<double>(best.const_data_ptr<double>(), best.const_data_ptr<double>() + 4));
        double error = 0;
        for (size_t i = 0; i < texts.size(); ++i) {
            const at::Tensor rows = whole[i].rows[layer];
            const int64_t columns = texts[i].answer_begin - window; // 192
            const at::Tensor scores = at::avg_pool1d(rows.slice(1, columns, 200)
                                                         .slice(2, 0, columns)
                                                         .index_select(0, best.to(at::kLong))
                                                         .mean(1),
                                                     5, 1, 2)
                                          .sum(0);
            at::Tensor kept = at::zeros({rows.size(2)});
            kept.index_fill_(0, std::get<1>(scores.topk(30 - window)), 1); // 0.15 of 200
            kept.slice(0, columns).fill_(1);
            const at::Tensor answer = rows.slice(1, 200), cut = answer * kept;
            const auto added = [&](const at::Tensor& by) {
                const at::Tensor heads = at::matmul(by, whole[i].values[layer].transpose(0, 1));
                return at::matmul(heads.transpose(0, 1).flatten(1), model->weights().layers[layer].o.t());
            };
            const at::Tensor o = added(answer);
            error += ((added(cut / cut.sum(-1, true)) - o).norm() / o.norm()).item<double>() / 2;
        }
        CHECK(error > 0.01);
        CHECK(profile->of(layer, "error").front() == Approx(error).epsilon(1e-3));
    }
    // Where everything stays there is no error.
    const auto all = measure_compress_kv(*model, texts, 1, go_on);
    REQUIRE(all);
    CHECK(all->of(1, "error").front() < 1e-6);
    CHECK(!measure_compress_kv(*model, texts, 0.15, [](double done) { return done < 0.6; }));
    // Nobody finds a needle of one token.
    NeedleText lost = texts[0];
    lost.needle_begin = 20;
    lost.needle_end = 21;
    for (int32_t id = 0; id < 96; ++id) {
        lost.ids[20] = id;
        const WholeAttention look(*model, lost);
        if ((look.choices.slice(0, 199, 229) == id).any().item<bool>()) continue;
        CHECK_THAT(refused([&] { (void)measure_compress_kv(*model, std::span(&lost, 1), 0.15, go_on); }),
                   ContainsSubstring("never answered"));
        return;
    }
    FAIL("every token is a first choice");
}

} // namespace profile_test
