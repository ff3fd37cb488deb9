// KV routing against a second implementation: a dense cache in which a layer's columns are those of the layer that it reads.
#include "engine/cache/kv_cache.h"
#include "engine/model/forward/layer_hooks.h"
#include "engine/session/decode/decode_session.h"
#include "tests/engine/session/tiny_pair.h"

#include <ATen/ATen.h>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <cmath>

namespace kv_routing_test {

using namespace refreshlab;
using namespace refreshlab::test;
using Catch::Matchers::ContainsSubstring;

namespace {

/// Copies columns before a layer attends to them.
class Columns final : public LayerHooks {
public:
    explicit Columns(int64_t layers_per_cache)
        : m_layers(layers_per_cache) {}
    const HeadPositions* select(const LayerView& view) override {
        const int64_t n = view.positions.back() + 1, source = view.layer / m_layers * m_layers;
        if (source == view.layer) return nullptr;
        view.cache->keys(view.layer).narrow(1, 0, n).copy_(view.cache->keys(source).narrow(1, 0, n));
        view.cache->values(view.layer).narrow(1, 0, n).copy_(view.cache->values(source).narrow(1, 0, n));
        return nullptr;
    }

private:
    int64_t m_layers;
};

} // namespace

TEST_CASE("KV routing equals a dense cache whose columns are another layer's", "[session][cache_policy]") {
    const auto pair = tiny_pair(11, 12, {.layers = 5}, {.layers = 5}); // two by two: 0, 2 and 4 keep a cache
    const LlamaModel& model = *pair->student;
    RunConfig config = tiny_run(24);
    config.mode = Mode::student;
    for (const int64_t layers : {2, 3}) {
        CAPTURE(layers);
        config.student_cache = cache_policy_defaults("kv_routing", "a test");
        config.student_cache.values.at("layers_per_cache") = static_cast<double>(layers);
        DecodeSession session(pair, config);
        while (session.step()) {
        }
        CHECK_THROWS_WITH(session.capture_attention(3, false),
                          ContainsSubstring("entries that they do not hold"));
        const Recording& recording = *session.recording();
        const auto cache = model.make_cache(200);
        StepInputs in;
        in.tokens = recording.info().prompt_ids;
        static_cast<void>(model.forward().prefill(*cache, in));
        Columns columns(layers);
        LayerHooks* const hooks[] = {&columns};
        in.hooks = hooks;
        for (int64_t t = 1; t < recording.steps(); ++t) {
            const int32_t token = recording.token(t);
            in.tokens = std::span(&token, 1);
            const at::Tensor row = model.forward().step(*cache, in).logits[0];
            CHECK(row.argmax().item<int64_t>() == recording.token(t + 1));
            const at::Tensor p = row.to(at::kDouble).softmax(0);
            const double bits = -(p * p.clamp_min(1e-300).log2()).sum().item<double>();
            const float recorded = recording.signal(t, require_signal("entropy_bits", "a test"));
            CHECK(std::abs(bits - static_cast<double>(recorded)) < 1e-4);
        }
    }
}

} // namespace kv_routing_test
