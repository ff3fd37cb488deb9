// Students made of a teacher's weights, against plain loops over the same weights.
#include "engine/cache/kv_cache.h"
#include "engine/model/checkpoint/llama_weights.h"
#include "engine/model/derive/calibration.h"
#include "engine/model/derive/derive_student.h"
#include "engine/model/derive/weight_changes.h"
#include "engine/signals/registry.h"
#include "kernels/execution/execution_context.h"
#include "tests/engine/model/support.h"
#include "tests/support/forward.h"
#include "tests/support/seed.h"

#include <ATen/ATen.h>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

namespace derive_test {

using namespace refreshlab;
using namespace refreshlab::test;
using Catch::Matchers::ContainsSubstring;

namespace {

/// Widths that groups of 8 divide; the MLP's is held padded (40 -> 64).
ModelConfig grouped_config() {
    ModelConfig config = tiny_config();
    config.hidden_size = 48;
    config.intermediate_size = 40;
    config.num_heads = 4;
    config.head_dim = 8;
    return config;
}

at::Tensor random_matrix(int64_t out, int64_t in, uint64_t seed) {
    at::Generator generator = at::detail::createCPUGenerator(seed);
    return at::empty({out, in}, at::TensorOptions().dtype(at::kFloat)).normal_(0.1, 1.0, generator);
}

float f16(double x) {
    return static_cast<float>(static_cast<at::Half>(static_cast<float>(x)));
}

/// One group after the other, as the header of round_to_bits says it.
at::Tensor naive_rounding(const at::Tensor& w, int32_t bits, int64_t group, bool symmetric) {
    at::Tensor result = w.clone();
    for (int64_t r = 0; r < w.size(0); ++r) {
        for (int64_t g = 0; g < w.size(1); g += group) {
            float low = INFINITY, high = -INFINITY;
            for (int64_t c = g; c < g + group; ++c) {
                low = std::min(low, w[r][c].item<float>());
                high = std::max(high, w[r][c].item<float>());
            }
            const float top = static_cast<float>(symmetric ? (1 << (bits - 1)) - 1 : (1 << bits) - 1);
            const float minimum = symmetric ? 0 : f16(low);
            const float scale =
                f16(symmetric ? std::max(std::abs(low), std::abs(high)) / top : (high - low) / top);
            for (int64_t c = g; c < g + group; ++c) {
                const float x = w[r][c].item<float>();
                float q = scale > 0 ? std::nearbyint((x - minimum) / scale) : 0;
                q = std::min(std::max(q, symmetric ? -top : 0.0F), top);
                result[r][c] = q * scale + minimum;
            }
        }
    }
    return result;
}

at::Tensor logits_of(const LlamaModel& model, const std::vector<int32_t>& ids) {
    const auto cache = model.make_cache(static_cast<int64_t>(ids.size()));
    return extend(model, *cache, ids, Rows::all, Origin::student);
}

DerivedStudent derived(const LlamaModel& teacher, const std::string& text,
                       const std::vector<int32_t>& ids = {}) {
    return derive_student(teacher, parse_derive(text), at::kCPU, ids);
}

} // namespace

TEST_CASE("rounding to bits takes the nearest of the group's values", "[model][derive]") {
    for (const int32_t bits : {2, 3, 4, 8}) {
        for (const bool symmetric : {false, true}) {
            CAPTURE(bits, symmetric);
            at::Tensor w = random_matrix(7, 48, seed(static_cast<uint64_t>(bits)));
            w[2].narrow(0, 0, 16).fill_(0.3); // a group of equal weights
            w[3].narrow(0, 16, 16).zero_();
            const at::Tensor rounded = round_to_bits(w, bits, 16, symmetric);
            CHECK(at::equal(rounded, naive_rounding(w, bits, 16, symmetric)));
            // What was rounded once is stored as it is.
            CHECK(at::equal(round_to_bits(rounded, bits, 16, symmetric), rounded));
            const at::Tensor error = (rounded - w).abs().reshape({7, 3, 16}).amax(2);
            const at::Tensor groups = w.reshape({7, 3, 16});
            const at::Tensor range = symmetric ? 2 * groups.abs().amax(2) : groups.amax(2) - groups.amin(2);
            const double steps = symmetric ? (1 << bits) - 2 : (1 << bits) - 1;
            CHECK((error <= range / steps * 0.5 + 4e-3).all().item<bool>()); // f16 of scale and minimum
        }
    }
    CHECK_FALSE(at::equal(round_to_bits(random_matrix(4, 32, 1), 3, 8, false),
                          round_to_bits(random_matrix(4, 32, 1), 3, 16, false)));
}

TEST_CASE("noise is of the size asked for and a function of seed, matrix and place", "[model][derive]") {
    const at::Tensor w = random_matrix(200, 300, seed(4));
    const at::Tensor noise = with_noise(w, 0.5, 7, 3) - w;
    const double rms = std::sqrt(w.pow(2).mean().item<double>());
    CHECK(std::abs(noise.mean().item<double>()) < 0.02 * rms);
    CHECK(std::abs(noise.std().item<double>() / (0.5 * rms) - 1) < 0.02);
    const at::Tensor fourth = (noise / noise.std()).pow(4).mean();
    CHECK(std::abs(fourth.item<double>() - 3) < 0.15); // of a normal distribution
    const at::Tensor flat = noise.reshape({-1});
    const double neighbours = (flat.narrow(0, 0, 59999) * flat.narrow(0, 1, 59999)).mean().item<double>();
    CHECK(std::abs(neighbours) < 0.02 * 0.25 * rms * rms);
    CHECK(at::equal(with_noise(w, 0.5, 7, 3) - w, noise));
    CHECK_FALSE(at::equal(with_noise(w, 0.5, 8, 3) - w, noise));
    CHECK_FALSE(at::equal(with_noise(w, 0.5, 7, 4) - w, noise));
    const kernels::ExecutionContext three(3);
    const kernels::ExecutionScope scope(three);
    CHECK(at::equal(with_noise(w, 0.5, 7, 3) - w, noise));
}

TEST_CASE("a derived student has the teacher's tensors but for those it changes", "[model][derive]") {
    const auto teacher = lively_llama(grouped_config(), seed(11));
    const auto ids = random_tokens(20, 97, seed(12));
    const auto storage = [](const LlamaModel& model) {
        std::map<std::string, at::Tensor> tensors;
        model.weights().visit(model.config(), [&](const WeightPlace& place, const at::Tensor& tensor) {
            tensors[place.name] = tensor;
        });
        return tensors;
    };
    const auto of_teacher = storage(*teacher);
    const auto changed_by = [&](const std::string& text) {
        const DerivedStudent student = derived(*teacher, text, ids);
        int64_t own = 0, shared = 0, changed = 0;
        std::set<std::string> kinds;
        for (const auto& [name, tensor] : storage(*student.model)) {
            if (tensor.is_same(of_teacher.at(name))) {
                shared += static_cast<int64_t>(tensor.nbytes());
                continue;
            }
            own += static_cast<int64_t>(tensor.nbytes());
            ++changed;
            kinds.insert(name.substr(name.find('.', 13) + 1));
        }
        INFO(text);
        CHECK(student.facts.own_bytes == own);
        CHECK(student.facts.shared_bytes == shared);
        CHECK(student.facts.changed_tensors == changed);
        CHECK(student.model->weight_bytes() == own);
        CHECK(derived_elements(teacher->config(), parse_derive(text)) * 4 == own);
        CHECK_FALSE(student.facts.is_teacher());
        return kinds;
    };
    const std::set<std::string> attention = {"self_attn.q_proj.weight", "self_attn.k_proj.weight",
                                             "self_attn.v_proj.weight", "self_attn.o_proj.weight"};
    const std::set<std::string> mlp = {"mlp.gate_proj.weight", "mlp.up_proj.weight", "mlp.down_proj.weight"};
    std::set<std::string> both = attention;
    both.insert(mlp.begin(), mlp.end());
    CHECK(changed_by("bits=3,group=8") == both);
    CHECK(changed_by("bits=3,group=8,only=mlp") == mlp);
    CHECK(changed_by("noise=0.1,only=attention") == attention);
    CHECK(changed_by("ffn=0.5") == mlp);
    CHECK(changed_by("skip_mlp=1").empty());
    CHECK(changed_by("bits=3,group=8,skip_attention=0-2,only=attention") ==
          std::set<std::string>{"self_attn.k_proj.weight", "self_attn.v_proj.weight"});
}

TEST_CASE("a derivation that changes nothing is the teacher, bit for bit", "[model][derive]") {
    // A teacher that was rounded so in the first place, as a Q4_1 file is.
    const auto model = lively_llama(grouped_config(), seed(21));
    const auto teacher = derived(*model, "bits=4,group=8").model;
    const auto ids = random_tokens(20, 97, seed(22));
    for (const char* text : {"", "bits=4,group=8", "bits=4,group=8,only=mlp", "ffn=1"}) {
        const DerivedStudent same = derived(*teacher, text);
        INFO(text);
        CHECK(same.facts.is_teacher());
        CHECK(same.facts.own_bytes == 0);
        CHECK(at::equal(logits_of(*same.model, ids), logits_of(*teacher, ids)));
    }
    CHECK_FALSE(derived(*teacher, "bits=4,group=16,only=attention").facts.is_teacher());
    CHECK_FALSE(derived(*teacher, "bits=3,group=8").facts.is_teacher());
}

TEST_CASE("channels are kept by their activation and their column", "[model][derive]") {
    const ModelConfig config = grouped_config();
    const auto teacher = lively_llama(config, seed(31));
    const auto ids = random_tokens(30, 97, seed(32));
    const DerivedStudent half = derived(*teacher, "ffn=0.5", ids);
    CHECK(half.model->config().intermediate_size == 20);
    CHECK(half.facts.token_bytes < half.facts.teacher_token_bytes);

    // The activations once more, from the residuals that a capture shows: rms norm, silu(gate) * up, in double.
    const auto cache = teacher->make_cache(30);
    struct Inner final : LayerHooks {
        std::vector<at::Tensor> rows;
        LayerTaps taps(int64_t) const override {
            LayerTaps taps;
            taps.all_rows = true;
            return taps;
        }
        void inner(int64_t, const at::Tensor& x) override { rows.push_back(x.clone()); }
    } inner;
    HiddenCapture hidden(config, 30);
    (void)extend(*teacher, *cache, ids, Rows::all, Origin::student, {&inner, &hidden});
    REQUIRE(inner.rows.size() == 3);
    for (int64_t layer = 0; layer < 3; ++layer) {
        const LlamaLayer& w = teacher->weights().layers[static_cast<size_t>(layer)];
        const at::Tensor z = inner.rows[static_cast<size_t>(layer)].narrow(1, 0, 40).to(at::kDouble);
        const at::Tensor unit = z / z.norm(2, {1}, true);
        const at::Tensor column = w.down.narrow(0, 0, 48).narrow(1, 0, 40).to(at::kDouble).norm(2, {0});
        const at::Tensor order = (unit.norm(2, {0}) * column).argsort(0, true).narrow(0, 0, 20);
        const at::Tensor kept = std::get<0>(order.sort());
        const LlamaLayer& s = half.model->weights().layers[static_cast<size_t>(layer)];
        CHECK(at::equal(s.gate.narrow(0, 0, 20), w.gate.index_select(0, kept)));
        CHECK(at::equal(s.up.narrow(0, 0, 20), w.up.index_select(0, kept)));
        CHECK(at::equal(s.down.narrow(1, 0, 20), w.down.index_select(1, kept)));
    }
    // Other words, other channels.
    const auto others = random_tokens(30, 97, seed(33));
    CHECK_FALSE(at::equal(derived(*teacher, "ffn=0.5", others).model->weights().layers[0].gate,
                          half.model->weights().layers[0].gate));
    // Channels that do nothing can be left out for nothing.
    const auto lame = LlamaModel::from_weights(
        config,
        [&](const std::string& name, at::IntArrayRef shape) {
            at::Tensor w = random_matrix(shape[0], shape.size() > 1 ? shape[1] : 1,
                                         seed(34) + std::hash<std::string>()(name) % 1000)
                               .mul(0.2);
            if (name.find("down_proj") != std::string::npos) w.narrow(1, 8, 16).zero_();
            return w.reshape(shape);
        },
        at::kCPU, at::kFloat);
    const DerivedStudent whole = derived(*lame, "ffn=0.6", ids);
    CHECK((logits_of(*whole.model, ids) - logits_of(*lame, ids)).abs().max().item<float>() < 1e-4F);
}

TEST_CASE("a sublayer that is left out adds nothing, and a left-out attention still writes its columns",
          "[model][derive]") {
    const ModelConfig config = grouped_config();
    const auto teacher = lively_llama(config, seed(41));
    const auto ids = random_tokens(25, 97, seed(42));
    const DerivedStudent student = derived(*teacher, "skip_attention=0+2,skip_mlp=1");
    // The same by zeros in o_proj and down_proj.
    const auto silent = LlamaModel::from_weights(
        config,
        [&](const std::string& name, at::IntArrayRef shape) {
            at::Tensor found;
            teacher->weights().visit(config, [&](const WeightPlace& place, const at::Tensor& tensor) {
                if (place.name != name) return;
                found = tensor;
                for (size_t d = 0; d < place.stored.size(); ++d)
                    found = found.narrow(static_cast<int64_t>(d), 0, place.stored[d]);
            });
            const bool zero = name == "model.layers.0.self_attn.o_proj.weight" ||
                              name == "model.layers.2.self_attn.o_proj.weight" ||
                              name == "model.layers.1.mlp.down_proj.weight";
            return zero ? at::zeros(shape) : found.clone();
        },
        at::kCPU, at::kFloat);
    const auto a = student.model->make_cache(30), b = silent->make_cache(30);
    CHECK(at::equal(extend(*student.model, *a, ids, Rows::all, Origin::student),
                    extend(*silent, *b, ids, Rows::all, Origin::student)));
    CHECK(at::equal(a->keys(0, 25), b->keys(0, 25)));
    CHECK(at::equal(a->values(0, 25), b->values(0, 25)));
    McRequest mc;
    mc.passes = 2;
    mc.p = 0.3F;
    mc.seed = 5;
    const StepRows one = step(*student.model, *a, 3, Origin::student, mc),
                   two = step(*silent, *b, 3, Origin::student, mc);
    CHECK(at::equal(one.row, two.row));
    CHECK(at::equal(one.mc, two.mc));

    // Captures: rows of zeros, and no entropy, where nothing is read; the rest as ever.
    SeenAttention capture(config, {}, 26);
    AttentionEntropy entropy(config, 26);
    const at::Tensor seen = step(*student.model, *a, 4, Origin::student, {}, {&capture, &entropy}).row;
    CHECK(at::equal(seen, step(*silent, *b, 4, Origin::student).row));
    REQUIRE(capture.rows().sizes() == at::IntArrayRef({3, 4, 27}));
    CHECK(capture.rows()[0].abs().max().item<float>() == 0);
    CHECK(capture.rows()[2].abs().max().item<float>() == 0);
    CHECK((capture.rows()[1].sum(1) - 1).abs().max().item<float>() < 1e-5F);
    CHECK(is_absent(entropy.bits()[0]));
    CHECK(std::isfinite(entropy.bits()[1]));
    CHECK(is_absent(entropy.bits()[2]));
    const DerivedStudent none = derived(*teacher, "skip_attention=0-2");
    const auto cache = none.model->make_cache(4);
    SeenAttention empty(config, {}, 0);
    (void)step(*none.model, *cache, 4, Origin::student, {}, {&empty});
    CHECK(empty.rows().sizes() == at::IntArrayRef({3, 4, 1}));
}

TEST_CASE("sublayers are left out in the order that costs the least KL", "[model][derive]") {
    const auto teacher = lively_llama(grouped_config(), seed(51));
    const auto ids = random_tokens(24, 97, seed(52));
    const at::Tensor wanted = logits_of(*teacher, ids).to(at::kDouble).log_softmax(1);
    const auto kl = [&](const std::string& text) {
        const at::Tensor got = logits_of(*derived(*teacher, text).model, ids).to(at::kDouble).log_softmax(1);
        return (wanted.exp() * (wanted - got)).sum(1).mean().item<double>();
    };
    Skips best;
    for (int round = 0; round < 2; ++round) {
        double least = INFINITY;
        Skips next;
        for (int32_t layer = 0; layer < 3; ++layer) {
            for (const bool mlp : {false, true}) {
                Skips tried = best;
                auto& list = mlp ? tried.mlp : tried.attention;
                if (std::ranges::find(list, layer) != list.end()) continue;
                list.push_back(layer);
                std::ranges::sort(list);
                DeriveSpec spec;
                spec.skip_attention = tried.attention;
                spec.skip_mlp = tried.mlp;
                if (const double cost = kl(derive_text(spec)); cost < least) {
                    least = cost;
                    next = tried;
                }
            }
        }
        best = next;
    }
    const DerivedStudent student = derived(*teacher, "skip=auto:2", ids);
    CHECK(student.facts.skip_attention == best.attention);
    CHECK(student.facts.skip_mlp == best.mlp);
    CHECK(student.facts.spec.skip_auto == 2);
    CHECK_FALSE(student.facts.is_teacher());
    CHECK_THROWS_AS(derive_student(*teacher, parse_derive("skip=auto:2"), at::kCPU, ids,
                                   [](double, const std::string& what) {
                                       return what.find("sublayer 2") == std::string::npos;
                                   }),
                    Error);
}

TEST_CASE("parts are put together in one order: channels, noise, rounding", "[model][derive]") {
    const auto teacher = lively_llama(grouped_config(), seed(61));
    const auto ids = random_tokens(24, 97, seed(62));
    const DerivedStudent all = derived(*teacher, "ffn=0.4,noise=0.1,seed=9,bits=3,group=8,skip_mlp=0", ids);
    CHECK(all.model->config().intermediate_size == 16);
    const DerivedStudent pruned = derived(*teacher, "ffn=0.4,bits=3,group=8", ids);
    const at::Tensor gate =
        derived(*teacher, "ffn=0.4", ids).model->weights().layers[1].gate.narrow(0, 0, 16).contiguous();
    const at::Tensor wanted = round_to_bits(with_noise(gate, 0.1, 9, 1 * 8 + 4), 3, 8, false);
    CHECK(at::equal(all.model->weights().layers[1].gate, wanted));
    CHECK(at::equal(pruned.model->weights().layers[1].gate, round_to_bits(gate, 3, 8, false)));
    // A cut vocabulary stays cut.
    const auto cut = lively_llama(grouped_config(), seed(61));
    cut->keep_vocabulary(90);
    CHECK(logits_of(*derived(*cut, "bits=3,group=8").model, {1, 2, 3}).size(1) == 90);
    // Half precision: rounded once more, at the end.
    const auto narrow = lively_llama(grouped_config(), seed(61), at::kBFloat16);
    const DerivedStudent half = derived(*narrow, "bits=3,group=8");
    CHECK(half.model->dtype() == at::kBFloat16);
    const at::Tensor q = narrow->weights().layers[0].q;
    CHECK(at::equal(half.model->weights().layers[0].q,
                    round_to_bits(q.to(at::kFloat), 3, 8, false).to(at::kBFloat16)));
    CHECK_THAT(error_of([&] { (void)derived(*teacher, "bits=3,group=32"); }),
               ContainsSubstring("group: 32 does not divide the 48 inputs"));
    CHECK_THAT(error_of([&] { (void)derived(*teacher, "skip_mlp=3"); }), ContainsSubstring("layers 0 to 2"));
}

} // namespace derive_test
