#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace refreshlab::bench {

/// A GPU as numbers: what a prediction (predict_step.h) knows of it. Published figures, but for those that their lines call measured or
/// assumed.
struct DeviceModel {
    std::string_view name, title;
    int architecture = 0;  ///< compute capability times 10
    double bandwidth = 0;  ///< of memory, as a program reaches it: bytes a second
    double latency_ns = 0; ///< of a read from memory while the memory is busy
    double l2_bandwidth = 0;
    double l2_latency_ns = 0; ///< of a read from it while little goes on
    int64_t l2_bytes = 0;
    double fp32_rate =
        0; ///< multiply-adds a second, of all SMs; also the rate of other instructions of a lane
    double shared_bandwidth = 0; ///< of shared memory, bytes a second, of all SMs
    double matrix_flops = 0;     ///< of tensor cores, bf16 with fp32 sums, dense: FLOP a second; 0: not known
    double mma_rate = 0; ///< multiply-adds a second that mma.sync reaches of it, from registers, of all SMs
    double bus_bandwidth = 0; ///< from the device to memory of the host: bytes a second
    int64_t sms = 0;
    int64_t threads_per_sm = 0, blocks_per_sm = 0, registers_per_sm = 65536;
    int64_t shared_per_sm = 0;    ///< bytes that blocks may have
    int64_t shared_per_block = 0; ///< the most that one block may have
    double gap_us =
        0; ///< between two launches of a graph, from the end of the one to the first instruction of the other
    double cluster_latency_ns =
        0; ///< until what a block brings to another of its cluster is there, behind a barrier; 0: no clusters
    int64_t cluster_groups = 0,
            cluster_sms = 0;     ///< groups of SMs that a cluster does not leave, and SMs of the smallest
    double dependent_gap_us = 0; ///< the same with programmatic dependent launch; 0: the device has none
};

[[nodiscard]] std::span<const DeviceModel> device_models();
/// Throws Error{bad_input} that names those that there are.
[[nodiscard]] const DeviceModel& device_model(std::string_view name);

} // namespace refreshlab::bench
