#include "engine/cache/kv_cache.h"
#include "engine/model/checkpoint/llama_weights.h"
#include "engine/model/derive/derive_student.h"
#include "engine/model/derive/weight_changes.h"
#include "engine/model/forward/cuda_forward.h"
#include "kernels/blocks/blocks.h"
#include "kernels/simt/harness.h"
#include "tests/engine/gpu/simt_decoder.h"
#include "tests/engine/session/device_runs.h"
#include "tests/engine/session/tiny_pair.h"
#include "tests/kernels/kernel_fixture.h"
#include "tests/support/forward.h"
#include "tests/support/share.h"

#include <map>

/// Models in blocks, and students that were derived, whose passes are the device's kernels, on the host machine: against the CPU's.
namespace refreshlab::test::blocks_gpu {
namespace {

struct Rounding {
    int32_t bits;
    bool symmetric;
};
const std::vector<Rounding> roundings{{4, false}, {4, true}, {8, true}};

TinyShape shape_of_blocks() {
    TinyShape shape;
    shape.hidden = 64;
    shape.intermediate = 96;
    shape.layers = 3;
    shape.head_dim = 16;
    return shape;
}

/// Random weights of those shapes, few tokens: each is work for the machine.
/// \param other_norms  of what sublayers add, by 1 + weight, none of what they read; of all heads together; and another activation
/// \param experts  in the place of MLPs; rows go to all of them, as what rounds an activation may choose others
std::unique_ptr<LlamaModel> small_model(uint64_t seed, bool other_norms = false, int64_t experts = 0) {
    const TinyShape shape = shape_of_blocks();
    ModelConfig config;
    config.model_type = "llama";
    config.vocab_size = 176;
    config.hidden_size = shape.hidden;
    config.intermediate_size = shape.intermediate;
    config.num_layers = shape.layers;
    config.num_heads = shape.heads;
    config.num_kv_heads = shape.kv_heads;
    config.head_dim = shape.head_dim;
    config.max_position = 256;
    config.qkv_bias = seed % 2 == 1;
    config.experts = {experts, experts, 64};
    if (other_norms) {
        config.pre_norms = false;
        config.branch_norms = config.qk_norm = config.qk_norm_whole = true;
        config.norm_offset = 1;
        config.activation = kernels::Activation::gelu_tanh;
    }
    Random random(static_cast<uint32_t>(seed));
    const auto weight = [&random](const std::string& name, at::IntArrayRef sizes) {
        const bool norm = name.find("norm") != std::string::npos;
        return random.normal(sizes, norm ? 0.1 : 0.2) + (norm ? 1.0 : 0.0);
    };
    return LlamaModel::from_weights(config, weight, at::kCPU, at::kFloat);
}

/// A model as it is read from a file with --dtype native: matrices in blocks, all else bf16.
/// \param left  what the names of matrices hold that the file has as numbers
std::unique_ptr<LlamaModel> native(const LlamaModel& plain, Rounding rounding,
                                   const std::string& left = "-") {
    std::map<std::string, at::Tensor> weights;
    plain.weights().visit(plain.config(), [&](const WeightPlace& place, const at::Tensor& tensor) {
        weights[place.name] = tensor;
    });
    const auto of = [&](const std::string& name, at::IntArrayRef) {
        const at::Tensor& tensor = weights.at(name);
        if (tensor.dim() != 2 || name.find(left) != std::string::npos) return tensor;
        const at::Tensor blocks = round_to_blocks(tensor, rounding.bits, 32, rounding.symmetric);
        return blocks.defined() ? blocks : tensor; // a router of three experts
    };
    const auto model = LlamaModel::from_weights(plain.config(), of, at::kCPU, at::kBFloat16);
    return LlamaModel::of_weights(plain.config(), model->weights(), at::kCPU, at::kBFloat16,
                                  /*keeps_blocks=*/true);
}
std::unique_ptr<LlamaModel> native_model(uint64_t seed, Rounding rounding, const std::string& left = "-") {
    return native(*small_model(seed), rounding, left);
}

/// The same weights, decoded by the CPU and by the device's kernels.
struct Twin {
    std::unique_ptr<LlamaModel> cpu, gpu;
    std::unique_ptr<KvCache> cpu_cache, gpu_cache;

