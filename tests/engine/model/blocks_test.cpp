// Models whose matrices stay in blocks, against the same numbers unpacked.
#include "engine/cache/kv_cache.h"
#include "engine/model/checkpoint/llama_weights.h"
#include "engine/model/derive/derive_student.h"
#include "engine/model/derive/weight_changes.h"
#include "engine/model/llama_model.h"
#include "kernels/blocks/blocks.h"
#include "tests/engine/model/support.h"
#include "tests/support/forward.h"
#include "tests/support/seed.h"

#include <ATen/ATen.h>
#include <catch2/catch_test_macros.hpp>

#include <array>
#include <map>

namespace blocks_test {

using namespace refreshlab;
using namespace refreshlab::test;

namespace {

ModelConfig block_config(bool tied) {
    ModelConfig config = tiny_config();
    config.hidden_size = 64;
    config.intermediate_size = 96;
    config.num_heads = 4;
    config.num_kv_heads = 2;
    config.head_dim = 16;
    config.vocab_size = 176;
    config.tied_head = tied;
    return config;
}

struct Rounding {
    int32_t bits;
    bool symmetric;
};
constexpr std::array roundings = {Rounding{4, false}, Rounding{4, true}, Rounding{8, true},
                                  Rounding{3, false}};

/// Random weights, matrices rounded so that blocks hold them: packed, and unpacked again in fp32.
struct Twins {
    std::unique_ptr<LlamaModel> packed, plain;
};

Twins twins(const ModelConfig& config, Rounding rounding, uint64_t seed) {
    const auto source = lively_llama(config, seed);
    std::map<std::string, at::Tensor> weights;
    source->weights().visit(
        config, [&](const WeightPlace& place, const at::Tensor& tensor) { weights[place.name] = tensor; });
    const auto model = [&](bool unpacked) {
        const auto of = [&](const std::string& name, at::IntArrayRef) {
            const at::Tensor& tensor = weights.at(name);
            if (tensor.dim() != 2) return tensor;
            const at::Tensor packed = round_to_blocks(tensor, rounding.bits, 32, rounding.symmetric);
            return unpacked ? kernels::block_values(packed) : packed;
        };
        return LlamaModel::from_weights(config, of, at::kCPU, at::kFloat);
    };
    return {model(false), model(true)};
}

double distance(const at::Tensor& a, const at::Tensor& b) {
    return ((a - b).norm() / b.norm()).item<double>();
}

} // namespace

TEST_CASE("a model in blocks gives the logits of its unpacked numbers to the rounding of fp32 sums",
          "[model][blocks]") {
    uint64_t draw = seed(71);
    for (const Rounding rounding : roundings) {
        for (const bool tied : {true, false}) {
            const ModelConfig config = block_config(tied);
            const Twins pair = twins(config, rounding, draw++);
            const std::vector<int32_t> tokens = random_tokens(60, config.vocab_size, draw++);
            const auto a = pair.packed->make_cache(60), b = pair.plain->make_cache(60);
            const at::Tensor packed = extend(*pair.packed, *a, tokens, Rows::all, Origin::student);
            const at::Tensor plain = extend(*pair.plain, *b, tokens, Rows::all, Origin::student);
            CHECK(distance(packed, plain) < 1e-5);
            CHECK(distance(a->keys(0, 60), b->keys(0, 60)) < 1e-5);
            CHECK(distance(a->values(0, 60), b->values(0, 60)) < 1e-5);
            CHECK(pair.packed->weight_bytes() < pair.plain->weight_bytes() / 3);
        }
    }
}

TEST_CASE("in blocks too steps are a prefill, chunks are the whole, and dropout rows change no bit of row 0",
          "[model][blocks]") {
    uint64_t draw = seed(72);
    for (const Rounding rounding : roundings) {
        const ModelConfig config = block_config(true);
        const Twins pair = twins(config, rounding, draw++);
        const LlamaModel& model = *pair.packed;
        const std::vector<int32_t> tokens = random_tokens(23, config.vocab_size, draw++);
        const auto whole = model.make_cache(40), parts = model.make_cache(40);
        const at::Tensor all = extend(model, *whole, tokens, Rows::all, Origin::student);
        static_cast<void>(extend(model, *parts, std::span(tokens).first(7), Rows::none, Origin::student));
        static_cast<void>(
            extend(model, *parts, std::span(tokens).subspan(7, 9), Rows::none, Origin::student));
        for (size_t t = 16; t < tokens.size(); ++t) {
            McRequest mc;
            mc.passes = static_cast<int32_t>(t % 5);
            mc.seed = draw;
            mc.p = 0.2F;
            mc.mlp_output = true;
            const StepRows rows = step(model, *parts, tokens[t], Origin::student, mc);
            REQUIRE(at::equal(rows.row, all[static_cast<int64_t>(t)]));
            if (mc.passes > 0) CHECK_FALSE(at::equal(rows.mc[0], rows.row));
        }
        CHECK(at::equal(whole->keys(0, 23), parts->keys(0, 23)));
        CHECK(at::equal(whole->values(0, 23), parts->values(0, 23)));
    }
}

TEST_CASE("a head in blocks is cut at any row", "[model][blocks]") {
    for (const bool tied : {true, false}) {
        const ModelConfig config = block_config(tied);
        const std::vector<int32_t> tokens = random_tokens(5, 100, seed(73));
        for (const int64_t rows : {int64_t{160}, int64_t{171}}) {
            const Twins pair = twins(config, roundings[0], seed(74));
            const auto logits = [&] {
                const auto cache = pair.packed->make_cache(5);
                return extend(*pair.packed, *cache, tokens, Rows::last, Origin::student).clone();
            };
            const at::Tensor before = logits();
            pair.packed->keep_vocabulary(rows);
            const at::Tensor after = logits();
            REQUIRE(after.size(1) == rows);
            CHECK(distance(after, before.narrow(1, 0, rows)) < 1e-5);
        }
    }
}

TEST_CASE("rounding into blocks gives the numbers of rounding to bits, bit for bit",
          "[model][derive][blocks]") {
    for (const Rounding rounding : roundings) {
        for (const int64_t group : {32, 64, 96}) {
            const at::Tensor w = at::randn({48, 192}, at::detail::createCPUGenerator(seed(75)));
            const at::Tensor packed = round_to_blocks(w, rounding.bits, group, rounding.symmetric);
            REQUIRE(packed.defined());
            CHECK(at::equal(kernels::block_values(packed),
                            round_to_bits(w, rounding.bits, group, rounding.symmetric)));
        }
    }
    const at::Tensor w = at::ones({48, 64});
    CHECK_FALSE(round_to_blocks(w, 4, 16, false).defined()); // groups of half a block
    CHECK_FALSE(round_to_blocks(w, 6, 32, false).defined()); // no type has a minimum and six bits
    CHECK_FALSE(round_to_blocks(at::ones({40, 64}), 4, 32, false).defined()); // half a tile
}

TEST_CASE("a student derived from a model that keeps blocks holds what it says, and reads its own numbers",
          "[model][derive][blocks]") {
    const ModelConfig config = block_config(false);
    const auto source = lively_llama(config, seed(76), at::kBFloat16);
    const auto teacher =
        LlamaModel::of_weights(config, source->weights(), at::kCPU, at::kBFloat16, /*keeps_blocks=*/true);
    for (const Rounding rounding : roundings) {
        DeriveSpec spec;
        spec.bits = rounding.bits;
        spec.symmetric = rounding.symmetric;
        const DerivedStudent student = derive_student(*teacher, spec, at::kCPU);
        CHECK(student.model->keeps_blocks());
        CHECK(student.model->weight_bytes() == derived_bytes_in_blocks(config, spec));
        int64_t packed = 0;
        std::map<std::string, at::Tensor> of_teacher;
        teacher->weights().visit(config, [&](const WeightPlace& place, const at::Tensor& tensor) {
            of_teacher[place.name] = tensor;
        });
        student.model->weights().visit(config, [&](const WeightPlace& place, const at::Tensor& tensor) {
            if (!kernels::is_blocks(tensor)) return;
            ++packed;
            const at::Tensor rounded = round_to_bits(of_teacher.at(place.name).to(at::kFloat), rounding.bits,
                                                     spec.group, rounding.symmetric);
            CHECK(at::equal(kernels::block_values(tensor), rounded));
        });
        CHECK(packed == 7 * config.num_layers);
        // A student of that student: its teacher's matrices are unpacked for the change.
        DeriveSpec noisy;
        noisy.noise = 0.01;
        const DerivedStudent second = derive_student(*student.model, noisy, at::kCPU);
        const auto cache = second.model->make_cache(4);
        CHECK(extend(*second.model, *cache, std::vector<int32_t>{1, 2, 3}, Rows::last, Origin::student)
                  .isfinite()
                  .all()
                  .item<bool>());
    }
}

} // namespace blocks_test
