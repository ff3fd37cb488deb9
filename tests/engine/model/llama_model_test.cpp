#include "engine/base/check.h"
#include "engine/cache/kv_cache.h"
#include "engine/model/checkpoint/llama_weights.h"
#include "engine/model/llama_model.h"
#include "kernels/execution/execution_context.h"
#include "tests/engine/model/reference_forward.h"
#include "tests/engine/model/support.h"
#include "tests/support/forward.h"

#include <ATen/ATen.h>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <fstream>
#include <sstream>

namespace llama_model_test {

using Catch::Matchers::ContainsSubstring;
using refreshlab::Error;
using refreshlab::ErrorKind;
using refreshlab::InvariantError;
using refreshlab::KvCache;
using refreshlab::LlamaModel;
using refreshlab::LlamaWeights;
using refreshlab::McRequest;
using refreshlab::ModelConfig;
using refreshlab::Origin;
using refreshlab::random_llama;
using refreshlab::Rows;
using refreshlab::test::error_of;
using refreshlab::test::extend;
using refreshlab::test::lively_llama;
using refreshlab::test::random_tokens;
using refreshlab::test::read_only_step;
using refreshlab::test::ReferenceForward;
using refreshlab::test::ScratchFolder;
using refreshlab::test::SeenAttention;
using refreshlab::test::step;
using refreshlab::test::tiny_config;

namespace {

constexpr Origin origin = Origin::student;

bool same_columns(const KvCache& a, const KvCache& b) {
    return a.length() == b.length() && at::equal(a.keys(0, a.length()), b.keys(0, b.length())) &&
           at::equal(a.values(0, a.length()), b.values(0, b.length()));
}

McRequest all_sites(int32_t passes, float p) {
    return {.passes = passes,
            .seed = 99,
            .p = p,
            .attention = true,
            .attention_output = true,
            .mlp_output = true};
}

} // namespace

TEST_CASE("MC rows are the definition of the model with the masks of their pass, position, layer and site",
          "[model]") {
    ModelConfig config = tiny_config();
    config.tied_head = GENERATE(true, false);
    std::map<std::string, at::Tensor> weights;
    at::Generator generator = at::detail::createCPUGenerator(7);
    const auto model = LlamaModel::from_weights(
        config,
        [&](const std::string& name, at::IntArrayRef shape) {
            const bool norm = name.find("norm.weight") != std::string::npos;
            weights[name] = at::empty(shape, at::kFloat).normal_(norm ? 1.0 : 0.0, 0.2, generator);
            return weights[name];
        },
        at::kCPU, at::kFloat);
    const ReferenceForward reference(config, weights);
    const std::vector<int32_t> tokens = random_tokens(9, config.vocab_size, 4);
    const auto prefix = std::span(tokens).first(8);
    const auto run = [&](const McRequest& mc) {
        const auto cache = model->make_cache(16);
        (void)extend(*model, *cache, prefix, Rows::none, origin);
        return step(*model, *cache, tokens.back(), origin, mc);
    };
    const auto difference = [](const at::Tensor& a, const at::Tensor& b) {
        return (a.to(at::kDouble) - b).abs().max().item<double>();
    };

    CHECK(difference(run({}).row, reference.last_row(tokens)) < 1e-4);
    const McRequest only_attention{.passes = 3, .seed = 5, .p = 0.3F};
    McRequest only_attention_output = only_attention;
    only_attention_output.attention = false;
    only_attention_output.attention_output = true;
    McRequest only_mlp = only_attention;
    only_mlp.attention = false;
    only_mlp.mlp_output = true;
    for (const McRequest& mc : {only_attention, only_attention_output, only_mlp, all_sites(4, 0.1F)}) {
        CAPTURE(mc.attention, mc.attention_output, mc.mlp_output, mc.p);
        const auto rows = run(mc);
        REQUIRE(rows.mc.size(0) == mc.passes);
        CHECK(difference(rows.row, reference.last_row(tokens)) < 1e-4);
        for (int32_t pass = 1; pass <= mc.passes; ++pass) {
            CAPTURE(pass);
            const at::Tensor expected = reference.last_row(tokens, mc, pass);
            CHECK(difference(rows.mc[pass - 1], expected) < 1e-4);
            CHECK(difference(rows.row, expected) > 1e-2); // the masks do something
        }
    }
}

TEST_CASE("row 0 and the cache have the same bits with and without MC rows", "[model]") {
    const auto dtype = GENERATE(at::kFloat, at::kBFloat16, at::kHalf);
    const auto model = lively_llama(tiny_config(), 3, dtype);
    const std::vector<int32_t> tokens = random_tokens(20, 97, 5);
    const auto plain = model->make_cache(64);
    const auto probed = model->make_cache(64);
    (void)extend(*model, *plain, tokens, Rows::none, origin);
    (void)extend(*model, *probed, tokens, Rows::none, origin);
    const std::vector<int32_t> passes = {1, 3, 7, 15, 2, 8};
    for (size_t i = 0; i < passes.size(); ++i) {
        const auto token = static_cast<int32_t>(10 + i);
        const at::Tensor row = step(*model, *plain, token, origin).row;
        const auto rows = step(*model, *probed, token, origin, all_sites(passes[i], 0.25F));
        CHECK(at::equal(rows.row, row));
        CHECK(rows.mc.size(0) == passes[i]);
        CHECK(same_columns(*plain, *probed));
    }
}

TEST_CASE("MC rows without dropout are row 0, also at position 0", "[model]") {
    const auto dtype = GENERATE(at::kFloat, at::kBFloat16);
    const auto model = lively_llama(tiny_config(), 8, dtype);
    const auto cache = model->make_cache(32);
    for (int32_t i = 0; i < 5; ++i) {
        const auto rows = step(*model, *cache, 3 * i, origin, all_sites(4, 0.0F));
        for (int64_t r = 0; r < 4; ++r)
            CHECK(at::equal(rows.mc[r], rows.row));
    }
    McRequest no_site = all_sites(3, 0.5F);
    no_site.attention = no_site.attention_output = no_site.mlp_output = false;
    const auto rows = step(*model, *cache, 9, origin, no_site);
    for (int64_t r = 0; r < 3; ++r)
        CHECK(at::equal(rows.mc[r], rows.row));
}

TEST_CASE("an MC row depends on seed, pass and position, not on how many ride along", "[model]") {
    const auto model = lively_llama(tiny_config(), 8);
    const std::vector<int32_t> tokens = random_tokens(12, 97, 2);
    const auto run = [&](int32_t passes, uint64_t seed, size_t prefix) {
        const auto cache = model->make_cache(32);
        (void)extend(*model, *cache, std::span(tokens).first(prefix), Rows::none, origin);
        McRequest mc = all_sites(passes, 0.2F);
        mc.seed = seed;
        return step(*model, *cache, 5, origin, mc).mc;
    };
    const at::Tensor eight = run(8, 1, 12);
    for (const int32_t passes : {1, 2, 5})
        CHECK(at::equal(run(passes, 1, 12), eight.narrow(0, 0, passes)));
    CHECK(at::equal(run(8, 1, 12), eight));
    CHECK_FALSE(at::equal(run(8, 2, 12), eight));
    CHECK_FALSE(at::equal(run(8, uint64_t{1} + (uint64_t{1} << 32), 12), eight));
    CHECK_FALSE(at::equal(run(8, 1, 11), eight));
    for (int64_t a = 0; a < 8; ++a) {
        for (int64_t b = a + 1; b < 8; ++b)
            CHECK_FALSE(at::equal(eight[a], eight[b]));
    }
}

TEST_CASE("rows none, last and all leave the same cache, and last is the last of all", "[model]") {
    const auto model = lively_llama(tiny_config(), 21);
    const std::vector<int32_t> tokens = random_tokens(530, 97, 6); // more than one chunk of rows
    const auto a = model->make_cache(600);
    const auto b = model->make_cache(600);
    const auto c = model->make_cache(600);
    const at::Tensor all = extend(*model, *a, tokens, Rows::all, origin);
    const at::Tensor last = extend(*model, *b, tokens, Rows::last, origin);
    CHECK_FALSE(extend(*model, *c, tokens, Rows::none, origin).defined());
    CHECK(all.sizes() == at::IntArrayRef{530, 97});
    CHECK(last.sizes() == at::IntArrayRef{1, 97});
    CHECK(at::equal(last[0], all[529]));
    CHECK(same_columns(*a, *b));
    CHECK(same_columns(*a, *c));
}

TEST_CASE("a read-only step at an old position repeats its row and writes nothing", "[model]") {
    const auto dtype = GENERATE(at::kFloat, at::kBFloat16);
    const auto model = lively_llama(tiny_config(), 31, dtype);
    const std::vector<int32_t> tokens = random_tokens(25, 97, 8);
    const auto cache = model->make_cache(32);
    const at::Tensor rows = extend(*model, *cache, tokens, Rows::all, origin);
    const auto before = cache->clone();
    for (const int64_t position : {0, 7, 24}) {
        CHECK(at::equal(read_only_step(*model, *cache, tokens[static_cast<size_t>(position)], position),
                        rows[position]));
    }
    CHECK(same_columns(*cache, *before));
    // It attends the columns as they are now, its own included.
    cache->values(1).select(1, 7).add_(1.0);
    CHECK_FALSE(at::equal(read_only_step(*model, *cache, tokens[7], 7), rows[7]));
    CHECK(at::equal(read_only_step(*model, *cache, tokens[6], 6), rows[6]));
}

TEST_CASE("captured attention rows are distributions, the same from every way to compute them", "[model]") {
    const ModelConfig config = tiny_config();
    const auto model = lively_llama(config, 12);
    const std::vector<int32_t> tokens = random_tokens(520, 97, 3);
    const auto body = std::span(tokens).first(519);
    const auto capture_at = [&](int64_t position) { return SeenAttention(config, {}, position); };
    SeenAttention stepped = capture_at(519), extended = capture_at(519), looked_at = capture_at(519),
                  no_head = capture_at(519), mc = capture_at(519);
    const auto a = model->make_cache(600);
    const auto b = model->make_cache(600);
    (void)extend(*model, *a, body, Rows::none, origin);
    (void)extend(*model, *b, body, Rows::none, origin);
    (void)step(*model, *a, tokens.back(), origin, {}, {&stepped});
    (void)step(*model, *b, tokens.back(), origin, all_sites(5, 0.3F), {&mc});
    (void)read_only_step(*model, *a, tokens.back(), 519, {&looked_at});
    for (SeenAttention* capture : {&extended, &no_head}) {
        const auto c = model->make_cache(600);
        (void)extend(*model, *c, tokens, capture == &no_head ? Rows::none : Rows::all, origin, {capture});
        CHECK(same_columns(*c, *a));
    }
    REQUIRE(stepped.rows().sizes() == at::IntArrayRef{config.num_layers, config.num_heads, 520});
    CHECK((stepped.rows().sum(2) - 1.0).abs().max().item<double>() < 1e-5);
    CHECK(stepped.rows().min().item<double>() >= 0.0);
    for (const SeenAttention* other : {&extended, &no_head, &looked_at, &mc}) {
        CHECK(at::equal(other->rows(), stepped.rows()));
    }

    SeenAttention some(config, {2, 0}, 519), earlier(config, {1}, 100);
    (void)read_only_step(*model, *a, tokens.back(), 519, {&some, &earlier}); // hooks side by side
    REQUIRE(some.rows().size(0) == 2);
    CHECK(at::equal(some.rows()[0], stepped.rows()[2]));
    CHECK(at::equal(some.rows()[1], stepped.rows()[0]));
    CHECK_FALSE(earlier.rows().defined()); // its query was not part of that pass
    (void)read_only_step(*model, *a, tokens[100], 100, {&earlier});
    CHECK(earlier.rows().sizes() == at::IntArrayRef{1, config.num_heads, 101});
}

TEST_CASE("the number of threads changes no bit", "[model]") {
    const auto model = lively_llama(tiny_config(), 17);
    const std::vector<int32_t> tokens = random_tokens(40, 97, 1);
    std::vector<at::Tensor> rows;
    for (const int threads : {1, 2, 3}) {
        const refreshlab::kernels::ExecutionContext execution(threads);
        const refreshlab::kernels::ExecutionScope scope(execution);
        const auto cache = model->make_cache(64);
        const at::Tensor prefill = extend(*model, *cache, tokens, Rows::all, origin);
        const auto stepped = step(*model, *cache, 3, origin, all_sites(4, 0.1F));
        rows.push_back(at::cat({prefill, stepped.row.unsqueeze(0), stepped.mc}));
    }
    CHECK(at::equal(rows[0], rows[1]));
    CHECK(at::equal(rows[0], rows[2]));
}

TEST_CASE("positions continue after the prompt and count for the row", "[model]") {
    const auto model = lively_llama(tiny_config(), 19);
    const auto shifted = model->make_cache(16);
    const auto plain = model->make_cache(16);
    // The same token twice: its keys at positions 0 and 1 differ by rotation only, so their lengths agree.
    (void)extend(*model, *plain, std::vector<int32_t>{5, 5}, Rows::none, origin);
    const at::Tensor first = plain->keys(0).select(1, 0);
    const at::Tensor second = plain->keys(0).select(1, 1);
    CHECK_FALSE(at::allclose(first, second));
    CHECK(at::allclose(first.norm(2, 1), second.norm(2, 1), 1e-5));
    CHECK(at::equal(plain->values(0).select(1, 0), plain->values(0).select(1, 1)));
    (void)step(*model, *shifted, 5, origin);
    (void)step(*model, *shifted, 5, origin);
    CHECK(same_columns(*plain, *shifted));
}

TEST_CASE("random stand-ins repeat from their seed and differ between seeds", "[model]") {
    const ModelConfig config = tiny_config();
    const auto row = [&](uint64_t seed) {
        const auto model = random_llama(config, seed, at::kCPU, at::kFloat);
        const auto cache = model->make_cache(4);
        return extend(*model, *cache, std::vector<int32_t>{1, 2, 3}, Rows::last, origin);
    };
    CHECK(at::equal(row(1), row(1)));
    CHECK_FALSE(at::equal(row(1), row(2)));
    const auto f32 = random_llama(config, 1, at::kCPU, at::kFloat);
    const auto bf16 = random_llama(config, 1, at::kCPU, at::kBFloat16);
    CHECK(f32->weight_bytes() == 4 * LlamaWeights::held_elements(config));
    CHECK(bf16->weight_bytes() == 2 * LlamaWeights::held_elements(config));
}

TEST_CASE("loading reports rising progress, stops when told to, and names what is missing", "[model]") {
    const auto source = std::filesystem::path(RL_SOURCE_DIR) / "assets" / "models" / "llama-tales-student";
    std::vector<double> fractions;
    const auto model =
        LlamaModel::load(source, at::kCPU, at::kBFloat16, [&](double fraction, const std::string& what) {
            CHECK_FALSE(what.empty());
            fractions.push_back(fraction);
            return true;
        });
    CHECK(std::is_sorted(fractions.begin(), fractions.end()));
    CHECK(fractions.front() == 0.0);
    CHECK(fractions.back() == 1.0);
    CHECK(model->weight_bytes() == 2 * model->config().num_parameters());

    int calls = 0;
    try {
        (void)LlamaModel::load(source, at::kCPU, at::kFloat,
                               [&](double, const std::string&) { return ++calls < 5; });
        FAIL("loading went on");
    } catch (const Error& error) {
        CHECK(error.problem() == "cancelled");
        CHECK(error.kind() == ErrorKind::failure);
        CHECK(calls == 5);
    }

    const ScratchFolder folder("load");
    const auto with_config = [&](const std::string& from, const std::string& to) {
        std::stringstream text;
        text << std::ifstream(source / "config.json").rdbuf();
        std::string config = text.str();
        config.replace(config.find(from), from.size(), to);
        folder.write("config.json", config);
        return error_of([&] { (void)LlamaModel::load(folder.path(), at::kCPU, at::kFloat); });
    };
    std::filesystem::create_symlink(source / "model.safetensors", folder.path() / "model.safetensors");
    CHECK_THAT(with_config("\"tie_word_embeddings\": true", "\"tie_word_embeddings\": false"),
               ContainsSubstring("model.safetensors") && ContainsSubstring("\"lm_head.weight\": missing"));
    CHECK_THAT(with_config("\"intermediate_size\": 400", "\"intermediate_size\": 401"),
               ContainsSubstring("mlp.gate_proj.weight") && ContainsSubstring("[400, 144]"));
    CHECK_THAT(with_config("\"attention_bias\": false", "\"attention_bias\": true"),
               ContainsSubstring("q_proj.bias"));
}

TEST_CASE("a cache that no memory can hold is one clear failure", "[model]") {
    const auto model = lively_llama(tiny_config(), 2);
    try {
        (void)model->make_cache(int64_t{1} << 61); // beyond every allocator, so that none is asked
        FAIL("exabytes were allocated");
    } catch (const Error& error) {
        CHECK(error.kind() == ErrorKind::failure);
        CHECK_THAT(error.what(), ContainsSubstring("KV cache") && ContainsSubstring("memory"));
    }
}

TEST_CASE("what no caller may do is an InvariantError, and leaves the cache as it was", "[model]") {
    const auto model = lively_llama(tiny_config(), 2);
    const auto cache = model->make_cache(4);
    (void)extend(*model, *cache, std::vector<int32_t>{1, 2}, Rows::none, origin);
    CHECK_THROWS_AS(step(*model, *cache, 97, origin), InvariantError);
    CHECK_THROWS_AS(step(*model, *cache, -1, origin), InvariantError);
    CHECK_THROWS_AS(extend(*model, *cache, std::vector<int32_t>{1, 2, 3}, Rows::none, origin),
                    InvariantError);
    CHECK_THROWS_AS(extend(*model, *cache, {}, Rows::none, origin), InvariantError);
    CHECK_THROWS_AS(read_only_step(*model, *cache, 1, 2), InvariantError);
    CHECK_THROWS_AS(step(*model, *cache, 1, origin, all_sites(2, 1.0F)), InvariantError);
    ModelConfig other = tiny_config();
    other.num_layers = 2;
    CHECK_THROWS_AS(step(*lively_llama(other, 1), *cache, 1, origin), InvariantError);
    CHECK_THROWS_AS(step(*lively_llama(tiny_config(), 1, at::kBFloat16), *cache, 1, origin), InvariantError);
    CHECK(cache->length() == 2);
}

} // namespace llama_model_test
