#pragma once

#include "engine/bench/numbers/device_models.h"
#include "kernels/decode/decode_plan.h"
#include "kernels/decode/kernel_resources.h"

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

/// A PREDICTION of a decode step, or a refresh, on a GPU that need not be there: from the launches of its plan and a device's numbers.
/// Nothing in it was measured but what device_models.cpp calls measured.
///
/// A launch takes  max(memory, L2, shared memory, arithmetic, tensor cores, bus) + chain + first bytes + gap, where
///   memory      bytes that come from memory, over what the bytes under way let through: a memory of latency t gives at most what is under
///               way / t (Little's law). Blocks run in rounds of as many as fit; a last round of few blocks has few bytes under way
///   L2          everything that is read and written, over the bandwidth of L2, and over that into the SM with the most blocks
///   shared      what multiply-adds read of shared memory, and what copies write there, over its bandwidth, in the SM with the most blocks
///   arithmetic  instructions of all lanes over the rate of multiply-adds, in the SM with the most blocks: the multiply-adds, one to make a
///               number of 16 bits fp32, and the loads of 16 bytes
///   tensor      multiply-adds of tensor cores over the rate that mma.sync reaches, in the SM with the most blocks
///   bus         what is written to the host's memory
///   chain       latencies of reads from L2 that wait for one another: inputs before the first product, splits before they are merged; and of
///               barriers of a cluster behind what its blocks bring to each other
///   first bytes a read's latency, which a launch begins with; a dependent launch that asks for weights before it waits hides it
///   gap         from the end of the launch in front
/// A launch of two phases, one after the other, takes the sum of their times in the place of that maximum.
/// Nothing else of a launch overlaps with its neighbours, which is cautious where launches are dependent.
/// Left out: reductions within a block, dropout masks but those of the attention of MC rows, uneven ends of blocks, clocks under load, the sampler, the host.
namespace refreshlab::bench {

/// Why no more blocks fit on an SM.
enum class OccupancyLimit : uint8_t { threads, blocks, shared_memory, registers, clusters, none_fits };
[[nodiscard]] const char* name_of(OccupancyLimit limit);

struct Occupancy {
    int64_t blocks_per_sm = 0;
    int64_t resident = 0; ///< blocks on the device: fewer than on all SMs where clusters leave some over
    double share = 0;     ///< of the SM's threads
    OccupancyLimit limit{};
};
/// Registers are given out in pieces of 256 to a warp, shared memory in pieces of 128 bytes, and each block has 1 KB more of it.
/// Blocks of a cluster stand in one group of SMs, so a group may have SMs left over.
/// \param registers     of a thread; nothing: not known, and taken as no limit
/// \param static_bytes  of shared memory, beside the launch's
[[nodiscard]] Occupancy occupancy_of(const kernels::LaunchShape& shape, const DeviceModel& device,
                                     std::optional<int64_t> registers, int64_t static_bytes);

/// What a launch's time, or what a step loses beyond its floor, is made of most of all.
enum class Bound : uint8_t {
    memory,      ///< the bytes that the floor counts, at full bandwidth
    other_bytes, ///< further bytes of memory: norms, biases, what is read again
    in_flight,   ///< too few bytes under way for the bandwidth
    l2,
    shared_memory,
    arithmetic,
    tensor_cores,
    bus,   ///< to the host's memory
    chain, ///< reads from L2 that wait for one another
    gap    ///< gap and first bytes
};
inline constexpr size_t num_bounds = 10;
[[nodiscard]] const char* name_of(Bound bound);

struct PredictedLaunch {
    kernels::decode::PlannedLaunch launch;
    std::optional<kernels::KernelResources> resources; ///< nothing: not known
    Occupancy occupancy;
    double rounds = 0; ///< busy blocks over those that are resident at once
    double gap_us = 0; ///< with first bytes
    std::array<double, num_bounds>
        parts_us{}; ///< by Bound; parts_us[memory] is the floor. Their sum is the time
    Bound bound{};

    [[nodiscard]] double floor_us() const { return parts_us[static_cast<size_t>(Bound::memory)]; }
    [[nodiscard]] double chain_us() const { return parts_us[static_cast<size_t>(Bound::chain)]; }
    [[nodiscard]] double predicted_us() const;
};

/// Launches one behind the other: those of a step, or of a refresh.
struct PredictedStep {
    DeviceModel device;
    kernels::decode::DecodeShape shape;
    bool with_nvcc = false;
    std::vector<PredictedLaunch> launches;
    int64_t bytes = 0; ///< that the floor counts; of a step W + K n
    double floor_us = 0, predicted_us = 0;
    std::array<double, num_bounds> parts_us{}; ///< sums over the launches
    bool fits_l2 = false; ///< weights and cache: then steps may beat the floor, which memory gives

    [[nodiscard]] double share_of_floor() const { return floor_us / predicted_us; }
    /// What the step loses most to; Bound::memory: it loses less than 2 %.
    [[nodiscard]] Bound bound() const;
    [[nodiscard]] bool knows_registers() const; ///< of every launch
};
/// \param launches  of a model of that shape
[[nodiscard]] PredictedStep predict_launches(std::vector<kernels::decode::PlannedLaunch> launches,
                                             const kernels::decode::DecodeShape& shape,
                                             const DeviceModel& device, const kernels::BuiltKernels& built);
/// \param shape  whether launches are dependent is the device's to say
[[nodiscard]] PredictedStep predict_step(kernels::decode::DecodeShape shape, const DeviceModel& device,
                                         const kernels::BuiltKernels& built);

/// Shares of the floor where gap and latency, the weakest numbers of a device, are twice and half as long.
struct ShareRange {
    double low = 0, high = 0;
};
[[nodiscard]] ShareRange share_range(const kernels::decode::DecodeShape& shape, const DeviceModel& device,
                                     const kernels::BuiltKernels& built);

} // namespace refreshlab::bench
