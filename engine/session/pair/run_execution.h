#pragma once

#include "engine/control/run_config.h"
#include "kernels/execution/execution_context.h"

#include <memory>
#include <string>
#include <vector>

namespace refreshlab {

struct ModelPair;

/// Threads and kernel set of a run, as an object that is handed to all that works for the run: the loading of its
/// weights, its session, its checks.
using Execution = std::shared_ptr<const kernels::ExecutionContext>;

/// kernels::threads_for(config.threads) threads with the kernel set resolve_kernels(config.kernels). Throws as that.
[[nodiscard]] Execution make_execution(const RunConfig& config);

/// The kernel set that this processor runs for a wish. Throws Error{bad_input}, naming the sets that the processor has,
/// if it lacks the wanted one.
/// \param available  narrowest first; other processors' are for tests
[[nodiscard]] kernels::Isa
resolve_kernels(KernelSet wanted, const std::vector<kernels::Isa>& available = kernels::available_isas());

/// RunInfo::kernel_set of a run of these models: the kernel set where at least one of them computes on the CPU, else "cuda".
[[nodiscard]] std::string kernel_set_of(const ModelPair& pair, const kernels::ExecutionContext& execution);

/// Whether two RunInfo::kernel_set give the same bits. A set that is not known ("": old traces) counts as the same as any.
[[nodiscard]] bool same_kernel_bits(const std::string& a, const std::string& b);

} // namespace refreshlab
