#include "engine/bench/numbers/predict_step.h"

#include "engine/base/check.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace refreshlab::bench {

namespace {

using kernels::decode::DecodeShape;
using kernels::decode::PlannedLaunch;

constexpr size_t at(Bound bound) {
    return static_cast<size_t>(bound);
}

int64_t round_up(int64_t n, int64_t to) {
    return (n + to - 1) / to * to;
}

int64_t threads_of(const kernels::LaunchShape& shape) {
    return int64_t{shape.block[0]} * shape.block[1] * shape.block[2];
}

/// Microseconds in which blocks read their bytes, in rounds of as many as are resident.
double memory_us(const PlannedLaunch& launch, int64_t resident, double bytes, const DeviceModel& device) {
    if (bytes <= 0) return 0;
    const auto blocks = static_cast<double>(launch.busy_blocks);
    const auto round_us = [&](double active) {
        const double under_way = active * static_cast<double>(launch.bytes_in_flight);
        const double rate = std::min(device.bandwidth, under_way / (device.latency_ns * 1e-9));
        return bytes * (active / blocks) / rate * 1e6;
    };
    const int64_t rounds = launch.busy_blocks / resident, rest = launch.busy_blocks % resident;
    return static_cast<double>(rounds) * (rounds > 0 ? round_us(static_cast<double>(resident)) : 0) +
           (rest > 0 ? round_us(static_cast<double>(rest)) : 0);
}

/// Instructions of lanes.
double instructions_of(const PlannedLaunch& launch, kernels::WeightType type) {
    // Each element that is made fp32, and its share of a read of 16 bytes and of what a block has once.
    double each = type == kernels::WeightType::f32 ? 0.25 : 1.125;
    if (launch.form != kernels::MatrixForm::numbers)
        each = launch.form == kernels::MatrixForm::q4_1 ? 3.25 : 2.25;
    return static_cast<double>(launch.multiply_adds) + static_cast<double>(launch.shared_bytes_read) / 16 +
           static_cast<double>(launch.elements) * each;
}

/// What the work of a launch, or of one of its phases, adds to a launch's time. \return bytes that come from memory
/// \param blocks  of the launch
double add_work(const PlannedLaunch& launch, int64_t blocks, int64_t resident, const DecodeShape& shape,
                const DeviceModel& device, std::array<double, num_bounds>& parts_us) {
    const kernels::decode::LaunchTraffic& t = launch.traffic;
    // What is read again comes from L2: matrices, whose blocks run side by side, and columns of a layer that fits.
    const int64_t columns = launch.kernel == kernels::decode::DecodeKernel::mc_attention
                                ? t.again / launch.shape.grid[2]
                                : t.cache;
    const bool again_fits = columns <= device.l2_bytes;
    const auto memory_bytes =
        static_cast<double>(t.floor() + t.small_weights + t.cache_written + (again_fits ? 0 : t.again));
    const auto l2_bytes = static_cast<double>(t.read() + t.written());
    const double floor = static_cast<double>(t.floor()) / device.bandwidth * 1e6,
                 full = memory_bytes / device.bandwidth * 1e6;
    const double memory = memory_us(launch, resident, memory_bytes, device);
    // The SM with the most blocks has so much more than the mean of all.
    const double uneven = static_cast<double>(round_up(blocks, device.sms) * launch.turns) /
                          static_cast<double>(launch.busy_blocks);
    const double into_sms = device.shared_bandwidth / 2;
    const std::array<std::pair<double, Bound>, 5> others{
        {{l2_bytes * std::max(1 / device.l2_bandwidth, uneven / into_sms) * 1e6, Bound::l2},
         {static_cast<double>(launch.shared_bytes_read) * uneven / device.shared_bandwidth * 1e6,
          Bound::shared_memory},
         {instructions_of(launch, shape.type) * uneven / device.fp32_rate * 1e6, Bound::arithmetic},
         {static_cast<double>(launch.tensor_multiply_adds) * uneven / device.mma_rate * 1e6,
          Bound::tensor_cores},
         {static_cast<double>(t.host_written) / device.bus_bandwidth * 1e6, Bound::bus}}};
    const auto& [most, which] = *std::ranges::max_element(others);
    parts_us[at(Bound::memory)] += floor;
    parts_us[at(Bound::other_bytes)] += full - floor;
    parts_us[at(Bound::in_flight)] += memory - full;
    parts_us[at(which)] += std::max(most - memory, 0.0);
    return memory_bytes;
}

PredictedLaunch predict(const PlannedLaunch& launch, const DecodeShape& shape, const DeviceModel& device,
                        const kernels::BuiltKernels& built) {
    PredictedLaunch p;
    p.launch = launch;
    p.resources = kernels::resources_of(built.kernels, name_of(launch.kernel), shape.type, launch.instance,
                                        device.architecture, launch.outer_instance);
    p.occupancy =
        occupancy_of(launch.shape, device, p.resources ? std::optional(p.resources->registers) : std::nullopt,
                     p.resources ? p.resources->shared_bytes : 0);
    const int64_t resident = p.occupancy.resident > 0 ? p.occupancy.resident : device.sms;
    p.rounds = static_cast<double>(launch.busy_blocks) / static_cast<double>(resident);
    double memory_bytes = 0;
    if (launch.phases.empty())
        memory_bytes = add_work(launch, launch.busy_blocks, resident, shape, device, p.parts_us);
    for (const PlannedLaunch& phase : launch.phases)
        memory_bytes += add_work(phase, launch.busy_blocks, std::min(resident, launch.busy_blocks), shape,
                                 device, p.parts_us);
    p.parts_us[at(Bound::chain)] = (static_cast<double>(launch.chain) * device.l2_latency_ns +
                                    static_cast<double>(launch.cluster_waits) * device.cluster_latency_ns) *
                                   1e-3;
    const bool hides_latency = (launch.dependent && launch.reads_early) || memory_bytes <= 0;
    p.gap_us = (launch.dependent ? device.dependent_gap_us : device.gap_us) +
               (hides_latency ? 0 : device.latency_ns * 1e-3);
    p.parts_us[at(Bound::gap)] = p.gap_us;
    p.bound = static_cast<Bound>(std::ranges::max_element(p.parts_us) - p.parts_us.begin());
    return p;
}

} // namespace

