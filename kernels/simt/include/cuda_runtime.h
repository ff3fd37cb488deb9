#pragma once

/// Found in the place of CUDA's own header where kernels are compiled for the host (kernels/simt/CMakeLists.txt).
#include "kernels/simt/device.h"
#include "kernels/simt/runtime_api.h"