    explicit Twin(std::unique_ptr<LlamaModel> model)
        : cpu(std::move(model))
        , gpu(LlamaModel::of_weights(cpu->config(), cpu->weights(), at::kCPU, cpu->dtype(),
                                     cpu->keeps_blocks()))
        , cpu_cache(cpu->make_cache(80))
        , gpu_cache(gpu->make_cache(80)) {
        decode_on_host_machine(*gpu);
    }
    [[nodiscard]] bool covered() const {
        return dynamic_cast<const CudaForward&>(gpu->forward()).has_kernels();
    }
    [[nodiscard]] double cache_error() const {
        const int64_t n = cpu_cache->length();
        return std::max(relative_error(gpu_cache->keys(0, n), cpu_cache->keys(0, n)),
                        relative_error(gpu_cache->values(0, n), cpu_cache->values(0, n)));
    }
};

/// What rounding comes to: of sums in another order, and where weights have 16 bits or stand in blocks of keys that land on the other side of a
/// rounding. In a pass also of what tensor cores multiply, which these models, of few channels and large weights, make much of.
struct Tolerance {
    double step, pass;
};
Tolerance tolerance(const LlamaModel& model) {
    return model.dtype() == at::kFloat ? Tolerance{2e-5, 2e-5} : Tolerance{1e-2, 8e-2};
}

/// A prompt in two chunks, steps with and without MC rows, attention rows, a read of several tokens.
void check(Twin& twin, Random& random, const std::vector<int32_t>& mc_rows = {0, 1}) {
    REQUIRE(twin.covered());
    const ModelConfig& config = twin.cpu->config();
    std::vector<int32_t> ids(29);
    for (int32_t& id : ids)
        id = static_cast<int32_t>(random.between(0, config.vocab_size - 1));
    const Tolerance most = tolerance(*twin.cpu);
    const auto read = [&](std::span<const int32_t> tokens, Rows rows) {
        (void)simt::take_activity();
        const at::Tensor got = extend(*twin.gpu, *twin.gpu_cache, tokens, rows, Origin::teacher_prefill);
        REQUIRE(!simt::take_activity().launches.empty());
        const at::Tensor expected = extend(*twin.cpu, *twin.cpu_cache, tokens, rows, Origin::teacher_prefill);
        REQUIRE(got.defined() == expected.defined());
        if (got.defined()) REQUIRE(relative_error(got, expected) <= most.pass);
    };
    read(std::span(ids).first(19), Rows::all);
    read(std::span(ids).subspan(19, 1), Rows::last);
    read(std::span(ids).subspan(20, 4), Rows::none);
    REQUIRE(twin.cache_error() <= most.pass);
    twin.gpu_cache->truncate(0);
    twin.gpu_cache->adopt_prefix(*twin.cpu_cache, twin.cpu_cache->length()); // the same columns again
    std::vector<int32_t> all_layers(static_cast<size_t>(config.num_layers));
    for (size_t l = 0; l < all_layers.size(); ++l)
        all_layers[l] = static_cast<int32_t>(l);
    for (const int32_t passes : mc_rows) {
        McRequest mc;
        mc.passes = passes;
        mc.seed = 5;
        mc.p = 0.2F;
        mc.mlp_output = true;
        const auto alone = twin.gpu_cache->clone();
        const int32_t token = ids[static_cast<size_t>(24 + passes % 5)];
        SeenAttention seen(config, all_layers, twin.cpu_cache->length()),
            shown(config, all_layers, twin.cpu_cache->length());
        const StepRows expected = step(*twin.cpu, *twin.cpu_cache, token, Origin::student, mc, {&seen});
        (void)simt::take_activity();
        const StepRows got = step(*twin.gpu, *twin.gpu_cache, token, Origin::student, mc, {&shown});
        CAPTURE(passes);
        REQUIRE(simt::take_activity().graph_launches == 1);
        REQUIRE(relative_error(got.row, expected.row) <= most.step);
        REQUIRE(shown.is_complete());
        REQUIRE(relative_error(shown.rows(), seen.rows()) <= most.step);
        if (passes == 0) continue;
        REQUIRE(relative_error(got.mc, expected.mc) <= most.step);
        REQUIRE(same_bits(step(*twin.gpu, *alone, token, Origin::student).row, got.row));
    }
    REQUIRE(twin.cache_error() <= most.step);
}

TEST_CASE("a model in blocks has the CPU's logits by the device's kernels", "[gpu][blocks]") {
    Random random(1501);
    for (const Rounding rounding : roundings) {
        // All of it, and a file that holds some matrices as numbers: they are bf16.
        for (const std::string left : {"-", "embed_tokens", "lm_head", "o_proj", "mlp"}) {
            if (left != "-" && rounding.bits == 8) continue;
            CAPTURE(rounding.bits, rounding.symmetric, left);
            Twin twin(native_model(61, rounding, left));
            if (left == "-") {
                check(twin, random, {0, 1, 8});
            } else {
                check(twin, random);
            }
        }
    }
}

TEST_CASE("a model whose experts stand in blocks has the CPU's logits by the device's kernels",
          "[gpu][blocks]") {
    Random random(1505);
    for (const Rounding rounding : roundings) {
        CAPTURE(rounding.bits, rounding.symmetric);
        Twin twin(native(*small_model(64, false, 3), rounding));
        check(twin, random);
    }
    Twin mixed(native(*small_model(64, false, 3), roundings[0], "experts.1.up_proj"));
    REQUIRE(!mixed.covered());
}

TEST_CASE("a pass over matrices in blocks has the bits of one over their numbers rounded to bf16",
          "[gpu][blocks]") {
    Random random(1504);
    for (const Rounding rounding : roundings) {
        const Twin blocks(native_model(69, rounding, "embed_tokens")); // whose rows are not rounded
        LlamaWeights weights = blocks.cpu->weights();
        weights.replace(blocks.cpu->config(), [](const WeightPlace&, const at::Tensor& tensor) {
            return kernels::is_blocks(tensor) ? kernels::block_values(tensor).to(at::kBFloat16) : tensor;
        });
        const Twin numbers(
            LlamaModel::of_weights(blocks.cpu->config(), std::move(weights), at::kCPU, at::kBFloat16));
        std::vector<int32_t> ids(37);
        for (int32_t& id : ids)
            id = static_cast<int32_t>(random.between(0, 175));
        const auto logits = [&](const Twin& twin) {
            return extend(*twin.gpu, *twin.gpu_cache, ids, Rows::all, Origin::teacher_prefill);
        };
        CAPTURE(rounding.bits, rounding.symmetric);
        REQUIRE(same_bits(logits(blocks), logits(numbers)));
        REQUIRE(same_bits(blocks.gpu_cache->keys(0, 37), numbers.gpu_cache->keys(0, 37)));
    }
}

TEST_CASE("matrices of a launch that are not all in the same blocks go the plain way", "[gpu][blocks]") {
    for (const std::string left : {"q_proj", "v_proj", "up_proj"}) {
        Twin twin(native_model(62, roundings[0], left));
        CAPTURE(left);
        REQUIRE(!twin.covered());
        const at::Tensor got = step(*twin.gpu, *twin.gpu_cache, 3, Origin::student).row;
        REQUIRE(same_bits(got, step(*twin.cpu, *twin.cpu_cache, 3, Origin::student).row));
    }
}

TEST_CASE("a head in blocks is cut for the device's kernels too", "[gpu][blocks]") {
    Random random(1502);
    for (const int64_t rows : {int64_t{160}, int64_t{161}}) {
        const auto model = [&] {
            auto made = native_model(63, roundings[1]);
            made->keep_vocabulary(rows);
            return made;
        };
        Twin twin(model());
        CAPTURE(rows);
        check(twin, random);
    }
}

TEST_CASE("every kind of derived student has the CPU's logits by the device's kernels",
          "[gpu][blocks][derive]") {
    Random random(1503);
    const std::vector<std::string> specs{"bits=4",
                                         "bits=3,symmetric",
                                         "bits=8,symmetric,only=mlp",
                                         "bits=6",
                                         "ffn=0.5",
                                         "bits=4,ffn=0.67",
                                         "noise=0.1,seed=3",
                                         "skip_attention=1",
                                         "skip_mlp=0+2",
                                         "skip_attention=0-2",
                                         "bits=4,skip_attention=0+2,skip_mlp=1",
                                         "skip=auto:2"};
    std::vector<int32_t> text(40);
    for (int32_t& id : text)
        id = static_cast<int32_t>(random.between(0, 175));
    const auto plain = small_model(64);
    const auto blocks = native_model(64, roundings[0]);
    Share share("derived students on the device");
    for (const std::string& spec : specs) {
        for (const LlamaModel* const teacher : {plain.get(), blocks.get()}) {
            if (!share.takes()) continue;
            CAPTURE(spec, teacher->keeps_blocks());
            DerivedStudent student =
                derive_student(*teacher, derivation_of("derive:" + spec), at::kCPU, text);
            Twin twin(std::move(student.model));
            check(twin, random);
        }
    }
    const auto other_norms = small_model(70, true), in_blocks = native(*other_norms, roundings[0]);
    for (const LlamaModel* const teacher : {other_norms.get(), in_blocks.get()}) {
        CAPTURE(teacher->keeps_blocks());
        Twin twin(derive_student(*teacher, derivation_of("derive:skip_attention=1"), at::kCPU, text).model);
        check(twin, random);
    }
}

TEST_CASE("a session of a student without some sublayers gives the CPU's numbers", "[gpu][session][derive]") {
    const auto pair_of = [](bool on_host_machine) {
        TinyShape shape = shape_of_blocks();
        shape.attention_dropout = 0.1;
        const auto pair = std::make_shared<ModelPair>(*tiny_pair(65, 66, shape, shape));
        pair->student =
            derive_student(*pair->teacher, derivation_of("derive:skip_attention=1,skip_mlp=0,noise=0.05"),
                           at::kCPU)
                .model;
        if (on_host_machine) {
            decode_on_host_machine(const_cast<LlamaModel&>(*pair->teacher));
            decode_on_host_machine(const_cast<LlamaModel&>(*pair->student));
        }
        return pair;
    };
    const std::shared_ptr<const ModelPair> cpu = pair_of(false), gpu = pair_of(true);
    RunConfig config =
        reading(policy_of({trigger("steps_since_refresh", Comparison::at_least, 4)}, {}, OnFire::keep));
    config.max_tokens = 12;
    config.mc.samples = 2;
    config.capture.attention = config.capture.attention_entropy = true;
    (void)simt::take_activity();
    CHECK(difference(*whole_run(gpu, config), *whole_run(cpu, config)) == "");
    CHECK(simt::take_activity().graph_launches > 0);
}

TEST_CASE(
    "a session of a model in blocks and a student of fewer bits is the CPU's to the rounding of its passes",
    "[gpu][session][blocks]") {
    const auto pair_of = [](bool on_host_machine) {
        const auto pair = std::make_shared<ModelPair>(*tiny_pair(67, 68));
        pair->teacher = native(*tiny_model(67, shape_of_blocks()), roundings[0]);
        pair->student = derive_student(*pair->teacher, derivation_of("derive:bits=3"), at::kCPU).model;
        if (on_host_machine) {
            decode_on_host_machine(const_cast<LlamaModel&>(*pair->teacher));
            decode_on_host_machine(const_cast<LlamaModel&>(*pair->student));
        }
        pair->geometry_difference = {};
        return pair;
    };
    const std::shared_ptr<const ModelPair> cpu = pair_of(false), gpu = pair_of(true);
    RunConfig config =
        reading(policy_of({trigger("steps_since_refresh", Comparison::at_least, 4)}, {}, OnFire::keep));
    config.max_tokens = 16;
    config.mc.samples = 2;
    (void)simt::take_activity();
    const auto got = whole_run(gpu, config), again = whole_run(gpu, config),
               expected = whole_run(cpu, config);
    CHECK(simt::take_activity().graph_launches > 0);
    REQUIRE(got->steps() == expected->steps());
    REQUIRE(got->refreshes().size() == expected->refreshes().size());
    REQUIRE(!got->refreshes().empty());
    const size_t entropy = *got->signal_id("entropy_bits");
    double sum = 0, change = 0;
    for (int64_t t = 1; t < got->steps(); ++t) {
        CHECK(got->signal(t, entropy) == again->signal(t, entropy));
        sum += std::abs(static_cast<double>(got->signal(t, entropy) - expected->signal(t, entropy)));
        change +=
            std::abs(static_cast<double>(expected->signal(t + 1, entropy) - expected->signal(t, entropy)));
        if (t + 2 == got->steps()) break; // the last record has no row
    }
    CHECK(sum < 0.15 * change);
}

} // namespace
} // namespace refreshlab::test::blocks_gpu
