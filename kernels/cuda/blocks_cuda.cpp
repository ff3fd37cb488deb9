#include "kernels/cuda/blocks_cuda.h"

#include "kernels/blocks/blocks.h"
#include "kernels/cuda/rows/row_kernels.h"
#include "kernels/shared/check.h"

#include <ATen/ATen.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

namespace refreshlab::kernels::cuda {

at::Tensor block_linear(const at::Tensor& x_in, const at::Tensor& packed, const at::Tensor& bias) {
    RL_ASSERT(x_in.scalar_type() == at::kBFloat16 && packed.device() == x_in.device());
    const c10::cuda::CUDAGuard guard(x_in.device());
    const BlockShape shape = block_shape(packed);
    const at::Tensor x = x_in.contiguous();
    const at::Tensor y = at::empty({x.size(0), shape.out}, x.options().dtype(at::kFloat));
    if (x.size(0) == 0) return y.to(at::kBFloat16);
    RowsProductInputs in;
    in.type = WeightType::bf16;
    in.form = form_of(shape.type);
    in.in = x.const_data_ptr();
    in.matrix = packed.const_data_ptr();
    in.bias = bias.defined() ? bias.const_data_ptr() : nullptr;
    in.rows = x.size(0);
    in.inputs = shape.in;
    in.outputs = shape.out;
    in.out = y.mutable_data_ptr();
    in.out_stride = shape.out;
    launch_rows_product(in, c10::cuda::getCurrentCUDAStream(x.device().index()).stream());
    return y.to(at::kBFloat16);
}

at::Tensor block_rows_of(const at::Tensor& packed, std::span<const int32_t> ids) {
    const c10::cuda::CUDAGuard guard(packed.device());
    const BlockShape shape = block_shape(packed);
    const auto rows = static_cast<int64_t>(ids.size());
    const at::Tensor host = at::empty({rows}, at::TensorOptions().dtype(at::kInt));
    std::copy(ids.begin(), ids.end(), host.mutable_data_ptr<int32_t>());
    const at::Tensor tokens = host.to(packed.device());
    const at::Tensor x = at::empty({rows, shape.in}, packed.options().dtype(at::kFloat));
    RowsEmbedInputs in;
    in.type = WeightType::bf16;
    in.form = form_of(shape.type);
    in.embedding = packed.const_data_ptr();
    in.tokens = tokens.const_data_ptr<int32_t>();
    in.rows = rows;
    in.hidden = shape.in;
    in.x = x.mutable_data_ptr<float>();
    launch_rows_embed(in, c10::cuda::getCurrentCUDAStream(packed.device().index()).stream());
    return x.to(at::kBFloat16);
}

} // namespace refreshlab::kernels::cuda
