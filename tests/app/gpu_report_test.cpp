#include "app/engine/gpu_report.h"
#include "kernels/decode/kernel_resources.h"

#include <catch2/catch_test_macros.hpp>

#include <vector>

namespace gpu_report_test {

using namespace refreshlab;

TEST_CASE("doctor says of each GPU which code runs there", "[app][doctor]") {
    const std::vector<int> built{80, 86, 90, 120};
    kernels::CudaDevice device{"A card", 90, int64_t{80} << 30, {1, 2}};
    CHECK(app::gpu_text(device, built) == "A card, compute capability 9.0, 80.0 GiB; own kernels, code for "
                                          "9.0, dependent launches; reads GPU 1, 2 "
                                          "directly");
    device = {"Another", 89, int64_t{24} << 30, {}};
    CHECK(app::gpu_text(device, built) ==
          "Another, compute capability 8.9, 24.0 GiB; own kernels, code for 8.6, no dependent launches");
    device.architecture = 75;
    CHECK(app::gpu_text(device, built) ==
          "Another, compute capability 7.5, 24.0 GiB; plain ATen: own kernels need 8.0");
    device.architecture = 130;
    CHECK(app::gpu_text(device, built) ==
          "Another, compute capability 13.0, 24.0 GiB; own kernels, which the driver "
          "makes of PTX at the first start, dependent launches");
    CHECK(app::capabilities_text(built) == "8.0, 8.6, 9.0, 12.0");
}

TEST_CASE("code of the same family that is not newer runs on a device", "[app][doctor]") {
    const std::vector<int> built{80, 86, 100};
    CHECK(kernels::code_for(built, 80) == 80);
    CHECK(kernels::code_for(built, 89) == 86);
    CHECK(kernels::code_for(built, 103) == 100);
    CHECK(kernels::code_for(built, 90) == std::nullopt);
    std::vector<kernels::KernelResources> kernels(4);
    for (size_t i = 0; i < 4; ++i)
        kernels[i].architecture = i % 2 == 0 ? 90 : 80;
    CHECK(kernels::built_architectures(kernels) == std::vector<int>{80, 90});
}

} // namespace gpu_report_test