const char* name_of(OccupancyLimit limit) {
    switch (limit) {
    case OccupancyLimit::threads:
        return "threads";
    case OccupancyLimit::blocks:
        return "blocks";
    case OccupancyLimit::shared_memory:
        return "shared memory";
    case OccupancyLimit::registers:
        return "registers";
    case OccupancyLimit::clusters:
        return "clusters";
    case OccupancyLimit::none_fits:
        return "no block fits";
    }
    return "";
}

const char* name_of(Bound bound) {
    switch (bound) {
    case Bound::memory:
        return "memory bandwidth";
    case Bound::other_bytes:
        return "other bytes";
    case Bound::in_flight:
        return "bytes in flight";
    case Bound::l2:
        return "L2 bandwidth";
    case Bound::shared_memory:
        return "shared memory";
    case Bound::arithmetic:
        return "arithmetic";
    case Bound::tensor_cores:
        return "tensor cores";
    case Bound::bus:
        return "bus to the host";
    case Bound::chain:
        return "chain of reads";
    case Bound::gap:
        return "launch gap";
    }
    return "";
}

Occupancy occupancy_of(const kernels::LaunchShape& shape, const DeviceModel& device,
                       std::optional<int64_t> registers, int64_t static_bytes) {
    const int64_t threads = threads_of(shape), warps = round_up(threads, 32) / 32;
    RL_ASSERT(threads > 0);
    const int64_t shared = int64_t{shape.shared_bytes} + static_bytes;
    std::array<std::pair<int64_t, OccupancyLimit>, 4> limits{
        {{device.threads_per_sm / (warps * 32), OccupancyLimit::threads},
         {device.blocks_per_sm, OccupancyLimit::blocks},
         {shared > device.shared_per_block ? 0 : device.shared_per_sm / (round_up(shared, 128) + 1024),
          OccupancyLimit::shared_memory},
         {device.blocks_per_sm, OccupancyLimit::registers}}};
    if (registers && *registers > 0)
        limits[3].first = device.registers_per_sm / (round_up(*registers * 32, 256) * warps);
    const auto* const least =
        std::ranges::min_element(limits, [](const auto& a, const auto& b) { return a.first < b.first; });
    Occupancy o;
    o.blocks_per_sm = least->first;
    o.limit = least->first > 0 ? least->second : OccupancyLimit::none_fits;
    o.resident = o.blocks_per_sm * device.sms;
    if (const int64_t cluster = shape.cluster; cluster > 1) {
        const int64_t of_group = device.cluster_sms * o.blocks_per_sm / cluster;
        if (of_group == 0 && o.blocks_per_sm > 0) o.limit = OccupancyLimit::clusters;
        o.resident = device.cluster_groups * of_group * cluster;
    }
    o.share = static_cast<double>(o.blocks_per_sm * warps * 32) / static_cast<double>(device.threads_per_sm);
    return o;
}

double PredictedLaunch::predicted_us() const {
    return std::accumulate(parts_us.begin(), parts_us.end(), 0.0);
}

Bound PredictedStep::bound() const {
    const auto* const most = std::max_element(parts_us.begin() + 1, parts_us.end());
    if (predicted_us - floor_us < 0.02 * predicted_us) return Bound::memory;
    return static_cast<Bound>(most - parts_us.begin());
}

bool PredictedStep::knows_registers() const {
    return std::ranges::all_of(launches, [](const PredictedLaunch& p) { return p.resources.has_value(); });
}

PredictedStep predict_launches(std::vector<PlannedLaunch> launches, const DecodeShape& shape,
                               const DeviceModel& device, const kernels::BuiltKernels& built) {
    PredictedStep step;
    step.device = device;
    step.shape = shape;
    step.with_nvcc = built.with_nvcc;
    for (const PlannedLaunch& launch : launches) {
        const PredictedLaunch& p = step.launches.emplace_back(predict(launch, shape, device, built));
        step.bytes += launch.traffic.floor();
        for (size_t i = 0; i < num_bounds; ++i)
            step.parts_us[i] += p.parts_us[i];
    }
    step.floor_us = step.parts_us[at(Bound::memory)];
    step.predicted_us = std::accumulate(step.parts_us.begin(), step.parts_us.end(), 0.0);
    step.fits_l2 = step.bytes <= device.l2_bytes;
    return step;
}

PredictedStep predict_step(DecodeShape shape, const DeviceModel& device, const kernels::BuiltKernels& built) {
    shape.dependent = device.dependent_gap_us > 0;
    shape.clusters = device.cluster_latency_ns > 0;
    return predict_launches(kernels::decode::plan_step(shape), shape, device, built);
}

ShareRange share_range(const DecodeShape& shape, const DeviceModel& device,
                       const kernels::BuiltKernels& built) {
    const auto share = [&](double factor) {
        DeviceModel other = device;
        other.gap_us *= factor;
        other.dependent_gap_us *= factor;
        other.latency_ns *= factor;
        other.l2_latency_ns *= factor;
        other.cluster_latency_ns *= factor;
        return predict_step(shape, other, built).share_of_floor();
    };
    return {share(2), share(0.5)};
}

} // namespace refreshlab::bench
