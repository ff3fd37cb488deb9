#pragma once

#include "kernels/cuda/build.h"
#include "kernels/decode/device_decoder.h"

namespace refreshlab::kernels::RL_GPU {

/// On the current device. \param model  is copied; what it points to outlives the decoder
[[nodiscard]] RL_LAUNCHER std::unique_ptr<DeviceDecoder> make_decoder(const DeviceModel& model);

} // namespace refreshlab::kernels::RL_GPU
