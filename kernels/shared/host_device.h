#pragma once

/// Functions that the CPU and CUDA code share. No torch, no std containers in the headers of this folder: they compile
/// with a plain C++ compiler and with nvcc, and the CPU suite tests what the GPU runs.
#ifdef __CUDACC__
#define RL_HOST_DEVICE __host__ __device__
#else
#define RL_HOST_DEVICE
#endif
