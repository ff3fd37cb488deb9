#include "kernels/cuda/decode/decoder.h"
#include "kernels/decode/decode_plan.h"
#include "tests/kernels/simt/plan_fixture.h"
#include "tests/support/share.h"

/// The plan of a decode step against the launches that a decoder makes.
namespace refreshlab::test::decode_plan_simt {
namespace {

using namespace plan_simt;

TEST_CASE("a decoder makes the launches of its plan, in that order", "[simt][decode]") {
    decode::DecodeShape shape;
    shape.hidden = 64;
    shape.ffn = 96;
    shape.layers = 3;
    shape.heads = 4;
    shape.kv_heads = 2;
    shape.head_dim = 16;
    shape.vocab = 330;
    shape.windows = {0, 100, 0};
    shape.has_mlp = {true, true, false};
    struct Kind {
        WeightType type;
        MatrixForm form, embedding, head;
        std::vector<bool> attends;
        int64_t vocab;
        bool other_norms = false; ///< of what is added alone, and of all heads together
        decode::ExpertShape experts{};
    };
    using enum MatrixForm;
    const std::vector<Kind> kinds{
        {WeightType::bf16, numbers, numbers, numbers, {}, 330},
        {WeightType::f32, numbers, numbers, numbers, {true, false, true}, 330},
        {WeightType::bf16, q4_0, q8_0, q4_1, {false, true, true}, 336},
        {WeightType::bf16, q8_0, numbers, numbers, {}, 330, true},
        {WeightType::f16, numbers, numbers, numbers, {true, false, true}, 330, true},
        {WeightType::bf16, numbers, numbers, numbers, {}, 330, false, {5, 2, 32}},
        {WeightType::bf16, q4_0, numbers, numbers, {}, 330, false, {4, 3, 64}},
        {WeightType::f32, numbers, numbers, numbers, {true, false, true}, 330, true, {3, 3, 288}}};
    Share share("launches of every kind of model and number of rows");
    for (const Kind& kind : kinds) {
        // -1: the token's row alone on a GPU that has no clusters.
        for (const int64_t rows_of : {-1, 1, 2, 9, 10, 20, 40}) {
            if (!share.takes()) continue;
            const int64_t rows = std::abs(rows_of);
            shape.clusters = rows_of > 0;
            shape.type = kind.type;
            shape.form = kind.form;
            shape.embedding_form = kind.embedding;
            shape.head_form = kind.head;
            shape.attends = kind.attends;
            shape.vocab = kind.vocab;
            shape.qk_norm = shape.qk_norm_whole = shape.branch_norms = kind.other_norms;
            shape.pre_norms = !kind.other_norms;
            shape.experts = kind.experts;
            shape.routed = kind.other_norms ? std::vector<bool>{false, true, true} : std::vector<bool>{};
            shape.rows = rows;
            shape.context = 300;
            shape.capacity = 520;
            const PlanModel m(shape);
            const simt::Settings before = simt::set_settings({0, shape.clusters ? 90 : 89});
            const auto decoder = gpu::make_decoder(m.model);
            const Array<float> logits(static_cast<size_t>(rows * shape.vocab), "logits");
            DeviceStep step;
            step.token = 7;
            step.position = shape.context;
            step.rows = rows;
            step.logits = logits.data();
            (void)simt::take_activity();
            decoder->step(m.cache, step, nullptr);
            const simt::Activity activity = simt::take_activity();
            simt::set_settings(before);
            CAPTURE(rows_of);
            REQUIRE(activity.graph_launches == 1);
            require_same(plan_step(shape), activity.launches);
        }
    }
}

TEST_CASE("a step has the same bits with clusters and without, and beside MC rows", "[simt][decode]") {
    Random random(1246);
    decode::DecodeShape shape;
    shape.hidden = 64;
    shape.ffn = 96;
    shape.layers = 3;
    shape.heads = 6;
    shape.kv_heads = 2;
    shape.head_dim = 16;
    shape.vocab = 330;
    shape.windows = {0, 100, 0};
    shape.qk_norm = true;
    shape.capacity = 520;
    constexpr int64_t context = 510;
    PlanModel m(shape, [&] { return static_cast<float>(random.uniform(-0.3, 0.4)); });
    const auto logits_of = [&](int architecture, int64_t rows, size_t launches) {
        const simt::Settings before = simt::set_settings({0, architecture});
        const auto decoder = gpu::make_decoder(m.model);
        std::vector<float> all;
        for (const int64_t position : {context, context + 1, context + 2}) { // over the end of a split
            const Array<float> logits(static_cast<size_t>(rows * shape.vocab), "logits");
            DeviceStep step;
            step.token = static_cast<int32_t>(position % 7);
            step.position = position;
            step.rows = rows;
            step.logits = logits.data();
            (void)simt::take_activity();
            decoder->step(m.cache, step, nullptr);
            REQUIRE(simt::take_activity().launches.size() == launches);
            const std::vector<float> got = logits.values();
            all.insert(all.end(), got.begin(), got.begin() + shape.vocab);
        }
        simt::set_settings(before);
        return all;
    };
    const std::vector<float> alone = logits_of(90, 1, 1 + 4 * 3 + 1);
    REQUIRE(std::ranges::all_of(alone, [](float x) { return std::isfinite(x); }));
    REQUIRE(std::ranges::any_of(alone, [&](float x) { return x != alone[0]; }));
    REQUIRE(logits_of(89, 1, 1 + 5 * 3 + 1) == alone);
    REQUIRE(logits_of(90, 4, 1 + 6 * 3 + 1) == alone);
}

TEST_CASE("a step whose attention rows go to the host is launched as planned", "[simt][decode]") {
    decode::DecodeShape shape;
    shape.hidden = shape.ffn = 64;
    shape.layers = 3;
    shape.heads = 4;
    shape.kv_heads = 2;
    shape.head_dim = 16;
    shape.vocab = 330;
    shape.context = 300;
    shape.capacity = 520;
    shape.top_k = 3;
    for (const auto& [taps, bins] : {std::pair<int64_t, int64_t>{1, 0}, {3, 0}, {2, 256}, {1, 1000}}) {
        shape.taps = taps;
        shape.bins = bins;
        const PlanModel m(shape);
        const auto decoder = gpu::make_decoder(m.model);
        const Array<float> logits(static_cast<size_t>(shape.vocab), "logits");
        std::vector<AttentionTap> wanted;
        for (int64_t l = 0; l < taps; ++l)
            wanted.push_back({l, true, false, bins});
        DeviceStep step;
        step.position = shape.context;
        step.logits = logits.data();
        step.answers = true;
        step.top_k = shape.top_k;
        step.taps = wanted;
        (void)simt::take_activity();
        decoder->step(m.cache, step, nullptr);
        require_same(plan_step(shape), simt::take_activity().launches);
    }
}

} // namespace
} // namespace refreshlab::test::decode_plan_simt
