#include "engine/bench/numbers/device_models.h"

#include "engine/base/error.h"

#include <algorithm>
#include <array>

namespace refreshlab::bench {

namespace {

constexpr int64_t kb = 1024, mb = 1024 * 1024;

/// Sources.
///   limits     of SMs: CUDA C++ Programming Guide 13.0, table "Technical specifications per compute capability"
///   SMs, L2, fp32, tensor cores   NVIDIA's data sheets and white papers of H100 SXM5, H200 SXM, GeForce RTX 4090 (AD102) and
///              RTX 3090 (GA102). fp32: their TFLOPS halved, as a multiply-add counts as two there
///   shared     128 bytes a clock and SM (Programming Guide), and these GPUs have 128 fp32 lanes an SM: the same number as fp32's. Half of it
///              goes from L2 into an SM
///   latency    twice the idle latency that Luo et al. measured (arXiv 2402.13499: 478.8 cycles on H100, 541.5 on RTX 4090, 466.3 on
///              A100, which stands for RTX 3090), at the boost clocks 1.755, 2.52 and 1.695 GHz. The factor two, for queues under
///              load, is ASSUMED
///   L2         latencies from the same source: 263, 273 and 261.5 cycles. Bandwidth, H100: 5.5 TB/s measured by Chips and Cheese (2023, "Nvidia's H100: Funny L2, and Tons of Bandwidth"); the GeForce cards
///              ASSUMED: four times their memory
///   mma        what mma.sync reaches: 62.9 % of the published rate on H100 (Luo et al., the mean of their table; the rest takes wgmma, which
///              no kernel here uses), all of it on the GeForce cards (the same source: mma is their fastest way)
///   bus        PCIe 5.0 x16 (64 GB/s) and 4.0 x16 (32 GB/s); 0.85 of it ASSUMED for writes of kernels to pinned memory
///   clusters   a read of another block's shared memory takes 180 cycles on H100 (the same source as the latencies). What is brought and waited
///              for at a barrier of the cluster takes two such ways: ASSUMED. 132 SMs stand in 8 groups (GPCs) of up to 18 (white paper of
///              H100); that the smallest has 16 is ASSUMED
///   gap        1.3 us a kernel within a graph on H100 (development/performance.md, [1b]), ASSUMED for the others. With programmatic
///              dependent launch 0.6 us, ASSUMED: nobody has published it for kernels like these, and it is the first thing to measure
constexpr std::array<DeviceModel, 4> models{{
    {.name = "h100",
     .title = "NVIDIA H100 SXM5 80 GB",
     .architecture = 90,
     .bandwidth = 3.35e12 * 0.9, // 3.35 TB/s published; 0.9: what H200 was measured to reach of its own
     .latency_ns = 546,
     .l2_bandwidth = 5.5e12,
     .l2_latency_ns = 150,
     .l2_bytes = 50 * mb,
     .fp32_rate = 33.5e12,
     .shared_bandwidth = 33.5e12,
     .matrix_flops = 989e12,
     .mma_rate = 0.629 * 989e12 / 2,
     .bus_bandwidth = 0.85 * 64e9,
     .sms = 132,
     .threads_per_sm = 2048,
     .blocks_per_sm = 32,
     .shared_per_sm = 228 * kb,
     .shared_per_block = 227 * kb,
     .gap_us = 1.3,
     .cluster_latency_ns = 205,
     .cluster_groups = 8,
     .cluster_sms = 16,
     .dependent_gap_us = 0.6},
    {.name = "h200",
     .title = "NVIDIA H200 SXM 141 GB",
     .architecture = 90,
     .bandwidth = 4.3e12, // MEASURED, a copy (development/performance.md); 4.8 TB/s published
     .latency_ns = 546,
     .l2_bandwidth = 5.5e12,
     .l2_latency_ns = 150,
     .l2_bytes = 50 * mb,
     .fp32_rate = 33.5e12,
     .shared_bandwidth = 33.5e12,
     .matrix_flops = 790e12, // MEASURED, bf16 on random data (development/performance.md); 989 published
     .mma_rate = 0.629 * 989e12 / 2,
     .bus_bandwidth = 0.85 * 64e9,
     .sms = 132,
     .threads_per_sm = 2048,
     .blocks_per_sm = 32,
     .shared_per_sm = 228 * kb,
     .shared_per_block = 227 * kb,
     .gap_us = 1.3,
     .cluster_latency_ns = 205,
     .cluster_groups = 8,
     .cluster_sms = 16,
     .dependent_gap_us = 0.6},
    {.name = "rtx4090",
     .title = "NVIDIA GeForce RTX 4090",
     .architecture = 89,
     .bandwidth = 955e9, // what calm reaches at most (development/performance.md, [3]); 1,008 GB/s published
     .latency_ns = 430,
     .l2_bandwidth = 4 * 955e9,
     .l2_latency_ns = 108,
     .l2_bytes = 72 * mb,
     .fp32_rate = 41.3e12,
     .shared_bandwidth = 41.3e12,
     .matrix_flops = 165e12,
     .mma_rate = 165e12 / 2,
     .bus_bandwidth = 0.85 * 32e9,
     .sms = 128,
     .threads_per_sm = 1536,
     .blocks_per_sm = 24,
     .shared_per_sm = 100 * kb,
     .shared_per_block = 99 * kb,
     .gap_us = 1.3},
    {.name = "rtx3090",
     .title = "NVIDIA GeForce RTX 3090",
     .architecture = 86,
     .bandwidth = 936e9 * 0.95, // 936 GB/s published; 0.95: the share that an RTX 4090 reaches
     .latency_ns = 550,
     .l2_bandwidth = 4 * 889e9,
     .l2_latency_ns = 154,
     .l2_bytes = 6 * mb,
     .fp32_rate = 17.8e12,
     .shared_bandwidth = 17.8e12,
     .matrix_flops = 71e12,
     .mma_rate = 71e12 / 2,
     .bus_bandwidth = 0.85 * 32e9,
     .sms = 82,
     .threads_per_sm = 1536,
     .blocks_per_sm = 16,
     .shared_per_sm = 100 * kb,
     .shared_per_block = 99 * kb,
     .gap_us = 1.3},
}};

} // namespace

std::span<const DeviceModel> device_models() {
    return models;
}

const DeviceModel& device_model(std::string_view name) {
    const auto* const found = std::ranges::find(models, name, &DeviceModel::name);
    if (found != models.end()) return *found;
    std::string names;
    for (const DeviceModel& m : models)
        names += (names.empty() ? "" : ", ") + std::string(m.name);
    throw Error("reading", "--device-model", "'" + std::string(name) + "' is none of " + names);
}

} // namespace refreshlab::bench
