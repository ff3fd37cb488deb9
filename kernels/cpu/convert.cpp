#include "kernels/cpu/convert.h"

#include "kernels/cpu/convert_rows.h"
#include "kernels/cpu/cpu_tensors.h"
#include "kernels/execution/thread_pool.h"

#include <ATen/ATen.h>

namespace refreshlab::kernels {
namespace {

/// [n] or [rows, n] with a dense last dimension.
bool is_own(const at::Tensor& t) {
    return cpu::has_element_type(t) && (t.dim() == 1 || t.dim() == 2) &&
           (t.stride(-1) == 1 || t.numel() == 0);
}

} // namespace

void convert_into(const at::Tensor& to, const at::Tensor& from) {
    RL_ASSERT(to.sizes() == from.sizes());
    if (to.numel() == 0) return;
    if (!is_own(to) || !is_own(from)) {
        to.copy_(from);
        return;
    }
    // Without gaps between rows all is one stretch of numbers, cut anywhere; else a piece is some rows.
    const bool flat = to.is_contiguous() && from.is_contiguous();
    const int64_t width = flat ? 1 : to.size(-1), pieces = to.numel() / width;
    const auto row_stride = [&](const at::Tensor& t) { return flat || t.dim() == 1 ? width : t.stride(0); };
    cpu::Conversion all;
    all.from = from.const_data_ptr();
    all.from_type = cpu::element_type(from);
    all.from_stride = row_stride(from);
    all.to = to.mutable_data_ptr();
    all.to_type = cpu::element_type(to);
    all.to_stride = row_stride(to);
    constexpr int64_t least_elements = int64_t{1} << 16; // of a thread's piece
    parallel_for(pieces, least_elements / width + 1, [&](int64_t begin, int64_t end) {
        cpu::Conversion c = all;
        c.from =
            static_cast<const char*>(all.from) + begin * all.from_stride * cpu::element_bytes(c.from_type);
        c.to = static_cast<char*>(all.to) + begin * all.to_stride * cpu::element_bytes(c.to_type);
        c.rows = flat ? 1 : end - begin;
        c.width = flat ? end - begin : width;
        cpu::convert_rows(c);
    });
}

} // namespace refreshlab::kernels
