#pragma once

#include "kernels/decode/launch_shapes.h"

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

/// What the assembler (ptxas) made of the device kernels when the program was built: registers, spills, shared memory.
namespace refreshlab::kernels {

/// One kernel (for a template one instantiation) for one architecture.
struct KernelResources {
    std::string kernel;    ///< without namespaces and arguments: "row_sums_kernel"
    std::string arguments; ///< of the template, without the brackets; empty: it is none
    int architecture = 0;  ///< compute capability times 10
    int64_t registers = 0; ///< of a thread
    int64_t stack_bytes = 0, spill_stores = 0, spill_loads = 0; ///< bytes of a thread
    int64_t shared_bytes = 0;                                   ///< static, of a block
    friend bool operator==(const KernelResources&, const KernelResources&) = default;
};

/// Reads the lines of `ptxas -v`; what it does not know it leaves out.
[[nodiscard]] std::vector<KernelResources> parse_ptxas(std::string_view text);

/// Of this build. Without nvcc, or where the device code is PTX alone (the driver assembles it), there are none.
struct BuiltKernels {
    bool with_nvcc = false;
    std::vector<KernelResources> kernels;
};
[[nodiscard]] const BuiltKernels& built_kernels();

/// Compute capability times 10: the oldest that the kernels are written for (bf16 arithmetic, cp.async), and from which on a launch may
/// begin before the one in front has ended.
inline constexpr int oldest_architecture = 80, dependent_launches_from = 90;
/// Those that there is code for, ascending.
[[nodiscard]] std::vector<int> built_architectures(std::span<const KernelResources> kernels);
/// Of them the one whose code runs on a device: the newest with the same first digit that is not above it. Nothing: the driver makes code of
/// PTX, where the device is newer than all.
[[nodiscard]] std::optional<int> code_for(std::span<const int> built, int architecture);

/// The numbers of `name` or `name`_kernel that hold on a device: of the newest architecture whose code it runs (the same first digit, and
/// not above it). Of instantiations that of the type and, where the template's last argument is a number, of `instance`, and of `outer` in
/// front of it where that is none of 0; where several are left, the one with the most registers.
[[nodiscard]] std::optional<KernelResources> resources_of(std::span<const KernelResources> kernels,
                                                          std::string_view name, WeightType type,
                                                          int64_t instance, int architecture,
                                                          int64_t outer = 0);

} // namespace refreshlab::kernels
