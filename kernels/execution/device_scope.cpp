#include "kernels/execution/device_scope.h"

#if REFRESHLAB_CUDA
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAStream.h>
#endif

namespace refreshlab::kernels {

#if REFRESHLAB_CUDA

void* current_stream(c10::Device device) {
    return device.is_cuda() ? c10::cuda::getCurrentCUDAStream(device.index()).stream() : nullptr;
}

OnDevice::OnDevice(c10::Device device) {
    if (device.is_cuda()) m_before = c10::cuda::ExchangeDevice(device.index());
}
OnDevice::~OnDevice() {
    if (m_before >= 0)
        static_cast<void>(c10::cuda::MaybeExchangeDevice(static_cast<c10::DeviceIndex>(m_before)));
}

#else

void* current_stream(c10::Device) {
    return nullptr;
}

OnDevice::OnDevice(c10::Device) {}
OnDevice::~OnDevice() = default;

#endif

} // namespace refreshlab::kernels
