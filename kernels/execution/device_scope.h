#pragma once

#include <c10/core/Device.h>

namespace refreshlab::kernels {

/// The stream that libtorch uses for a device on the calling thread, a cudaStream_t; null where the device is no GPU. What libtorch has
/// been given so far ends before what is put behind it.
[[nodiscard]] void* current_stream(c10::Device device);

/// A GPU is the calling thread's current one, while this lives; nothing for other devices.
class OnDevice {
public:
    explicit OnDevice(c10::Device device);
    ~OnDevice();
    OnDevice(const OnDevice&) = delete;
    OnDevice& operator=(const OnDevice&) = delete;

private:
    int m_before = -1; ///< -1: nothing to put back
};

} // namespace refreshlab::kernels
