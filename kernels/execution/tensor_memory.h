#pragma once

#include <c10/core/Allocator.h>

namespace refreshlab::kernels {

/// libtorch's memory on the CPU, taken from malloc(): 64 bytes aligned, and as much for a tensor of the same size each time.
///
/// Why  libtorch asks glibc's posix_memalign(), which before glibc 2.38 looks for some bytes more than it keeps. So a tensor that is made in each step
///      does not fit where the one of the step before has been, once something small that stays has taken the bytes behind it: a run with a
///      journal would grow by its attention rows at every step.
[[nodiscard]] c10::Allocator& tensor_memory();

/// All tensors of the process are of it from now on. Before the first one.
void use_tensor_memory();

} // namespace refreshlab::kernels
