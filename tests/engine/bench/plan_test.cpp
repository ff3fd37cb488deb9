// The plan of a decode step against formulas, against models that are there, and against cases worked by hand. What it predicts is not
// judged.
#include "engine/base/check.h"
#include "engine/base/error.h"
#include "engine/bench/numbers/bytes_per_token.h"
#include "engine/model/llama_model.h"
#include "tests/engine/bench/plan_fixture.h"

#include <catch2/catch_approx.hpp>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <numeric>

namespace plan_test {

using namespace refreshlab;
using namespace refreshlab::test::plan;
using Catch::Approx;
using Catch::Matchers::ContainsSubstring;

TEST_CASE("a plan's bytes are those of a model of the same shape", "[bench]") {
    struct Case {
        ModelConfig config;
        at::ScalarType dtype;
        WeightType type;
    };
    const auto config = [](int64_t hidden, int64_t ffn, int64_t layers, int64_t heads, int64_t kv_heads,
                           int64_t head_dim, bool tied) {
        ModelConfig c;
        c.model_type = "llama";
        c.vocab_size = 320;
        c.hidden_size = hidden;
        c.intermediate_size = ffn;
        c.num_layers = layers;
        c.num_heads = heads;
        c.num_kv_heads = kv_heads;
        c.head_dim = head_dim;
        c.max_position = 512;
        c.tied_head = tied;
        c.eos_ids = {1};
        return c;
    };
    ModelConfig qwen2 = config(64, 96, 3, 4, 2, 16, true), qwen3 = config(48, 80, 2, 6, 3, 8, false);
    qwen2.model_type = "qwen2";
    qwen2.qkv_bias = true;
    qwen3.model_type = "qwen3";
    qwen3.qk_norm = true;
    ModelConfig olmo2 = config(48, 80, 2, 4, 2, 16, false);
    olmo2.model_type = "olmo2";
    olmo2.pre_norms = false;
    olmo2.branch_norms = olmo2.qk_norm = olmo2.qk_norm_whole = true;
    ModelConfig experts = config(48, 80, 3, 4, 2, 16, false);
    experts.model_type = "qwen3_moe";
    experts.experts = {.count = 6, .used = 2, .width = 40}; // held as 64
    experts.layer_routed = {true, false, true};
    const Case cases[] = {
        {config(40, 56, 2, 4, 4, 16, false), at::kFloat, WeightType::f32}, // held as 64 x 64
        {config(33, 45, 4, 8, 2, 8, true), at::kBFloat16, WeightType::bf16},
        {qwen2, at::kHalf, WeightType::f16},
        {qwen3, at::kBFloat16, WeightType::bf16},
        {olmo2, at::kFloat, WeightType::f32},
        {experts, at::kBFloat16, WeightType::bf16}};
    for (const Case& c : cases) {
        const auto model = random_llama(c.config, 7, at::kCPU, c.dtype);
        const BytesPerToken bytes = bytes_per_token(*model);
        for (const int64_t context : {0, 1, 255, 256, 257, 500}) {
            for (const int64_t rows : {1, 2, 9}) {
                DecodeShape shape = planned_model(c.config, "m").shape;
                shape.type = c.type;
                shape.context = context;
                shape.capacity = 512;
                shape.rows = rows;
                const auto launches = plan_step(shape);
                INFO(c.config.model_type << ", context " << context << ", rows " << rows);
                CHECK(floor_bytes(launches) == bytes.weights + bytes.kv * context);
                int64_t written = 0;
                for (const PlannedLaunch& l : launches)
                    written += l.traffic.cache_written;
                CHECK(written == bytes.kv); // a column, whatever rows go along
            }
        }
    }
}

TEST_CASE("a plan's bytes of the 3B student are those of the performance page", "[bench]") {
    const auto launches = plan_step(shape_of(student_3b, 2048));
    // 28 layers of (q, k, v, o) and MLP, the head; 114,688 bytes of KV a column.
    const int64_t layer = 1696 * (3072 + 2 * 1024) + 3072 * 1696 + 3 * 1696 * 4512;
    CHECK(floor_bytes(launches) == 2 * (28 * layer + 128256 * 1696) + int64_t{2048} * 114688);
    const PredictedStep step = predict_step(shape_of(student_3b, 2048), device_model("h200"), {});
    CHECK(step.bytes == floor_bytes(launches));
    CHECK(step.floor_us == Approx(636).margin(0.5));
}

TEST_CASE("a plan's launches are those of a step, in its order", "[bench]") {
    const auto launches = plan_step(shape_of("64x96x2x4x2x16x1000", 300, 3));
    const std::pair<DecodeKernel, const char*> of_layer[] = {
        {DecodeKernel::norm_product, "q|k|v"},        {DecodeKernel::decode_attention, "attention"},
        {DecodeKernel::mc_attention, "attention MC"}, {DecodeKernel::product_onto, "o"},
        {DecodeKernel::norm_gate_up, "gate|up"},      {DecodeKernel::product_onto, "down"}};
    REQUIRE(launches.size() == 1 + 2 * 6 + 1);
    CHECK(launches.front().kernel == DecodeKernel::embed);
    CHECK(launches.back().kernel == DecodeKernel::head);
    for (size_t i = 0; i < 12; ++i) {
        const PlannedLaunch& l = launches[1 + i];
        CHECK(l.kernel == of_layer[i % 6].first);
        CHECK(std::string(l.part) == of_layer[i % 6].second);
        CHECK(l.layer == static_cast<int64_t>(i / 6));
    }
    CHECK_FALSE(launches.front().dependent);
    CHECK(std::all_of(launches.begin() + 1, launches.end(),
                      [](const PlannedLaunch& l) { return l.dependent; }));

    const auto same = [](const LaunchShape& a, const LaunchShape& b) {
        return a.grid == b.grid && a.block == b.block && a.shared_bytes == b.shared_bytes &&
               a.cluster == b.cluster;
    };
    namespace decode = kernels::decode;
    CHECK(same(launches.front().shape, decode::embed(3)));
    const WeightType type = WeightType::bf16;
    CHECK(same(launch_of(launches, "q|k|v").shape,
               decode::mc_product(type, 64 + 2 * 32, 64, 3, decode::mc_outputs_per_block)));
    CHECK(same(launch_of(launches, "attention").shape, decode::attention(2, 2, 16, 1, 301)));
    CHECK(same(launch_of(launches, "attention MC").shape, decode::mc_attention(2, 2, 16, 3, 301)));
    CHECK(same(launch_of(launches, "o").shape,
               decode::mc_product(type, 64, 64, 3, decode::mc_onto_outputs_per_block)));
    CHECK(same(launch_of(launches, "gate|up").shape,
               decode::mc_product(type, 2 * 96, 64, 3, 2 * decode::mc_gate_up_per_block)));
    CHECK(same(launch_of(launches, "down").shape,
               decode::mc_product(type, 64, 96, 3, decode::mc_onto_outputs_per_block)));
    CHECK(same(launches.back().shape, decode::mc_product(type, 1000, 64, 3, decode::mc_outputs_per_block)));

    DecodeShape without_clusters = shape_of("64x96x2x4x2x16x1000", 300);
    without_clusters.clusters = false;
    const auto alone = plan_step(without_clusters);
    CHECK(same(launch_of(alone, "q|k|v").shape, decode::product(64 + 2 * 32, 64, 1)));
    CHECK(same(launch_of(alone, "attention").shape, decode::attention(2, 2, 16, 1, 301)));
    CHECK(same(launch_of(alone, "o").shape, decode::product(64, 64, 1)));
    CHECK(same(launch_of(alone, "gate|up").shape, decode::product(96, 64, 1)));
    CHECK(same(launch_of(alone, "down").shape, decode::product(64, 96, 1)));
    CHECK(same(alone.back().shape, decode::product(1000, 64, 1, decode::head_outputs_per_block)));
    // By clusters q|k|v and attention are one launch, if the token's row is alone.
    const auto joined = plan_step(shape_of("64x96x2x4x2x16x1000", 300));
    CHECK(joined.size() == alone.size() - 2);
    CHECK(joined[1].kernel == DecodeKernel::qkv_attention);
    CHECK(same(joined[1].shape, decode::qkv_attention(2, 2, 16, 64, 301)));
    CHECK(joined[1].shape.cluster == 4);
    CHECK(std::string(joined[2].part) == "o");
    // In f32 MC rows have no launch of their own.
    const auto wide = plan_step(shape_of("64x96x2x4x2x16x1000", 300, 3, WeightType::f32));
    CHECK(wide.size() == alone.size());
    CHECK(same(launch_of(wide, "attention").shape, decode::attention(2, 2, 16, 3, 301)));

    DecodeShape plain = shape_of("64x96x2x4x2x16x1000", 300);
    plain.dependent = false;
    for (const PlannedLaunch& l : plan_step(plain))
        CHECK_FALSE(l.dependent);
}

TEST_CASE("a plan reads what a sliding window leaves", "[bench]") {
    DecodeShape shape = shape_of("64x96x2x4x2x16x1000", 1000);
    shape.clusters = false;
    shape.windows = {0, 300};
    const auto launches = plan_step(shape);
    const int64_t column = 2 * 2 * 16 * 2;
    CHECK(launch_of(launches, "attention", 0).traffic.cache == 1000 * column);
    // The query at 1000 sees (700, 1000]; column 1000 is its own.
    const PlannedLaunch& sliding = launch_of(launches, "attention", 1);
    CHECK(sliding.traffic.cache == 299 * column);
    CHECK(launch_of(launches, "attention", 0).busy_blocks == 4 * 2);
    CHECK(sliding.busy_blocks == 2 * 2); // splits 2 and 3 of 256 columns: from 701 on
    shape.context = 1024;                // the token's own column begins a split
    shape.capacity = 1025;
    CHECK(launch_of(plan_step(shape), "attention", 0).busy_blocks == 5 * 2);
    CHECK(launch_of(plan_step(shape), "attention", 1).traffic.cache == 299 * column);
    CHECK(launch_of(plan_step(shape), "attention", 1).busy_blocks == 3 * 2); // 725 .. 1024
    shape.windows = {0};
    CHECK_THROWS_AS(plan_step(shape), InvariantError);
}

TEST_CASE("MC rows read a matrix once for many of them, and the cache once for a tile", "[bench]") {
    const auto plan = [](int64_t rows, WeightType type = WeightType::bf16) {
        DecodeShape shape = shape_of("64x96x1x4x2x16x1000", 300, rows, type);
        shape.clusters = false;
        return plan_step(shape);
    };
    for (const int64_t rows : {1, 2, 9, 17, 25}) {
        INFO("rows " << rows);
        CHECK(launch_of(plan(rows), "down").traffic.again == 0);
        CHECK(launch_of(plan(rows), "down").multiply_adds == 96 * 64); // of the token, in fp32
        CHECK(launch_of(plan(rows), "attention").traffic.again == 0);
    }
    const PlannedLaunch down = launch_of(plan(101), "down"); // 100 MC rows: five blocks of 24
    CHECK(down.traffic.again == 4 * down.traffic.matrices);
    CHECK(launch_of(plan(1), "down").tensor_multiply_adds == 0);
    // Two parts of eight rows, whether they are there or not.
    CHECK(launch_of(plan(2), "down").tensor_multiply_adds == 2 * 8 * 96 * 64);
    CHECK(launch_of(plan(9), "down").tensor_multiply_adds == 2 * 8 * 96 * 64);
    CHECK(launch_of(plan(10), "down").tensor_multiply_adds == 2 * 16 * 96 * 64);
    CHECK(launch_of(plan(9), "head").traffic.activations_written == 9 * 1000 * 4);
    // Two query heads a KV head: 16 rows in a block.
    const int64_t cache = launch_of(plan(1), "attention").traffic.cache;
    CHECK(launch_of(plan(9), "attention MC").traffic.again == cache);
    CHECK(launch_of(plan(17), "attention MC").traffic.again == cache);
    CHECK(launch_of(plan(18), "attention MC").traffic.again == 2 * cache);
    // fp32 units: eight MC rows a block, and attention row by row.
    const auto wide = plan(17, WeightType::f32);
    CHECK(launch_of(wide, "down").traffic.again == launch_of(wide, "down").traffic.matrices);
    CHECK(launch_of(wide, "down").multiply_adds == 17 * 96 * 64);
    CHECK(launch_of(wide, "down").tensor_multiply_adds == 0);
    CHECK(launch_of(wide, "attention").traffic.again == 16 * launch_of(wide, "attention").traffic.cache);
}

TEST_CASE("eight MC rows of the 3B student are predicted to cost a quarter of its step at most", "[bench]") {
    const DeviceModel& h200 = device_model("h200");
    const double alone = predict_step(shape_of(student_3b, 2048), h200, {}).predicted_us,
                 with = predict_step(shape_of(student_3b, 2048, 9), h200, {}).predicted_us;
    CHECK(with > alone);
    CHECK(with <= 1.25 * alone);
}

TEST_CASE("occupancy of cases worked by hand", "[bench]") {
    const DeviceModel& h100 = device_model("h100");
    const DeviceModel& small = device_model("rtx3090");
    const auto launch = [](uint32_t threads, uint32_t shared) {
        return LaunchShape{{1, 1, 1}, {threads, 1, 1}, shared};
    };
    // 2048 threads of 256.
    Occupancy o = occupancy_of(launch(256, 0), h100, 32, 0);
    CHECK(o.blocks_per_sm == 8);
    CHECK(o.share == Approx(1));
    CHECK(o.limit == OccupancyLimit::threads);
    // 72 registers are 2,304 a warp, in pieces of 256; 8 warps: 18,432 of 65,536.
    o = occupancy_of(launch(256, 0), h100, 72, 0);
    CHECK(o.blocks_per_sm == 3);
    CHECK(o.limit == OccupancyLimit::registers);
    CHECK(o.share == Approx(3 * 256 / 2048.0));
    // 33 registers are 1,056 a warp, so 1,280: 10,240 a block, and 6 of them.
    CHECK(occupancy_of(launch(256, 0), h100, 33, 0).blocks_per_sm == 6);
    // Not known: no limit.
    CHECK(occupancy_of(launch(256, 0), h100, std::nullopt, 0).blocks_per_sm == 8);
    // 54,272 bytes and 1,024 of every block: 55,296 of 233,472.
    o = occupancy_of(launch(256, 54272), h100, 32, 0);
    CHECK(o.blocks_per_sm == 4);
    CHECK(o.limit == OccupancyLimit::shared_memory);
    CHECK(occupancy_of(launch(256, 50000), h100, 32, 4272).blocks_per_sm == 4); // static memory counts
    // 32 blocks of 32 threads, 16 on an Ampere GeForce.
    CHECK(occupancy_of(launch(32, 0), h100, 32, 0).limit == OccupancyLimit::blocks);
    CHECK(occupancy_of(launch(32, 0), h100, 32, 0).blocks_per_sm == 32);
    CHECK(occupancy_of(launch(32, 0), small, 32, 0).blocks_per_sm == 16);
    CHECK(occupancy_of(launch(256, 0), small, 32, 0).blocks_per_sm == 6);
    // 48 threads are two warps.
    CHECK(occupancy_of(launch(48, 0), small, 32, 0).share == Approx(16 * 64 / 1536.0));
    // More than a block may have.
    o = occupancy_of(launch(256, 120000), small, 32, 0);
    CHECK(o.blocks_per_sm == 0);
    CHECK(o.limit == OccupancyLimit::none_fits);
}

TEST_CASE("a prediction's totals are the sums of its launches", "[bench]") {
    for (const DeviceModel& device : device_models()) {
        for (const int64_t rows : {1, 9}) {
            const PredictedStep step = predict_step(shape_of(student_3b, 2048, rows), device, {});
            INFO(device.name << ", rows " << rows);
            double floor = 0, predicted = 0;
            int64_t bytes = 0;
            for (const PredictedLaunch& p : step.launches) {
                floor += p.floor_us();
                predicted += p.predicted_us();
                bytes += p.launch.traffic.floor();
                CHECK(p.predicted_us() >= p.floor_us() + p.gap_us);
                CHECK(std::ranges::all_of(p.parts_us, [](double part) { return part > -1e-9; }));
                CHECK(p.launch.dependent == (device.architecture >= 90 && &p != step.launches.data()));
            }
            CHECK(step.floor_us == Approx(floor));
            CHECK(step.floor_us == Approx(static_cast<double>(bytes) / device.bandwidth * 1e6));
            CHECK(step.predicted_us == Approx(predicted));
            CHECK(step.bytes == bytes);
            CHECK(step.share_of_floor() == Approx(floor / predicted));
            CHECK(step.share_of_floor() < 1);
            const ShareRange range = share_range(shape_of(student_3b, 2048, rows), device, {});
            CHECK(range.low < step.share_of_floor());
            CHECK(step.share_of_floor() < range.high);
        }
    }
}

TEST_CASE("bytes in flight bound a launch that asks for few", "[bench]") {
    // The row of the embedding: one block, and nothing else is under way.
    const DeviceModel& h200 = device_model("h200");
    const PredictedStep step = predict_step(shape_of(student_3b, 2048), h200, {});
    const PredictedLaunch& row = step.launches[0];
    CHECK(row.launch.bytes_in_flight == 1696 * 2);
    const double bytes = 1696 * 2;
    const double chain = row.chain_us();
    CHECK(chain == Approx(h200.l2_latency_ns * 1e-3)); // the token's id comes first
    CHECK(row.predicted_us() - row.gap_us - chain ==
          Approx(bytes / (bytes / (h200.latency_ns * 1e-9)) * 1e6));
    CHECK(row.parts_us[static_cast<size_t>(Bound::in_flight)] ==
          Approx(h200.latency_ns * 1e-3 - bytes / h200.bandwidth * 1e6));
    // The head asks for far more than the memory has under way.
    CHECK(step.launches.back().bound == Bound::memory);
    CHECK(step.launches.back().parts_us[static_cast<size_t>(Bound::in_flight)] == Approx(0).margin(1e-9));
    // Who asks early hides the latency, where launches are dependent.
    CHECK(step.launches[1].gap_us == Approx(h200.dependent_gap_us)); // q|k|v and attention
    CHECK(step.launches[2].gap_us == Approx(h200.dependent_gap_us)); // o
    CHECK(step.launches[0].gap_us ==
          Approx(h200.gap_us + h200.latency_ns * 1e-3)); // the first is no dependent one
    const PredictedStep older = predict_step(shape_of(student_3b, 2048), device_model("rtx3090"), {});
    CHECK(older.launches[1].gap_us == Approx(older.device.gap_us + older.device.latency_ns * 1e-3));
}

TEST_CASE("a step's answers are a chain at the end of its head, and read no memory", "[bench]") {
    DecodeShape shape = shape_of(student_3b, 2048);
    const DeviceModel& h200 = device_model("h200");
    const PredictedStep without = predict_step(shape, h200, {});
    shape.top_k = 8;
    const PredictedStep step = predict_step(shape, h200, {});
    REQUIRE(step.launches.size() == 114);
    REQUIRE(without.launches.size() == 114);
    // 128,256 logits, 64 a block; 2,004 blocks, 64 a group: (max, sums) and eight keys of each, written and read.
    const kernels::decode::LaunchTraffic &head = step.launches.back().launch.traffic,
                                         &bare = without.launches.back().launch.traffic;
    CHECK(head.activations - bare.activations == (2004 + 32) * (48 + 8 * 8));
    CHECK(head.activations_written - bare.activations_written == (2004 + 32) * (48 + 8 * 8));
    CHECK(step.bytes == without.bytes);
    CHECK(step.predicted_us - without.predicted_us == Approx(4 * h200.l2_latency_ns * 1e-3).margin(1e-6));
}

TEST_CASE("a drawn token costs its head two reads more, many candidates a merge of lists", "[bench]") {
    DecodeShape shape = shape_of(student_3b, 2048);
    shape.top_k = 8;
    const DeviceModel& h200 = device_model("h200");
    const PredictedStep greedy = predict_step(shape, h200, {});
    shape.draws = true;
    const PredictedStep drawn = predict_step(shape, h200, {});
    REQUIRE(drawn.launches.size() == greedy.launches.size());
    const kernels::decode::LaunchTraffic &head = drawn.launches.back().launch.traffic,
                                         &bare = greedy.launches.back().launch.traffic;
    // A sum of 2,004 blocks and of 32 groups; the walk reads those of the groups and of 64 blocks again, and 64 logits.
    CHECK(head.activations_written - bare.activations_written == (2004 + 32) * 8);
    CHECK(head.activations - bare.activations == (2004 + 32) * 8 + (32 + 64) * (8 + 48) + 64 * 4);
    CHECK(drawn.bytes == greedy.bytes);
    CHECK(drawn.predicted_us - greedy.predicted_us == Approx(2 * h200.l2_latency_ns * 1e-3).margin(1e-2));
    // Lists of 64 blocks by 8 warps, and of 32 groups: each warp's after its first, and three levels of warps.
    shape.draws = false;
    shape.top_k = 64;
    const auto chain = [](const PredictedStep& step) { return step.launches.back().launch.chain; };
    CHECK(chain(predict_step(shape, h200, {})) - chain(greedy) == (7 + 3) + (3 + 3));
}

TEST_CASE("entropies of attention are one read more where splits are merged, and a few numbers for the host",
          "[bench]") {
    DecodeShape shape = shape_of(student_3b, 2048);
    shape.top_k = 8;
    DeviceModel h200 = device_model("h200");
    h200.cluster_latency_ns = 0; // clusters merge splits in shared memory
    const PredictedStep without = predict_step(shape, h200, {});
    shape.entropies = true;
    const PredictedStep with = predict_step(shape, h200, {});
    REQUIRE(with.launches.size() == without.launches.size());
    CHECK(with.launches.back().launch.traffic.host_written == 28 * 24 * 4);
    const auto &attention = with.launches[2].launch, &bare = without.launches[2].launch;
    CHECK(attention.chain == bare.chain + 1);
    CHECK(attention.traffic.activations_written - bare.traffic.activations_written == (24 * 9 + 24) * 4);
    CHECK(with.predicted_us - without.predicted_us == Approx(28 * h200.l2_latency_ns * 1e-3).margin(0.1));
    CHECK(with.predicted_us / without.predicted_us < 1.01);
}

TEST_CASE("attention rows cost what they bring over the bus", "[bench]") {
    DecodeShape shape = shape_of(student_3b, 2048);
    shape.taps = 28;
    const DeviceModel& h200 = device_model("h200");
    const PredictedStep with = predict_step(shape, h200, {});
    const PredictedLaunch& rows = with.launches[with.launches.size() - 2];
    REQUIRE(rows.launch.kernel == DecodeKernel::attention_rows);
    CHECK(rows.launch.traffic.host_written == 28 * 24 * 2049 * 2);
    CHECK(rows.launch.busy_blocks == 28 * 24 * 9);
    CHECK(rows.bound == Bound::bus);
    CHECK(rows.predicted_us() - rows.gap_us - rows.chain_us() ==
          Approx(28 * 24 * 2049 * 2 / h200.bus_bandwidth * 1e6));
    const int64_t scores = 24 * (2049 + 2) * 4;
    shape.taps = 0;
    CHECK(launch_of(plan_step(shape), "q|k|v attention", 5).traffic.activations_written + scores ==
          with.launches[1 + 5 * 4].launch.traffic.activations_written);

    // In bins of 16 keys, as 2,049 of 8 are more than 256: the scores are read all the same.
    shape.taps = 28;
    shape.bins = 256;
    const PredictedStep binned = predict_step(shape, h200, {});
    const PredictedLaunch& bins = binned.launches[binned.launches.size() - 2];
    REQUIRE(bins.launch.kernel == DecodeKernel::attention_bins);
    CHECK(bins.launch.traffic.host_written == 28 * 24 * 129 * 2);
    CHECK(bins.launch.busy_blocks == 28 * 24 * 2);
    CHECK(bins.launch.traffic.activations == (28 * 24 * 2049 + 28 * 24 * 2 * 2) * 4);
    shape.taps = 0;
    const double without_us = predict_step(shape, h200, {}).predicted_us;
    CHECK(binned.predicted_us <= 1.02 * without_us); // 2 % of a step are what the display may take

    PlanReport report = report_of(student_3b, "h200");
    report.without_rows_us = report.step.predicted_us;
    report.step = with;
    const nlohmann::json json = to_json(report)["attention_rows"];
    CHECK(json["layers"] == 28);
    CHECK(json["bins"] == 0);
    CHECK(json["host_bytes"] == 28 * 24 * 2049 * 2);
    CHECK(json["added_us"].get<double>() == Approx(with.predicted_us - *report.without_rows_us));
    CHECK_THAT(plan_table(report), ContainsSubstring("attention rows of 28 layers,"));
    report.step = binned;
    CHECK_THAT(plan_table(report), ContainsSubstring("attention rows of 28 layers in 256 bins at most"));
    CHECK(to_json(report)["attention_rows"]["host_bytes"] == 28 * 24 * 129 * 2);
}

TEST_CASE("a layer without MLP has two launches", "[bench]") {
    DecodeShape shape = shape_of("64x96x3x4x2x16x1000", 300);
    shape.has_mlp = {true, false, true};
    const auto launches = plan_step(shape);
    CHECK(launches.size() == 1 + 4 + 2 + 4 + 1);
    CHECK(launches[6].layer == 1);
    CHECK(std::string(launches[6].part) == "o");
    CHECK(launches[7].layer == 2);
}

TEST_CASE("clusters join q|k|v and attention: the bytes of both, one gap and no reads of L2 between",
          "[bench]") {
    const DeviceModel& h200 = device_model("h200");
    DeviceModel plain = h200;
    plain.cluster_latency_ns = 0;
    const PredictedStep joined = predict_step(shape_of(student_3b, 2048), h200, {}),
                        apart = predict_step(shape_of(student_3b, 2048), plain, {});
    REQUIRE(joined.launches.size() == apart.launches.size() - 28);
    const PredictedLaunch &one = joined.launches[1], &product = apart.launches[1],
                          &attention = apart.launches[2];
    CHECK(one.launch.traffic.matrices == product.launch.traffic.matrices);
    CHECK(one.launch.traffic.cache == attention.launch.traffic.cache);
    CHECK(one.launch.traffic.cache_written == attention.launch.traffic.cache_written);
    CHECK(one.launch.traffic.small_weights ==
          product.launch.traffic.small_weights + attention.launch.traffic.small_weights);
    CHECK(one.launch.multiply_adds == product.launch.multiply_adds + attention.launch.multiply_adds);
    // Eight clusters of 16 blocks, which every block leaves its numbers in twice.
    CHECK(one.launch.busy_blocks == 128);
    CHECK(one.chain_us() == Approx((h200.l2_latency_ns + 2 * h200.cluster_latency_ns) * 1e-3));
    CHECK(one.gap_us == Approx(h200.dependent_gap_us));
    CHECK(joined.floor_us == Approx(apart.floor_us));
    CHECK(joined.predicted_us < apart.predicted_us - 28 * 0.5);
    // Two things one after the other: no faster than the memory allows each.
    CHECK(one.predicted_us() - one.chain_us() - one.gap_us >= product.floor_us() + attention.floor_us());
    CHECK(joined.share_of_floor() >= 0.85);
    // A launch beside MC rows, or with matrices in blocks, is none of clusters.
    CHECK(predict_step(shape_of(student_3b, 2048, 2), h200, {}).launches.size() == 142 + 28);
}

TEST_CASE("occupancy of clusters: none crosses a group of SMs", "[bench]") {
    DeviceModel h200 = device_model("h200");
    LaunchShape shape{{16, 8, 1}, {256, 1, 1}, 0, 16};
    // 8 blocks an SM, 16 SMs a group: 8 clusters of 16 in each of 8 groups.
    CHECK(occupancy_of(shape, h200, 32, 0).resident == 8 * 8 * 16);
    shape.cluster = 1;
    CHECK(occupancy_of(shape, h200, 32, 0).resident == 8 * 132);
    shape.cluster = 12; // one block an SM: 4 SMs of each group are left over
    CHECK(occupancy_of(shape, h200, 255, 0).resident == 8 * 12);
    h200.cluster_sms = 10;
    shape.cluster = 16;
    const Occupancy none = occupancy_of(shape, h200, 255, 0);
    CHECK(none.resident == 0);
    CHECK(none.limit == OccupancyLimit::clusters);
}

TEST_CASE("ptxas says what a kernel takes", "[bench]") {
    const auto found = kernels::parse_ptxas(
        "nonsense\n"
        "ptxas info    : Compiling entry function "
        "'_ZN10refreshlab7kernels4cuda51_GLOBAL__N__b22ea7ed_17_row_statistics_cu_"
        "cef87318_1235715mc_merge_kernelEPKdllPd' for 'sm_90'\n" // the length does not fit: no name that can be read
        "ptxas info    : Compiling entry function '_Z10sum_kernelPKf' for 'sm_80'\n"
        "ptxas info    : Function properties for _Z10sum_kernelPKf\n"
        "    16 bytes stack frame, 8 bytes spill stores, 12 bytes spill loads\n"
        "ptxas info    : Used 34 registers, used 1 barriers, 16 bytes cumulative stack size, 2048 bytes "
        "smem, 384 bytes cmem[0]\n"
        "ptxas info    : Function properties for _Z6helperv\n"
        "    64 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads\n"
        "ptxas info    : Compiling entry function "
        "'_ZN1a12_GLOBAL__N_110row_kernelILNS_10WeightTypeE1ELi8EEEvPKf' for 'sm_90'\n"
        "ptxas info    : Function properties for "
        "_ZN1a12_GLOBAL__N_110row_kernelILNS_10WeightTypeE1ELi8EEEvPKf\n"
        "    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads\n"
        "ptxas info    : Used 168 registers, used 1 barriers\n");
    REQUIRE(found.size() == 3);
    CHECK(found[1] == kernels::KernelResources{"sum_kernel", "", 80, 34, 16, 8, 12, 2048});
    CHECK(found[2].kernel == "row_kernel");
    CHECK(found[2].arguments == "(a::WeightType)1, 8");
    CHECK(found[2].architecture == 90);
    CHECK(found[2].registers == 168);
}

TEST_CASE("the numbers of a kernel are those of the code that a device runs", "[bench]") {
    std::vector<kernels::KernelResources> all;
    const auto add = [&](const char* kernel, const char* arguments, int architecture, int64_t registers) {
        all.push_back({kernel, arguments, architecture, registers, 0, 0, 0, 0});
    };
    add("head_kernel", "(k::WeightType)0, 1", 80, 10);
    add("head_kernel", "(k::WeightType)1, 1", 80, 11);
    add("head_kernel", "(k::WeightType)1, 8", 80, 18);
    add("head_kernel", "(k::WeightType)1, 1", 90, 21);
    add("head_kernel", "(k::WeightType)1, 8", 90, 28);
    add("ahead_kernel", "(k::WeightType)1, 8", 90, 99);
    add("embed", "", 90, 5);
    const auto registers = [&](const char* name, WeightType type, int64_t rows, int architecture) {
        const auto found = kernels::resources_of(all, name, type, rows, architecture);
        return found ? found->registers : -1;
    };
    CHECK(registers("head", WeightType::bf16, 1, 90) == 21);
    CHECK(registers("head", WeightType::bf16, 8, 90) == 28);
    CHECK(registers("head", WeightType::bf16, 1, 86) == 11); // code for sm_80 runs on sm_86
    CHECK(registers("head", WeightType::bf16, 8, 89) == 18);
    CHECK(registers("head", WeightType::f32, 1, 86) == 10);
    CHECK(registers("head", WeightType::f32, 1, 90) == 21);   // none of that type: of so many rows
    CHECK(registers("head", WeightType::bf16, 1, 120) == -1); // nothing of its kind
    CHECK(registers("embed", WeightType::bf16, 1, 90) == 5);
    CHECK(registers("down", WeightType::bf16, 1, 90) == -1);
    // Two numbers, behind a type or alone.
    add("rows_kernel", "(k::WeightType)1, 1, 8", 90, 31);
    add("rows_kernel", "(k::WeightType)1, 2, 8", 90, 32);
    add("pair_kernel", "1, 4", 90, 41);
    add("pair_kernel", "2, 4", 90, 42);
    const auto of_two = [&](const char* name, int64_t outer) {
        return kernels::resources_of(all, name, WeightType::bf16, name[0] == 'r' ? 8 : 4, 90, outer)
            ->registers;
    };
    CHECK(of_two("rows", 1) == 31);
    CHECK(of_two("rows", 2) == 32);
    CHECK(of_two("pair", 1) == 41);
    CHECK(of_two("pair", 2) == 42);
}

TEST_CASE("this build knows what ptxas made of its kernels, or that it does not", "[bench]") {
    const kernels::BuiltKernels& built = kernels::built_kernels();
#ifdef REFRESHLAB_CUDA
    CHECK(built.with_nvcc);
#else
    CHECK_FALSE(built.with_nvcc);
    CHECK(built.kernels.empty());
#endif
    for (const kernels::KernelResources& k : built.kernels) {
        INFO(k.kernel << "<" << k.arguments << "> for sm_" << k.architecture);
        CHECK(k.registers > 0);
        CHECK(k.architecture >= 80);
        CHECK(k.kernel.ends_with("_kernel"));
    }
}

TEST_CASE("a report of a plan says that it predicts, and has its keys", "[bench]") {
    const PlanReport report = report_of(student_3b, "h200", 9);
    const nlohmann::json json = to_json(report);
    CHECK(json["prediction"] == true);
    CHECK_THAT(json["what"].get<std::string>(), ContainsSubstring("PREDICTION"));
    REQUIRE(json["launches"].size() == 170);
    double floor = 0, predicted = 0;
    int64_t bytes = 0;
    for (const auto& launch : json["launches"]) {
        for (const char* key : {"kernel", "part", "grid", "block", "shared_bytes", "registers", "spill_bytes",
                                "occupancy", "blocks_per_sm", "bytes", "bytes_read", "bytes_written",
                                "floor_us", "chain_us", "gap_us", "predicted_us", "bound", "dependent"})
            CHECK(launch.contains(key));
        floor += launch["floor_us"].get<double>();
        predicted += launch["predicted_us"].get<double>();
        bytes += launch["bytes"].get<int64_t>();
        CHECK(launch["registers"].is_null());
    }
    CHECK(json["bytes"] == bytes);
    CHECK(json["floor_us"].get<double>() == Approx(floor));
    CHECK(json["predicted_us"].get<double>() == Approx(predicted));
    CHECK(json["share_of_floor"].get<double>() == Approx(floor / predicted));
    CHECK_THAT(json["registers"].get<std::string>(), ContainsSubstring("built without nvcc"));

    const std::string table = plan_table(report);
    CHECK(table.starts_with("PREDICTION"));
    CHECK_THAT(table, ContainsSubstring("not known (built without nvcc)") &&
                          ContainsSubstring("170 launches") && ContainsSubstring("bound by"));
    kernels::BuiltKernels ptx_only;
    ptx_only.with_nvcc = true;
    CHECK_THAT(plan_table(report_of(student_3b, "h200", 1, ptx_only)),
               ContainsSubstring("no assembled code of these kernels for sm_90"));
}

TEST_CASE("registers of a build stand in the plan and count", "[bench]") {
    kernels::BuiltKernels built;
    built.with_nvcc = true;
    for (const char* kernel : {"embed_kernel", "qkv_attention_kernel", "product_onto_kernel",
                               "norm_gate_up_kernel", "head_kernel"})
        built.kernels.push_back({kernel, "(k::WeightType)1, 1", 90, 128, 0, 24, 40, 0});
    const PlanReport report = report_of(student_3b, "h100", 1, built);
    CHECK(report.step.knows_registers());
    const nlohmann::json launch = to_json(report)["launches"][1];
    CHECK(launch["registers"] == 128);
    CHECK(launch["spill_bytes"] == 64);
    CHECK(launch["blocks_per_sm"] == 2); // 128 * 32 * 8 = 32,768 registers a block
    CHECK(launch["occupancy_limit"] == "registers");
}

TEST_CASE("shapes, types and devices that are none are named", "[bench]") {
    const auto said = [](const auto& call) {
        try {
            call();
        } catch (const Error& e) {
            CHECK(e.kind() == ErrorKind::bad_input);
            return std::string(e.what());
        }
        return std::string();
    };
    for (const char* text : {"", "1696", "1696x4512x28x24x8x128", "1696x4512x28x24x8x128x128256x1",
                             "ax1x1x1x1x1x1", "1696X4512X28X24X8X128X128256", "1696x4512x28x24x8x128x128256 ",
                             "1x2x3x4x5x6x99999999999999999999"})
        CHECK_THAT(said([&] { (void)planned_model(std::string(text)); }),
                   ContainsSubstring("HIDDENxFFNxLAYERSxHEADSxKV_HEADSxHEAD_DIMxVOCAB"));
    CHECK_THAT(said([] { (void)planned_model(std::string("1696x4512x0x24x8x128x128256")); }),
               ContainsSubstring("LAYERS is 0"));
    CHECK_THAT(said([] { (void)planned_model(std::string("1696x4512x28x24x7x128x128256")); }),
               ContainsSubstring("no multiple of 7 KV heads"));
    CHECK_THAT(said([] { (void)planned_model(std::string("1696x4512x28x24x8x127x128256")); }),
               ContainsSubstring("multiple of 8 channels"));
    CHECK_THAT(said([] { (void)planned_model(std::string("64x64x1x32x1x64x100")); }),
               ContainsSubstring("at most 16 heads of one KV head"));
    CHECK_THAT(said([] { (void)planned_type("native"); }), ContainsSubstring("bf16, f16, f32"));
    CHECK_THAT(said([] { (void)device_model("a100"); }), ContainsSubstring("h100, h200, rtx4090, rtx3090"));
    // Odd widths are held padded.
    const PlannedModel odd = planned_model(std::string("1689x4505x28x24x8x128x128256"));
    CHECK(odd.hidden == 1689);
    CHECK(odd.shape.hidden == 1696);
    CHECK(odd.shape.ffn == 4512);
}

TEST_CASE("a plan in blocks reads the bytes of a file's blocks, and more arithmetic", "[bench]") {
    PlannedModel model = planned_model(std::string("2048x8192x16x32x8x64x128256"));
    model.shape.clusters = false; // which join nothing in blocks
    const auto step_of = [&](const char* dtype, int64_t rows) {
        set_forms(model, dtype);
        model.shape.type = planned_type(dtype);
        model.shape.rows = rows;
        model.shape.context = 100;
        model.shape.capacity = 101;
        return kernels::decode::plan_step(model.shape);
    };
    const auto matrices = [](const std::vector<PlannedLaunch>& launches) {
        int64_t bytes = 0;
        for (const PlannedLaunch& launch : launches)
            bytes += launch.traffic.matrices;
        return bytes;
    };
    const auto numbers = step_of("bf16", 1);
    for (const auto& [dtype, stored] :
         {std::pair{"q8_0", 34}, std::pair{"q4_0", 18}, std::pair{"q4_1", 20}}) {
        const auto blocks = step_of(dtype, 1);
        REQUIRE(blocks.size() == numbers.size());
        CHECK(matrices(blocks) * 64 == matrices(numbers) * stored);
        for (size_t i = 0; i < blocks.size(); ++i) {
            CHECK(blocks[i].part == std::string(numbers[i].part));
            CHECK(blocks[i].multiply_adds == numbers[i].multiply_adds);
            CHECK(blocks[i].traffic.cache == numbers[i].traffic.cache);
            const bool product = numbers[i].traffic.matrices > 0;
            CHECK((blocks[i].kernel == kernels::decode::DecodeKernel::block_product) == product);
        }
        CHECK(matrices(step_of(dtype, 9)) == matrices(blocks));
    }
    // A layer without attention reads k and v, a token's row of them whatever rows there are.
    model.shape.attends.assign(16, true);
    model.shape.attends[3] = false;
    const auto whole = numbers, less = step_of("bf16", 9);
    CHECK(matrices(whole) - matrices(less) == 2 * 2 * 2048 * 2048);
    CHECK(std::ranges::count(less, kernels::decode::DecodeKernel::rows_append, &PlannedLaunch::kernel) == 1);
    CHECK(std::ranges::count(less, kernels::decode::DecodeKernel::decode_attention, &PlannedLaunch::kernel) ==
          15);

    const auto said = [](const auto& call) {
        try {
            call();
        } catch (const Error& e) {
            CHECK(e.kind() == ErrorKind::bad_input);
            return std::string(e.what());
        }
        return std::string();
    };
    PlannedModel odd = planned_model(std::string("1689x4505x28x24x8x128x128256"));
    CHECK_THAT(said([&] { set_forms(odd, "q4_0"); }), ContainsSubstring("1689 is no multiple"));
    PlannedModel tokens = planned_model(std::string("64x96x2x4x2x16x1001"));
    set_forms(tokens, "q4_1");
    CHECK(tokens.shape.form == kernels::MatrixForm::q4_1);
    CHECK(tokens.shape.head_form == kernels::MatrixForm::numbers);
}

} // namespace plan_test
