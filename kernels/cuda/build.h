#pragma once

/// The sources of this folder are compiled twice: by nvcc for the device, and by the C++ compiler for the suites, which run them on
/// the host (kernels/simt). RL_GPU is the namespace of the one or the other below refreshlab::kernels, so that a program may hold both.
#ifdef REFRESHLAB_SIMT
#define RL_GPU simt_build
/// A launcher, which is called from outside of the library of its build.
#define RL_LAUNCHER __attribute__((visibility("default")))
#else
#define RL_GPU cuda
#define RL_LAUNCHER
#endif
