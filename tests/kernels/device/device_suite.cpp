#include <catch2/catch_test_case_info.hpp>
#include <catch2/reporters/catch_reporter_event_listener.hpp>
#include <catch2/reporters/catch_reporter_registrars.hpp>
#include <cuda_runtime.h>

#include <cstdio>
#include <cstdlib>

/// The suites of kernels (tests/kernels/simt) on a GPU. Without one the suite says so in a line and ends with 2, which is counted as skipped.
namespace refreshlab::test::device_suite {
namespace {

class NeedsDevice final : public Catch::EventListenerBase {
public:
    using EventListenerBase::EventListenerBase;
    void testRunStarting(const Catch::TestRunInfo&) override {
        int devices = 0;
        const cudaError_t status = cudaGetDeviceCount(&devices);
        if (status == cudaSuccess && devices > 0) return;
        std::fprintf(stderr, "test_device: no CUDA device on this machine (%s)\n",
                     status == cudaSuccess ? "none is there" : cudaGetErrorString(status));
        std::exit(2);
    }
};
CATCH_REGISTER_LISTENER(NeedsDevice)

} // namespace
} // namespace refreshlab::test::device_suite
