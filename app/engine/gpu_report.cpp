#include "app/engine/gpu_report.h"

#include "kernels/decode/kernel_resources.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <vector>

namespace refreshlab::app {

namespace {

std::string capability(int architecture) {
    return fmt::format("{}.{}", architecture / 10, architecture % 10);
}

} // namespace

std::string capabilities_text(std::span<const int> architectures) {
    std::vector<std::string> names;
    for (const int architecture : architectures)
        names.push_back(capability(architecture));
    return fmt::format("{}", fmt::join(names, ", "));
}

std::string gpu_text(const kernels::CudaDevice& device, std::span<const int> built) {
    std::string text =
        fmt::format("{}, compute capability {}, {:.1f} GiB; ", device.name, capability(device.architecture),
                    static_cast<double>(device.memory_bytes) / (1024.0 * 1024.0 * 1024.0));
    if (device.architecture < kernels::oldest_architecture) {
        text += fmt::format("plain ATen: own kernels need {}", capability(kernels::oldest_architecture));
    } else {
        const auto code = kernels::code_for(built, device.architecture);
        text += code ? fmt::format("own kernels, code for {}", capability(*code))
                     : "own kernels, which the driver makes of PTX at the first start";
        text += device.architecture >= kernels::dependent_launches_from ? ", dependent launches"
                                                                        : ", no dependent launches";
    }
    if (!device.peers.empty()) text += fmt::format("; reads GPU {} directly", fmt::join(device.peers, ", "));
    return text;
}

} // namespace refreshlab::app
