// The plan of a refresh against a model that is there, and against cases worked by hand. What it predicts is not judged.
#include "engine/bench/numbers/bytes_per_token.h"
#include "engine/model/llama_model.h"
#include "tests/engine/bench/plan_fixture.h"

#include <catch2/catch_approx.hpp>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <numeric>

namespace plan_refresh_test {

using namespace refreshlab;
using namespace refreshlab::test::plan;
using Catch::Approx;
using Catch::Matchers::ContainsSubstring;

TEST_CASE("a refresh reads what a pass without the head and the last layer's rest reads", "[bench]") {
    ModelConfig config;
    config.model_type = "llama";
    config.vocab_size = 320;
    config.hidden_size = 64;
    config.intermediate_size = 96;
    config.num_layers = 3;
    config.num_heads = 4;
    config.num_kv_heads = 2;
    config.head_dim = 16;
    config.max_position = 512;
    config.eos_ids = {1};
    const BytesPerToken bytes = bytes_per_token(*random_llama(config, 1, at::kCPU, at::kBFloat16));
    RefreshShape shape;
    shape.teacher = planned_model(config, "m").shape;
    shape.teacher.context = 300;
    shape.teacher.capacity = 301;
    shape.student = shape.teacher;
    shape.tokens = 16;
    const auto planned = [&](kernels::decode::PassShape::Logits logits) {
        shape.logits = logits;
        return predict_refresh(shape, device_model("h200"), {});
    };
    const auto sum = [](const PredictedRefresh& refresh, int64_t kernels::decode::LaunchTraffic::*part) {
        return std::accumulate(
            refresh.work.launches.begin(), refresh.work.launches.end(), int64_t{0},
            [part](int64_t n, const PredictedLaunch& p) { return n + p.launch.traffic.*part; });
    };
    using Logits = kernels::decode::PassShape::Logits;
    using kernels::decode::LaunchTraffic;
    const PredictedRefresh none = planned(Logits::none);
    CHECK(sum(none, &LaunchTraffic::matrices) == bytes.refresh);
    // Two layers attend to the columns before delta; drift reads both caches' columns of delta, and the splice once more.
    CHECK(sum(none, &LaunchTraffic::cache) == bytes.kv / 3 * 2 * (300 - 16) + 2 * bytes.kv * 16);
    // The teacher's, the student's, and what stood there.
    CHECK(sum(none, &LaunchTraffic::cache_written) == 3 * bytes.kv * 16);
    CHECK(sum(none, &LaunchTraffic::host_written) == 0); // the journal follows on a stream of its own
    CHECK(plan_splice(shape.student, 600).size() == 4);  // drift, and three times 256 columns at most
    CHECK(none.arithmetic_us == Approx(static_cast<double>(bytes.refresh) * 16 / 790e12 * 1e6));
    CHECK(none.floor_us() == Approx(std::max(none.work.floor_us, none.arithmetic_us)));
    CHECK(none.work.launches.back().launch.kernel == DecodeKernel::splice);
    CHECK(none.steps() == Approx(none.work.predicted_us / none.step.predicted_us));
    // Logits: the rest of the last layer, and the head.
    const PredictedRefresh last = planned(Logits::last), all = planned(Logits::all);
    CHECK(sum(all, &LaunchTraffic::matrices) == bytes.weights);
    CHECK(sum(last, &LaunchTraffic::matrices) == bytes.weights);
    CHECK(last.arithmetic_us < all.arithmetic_us);
    CHECK(all.arithmetic_us == Approx(static_cast<double>(bytes.weights) * 16 / 790e12 * 1e6));
}

TEST_CASE("a refresh by a teacher in blocks reads the bytes of its blocks", "[bench]") {
    RefreshShape shape;
    shape.tokens = 16;
    shape.teacher = shape_of("64x96x3x4x2x16x1008", 301);
    shape.teacher.context = 300;
    shape.student = shape.teacher;
    const auto matrices = [&](kernels::MatrixForm form) {
        shape.teacher.form = shape.teacher.embedding_form = shape.teacher.head_form = form;
        int64_t bytes = 0;
        for (const PredictedLaunch& p : predict_refresh(shape, device_model("h200"), {}).work.launches)
            bytes += p.launch.traffic.matrices;
        return bytes;
    };
    // 32 weights: 64 bytes as bf16; 32 or 16 bytes of codes, a scale of 2, a minimum of 2.
    const int64_t numbers = matrices(kernels::MatrixForm::numbers);
    CHECK(matrices(kernels::MatrixForm::q8_0) * 64 == numbers * 34);
    CHECK(matrices(kernels::MatrixForm::q4_0) * 64 == numbers * 18);
    CHECK(matrices(kernels::MatrixForm::q4_1) * 64 == numbers * 20);
}

TEST_CASE("a product of many rows is counted by hand", "[bench]") {
    // 130 rows: groups of 128 and 2; q|k|v of 4 heads and 2 KV heads of 16: 128 outputs of 72 inputs.
    DecodeShape shape = shape_of("72x96x1x4x2x16x1000", 200);
    const auto launches =
        plan_pass(shape, {.rows = 130, .first = 0, .logits = kernels::decode::PassShape::Logits::all});
    const PlannedLaunch& qkv = launch_of(launches, "q|k|v");
    REQUIRE(shape.hidden == 72 + 24); // held as a multiple of 32
    const int64_t outputs = 128, stages = 2, row_tiles = 16 + 1;
    CHECK(qkv.shape.grid[0] == 2);
    const int64_t blocks = qkv.shape.grid[1], across = 16 * qkv.outer_instance * (qkv.shape.block[0] / 64);
    CHECK(blocks == (outputs + across - 1) / across);
    CHECK(qkv.tensor_multiply_adds == blocks * across * row_tiles * 8 * stages * 64);
    CHECK(qkv.traffic.matrices == outputs * 96 * 2);
    CHECK(qkv.traffic.again == qkv.traffic.matrices);
    CHECK(qkv.traffic.activations == blocks * 130 * 96 * 2);
    CHECK(qkv.traffic.activations_written == 130 * outputs * 4);
    // Attention: 6 warps of 16 queries hold 48 rows of a group of 2; all columns are the pass's own.
    const PlannedLaunch& attention = launch_of(launches, "attention");
    CHECK(attention.shape.grid[0] == 3);
    CHECK(attention.traffic.cache == 0);
    const int64_t seen = 48 + 96 + 130; // columns of the three tiles
    CHECK(attention.traffic.again == 2 * seen * 2 * 16 * 2);
}

TEST_CASE("a product in parts, and the kernels that merge it, are counted by hand", "[bench]") {
    // down: 2,048 inputs and one block of outputs, so two parts; q | k | v of 72 inputs is whole.
    DecodeShape shape = shape_of("72x2048x2x4x2x16x1000", 200);
    const auto launches =
        plan_pass(shape, {.rows = 10, .first = 0, .logits = kernels::decode::PassShape::Logits::none});
    REQUIRE(shape.hidden == 96);
    const PlannedLaunch& down = launch_of(launches, "down");
    CHECK(down.shape.grid[2] == 2);
    CHECK(launch_of(launches, "q|k|v").shape.grid[2] == 1);
    CHECK(down.traffic.matrices == 96 * 2048 * 2);
    CHECK(down.traffic.activations ==
          10 * 2048 * 2 * down.shape.grid[1]); // the residual is the norm's to read
    CHECK(down.traffic.activations_written == 2 * 10 * 96 * 4);
    CHECK(down.busy_blocks == 2 * down.shape.grid[1]);
    const PlannedLaunch &first = launch_of(launches, "norm"), &second = launch_of(launches, "norm", 1);
    CHECK(second.traffic.activations == first.traffic.activations + 2 * 10 * 96 * 4);
    CHECK(second.traffic.activations_written == first.traffic.activations_written + 10 * 96 * 4);

    // By fp32 units nothing is cut.
    shape.type = WeightType::f32;
    for (const PlannedLaunch& launch : plan_pass(shape, {.rows = 10}))
        CHECK(launch.shape.grid[2] == 1);

    // Keys and values alone have the parts of q | k | v, so that they have its bits.
    DecodeShape wide = shape_of("3072x8192x2x24x8x128x1000", 200);
    const auto of_wide =
        plan_pass(wide, {.rows = 10, .first = 0, .logits = kernels::decode::PassShape::Logits::none});
    CHECK(launch_of(of_wide, "k|v", 1).shape.grid[2] == launch_of(of_wide, "q|k|v").shape.grid[2]);
    CHECK(launch_of(of_wide, "append").traffic.activations ==
          2 * 10 * 40 * 128 * 4 + 10 * (24 + 8 - 1) * 128 * 4);
    wide.qkv_bias = true; // whoever merges the parts adds it
    const auto biased =
        plan_pass(wide, {.rows = 10, .first = 0, .logits = kernels::decode::PassShape::Logits::none});
    CHECK(launch_of(biased, "q|k|v").traffic.small_weights == 0);
    CHECK(launch_of(biased, "append").traffic.small_weights ==
          launch_of(of_wide, "append").traffic.small_weights + 40 * 128 * 2);
}

TEST_CASE("a refresh of 64 tokens is predicted to take hardly more than 2.6 student steps", "[bench]") {
    for (const char* const device : {"h200", "h100"}) {
        RefreshShape shape;
        shape.teacher = shape_of("3072x8192x28x24x8x128x128256", 2048);
        shape.student = shape_of(student_3b, 2048);
        shape.tokens = 64;
        CAPTURE(device);
        CHECK(predict_refresh(shape, device_model(device), {}).steps() < 2.61);
    }
}

TEST_CASE("long deltas are passes one behind the other", "[bench]") {
    RefreshShape shape;
    shape.teacher = shape.student = shape_of("64x96x2x4x2x16x1000", 2000);
    shape.tokens = 600; // 512 and 88
    shape.logits = kernels::decode::PassShape::Logits::last;
    const PredictedRefresh refresh = predict_refresh(shape, device_model("h200"), {});
    std::vector<int64_t> rows;
    int64_t heads = 0;
    for (const PredictedLaunch& p : refresh.work.launches) {
        if (p.launch.kernel == DecodeKernel::rows_embed) rows.push_back(p.launch.shape.grid[0]);
        if (std::string(p.launch.part) == "head") ++heads;
    }
    CHECK(rows == std::vector<int64_t>{512, 88});
    CHECK(heads == 1);
}

TEST_CASE("a report of a refresh has its launches and tells its time in steps", "[bench]") {
    PlanReport report = report_of("3072x8192x28x24x8x128x128256", "h200");
    RefreshShape shape;
    shape.teacher = report.model.shape;
    shape.student = shape_of(student_3b, 2048);
    shape.tokens = 64;
    report.student = student_3b;
    report.refresh = predict_refresh(shape, device_model("h200"), {});
    const nlohmann::json json = to_json(report), refresh = json["refresh"];
    CHECK(json["launches"].size() == 114); // the teacher's own step, as without a refresh
    double predicted = 0;
    int64_t bytes = 0;
    for (const auto& launch : refresh["launches"]) {
        predicted += launch["predicted_us"].get<double>();
        bytes += launch["bytes"].get<int64_t>();
    }
    // Embedding; 27 layers of norm, q|k|v, append, attention, merge, o, norm, gate|up, down; the last one's first three; drift, splice.
    CHECK(refresh["launches"].size() == 1 + 27 * 9 + 3 + 2);
    CHECK(refresh["bytes"] == bytes);
    CHECK(refresh["predicted_us"].get<double>() == Approx(predicted));
    CHECK(refresh["tokens"] == 64);
    CHECK(refresh["logits"] == "none");
    CHECK(refresh["student"]["name"] == student_3b);
    CHECK(refresh["student_steps"].get<double>() ==
          Approx(predicted / refresh["student"]["predicted_us"].get<double>()));
    CHECK(refresh["share_of_floor"].get<double>() < 1);
    CHECK_THAT(plan_table(report), ContainsSubstring("PREDICTION of a refresh of 64 tokens") &&
                                       ContainsSubstring("rows_attention_merge") &&
                                       ContainsSubstring("the refresh takes"));
}

} // namespace plan_refresh_test
