// What makes a training of a whole model fast: texts read at once, products in bf16, Muon; and dropout.
#include "engine/train/muon.h"
#include "tests/engine/model/support.h"
#include "tests/engine/train/tiny_training.h"

#include <ATen/CPUGeneratorImpl.h>
#include <catch2/catch_approx.hpp>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <cmath>
#include <optional>

namespace packed_training_test {

using namespace refreshlab;
using namespace refreshlab::test;
using Catch::Approx;
using Catch::Matchers::ContainsSubstring;

namespace {

/// Of all weights, texts of different lengths, some of them longer than a block of attention.
ModelTraining whole(const std::string& name) {
    ModelTraining how = healing();
    how.name = name;
    how.low_rank.reset();
    how.next_token = name == "teacher" ? 1 : 0.5;
    how.shares = {0.3, 0.3, 8};
    how.steps = 6;
    how.batch = 5;
    return how;
}

std::vector<TrainingText> uneven_texts(uint32_t salt) {
    std::vector<TrainingText> texts;
    for (const int64_t tokens : {40, 300, 33, 70, 51, 64})
        texts.push_back({random_ids(tokens, salt + static_cast<uint32_t>(tokens)), 20});
    return texts;
}

at::Tensor random_matrix(int64_t rows, int64_t columns, uint32_t salt) {
    return at::randn({rows, columns}, at::detail::createCPUGenerator(seed(salt)));
}

} // namespace

TEST_CASE("texts that are read at once have the losses of texts read one by one", "[train]") {
    const OneThread one_thread;
    for (const int64_t window : {0, 9}) {
        const TinyShape shape{.window = window, .vocab = 256};
        const auto teacher = tiny_model(31, shape), student = tiny_model(32, shape);
        const auto texts = uneven_texts(60);
        for (const bool taught : {false, true}) {
            ModelTraining how = whole(taught ? "student" : "teacher");
            ModelTrainer single(taught ? teacher.get() : nullptr, *student, texts, how);
            how.pack = 160; // two or three of them; the long one by itself
            ModelTrainer packed(taught ? teacher.get() : nullptr, *student, texts, how);
            how.pack = 10'000;
            ModelTrainer all(taught ? teacher.get() : nullptr, *student, texts, how);
            for (int step = 0; step < 3; ++step) {
                for (ModelTrainer* trainer : {&single, &packed, &all})
                    trainer->step();
                const TrainingStep& wanted = single.losses().back();
                for (const ModelTrainer* trainer : {&packed, &all}) {
                    const TrainingStep& got = trainer->losses().back();
                    CHECK(got.total == Approx(wanted.total).epsilon(1e-3));
                    for (size_t part = 0; part < got.parts.size(); ++part)
                        CHECK(got.parts[part] == Approx(wanted.parts[part]).epsilon(1e-3));
                }
            }
            CHECK(all.tokens_read() == single.tokens_read());
        }
    }
}

TEST_CASE("a training counts the tokens that it has read", "[train]") {
    const OneThread one_thread;
    const auto model = tiny_model(31, small_vocabulary);
    const auto texts = uneven_texts(70);
    int64_t epoch = 0;
    for (const TrainingText& text : texts)
        epoch += std::ssize(text.ids);
    ModelTraining how = whole("teacher");
    how.batch = 4; // three steps are two epochs
    ModelTrainer trainer(nullptr, *model, texts, how);
    CHECK(trainer.tokens_read() == 0);
    trainer.step();
    CHECK((trainer.tokens_read() > 0 && trainer.tokens_read() < epoch));
    trainer.step();
    trainer.step();
    CHECK(trainer.tokens_read() == 2 * epoch);
}

TEST_CASE("Newton-Schulz brings singular values to about 1 and turns nothing", "[train]") {
    const OneThread one_thread;
    for (const auto& [rows, columns] : {std::pair<int64_t, int64_t>{24, 40}, {40, 24}, {16, 16}}) {
        at::Tensor matrix = random_matrix(rows, columns, 80);
        matrix.narrow(0, 3, 1).zero_(); // as padding has it
        const at::Tensor got = orthogonalised(matrix, at::kFloat);
        const auto [u, s, vh] = at::linalg_svd(matrix, false);
        // In the matrix's own singular vectors it is diagonal.
        const at::Tensor turned = at::matmul(at::matmul(u.t(), got), vh.t());
        const at::Tensor values = turned.diagonal();
        CHECK((turned - values.diag()).abs().max().item<double>() < 0.02);
        for (int64_t i = 0; i < values.size(0); ++i)
            if (s[i].item<double>() > 0.05 * s[0].item<double>())
                CHECK((values[i].item<double>() > 0.5 && values[i].item<double>() < 1.3));
        CHECK(got.narrow(0, 3, 1).abs().max().item<double>() < 1e-4);
        CHECK((orthogonalised(matrix, at::kBFloat16) - got).abs().max().item<double>() < 0.15);
    }
}

TEST_CASE("an update of Muon is as large as one of AdamW, and decays", "[train]") {
    at::Tensor matrix = random_matrix(30, 50, 81), idle = random_matrix(4, 4, 82);
    const at::Tensor before = matrix.clone(), still = idle.clone();
    matrix.mutable_grad() = 1e-6 * random_matrix(30, 50, 83); // its size does not count
    Muon muon({matrix, idle}, 0.5, at::kFloat);
    muon.step(0.1);
    const at::Tensor change = matrix - before * (1 - 0.1 * 0.5);
    CHECK(change.square().mean().sqrt().item<double>() == Approx(0.1 * 0.2).epsilon(0.3));
    CHECK(at::equal(idle, still));
}

TEST_CASE("dropout drops values by head and key for all queries, what layers add, and embeddings",
          "[train]") {
    const OneThread one_thread;
    const TinyShape shape{.heads = 2, .kv_heads = 2};
    const auto model = tiny_model(31, shape);
    const TrainablePass pass(*model, "a test");
    const at::Tensor x = pass.embedded(random_ids(30, 84, 4096));
    const Dropout shares{0.3, 0.2, 0.1};
    TrainablePass::Around around;
    around.dropping = {shares, at::detail::createCPUGenerator(seed(85))};
    const at::Tensor got = pass.run(x, around);
    // The same masks as changes of what maps give.
    at::Generator random = at::detail::createCPUGenerator(seed(85));
    const auto mask = [&](at::IntArrayRef sizes, double share) {
        return at::empty(sizes).bernoulli_(1 - share, random) / (1 - share);
    };
    const at::Tensor first = x * mask(x.sizes(), shares.embedding);
    TrainablePass::Around changed;
    changed.added = [&](int64_t layer, Projection place, const at::Tensor& rows) -> at::Tensor {
        const LlamaLayer& w = pass.weights().layers[static_cast<size_t>(layer)];
        if (place == Projection::v) {
            const at::Tensor by_head = mask({2, 30, 1}, shares.attention).expand({2, 30, 6});
            return at::linear(rows, w.v) * (by_head.transpose(0, 1).reshape({30, 12}) - 1);
        }
        if (place != Projection::o && place != Projection::down) return {};
        const at::Tensor made = at::linear(rows, place == Projection::o ? w.o : w.down);
        return made * (mask(made.sizes(), shares.residual) - 1);
    };
    CHECK(close(got, pass.run(first, changed)));
    CHECK(!close(got, pass.run(x, {}), 0.01));
}

TEST_CASE("dropout draws by the seed, and is not where a loss is judged", "[train]") {
    const OneThread one_thread;
    const auto model = tiny_model(31, small_vocabulary);
    const auto texts = uneven_texts(90);
    ModelTraining how = whole("teacher");
    const TrainingStep plain = ModelTrainer(nullptr, *model, texts, how).loss_of(texts);
    how.dropout = {0.1, 0.2, 0.2};
    how.batch = std::ssize(texts); // so that the order does not count
    ModelTrainer trainer(nullptr, *model, texts, how);
    CHECK(trainer.loss_of(texts).total == plain.total);
    how.seed += 1;
    ModelTrainer other(nullptr, *model, texts, how);
    trainer.step();
    other.step();
    CHECK(std::abs(trainer.losses().back().total - other.losses().back().total) > 1e-4);
}

TEST_CASE("products in bf16 are near those in f32, and weights stay in f32", "[train]") {
    const OneThread one_thread;
    const auto teacher = tiny_model(31, small_vocabulary), student = tiny_model(32, small_vocabulary);
    const auto texts = uneven_texts(100);
    ModelTraining how = whole("student");
    ModelTrainer fine(teacher.get(), *student, texts, how);
    how.products = TrainablePass::Products::bf16;
    ModelTrainer coarse(teacher.get(), *student, texts, how);
    const double wanted = fine.loss_of(texts).total, got = coarse.loss_of(texts).total;
    CHECK(got == Approx(wanted).epsilon(0.02));
    CHECK(got != wanted);
    coarse.step();
    const auto made = coarse.model(at::kFloat);
    const at::Tensor weight = made->weights().layers.front().q;
    CHECK(!at::equal(weight, weight.to(at::kBFloat16).to(at::kFloat)));
}

TEST_CASE("a training with Muon, dropout, bf16 and packs goes on from a checkpoint with the same bits",
          "[train]") {
    const OneThread one_thread;
    const auto teacher = tiny_model(31, small_vocabulary), student = tiny_model(32, small_vocabulary);
    const auto texts = uneven_texts(110);
    const ScratchFolder folder("packed-training");
    const auto part = folder.path() / "part";
    // All weights; updates alone, where AdamW has nothing to do; updates and norms.
    for (const auto& low_rank : {std::optional<LowRank>(), std::optional(LowRank{4, 8, everywhere, false}),
                                 std::optional(LowRank{4, 8, everywhere, true})}) {
        ModelTraining how = whole(low_rank ? "heal" : "student");
        how.low_rank = low_rank;
        how.muon = true;
        how.dropout = {0.1, 0.1, 0.1};
        how.products = TrainablePass::Products::bf16;
        how.pack = 150;
        ModelTrainer all(teacher.get(), *student, texts, how);
        const double before = all.loss_of(texts).total;
        while (all.steps_done() < all.steps())
            all.step();
        CHECK(all.loss_of(texts).total < before);
        {
            ModelTrainer half(teacher.get(), *student, texts, how);
            half.step();
            half.step();
            half.checkpoint(part);
        }
        ModelTrainer rest(teacher.get(), *student, texts, how);
        rest.resume(part);
        while (rest.steps_done() < rest.steps())
            rest.step();
        CHECK(all.losses().back().total == rest.losses().back().total);
        CHECK(at::equal(own_logits(*all.model(at::kFloat), texts[0].ids),
                        own_logits(*rest.model(at::kFloat), texts[0].ids)));
        how.muon = false;
        ModelTrainer other(teacher.get(), *student, texts, how);
        CHECK_THROWS_WITH(other.resume(part), ContainsSubstring("other options"));
    }
}

} // namespace packed_training_test
