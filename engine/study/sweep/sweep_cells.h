#pragma once

#include "engine/results/sweep_plan.h"

#include <filesystem>
#include <string>

namespace refreshlab {

/// The cells of a grid on this machine, with what decides their results. Throws as resolve_kernels().
[[nodiscard]] SweepPlan make_sweep_plan(const SweepSpec& spec, const SweepModels& models);

/// Digest of all that decides the result but the kernel set: configuration with prompt, given text, task and seed, the
/// models' bytes, the almanac's, the kind of device. Not of what does not: folders, device numbers, threads, captured
/// attention, the policy's name.
[[nodiscard]] std::string run_id(const RunConfig& config, const std::string& almanac_digest,
                                 const SweepModels& models);

/// Name of the kernel sets that give the bits of this configuration's set here (kernels::bit_class); empty where all is
/// computed on GPUs. Throws as resolve_kernels().
[[nodiscard]] std::string kernel_bits(const RunConfig& config, const SweepModels& models);

/// What a result is stored under: the run, and what its kernels round like. avx2 and avx512, which give the same bits, have
/// one id, that of run_id() itself: so have results of programs that knew no other choice than the widest set.
[[nodiscard]] std::string cell_id(const std::string& run_id, const std::string& kernel_bits);
[[nodiscard]] std::string cell_id(const RunConfig& config, const std::string& almanac_digest,
                                  const SweepModels& models);

} // namespace refreshlab
