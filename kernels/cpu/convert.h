#pragma once

#include <ATen/core/Tensor.h>

namespace refreshlab::kernels {

/// to.copy_(from), for bulk work such as weights. On the CPU between f32, bf16 and f16 it runs on the threads of the calling thread's
/// context (kernels/execution). libtorch's own threads wait for each other on a busy machine, and their first start costs tens of
/// milliseconds. Anything else is libtorch's copy_. The numbers are the same.
/// \param to    [n] or [rows, n], the last dimension dense; rows may stand apart, and what lies between them is left alone
/// \param from  the same shape (asserted)
void convert_into(const at::Tensor& to, const at::Tensor& from);

} // namespace refreshlab::kernels
