#include "engine/session/pair/run_execution.h"

#include "engine/base/error.h"
#include "engine/session/pair/model_pair.h"
#include "kernels/execution/cores.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace refreshlab {

namespace {

/// What gives the same bits as the set of this name.
std::string_view bits_of(const std::string& kernel_set) {
    const auto isa = kernels::parse_isa(kernel_set);
    return isa ? kernels::bit_class(*isa) : std::string_view(kernel_set);
}

} // namespace

Execution make_execution(const RunConfig& config) {
    return std::make_shared<const kernels::ExecutionContext>(kernels::threads_for(config.threads),
                                                             resolve_kernels(config.kernels));
}

kernels::Isa resolve_kernels(KernelSet wanted, const std::vector<kernels::Isa>& available) {
    if (wanted == KernelSet::automatic) return available.back();
    const auto isa = kernels::parse_isa(to_string(wanted));
    if (isa && std::ranges::find(available, *isa) != available.end()) return *isa;
    std::vector<std::string_view> names;
    for (const kernels::Isa has : available)
        names.push_back(kernels::to_string(has));
    throw Error("choosing kernels", std::string(to_string(wanted)),
                fmt::format("this processor does not have them; it has {}", fmt::join(names, ", ")),
                "kernels=auto takes the widest");
}

std::string kernel_set_of(const ModelPair& pair, const kernels::ExecutionContext& execution) {
    const auto on_cpu = [](const std::shared_ptr<const LlamaModel>& model) {
        return model && model->device().is_cpu();
    };
    return on_cpu(pair.teacher) || on_cpu(pair.student) ? std::string(kernels::to_string(execution.isa()))
                                                        : "cuda";
}

bool same_kernel_bits(const std::string& a, const std::string& b) {
    return a.empty() || b.empty() || bits_of(a) == bits_of(b);
}

} // namespace refreshlab
